use std::{path::PathBuf, sync::Arc};

use tokio::sync::watch;

use crate::{
    process::Stop,
    run::{EndedBy, RunId, RunOutcome},
    store::EventLog,
};

/// The caller's hold on a run. Dropping it cancels the run, unless it was detached: a caller who went away does
/// not want the answer any more.
#[derive(Debug)]
pub struct RunHandle {
    /// The run.
    pub id: RunId,
    /// Canonical path of its workspace.
    pub workspace: PathBuf,
    /// Fields of the request that the agent has no way for and that were dropped.
    pub ignored: Vec<&'static str>,
    log: Arc<EventLog>,
    stop: Stop,
    begun: watch::Receiver<bool>,
    outcome: watch::Receiver<Option<Arc<RunOutcome>>>,
    detached: bool,
}

impl RunHandle {
    pub(super) fn new(
        id: RunId,
        workspace: PathBuf,
        ignored: Vec<&'static str>,
        log: Arc<EventLog>,
        stop: Stop,
        begun: watch::Receiver<bool>,
        outcome: watch::Receiver<Option<Arc<RunOutcome>>>,
    ) -> Self {
        Self { id, workspace, ignored, log, stop, begun, outcome, detached: false }
    }

    /// What happens.
    pub fn log(&self) -> Arc<EventLog> {
        self.log.clone()
    }

    /// Waits for the end. Cancel-safe. `None` only if the engine itself was torn down meanwhile.
    pub async fn outcome(&mut self) -> Option<Arc<RunOutcome>> {
        self.outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone())
    }

    /// Waits until the agent's process has been started; for ever, when the run ends without one. Cancel-safe.
    pub async fn begun(&mut self) {
        if self.begun.wait_for(|begun| *begun).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Asks the run to end; the second time, at once.
    pub fn cancel(&self) {
        self.stop.request(EndedBy::Cancelled);
    }

    /// Lets the run go on without its caller.
    pub fn detach(&mut self) {
        self.detached = true;
    }
}

impl Drop for RunHandle {
    fn drop(&mut self) {
        if !self.detached && self.outcome.borrow().is_none() {
            self.stop.request(EndedBy::Cancelled);
        }
    }
}
