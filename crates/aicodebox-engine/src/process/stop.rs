use std::sync::Arc;

use tokio::sync::watch;

use crate::run::EndedBy;

/// Asks a run to end: the first request is polite and gives the reason, the second skips the grace.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<Requests>>);

/// What has been asked so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// The first reason.
    pub reason: Option<EndedBy>,
    /// Whether the grace is to be skipped.
    pub now: bool,
}

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Requests::default())))
    }
}

impl Stop {
    /// Asks once more. Returns whether this was the first request.
    pub fn request(&self, reason: EndedBy) -> bool {
        let mut first = false;
        self.0.send_modify(|requests| match requests.reason {
            None => (requests.reason, first) = (Some(reason), true),
            Some(_) => requests.now = true,
        });
        first
    }

    /// What has been asked so far.
    pub fn requested(&self) -> Requests {
        *self.0.borrow()
    }

    /// Follows the requests from now on.
    pub fn watch(&self) -> watch::Receiver<Requests> {
        self.0.subscribe()
    }
}
