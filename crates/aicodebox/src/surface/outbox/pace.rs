use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// What Telegram takes of one bot: about 30 messages a second.
const OVERALL: Rate = Rate { every: Duration::from_millis(40), burst: 1 };
/// About one a second in a chat, a few at once now and then.
const PERSON: Rate = Rate { every: Duration::from_millis(1_000), burst: 3 };
/// 20 a minute in a group.
const GROUP: Rate = Rate { every: Duration::from_millis(3_600), burst: 3 };
/// Chats that are remembered; those that have not been written to for a while are forgotten first.
const CHATS: usize = 1_000;

struct Rate {
    every: Duration,
    burst: u32,
}

/// Keeps calls to Telegram apart, per chat and overall.
#[derive(Debug)]
pub(super) struct Pace(Mutex<Marks>);

/// For each, when it would be used up if it were used evenly.
#[derive(Debug)]
struct Marks {
    overall: Instant,
    chats: HashMap<i64, Instant>,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Marks { overall: Instant::now(), chats: HashMap::new() }))
    }

    /// Waits until one more message may go to this chat.
    pub(super) async fn turn(&self, chat: i64) {
        // Nothing is taken in advance: a chat that is held would take the time of all the others with it.
        while let Err(at) = self.take(chat) {
            sleep_until(at).await;
        }
    }

    /// A message goes at once: there is room for a few between what Telegram takes and what we give it.
    pub(super) fn count(&self, chat: i64) {
        self.marks().count(chat, Instant::now());
    }

    /// Whether a call that can as well be left out may be made now; then it counts.
    pub(super) fn spare(&self, chat: i64) -> bool {
        self.take(chat).is_ok()
    }

    /// Telegram wants this chat to be left alone for a while.
    pub(super) fn hold(&self, chat: i64, wait: Duration) {
        let until = Instant::now() + wait + rate(chat).every * rate(chat).burst;
        let mut marks = self.marks();
        let mark = marks.chats.entry(chat).or_insert(until);
        *mark = (*mark).max(until);
    }

    fn take(&self, chat: i64) -> Result<(), Instant> {
        self.marks().take(chat, Instant::now())
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Marks {
    fn earliest(&self, chat: i64, now: Instant) -> Instant {
        let ahead = |mark: Instant, rate: &Rate| mark.checked_sub(rate.every * rate.burst).unwrap_or(now);
        let here = self.chats.get(&chat).map_or(now, |mark| ahead(*mark, rate(chat)));
        now.max(here).max(ahead(self.overall, &OVERALL))
    }

    /// Counts a message that may go now; the error is when to ask again.
    fn take(&mut self, chat: i64, now: Instant) -> Result<(), Instant> {
        let at = self.earliest(chat, now);
        if at > now {
            return Err(at);
        }
        self.count(chat, now);
        Ok(())
    }

    fn count(&mut self, chat: i64, now: Instant) {
        self.overall = self.overall.max(now) + OVERALL.every;
        if self.chats.len() >= CHATS {
            self.chats.retain(|_, mark| *mark > now);
        }
        let mark = self.chats.entry(chat).or_insert(now);
        *mark = (*mark).max(now) + rate(chat).every;
    }
}

fn rate(chat: i64) -> &'static Rate {
    if chat < 0 { &GROUP } else { &PERSON }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many messages to these chats, one after the other, go out within `seconds`.
    fn within(seconds: u64, chats: &[i64]) -> usize {
        let begin = Instant::now();
        let mut marks = Marks { overall: begin, chats: HashMap::new() };
        let mut now = begin;
        let mut count = 0;
        for chat in chats.iter().cycle() {
            while let Err(at) = marks.take(*chat, now) {
                now = at;
            }
            if now >= begin + Duration::from_secs(seconds) {
                break;
            }
            count += 1;
        }
        count
    }

    #[test]
    fn a_group_gets_twenty_a_minute_and_a_person_one_a_second() {
        assert!((18..=20).contains(&within(60, &[-5])));
        assert!((60..=64).contains(&within(60, &[5])));
        assert!((3..=4).contains(&within(1, &[5])), "a few at once");
    }

    #[test]
    fn all_chats_together_stay_below_thirty_a_second() {
        let chats: Vec<i64> = (1..1_000).collect();
        assert!((20..30).contains(&within(1, &chats)));
    }

    #[test]
    fn a_chat_that_telegram_holds_is_left_alone() {
        let pace = Pace::new();
        pace.hold(1, Duration::from_secs(30));
        assert!(!pace.spare(1));
        let now = Instant::now();
        assert!(pace.marks().earliest(1, now) >= now + Duration::from_secs(29));
        assert!(pace.marks().earliest(2, now) <= now);
    }

    #[tokio::test]
    async fn a_chat_that_telegram_holds_holds_no_other() {
        let pace = Pace::new();
        pace.hold(1, Duration::from_secs(30));
        // What waits for the held chat, and what goes there all the same.
        tokio::select! {
            biased;
            () = pace.turn(1) => panic!("it is held"),
            () = std::future::ready(()) => pace.count(1),
        }
        let others =
            async { (2..=9).map(|chat| pace.turn(chat)).collect::<futures_util::future::JoinAll<_>>().await };
        tokio::time::timeout(Duration::from_secs(5), others)
            .await
            .expect("others have their turns meanwhile");
    }
}
