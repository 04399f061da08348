use std::sync::Arc;

use crate::{
    run::RunId,
    store::{EventLog, LoggedEvent, Place, Store, StoreError},
};

/// Reads the events of one run, while it runs and afterwards. Any number may read at the same time; one that stops
/// reading costs nothing but its place: what it has not seen waits in the store, not in memory.
#[derive(Clone)]
pub struct Events {
    store: Arc<dyn Store>,
    id: RunId,
    /// While the run is alive.
    log: Option<Arc<EventLog>>,
}

/// [`Events`] as far as they are stored. They survive a crash, so their numbers can be told.
pub struct StoredEvents {
    source: Source,
    after: u64,
}

/// [`Events`] as they happen, stored or not.
pub struct LiveEvents {
    source: Source,
    place: Place,
}

impl Events {
    pub(super) fn new(store: Arc<dyn Store>, id: RunId, log: Option<Arc<EventLog>>) -> Self {
        Self { store, id, log }
    }

    /// The stored events after number `after`.
    pub fn stored(self, after: u64) -> StoredEvents {
        StoredEvents { source: Source::new(self), after }
    }

    /// All events from the first on, at once.
    pub fn live(self) -> LiveEvents {
        LiveEvents { source: Source::new(self), place: Place::default() }
    }
}

impl StoredEvents {
    /// The next ones. Waits for them; empty = the run is over and there are no more. Cancel-safe.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn next(&mut self) -> Result<Vec<Arc<LoggedEvent>>, StoreError> {
        let mut written = self.source.log().map(|log| log.written());
        loop {
            // Taken before looking, so that what comes meanwhile is not missed.
            let closed = written.as_mut().is_none_or(|written| written.borrow_and_update().closed);
            let events = match self.source.log().map(|log| log.written_after(self.after)) {
                Some(Some(events)) => events,
                Some(None) | None => self.source.stored(self.after).await?,
            };
            if let Some(last) = events.last() {
                self.after = last.sequence;
                return Ok(events);
            }
            let more = match &mut written {
                Some(written) if !closed => written.changed().await.is_ok(),
                Some(_) | None => false,
            };
            if !more {
                return Ok(events);
            }
        }
    }
}

impl LiveEvents {
    /// The next ones. Waits for them; empty = the run is over and there are no more. Cancel-safe.
    ///
    /// # Errors
    /// When the store cannot be read; only a reader who is behind needs it.
    pub async fn next(&mut self) -> Result<Vec<Arc<LoggedEvent>>, StoreError> {
        let waiting = self.source.log().map(|log| (log.position(), log.written()));
        let Some((mut position, written)) = waiting else { return self.stored().await };
        loop {
            position.mark_unchanged();
            let closed = written.borrow().closed;
            let found = self.source.log().and_then(|log| log.after(&mut self.place));
            let events = match found {
                Some(events) => events,
                None => self.stored().await?,
            };
            if !events.is_empty() || closed || position.changed().await.is_err() {
                return Ok(events);
            }
        }
    }

    /// How many events were gone before they could be read: only those that the store has no room for.
    pub fn missed(&self) -> u64 {
        self.place.missed
    }

    async fn stored(&mut self) -> Result<Vec<Arc<LoggedEvent>>, StoreError> {
        let events = self.source.stored(self.place.sequence).await?;
        if let Some(last) = events.last() {
            self.place.pass(events.len(), last.sequence);
        }
        Ok(events)
    }
}

/// Where events are read from. As long as there is one, the log keeps its last ones in memory.
struct Source(Events);

impl Source {
    fn new(events: Events) -> Self {
        if let Some(log) = &events.log {
            log.attach();
        }
        Self(events)
    }

    fn log(&self) -> Option<&EventLog> {
        self.0.log.as_deref()
    }

    async fn stored(&self, after: u64) -> Result<Vec<Arc<LoggedEvent>>, StoreError> {
        self.0.store.events(self.0.id, after).await
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(log) = self.log() {
            log.detach();
        }
    }
}
