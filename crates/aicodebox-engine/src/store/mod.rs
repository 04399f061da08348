//! What outlives a run: its record, its events, and the conversations that later runs continue.

mod log;
mod memory;

use std::{path::PathBuf, sync::Arc, time::SystemTime};

use serde_json::Value;

pub use self::{
    log::{EventLog, Keeps, LeftOut, LoggedEvent, MAX_BYTES, MAX_EVENTS, Progress},
    memory::MemoryStore,
};
use crate::{
    BoxFuture,
    run::{Origin, RunId, RunOutcome, RunStatus, SessionId, SessionKey, SessionTotals},
};

/// Keeps runs and sessions.
pub trait Store: Send + Sync {
    /// Takes up a run that has been accepted. When this returns, the run can be found.
    ///
    /// # Errors
    /// When it cannot be written: then the run must not start.
    fn create(&self, record: RunRecord) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Writes down how a run ended. When this returns, the outcome can be read any number of times until the TTL.
    ///
    /// # Errors
    /// When it cannot be written; the outcome goes to a waiting caller all the same.
    fn finish(&self, id: RunId, outcome: Arc<RunOutcome>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The record of a run.
    ///
    /// # Errors
    /// When it cannot be read.
    fn run(&self, id: RunId) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>>;

    /// The last conversation at that place.
    ///
    /// # Errors
    /// When it cannot be read.
    fn session<'a>(&'a self, place: &'a SessionPlace)
    -> BoxFuture<'a, Result<Option<SessionId>, StoreError>>;

    /// Remembers it, or forgets it (`None`).
    ///
    /// # Errors
    /// When it cannot be written.
    fn keep_session(
        &self,
        place: SessionPlace,
        id: Option<SessionId>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The counters of a session after its last run.
    ///
    /// # Errors
    /// When they cannot be read.
    fn totals<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<Option<SessionTotals>, StoreError>>;

    /// Remembers them.
    ///
    /// # Errors
    /// When they cannot be written.
    fn keep_totals(&self, id: SessionId, totals: SessionTotals) -> BoxFuture<'_, Result<(), StoreError>>;
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

/// What is known of a run.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// The run.
    pub id: RunId,
    /// Canonical path of its workspace.
    pub workspace: PathBuf,
    /// Who asked.
    pub origin: Origin,
    /// When it was accepted.
    pub created: SystemTime,
    /// How it ended; `None` = not yet.
    pub outcome: Option<Arc<RunOutcome>>,
    /// What happened.
    pub log: Arc<EventLog>,
    /// [`crate::run::RunRequest::note`].
    pub note: Value,
}

impl RunRecord {
    /// Where it stands.
    pub fn status(&self) -> RunStatus {
        self.outcome.as_ref().map_or(RunStatus::Running, |outcome| outcome.status())
    }
}
