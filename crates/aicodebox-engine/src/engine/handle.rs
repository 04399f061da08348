use std::{path::PathBuf, sync::Arc};

use tokio::sync::watch;

use super::Events;
use crate::{
    process::Stop,
    run::{EndedBy, RunId, RunOutcome, RunStatus},
};

/// A caller's hold on a run. Dropping it cancels the run, unless that was to go on alone ([`RunRequest::detach`]): a
/// caller who went away does not want the answer any more.
///
/// [`RunRequest::detach`]: crate::run::RunRequest::detach
pub struct RunHandle {
    /// The run.
    pub id: RunId,
    /// Canonical path of its workspace.
    pub workspace: PathBuf,
    /// Fields of the request that the agent has no way for and that were dropped.
    pub ignored: Vec<&'static str>,
    pub(super) events: Events,
    pub(super) hold: Hold,
    pub(super) begun: watch::Receiver<bool>,
    pub(super) outcome: watch::Receiver<Option<Arc<RunOutcome>>>,
}

/// What ends a run that nobody waits for.
pub(super) struct Hold {
    pub(super) stop: Stop,
    /// Lets go without a word.
    pub(super) detached: bool,
    pub(super) outcome: watch::Receiver<Option<Arc<RunOutcome>>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.detached && self.outcome.borrow().is_none() {
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
}
