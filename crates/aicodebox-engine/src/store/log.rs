use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

use super::event::{LoggedEvent, now, size};
use crate::run::{EventSink, LeftOut, Room, RunEvent};

/// At most this many events are kept of a run. The number of each has to fit 16 bits.
pub const MAX_EVENTS: u64 = 50_000;
/// At most this many bytes of events are kept of a run.
pub const MAX_BYTES: usize = 64 << 20;
/// With this many bytes waiting to be written, nothing more is read of the run for a while.
const FULL: usize = 1 << 20;
/// How long it waits for the writer: a disk that does not answer must not hold up the run.
const PATIENCE: Duration = Duration::from_secs(2);
/// At most this many bytes wait to be written; what comes beyond that is left out. One line of 8 MiB may be three events.
const MAX_UNWRITTEN: usize = 32 << 20;
/// And this many when the writer does not come in time.
const MAX_WITHOUT_WRITER: usize = 4 << 20;
/// With this many bytes unwritten, the writer does not wait for its next turn.
const URGENT: usize = 512 << 10;
/// Readers get so many bytes at once.
const PORTION: usize = 64 << 10;
/// This many bytes stay in memory for readers who are a little behind.
const FOR_READERS: usize = 1 << 20;

/// What happens in one run while it is alive, in order. Kept events are numbered from 1 and never change afterwards.
/// Putting in never waits, whatever the store and the readers do; who can wait asks [`EventLog::full`]. Memory is bounded
/// by what is unwritten (1 MiB and what one read brought; without a writer 4 MiB) and by a window for those who read
/// along (1 MiB); all else is read from the store.
pub struct EventLog {
    keeper: Keeper,
    inner: Mutex<Inner>,
    /// Position of the last event; who reads along waits here.
    position: watch::Sender<u64>,
    written: watch::Sender<Written>,
}

/// Who keeps the events.
enum Keeper {
    /// The log itself.
    Log,
    /// A store that takes them when it is told.
    Store(Arc<dyn Wake>),
}

/// Tells a store that there are events to be written.
pub(super) trait Wake: Send + Sync {
    /// Within its next turn.
    fn soon(&self);
    /// Without waiting for others.
    fn now(&self);
}

/// How far the store has come with a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of the last event that will survive a crash; 0 = none yet.
    pub last: u64,
    /// Whether the run is over and nothing will follow.
    pub closed: bool,
}

#[derive(Default)]
struct Inner {
    window: VecDeque<Entry>,
    window_bytes: usize,
    /// Position of the last event, kept or not.
    position: u64,
    /// Number of the last kept one.
    sequence: u64,
    /// Number of the last one that has been written.
    written: u64,
    unwritten_bytes: usize,
    kept_bytes: usize,
    /// All of them, where nobody else keeps them.
    kept: Vec<Arc<LoggedEvent>>,
    attempt: u32,
    natives: u64,
    left_out: LeftOut,
    /// The run has used up its space.
    full: bool,
    /// There is an outcome, and no more events.
    sealed: bool,
    /// What a writer has been told and has not come for since.
    told: Option<Urgency>,
    readers: usize,
    /// The writer did not come in time: it is not waited for again before it has caught up.
    given_up: bool,
}

struct Entry {
    position: u64,
    size: usize,
    event: Arc<LoggedEvent>,
}

/// What a reader gets at once.
#[derive(Default)]
struct Portion {
    events: Vec<Arc<LoggedEvent>>,
    bytes: usize,
}

impl Portion {
    /// Whether there was room. The first event always has it.
    fn add(&mut self, event: &Arc<LoggedEvent>, size: usize) -> bool {
        let fits = self.events.is_empty() || self.bytes + size <= PORTION;
        if fits {
            self.bytes += size;
            self.events.push(event.clone());
        }
        fits
    }
}

/// Where somebody who reads along stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Position of the last event that was seen or missed.
    position: u64,
    /// Its number, or that of the last kept one before it.
    pub sequence: u64,
    /// How many events were gone before they could be read.
    pub missed: u64,
}

impl EventLog {
    /// An empty log that keeps its events itself.
    pub fn in_memory() -> Arc<Self> {
        Self::new(Keeper::Log)
    }

    /// An empty log whose events a store takes.
    pub(super) fn stored(wake: Arc<dyn Wake>) -> Arc<Self> {
        Self::new(Keeper::Store(wake))
    }

    fn new(keeper: Keeper) -> Arc<Self> {
        Arc::new(Self {
            keeper,
            inner: Mutex::default(),
            position: watch::Sender::default(),
            written: watch::Sender::default(),
        })
    }

    /// All further events belong to this attempt.
    pub fn begin_attempt(&self, attempt: u32) {
        self.inner().attempt = attempt;
    }

    /// Takes no more events; what is missing is said by a last one. Returns the number that the outcome has.
    pub fn seal(&self) -> u64 {
        let mut inner = self.inner();
        if !inner.sealed && inner.left_out.events > 0 {
            let event = RunEvent::Truncated(inner.left_out);
            self.append(&mut inner, event, true);
        }
        inner.sealed = true;
        inner.sequence + 1
    }

    /// The run is over and written: readers come to an end.
    pub fn close(&self) {
        self.seal();
        self.written.send_modify(|written| written.closed = true);
        self.position.send_modify(|_same| {});
    }

    /// About how many bytes it has given to be kept.
    pub fn bytes(&self) -> usize {
        self.inner().kept_bytes
    }

    /// The kept events after number `after`, at most about [`PORTION`], if it is this log that keeps them.
    pub(super) fn kept_after(&self, after: u64) -> Vec<Arc<LoggedEvent>> {
        let inner = self.inner();
        let from = usize::try_from(after).unwrap_or(usize::MAX).min(inner.kept.len());
        let mut portion = Portion::default();
        for event in &inner.kept[from..] {
            if !portion.add(event, size(&event.event)) {
                break;
            }
        }
        portion.events
    }

    /// What has to be written, in order.
    pub(super) fn unwritten(&self) -> Vec<Arc<LoggedEvent>> {
        let mut inner = self.inner();
        inner.told = None;
        let written = inner.written;
        let mut events: Vec<_> = inner
            .window
            .iter()
            .rev()
            .map(|entry| &entry.event)
            .take_while(|event| event.sequence == 0 || event.sequence > written)
            .filter(|event| event.sequence != 0)
            .cloned()
            .collect();
        events.reverse();
        events
    }

    /// Everything up to that number has been written.
    pub(super) fn set_written(&self, last: u64) {
        let mut inner = self.inner();
        let newly = inner
            .window
            .iter()
            .filter(|entry| entry.event.sequence > inner.written && entry.event.sequence <= last);
        let bytes: usize = newly.map(|entry| entry.size).sum();
        inner.unwritten_bytes -= bytes;
        inner.given_up &= inner.unwritten_bytes >= FULL;
        inner.written = last;
        inner.trim();
        drop(inner);
        self.written.send_modify(|written| written.last = last);
    }

    /// How far the store has come, and a way to wait for more.
    pub fn written(&self) -> watch::Receiver<Written> {
        self.written.subscribe()
    }

    /// A way to wait for the next event, written or not.
    pub fn position(&self) -> watch::Receiver<u64> {
        self.position.subscribe()
    }

    /// Until when nothing more should be put in, if there is much to be written: until there is room again, or for
    /// [`PATIENCE`].
    pub fn full(self: &Arc<Self>) -> Option<Room> {
        if !self.inner().is_full() {
            return None;
        }
        let (log, mut written) = (self.clone(), self.written());
        Some(Box::pin(async move {
            let room = async { while log.inner().is_full() && written.changed().await.is_ok() {} };
            if timeout(PATIENCE, room).await.is_err() {
                log.inner().given_up = true;
            }
        }))
    }

    /// Somebody reads along from now on: the last events stay in memory until [`Self::detach`].
    pub fn attach(&self) {
        self.inner().readers += 1;
    }

    /// See [`Self::attach`].
    pub fn detach(&self) {
        let mut inner = self.inner();
        inner.readers -= 1;
        inner.trim();
    }

    /// The next events for somebody who reads along, at most about 64 KiB, written or not; moves `place` behind
    /// them. `None` = the next ones are only in the store any more: read them there and tell [`Place::pass`].
    pub fn after(&self, place: &mut Place) -> Option<Vec<Arc<LoggedEvent>>> {
        let inner = self.inner();
        let from = inner.window.partition_point(|entry| entry.position <= place.position);
        let ahead = inner.window.range(from..);
        let next_kept = ahead
            .clone()
            .map(|entry| entry.event.sequence)
            .find(|&sequence| sequence > place.sequence)
            .unwrap_or(inner.sequence + 1);
        if next_kept > place.sequence + 1 {
            return None;
        }
        let mut portion = Portion::default();
        for entry in ahead {
            let sequence = entry.event.sequence;
            if sequence == 0 || sequence > place.sequence {
                if !portion.add(&entry.event, entry.size) {
                    return Some(portion.events);
                }
                place.missed += entry.position.saturating_sub(place.position + 1);
                place.sequence = place.sequence.max(sequence);
            }
            place.position = entry.position;
        }
        place.missed += inner.position.saturating_sub(place.position);
        place.position = inner.position;
        Some(portion.events)
    }

    /// The written events after number `after`, at most about 64 KiB. `None` = the next ones are only in the store.
    pub fn written_after(&self, after: u64) -> Option<Vec<Arc<LoggedEvent>>> {
        let inner = self.inner();
        let mut portion = Portion::default();
        for entry in &inner.window {
            let sequence = entry.event.sequence;
            if sequence > after && sequence <= inner.written {
                if portion.events.is_empty() && sequence > after + 1 {
                    return None;
                }
                if !portion.add(&entry.event, entry.size) {
                    break;
                }
            }
        }
        (!portion.events.is_empty() || inner.written <= after).then_some(portion.events)
    }

    /// Numbers an event and takes it in. Returns whether a writer has to be told, and how urgently.
    fn append(&self, inner: &mut Inner, event: RunEvent, always: bool) -> Option<Urgency> {
        let size = size(&event);
        let fits = inner.sequence < MAX_EVENTS && inner.kept_bytes + size <= MAX_BYTES;
        inner.full |= !fits;
        let keep = always || (!inner.full && inner.unwritten_bytes < inner.max_unwritten());
        inner.position += 1;
        let native_sequence = if matches!(event, RunEvent::Native(_)) {
            inner.natives += 1;
            inner.natives
        } else {
            0
        };
        let sequence = if keep {
            inner.sequence += 1;
            inner.kept_bytes += size;
            inner.sequence
        } else {
            inner.left_out.events += 1;
            inner.left_out.bytes += size as u64;
            if inner.readers == 0 || inner.window_bytes >= inner.max_unwritten() + FOR_READERS {
                return None;
            }
            0
        };
        let attempt = inner.attempt;
        let event = Arc::new(LoggedEvent { sequence, at: now(), attempt, native_sequence, event });
        let urgency = match &self.keeper {
            _ if !keep => None,
            Keeper::Log => {
                inner.kept.push(event.clone());
                inner.written = sequence;
                None
            }
            Keeper::Store(_) => {
                inner.unwritten_bytes += size;
                let urgency = if inner.unwritten_bytes >= URGENT { Urgency::Now } else { Urgency::Soon };
                let told = inner.told.is_some_and(|told| told >= urgency);
                (!told).then(|| *inner.told.insert(urgency))
            }
        };
        inner.window_bytes += size;
        inner.window.push_back(Entry { position: inner.position, size, event });
        inner.trim();
        urgency
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    Soon,
    Now,
}

impl EventSink for EventLog {
    fn push(&self, event: RunEvent) {
        let mut inner = self.inner();
        if inner.sealed {
            return;
        }
        let urgency = self.append(&mut inner, event, false);
        let (position, written) = (inner.position, inner.written);
        drop(inner);
        // Two writers may come here in either order; numbers only rise.
        self.position.send_if_modified(|last| rise(last, position));
        match (&self.keeper, urgency) {
            (Keeper::Log, _) => {
                self.written.send_if_modified(|last| rise(&mut last.last, written));
            }
            (Keeper::Store(wake), Some(Urgency::Soon)) => wake.soon(),
            (Keeper::Store(wake), Some(Urgency::Now)) => wake.now(),
            (Keeper::Store(_), None) => {}
        }
    }
}

fn rise(last: &mut u64, to: u64) -> bool {
    let rises = *last < to;
    *last = to.max(*last);
    rises
}

impl Inner {
    fn max_unwritten(&self) -> usize {
        if self.given_up { MAX_WITHOUT_WRITER } else { MAX_UNWRITTEN }
    }

    fn is_full(&self) -> bool {
        self.unwritten_bytes >= FULL && !self.given_up && !self.sealed
    }

    /// Forgets what nobody needs here: what is written, or was never kept, and is more than readers get.
    fn trim(&mut self) {
        let limit = if self.readers > 0 { FOR_READERS } else { 0 };
        while self.window_bytes > limit
            && self.window.len() > usize::from(self.readers > 0)
            && let Some(front) = self.window.front()
            && front.event.sequence <= self.written
        {
            self.window_bytes -= front.size;
            self.window.pop_front();
        }
    }
}

impl Place {
    /// `count` events were read from the store, the last with number `sequence`.
    pub fn pass(&mut self, count: usize, sequence: u64) {
        self.position += count as u64;
        self.sequence = sequence;
    }
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLog").field("position", &*self.position.borrow()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::run::NativeRecord;

    #[derive(Default)]
    struct Told {
        soon: AtomicUsize,
        now: AtomicUsize,
    }

    impl Wake for Told {
        fn soon(&self) {
            self.soon.fetch_add(1, Ordering::Relaxed);
        }

        fn now(&self) {
            self.now.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn delta(text: &str) -> RunEvent {
        RunEvent::Delta(text.into())
    }

    fn large() -> RunEvent {
        RunEvent::Delta("x".repeat(1 << 20))
    }

    fn native(line: &str) -> RunEvent {
        RunEvent::Native(NativeRecord {
            event_type: "raw".into(),
            line: bytes::Bytes::copy_from_slice(line.as_bytes()),
            json: false,
        })
    }

    fn numbers(events: &[Arc<LoggedEvent>]) -> Vec<u64> {
        events.iter().map(|event| event.sequence).collect()
    }

    fn write(log: &EventLog) {
        if let Some(last) = log.unwritten().last() {
            log.set_written(last.sequence);
        }
    }

    #[tokio::test]
    async fn events_are_numbered_and_a_waiting_reader_is_told() {
        let log = EventLog::in_memory();
        log.push(delta("a"));
        log.push(native("x"));
        log.begin_attempt(1);
        let mut position = log.position();
        position.mark_unchanged();
        log.push(native("y"));
        position.changed().await.unwrap();
        let kept: Vec<_> = log
            .kept_after(1)
            .iter()
            .map(|event| (event.sequence, event.attempt, event.native_sequence))
            .collect();
        assert_eq!(kept, [(2, 0, 1), (3, 1, 2)]);
        assert!(log.kept_after(3).is_empty() && log.kept_after(99).is_empty());
        assert_eq!(log.seal(), 4);
        log.push(delta("late"));
        log.close();
        assert_eq!(*log.written().borrow(), Written { last: 3, closed: true });
    }

    #[test]
    fn what_does_not_fit_is_counted_in_one_last_event() {
        let log = EventLog::in_memory();
        for _ in 0..MAX_EVENTS + 3 {
            log.push(delta("abc"));
        }
        assert_eq!(log.seal(), MAX_EVENTS + 2);
        let last = log.kept_after(MAX_EVENTS);
        assert!(matches!(&last[0].event, RunEvent::Truncated(LeftOut { events: 3, .. })));
        assert_eq!(last.len(), 1);

        let log = EventLog::in_memory();
        for _ in 0..3 {
            log.push(delta(&"x".repeat(MAX_BYTES / 2 - 1024)));
        }
        log.push(delta("small"));
        assert_eq!(log.seal(), 4, "two fitted, nothing follows the first that did not");
    }

    #[tokio::test]
    async fn what_is_written_leaves_memory_and_what_no_writer_comes_for_is_left_out() {
        let told = Arc::new(Told::default());
        let log = EventLog::stored(told.clone());
        assert!(log.full().is_none());
        log.push(large());
        log.full().expect("it should be waited for the writer").await;
        assert!(log.full().is_none(), "one wait is enough");
        for _ in 1..10 {
            log.push(large());
        }
        assert_eq!((told.soon.load(Ordering::Relaxed), told.now.load(Ordering::Relaxed)), (0, 1));
        assert_eq!(numbers(&log.unwritten()), [1, 2, 3, 4], "4 MiB wait, the rest is left out");
        log.set_written(4);
        assert_eq!(log.inner().window_bytes, 0);
        log.push(delta("more"));
        assert_eq!(numbers(&log.unwritten()), [5], "once there is room, it goes on");
        log.set_written(5);
        assert_eq!(log.seal(), 7);
        assert!(matches!(&log.unwritten()[0].event, RunEvent::Truncated(LeftOut { events: 6, .. })));
    }

    #[tokio::test]
    async fn there_is_room_again_once_it_is_written() {
        let log = EventLog::stored(Arc::new(Told::default()));
        for _ in 0..20 {
            log.push(large());
        }
        assert_eq!(numbers(&log.unwritten()), (1..=20).collect::<Vec<_>>(), "one read may bring so much");
        let (begun, room) = (std::time::Instant::now(), log.full().unwrap());
        let writer = log.clone();
        std::thread::spawn(move || writer.set_written(20));
        room.await;
        assert!(begun.elapsed() < PATIENCE, "it is told at once");
        log.push(large());
        assert!(log.full().is_some(), "the writer has come, so it is waited for again");
    }

    #[test]
    fn who_reads_along_sees_everything_at_once_and_falls_back_to_the_store() {
        let log = EventLog::stored(Arc::new(Told::default()));
        let mut place = Place::default();
        log.attach();
        log.push(delta("a"));
        assert_eq!(numbers(&log.after(&mut place).unwrap()), [1]);
        assert!(log.after(&mut place).unwrap().is_empty());
        for _ in 0..4 {
            log.push(large());
        }
        write(&log);
        assert!(log.after(&mut place).is_none(), "2 to 4 are only in the store");
        place.pass(2, 3);
        assert!(log.after(&mut place).is_none(), "4 is still missing");
        place.pass(2, 5);
        log.push(delta("b"));
        assert_eq!(numbers(&log.after(&mut place).unwrap()), [6], "nothing twice");
        assert_eq!(place.missed, 0);
    }

    #[test]
    fn who_reads_along_gets_also_what_is_not_kept() {
        let log = EventLog::stored(Arc::new(Told::default()));
        log.attach();
        let mut place = Place::default();
        let mut seen = 0;
        for _ in 0..MAX_EVENTS + 10 {
            log.push(delta("a"));
            seen += log.after(&mut place).unwrap().len() as u64;
            write(&log);
        }
        assert_eq!((seen, place.missed), (MAX_EVENTS + 10, 0));
        // A reader who stops is told how much it missed.
        for _ in 0..20 {
            log.push(large());
        }
        let late = log.after(&mut place).unwrap().len() as u64;
        assert_eq!((late, place.missed), (1, 19));
    }

    #[test]
    fn readers_of_what_is_written_see_nothing_else() {
        let log = EventLog::stored(Arc::new(Told::default()));
        log.attach();
        log.push(delta("a"));
        assert_eq!(log.written_after(0), Some(Vec::new()));
        write(&log);
        log.push(delta("b"));
        assert_eq!(numbers(&log.written_after(0).unwrap()), [1]);
        assert_eq!(log.written_after(1), Some(Vec::new()));
        log.detach();
        assert_eq!(log.written_after(0), None, "it is only in the store");
    }
}
