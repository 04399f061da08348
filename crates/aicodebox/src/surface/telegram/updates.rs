//! The long poll: fetches updates one batch after the other, each update once.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use teloxide_core::{
    prelude::Requester,
    types::{BotCommand, Me},
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Bot, TelegramSetup,
    commands::MENU,
    poll::{LOST, poll, read},
};
use crate::surface::outbox::{Client, Manner, TelegramError};

/// Pauses between tries, doubled up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Updates that are remembered; Telegram repeats at most what has not been confirmed.
const REMEMBERED: usize = 1_000;
/// How long turns may take to write down their end when the server goes down.
const DRAIN: Duration = Duration::from_millis(1_500);

/// Runs the bot until `stop`.
///
/// # Errors
/// `Unauthorized`: no other try would help. Everything else is tried again, for ever.
pub(crate) async fn serve(setup: TelegramSetup, stop: CancellationToken) -> Result<(), TelegramError> {
    let client = setup.outbox.client().clone();
    let Some(me) = introduce(&client, &stop).await? else { return Ok(()) };
    let kept = setup.ledger.telegram().await.unwrap_or_else(|error| {
        tracing::error!(%error, "what the bot remembers cannot be read");
        Default::default()
    });
    let name = me.username().to_owned();
    let bot = Bot::new(setup, (name.clone(), me.id.0), kept.moved, stop.clone());
    tracing::info!(bot = name, "the bot is ready");
    for pending in kept.pending {
        bot.interrupted(pending);
    }
    let ended = follow(&bot, &client, Seen::new(kept.updates)).await;
    bot.tracker().close();
    if timeout(DRAIN, bot.tracker().wait()).await.is_err() {
        tracing::warn!("some messages were not finished; their senders will be told at the next start");
    }
    ended
}

/// Asks who we are, until Telegram answers; `None` = stopped meanwhile.
async fn introduce(client: &Client, stop: &CancellationToken) -> Result<Option<Me>, TelegramError> {
    let mut pause = PAUSES.0;
    loop {
        let asked = tokio::select! {
            me = async { client.bot().get_me().await } => me.map_err(TelegramError::from),
            () = stop.cancelled() => return Ok(None),
        };
        match asked {
            Ok(me) => {
                let commands = MENU.iter().map(|(name, about)| BotCommand::new(*name, *about));
                if let Err(error) = client.bot().set_my_commands(commands).await {
                    tracing::warn!(error = %TelegramError::from(error), "the menu of commands could not be set");
                }
                return Ok(Some(me));
            }
            Err(TelegramError::Unauthorized) => return Err(TelegramError::Unauthorized),
            Err(error) => tracing::warn!(%error, "Telegram does not answer; trying again"),
        }
        if !rest(&mut pause, stop).await {
            return Ok(None);
        }
    }
}

async fn follow(bot: &Bot, client: &Client, mut seen: Seen) -> Result<(), TelegramError> {
    let stop = bot.stopping().clone();
    let mut pause = PAUSES.0;
    loop {
        let call = poll(client.bot(), seen.last);
        let polled = tokio::select! {
            polled = timeout(LOST, async { call.await }) => polled,
            () = stop.cancelled() => return Ok(()),
        };
        let error = match polled {
            Ok(Ok(updates)) => {
                pause = PAUSES.0;
                *bot.trouble() = None;
                for update in updates.into_iter().filter_map(read) {
                    if seen.is_new(update.id.0) {
                        bot.take(update).await;
                    }
                }
                continue;
            }
            Ok(Err(error)) => TelegramError::from(error),
            Err(_late) => TelegramError::Unreachable("the connection was lost".into()),
        };
        match &error {
            TelegramError::Unauthorized => return Err(error),
            TelegramError::Wait(wait) => pause = (*wait).max(PAUSES.0),
            TelegramError::Conflict
            | TelegramError::Unreachable(_)
            | TelegramError::Refused(_)
            | TelegramError::Forbidden(_)
            | TelegramError::Migrated(_) => {}
        }
        tracing::warn!(%error, seconds = pause.as_secs_f64(), "no updates; trying again");
        *bot.trouble() = Some(error.to_string());
        if !rest(&mut pause, &stop).await {
            return Ok(());
        }
    }
}

/// Waits, and doubles the next wait. `false` = stopped meanwhile.
async fn rest(pause: &mut Duration, stop: &CancellationToken) -> bool {
    let now = *pause;
    *pause = (now * 2).min(PAUSES.1);
    tokio::select! {
        () = sleep(now) => true,
        () = stop.cancelled() => false,
    }
}

/// Updates that have been taken. Their numbers rise, but may begin anew after a quiet week: so the last number confirms,
/// and the set decides.
struct Seen {
    last: Option<u32>,
    set: HashSet<u32>,
    order: VecDeque<u32>,
}

impl Seen {
    /// `updates`: oldest first.
    fn new(updates: Vec<u32>) -> Self {
        Self { last: updates.last().copied(), set: updates.iter().copied().collect(), order: updates.into() }
    }

    fn is_new(&mut self, update: u32) -> bool {
        self.last = Some(update);
        if !self.set.insert(update) {
            return false;
        }
        self.order.push_back(update);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.set.remove(&oldest);
        }
        true
    }
}

impl Bot {
    /// Tells the sender of a message that the last process did not finish with.
    fn interrupted(&self, pending: aicodebox_engine::store::PendingMessage) {
        let bot = self.clone();
        self.tracker().spawn(async move {
            let place = crate::surface::outbox::Address { chat: pending.chat, topic: pending.topic };
            let manner = Manner { reply_to: Some(pending.message), ..Manner::default() };
            let text = "⚠ I was restarted before I was done with this. Please send it again.";
            bot.say(place, text, manner).await;
            bot.settle(&[pending.update]).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t9_an_update_is_new_once_also_when_numbers_begin_anew() {
        let mut seen = Seen::new(vec![10, 11]);
        assert_eq!(seen.last, Some(11));
        assert!(!seen.is_new(11) && seen.is_new(12) && !seen.is_new(12));
        assert!(seen.is_new(3) && seen.last == Some(3));
        for update in 100..3_000 {
            assert!(seen.is_new(update));
        }
        assert!(seen.set.len() <= REMEMBERED && seen.order.len() <= REMEMBERED);
    }
}
