use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::sync::watch;

use crate::run::{EventSink, RunEvent, ToolEvent};

/// At most this many events are kept of a run.
pub const MAX_EVENTS: usize = 50_000;
/// At most this many bytes of events are kept of a run.
pub const MAX_BYTES: usize = 64 << 20;

/// What happened in one run, in order. Events are numbered from 1 and never change afterwards; the newest are
/// left out once the log is full. Writing never waits, whatever its readers do.
#[derive(Debug)]
pub struct EventLog {
    keeps: Keeps,
    inner: Mutex<Inner>,
    /// Number of the last event; readers wait here.
    last: watch::Sender<Progress>,
}

/// Which bulky events are wanted; all others always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeps {
    /// Deltas and thinking.
    pub deltas: bool,
    /// Provider records.
    pub natives: bool,
}

/// How far a log has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of the last event; 0 = none yet.
    pub last: u64,
    /// Whether the run is over and nothing will follow.
    pub closed: bool,
}

/// One event with its number.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedEvent {
    /// 1, 2, 3, …
    pub sequence: u64,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// Index of the attempt, from 0.
    pub attempt: u32,
    /// Running number among the provider's records of the run, from 1; 0 for all other events.
    pub native_sequence: u64,
    /// What.
    pub event: RunEvent,
}

/// What did not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Events.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Inner {
    events: Vec<LoggedEvent>,
    bytes: usize,
    attempt: u32,
    natives: u64,
    left_out: LeftOut,
}

impl EventLog {
    /// An empty log.
    pub fn new(keeps: Keeps) -> Arc<Self> {
        Arc::new(Self { keeps, inner: Mutex::default(), last: watch::Sender::new(Progress::default()) })
    }

    /// The events after number `after`, at most `limit`.
    pub fn after(&self, after: u64, limit: usize) -> Vec<LoggedEvent> {
        let inner = self.inner();
        let from = usize::try_from(after).unwrap_or(usize::MAX).min(inner.events.len());
        inner.events[from..].iter().take(limit).cloned().collect()
    }

    /// How far it has come, and a way to wait for more.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.last.subscribe()
    }

    /// About how many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.inner().bytes
    }

    /// What did not fit.
    pub fn left_out(&self) -> LeftOut {
        self.inner().left_out
    }

    /// All further events belong to this attempt.
    pub fn begin_attempt(&self, attempt: u32) {
        self.inner().attempt = attempt;
    }

    /// Nothing will follow.
    pub fn close(&self) {
        self.last.send_modify(|progress| progress.closed = true);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for EventLog {
    fn push(&self, event: RunEvent) {
        let wanted = match &event {
            RunEvent::Delta(_) | RunEvent::Thinking(_) => self.keeps.deltas,
            RunEvent::Native(_) => self.keeps.natives,
            RunEvent::Session(_)
            | RunEvent::Message { .. }
            | RunEvent::Tool(_)
            | RunEvent::Usage(_)
            | RunEvent::Notice(_) => true,
        };
        if !wanted {
            return;
        }
        let size = size(&event);
        let last = {
            let mut inner = self.inner();
            if inner.events.len() >= MAX_EVENTS || inner.bytes + size > MAX_BYTES {
                inner.left_out.events += 1;
                inner.left_out.bytes += size as u64;
                return;
            }
            let native_sequence = if matches!(event, RunEvent::Native(_)) {
                inner.natives += 1;
                inner.natives
            } else {
                0
            };
            inner.bytes += size;
            let sequence = inner.events.len() as u64 + 1;
            let attempt = inner.attempt;
            inner.events.push(LoggedEvent { sequence, at: now(), attempt, native_sequence, event });
            sequence
        };
        // Two writers may come here in either order; the number only rises.
        self.last.send_if_modified(|progress| {
            let rises = progress.last < last;
            progress.last = progress.last.max(last);
            rises
        });
    }
}

/// About what an event holds in memory.
fn size(event: &RunEvent) -> usize {
    let payload = match event {
        RunEvent::Session(id) => id.0.len(),
        RunEvent::Delta(text) | RunEvent::Thinking(text) | RunEvent::Message { text, .. } => text.len(),
        RunEvent::Tool(ToolEvent { name, input, output, .. }) => {
            name.as_ref().map_or(0, String::len)
                + input.as_ref().map_or(0, |input| input.to_string().len())
                + output.as_ref().map_or(0, String::len)
        }
        RunEvent::Usage(usage) => usage.native.to_string().len(),
        RunEvent::Notice(notice) => notice.message.len(),
        RunEvent::Native(record) => record.line.len() + record.event_type.len(),
    };
    payload + size_of::<LoggedEvent>()
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::NativeRecord;

    const ALL: Keeps = Keeps { deltas: true, natives: true };

    fn native(line: &str) -> RunEvent {
        RunEvent::Native(NativeRecord {
            event_type: "raw".into(),
            line: bytes::Bytes::copy_from_slice(line.as_bytes()),
            json: false,
        })
    }

    #[tokio::test]
    async fn a_late_reader_gets_all_and_a_waiting_one_is_told() {
        let log = EventLog::new(ALL);
        log.push(RunEvent::Delta("a".into()));
        log.push(native("x"));
        log.begin_attempt(1);
        let mut progress = log.progress();
        progress.mark_unchanged();
        log.push(native("y"));
        progress.changed().await.unwrap();
        let numbers: Vec<_> = log
            .after(1, 10)
            .iter()
            .map(|event| (event.sequence, event.attempt, event.native_sequence))
            .collect();
        assert_eq!(numbers, [(2, 0, 1), (3, 1, 2)]);
        log.close();
        assert_eq!(*progress.borrow_and_update(), Progress { last: 3, closed: true });
        assert!(log.after(3, 10).is_empty() && log.after(99, 10).is_empty());
    }

    #[test]
    fn what_does_not_fit_is_counted_and_what_is_not_wanted_is_not() {
        let log = EventLog::new(Keeps { deltas: true, natives: false });
        for _ in 0..MAX_EVENTS + 3 {
            log.push(RunEvent::Delta("abc".into()));
            log.push(native("x"));
        }
        assert_eq!(log.after(0, usize::MAX).len(), MAX_EVENTS);
        assert_eq!(log.left_out().events, 3);

        let log = EventLog::new(ALL);
        for _ in 0..3 {
            log.push(RunEvent::Delta("x".repeat(MAX_BYTES / 2 - 1024)));
        }
        assert_eq!(log.after(0, 9).len(), 2);
        assert_eq!(log.left_out().events, 1);
    }
}
