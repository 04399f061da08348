use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::watch;

use super::Events;
use crate::{
    process::Stop,
    run::{EndedBy, RunId, RunOutcome, RunStatus},
};

/// A caller's hold on a run. When the last one is dropped the run is cancelled, unless it was detached: callers who
/// went away do not want the answer any more.
pub struct RunHandle {
    /// The run.
    pub id: RunId,
    /// Canonical path of its workspace.
    pub workspace: PathBuf,
    /// Fields of the request that the agent has no way for and that were dropped.
    pub ignored: Vec<&'static str>,
    pub(super) events: Events,
    pub(super) hold: Arc<Hold>,
    pub(super) begun: watch::Receiver<bool>,
    pub(super) outcome: watch::Receiver<Option<Arc<RunOutcome>>>,
}

/// What all handles of a run share.
pub(super) struct Hold {
    stop: Stop,
    released: AtomicBool,
    outcome: watch::Receiver<Option<Arc<RunOutcome>>>,
}

impl Hold {
    pub(super) fn new(stop: Stop, outcome: watch::Receiver<Option<Arc<RunOutcome>>>) -> Arc<Self> {
        Arc::new(Self { stop, released: AtomicBool::new(false), outcome })
    }

    /// One that lets go without a word.
    pub(super) fn released(outcome: watch::Receiver<Option<Arc<RunOutcome>>>) -> Arc<Self> {
        Arc::new(Self { stop: Stop::default(), released: AtomicBool::new(true), outcome })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.released.load(Ordering::Relaxed) && self.outcome.borrow().is_none() {
            self.stop.request(EndedBy::Cancelled);
        }
    }
}

impl RunHandle {
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

    /// Where it stands.
    pub fn status(&self) -> RunStatus {
        self.outcome.borrow().as_ref().map_or(RunStatus::Running, |outcome| outcome.status())
    }

    /// What happens in it.
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// Asks the run to end; the second time, at once.
    pub fn cancel(&self) {
        self.hold.stop.request(EndedBy::Cancelled);
    }

    /// Lets the run go on without its callers.
    pub fn detach(&self) {
        self.hold.released.store(true, Ordering::Relaxed);
    }
}
