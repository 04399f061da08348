//! What outlives a run: its record, its events, and the conversations that later runs continue.

mod event;
mod ledger;
mod log;
mod memory;
mod record;
mod sqlite;

use std::{path::PathBuf, sync::Arc, time::SystemTime};

pub use self::{
    event::LoggedEvent,
    ledger::{CronState, Ledger, PendingMessage, TelegramState},
    log::{EventLog, MAX_BYTES, MAX_EVENTS, Place, Written},
    memory::MemoryStore,
    record::{Callback, NewRun, RunFilter, RunPage, RunRecord, RunSummary},
    sqlite::{OpenError, SqliteConfig, SqliteStore},
};
use crate::{
    BoxFuture,
    run::{RunId, RunOutcome, SessionId, SessionKey, SessionTotals},
};

/// A future answer of the store.
pub type Stored<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Keeps runs and sessions. Every method may fail with a [`StoreError`] when the store cannot be read or written.
pub trait Store: Send + Sync {
    /// An empty log for a new run, whose events this store keeps.
    fn log(&self) -> Arc<EventLog>;

    /// Takes up a run that has been accepted: at once, also if the future is never polled. When it is done, the run
    /// can be found. After an error the run must not go on.
    fn create(&self, run: NewRun) -> Stored<'_, ()>;

    /// Writes down how a run ended, and its last events. When this is done, the outcome can be read any number of
    /// times until the TTL. After an error the outcome goes to a waiting caller all the same.
    fn finish(&self, id: RunId, outcome: Arc<RunOutcome>) -> Stored<'_, ()>;

    /// The record of a run.
    fn run(&self, id: RunId) -> Stored<'_, Option<RunRecord>>;

    /// The newest runs that `filter` lets through, at most [`RunFilter::limit`].
    fn runs(&self, filter: RunFilter) -> Stored<'_, RunPage>;

    /// The next written events of a run after number `after`: as many as are read at once, at most about 64 KiB.
    /// None = there are no more.
    fn events(&self, id: RunId, after: u64) -> Stored<'_, Vec<Arc<LoggedEvent>>>;

    /// Forgets a finished run, its events, and everything that refers to it.
    fn purge(&self, id: RunId) -> Stored<'_, ()>;

    /// The run that was started with this key, and the digest of what was asked.
    fn claimed<'a>(&'a self, scope: &'a [u8; 32], key: &'a str) -> Stored<'a, Option<(RunId, [u8; 32])>>;

    /// The last conversation at that place.
    fn session<'a>(&'a self, place: &'a SessionPlace) -> Stored<'a, Option<SessionId>>;

    /// Remembers it, or forgets it (`None`).
    fn keep_session(&self, place: SessionPlace, id: Option<SessionId>) -> Stored<'_, ()>;

    /// The counters of a session after its last run.
    fn totals<'a>(&'a self, id: &'a SessionId) -> Stored<'a, Option<SessionTotals>>;

    /// Remembers them, or forgets them (`None`).
    fn keep_totals(&self, id: SessionId, totals: Option<SessionTotals>) -> Stored<'_, ()>;

    /// The callbacks of finished runs that are due at `now`, the longest due first, at most 64 and at most
    /// [`OF_ONE_RECEIVER`](Callback::OF_ONE_RECEIVER); and when the next one is. One that is being sent is due until it
    /// was [tried](Self::callback_tried), and counts.
    fn callbacks(&self, now: SystemTime) -> Stored<'_, (Vec<Callback>, Option<SystemTime>)>;

    /// A try was made; the next is due at `next`, or never.
    fn callback_tried(&self, id: RunId, next: Option<SystemTime>) -> Stored<'_, ()>;
}

/// The store could not read or write; the text says what and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// Where a conversation belongs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionPlace {
    /// Name of the adapter: another agent does not know the id.
    pub adapter: String,
    /// Canonical path of the workspace.
    pub workspace: PathBuf,
    /// Whose it is.
    pub key: SessionKey,
}
