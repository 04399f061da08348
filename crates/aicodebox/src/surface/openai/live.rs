use std::sync::Arc;

use aicodebox_engine::{
    engine::RunHandle,
    store::{EventLog, LoggedEvent, Progress},
};
use tokio::sync::watch;

/// How many events are given at once.
const BATCH: usize = 256;

/// The events of a run as they happen, from the first on.
pub(super) struct Live {
    log: Arc<EventLog>,
    progress: watch::Receiver<Progress>,
    /// Number of the last event that was given.
    seen: u64,
}

impl Live {
    pub(super) fn new(handle: &RunHandle) -> Self {
        let log = handle.log();
        Self { progress: log.progress(), log, seen: 0 }
    }

    /// The next ones. Waits for them; empty = the run is over and there are no more. Cancel-safe.
    pub(super) async fn next(&mut self) -> Vec<LoggedEvent> {
        loop {
            // Taken before looking, so that what comes meanwhile is not missed.
            let closed = self.progress.borrow_and_update().closed;
            let events = self.log.after(self.seen, BATCH);
            if let Some(last) = events.last() {
                self.seen = last.sequence;
                return events;
            }
            if closed || self.progress.changed().await.is_err() {
                return events;
            }
        }
    }

    /// How many events were gone before they could be read.
    pub(super) fn missed(&self) -> u64 {
        self.log.left_out().events
    }
}
