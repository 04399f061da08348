use std::{path::PathBuf, sync::Arc, time::SystemTime};

use serde_json::Value;

use super::EventLog;
use crate::run::{Claim, Origin, RunId, RunOutcome, RunStatus};

/// A run that has been accepted.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The run.
    pub id: RunId,
    /// Canonical path of its workspace.
    pub workspace: PathBuf,
    /// Who asked.
    pub origin: Origin,
    /// When it was accepted.
    pub created: SystemTime,
    /// What will happen; made by [`super::Store::log`].
    pub log: Arc<EventLog>,
    /// [`crate::run::RunRequest::note`].
    pub note: Value,
    /// The key that it can be found by.
    pub claim: Option<Claim>,
    /// Where its record is sent when it is over.
    pub callback: Option<String>,
}

impl NewRun {
    /// One that is accepted now, with no note, key or callback.
    pub fn new(id: RunId, workspace: PathBuf, origin: Origin, log: Arc<EventLog>) -> Self {
        let created = SystemTime::now();
        Self { id, workspace, origin, created, log, note: Value::Null, claim: None, callback: None }
    }
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
    /// When it ended.
    pub finished: Option<SystemTime>,
    /// How it ended; `None` = not yet.
    pub outcome: Option<Arc<RunOutcome>>,
    /// Number that the outcome has among the run's events; 0 = there is none yet.
    pub outcome_sequence: u64,
    /// [`crate::run::RunRequest::note`].
    pub note: Value,
    /// What became of the answer, where it was sent on ([`super::Ledger::keep_delivery`]); null = nothing is known.
    pub delivery: Value,
}

impl RunRecord {
    /// Where it stands.
    pub fn status(&self) -> RunStatus {
        self.outcome.as_ref().map_or(RunStatus::Running, |outcome| outcome.status())
    }
}

/// A run in a list.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The run.
    pub id: RunId,
    /// Canonical path of its workspace.
    pub workspace: PathBuf,
    /// Who asked.
    pub origin: Origin,
    /// Where it stands.
    pub status: RunStatus,
    /// When it was accepted.
    pub created: SystemTime,
    /// When it ended.
    pub finished: Option<SystemTime>,
}

/// Which runs a list has.
#[derive(Clone, Debug)]
pub struct RunFilter {
    /// Only with this status.
    pub status: Option<RunStatus>,
    /// Only of this surface ([`Origin::surface`]).
    pub surface: Option<&'static str>,
    /// Only older ones than the last of the page before ([`RunPage::next`]).
    pub before: Option<i64>,
    /// At most so many.
    pub limit: usize,
}

/// A part of a list, the newest first.
#[derive(Clone, Debug, Default)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// Where the next page begins; `None` = this is the last.
    pub next: Option<i64>,
}

/// A record that has to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// The run.
    pub id: RunId,
    /// Where to.
    pub url: String,
    /// How many tries there were.
    pub tries: u32,
}

impl Callback {
    /// So many are due at a time,
    pub(super) const AT_ONCE: u8 = 64;
    /// and so many of one receiver: one that hangs leaves the others their turn.
    pub const OF_ONE_RECEIVER: u8 = 4;

    /// Who gets what is sent to `url`: its host and port.
    pub(super) fn receiver(url: &str) -> &str {
        let rest = url.split_once("://").map_or(url, |(_scheme, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        authority.rsplit('@').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::Callback;

    #[test]
    fn a_receiver_is_a_host_with_its_port() {
        for (url, receiver) in [
            ("https://a.example/hook/1?x=http://b", "a.example"),
            ("http://me:secret@a.example:81", "a.example:81"),
            ("http://[::1]:80?run=1", "[::1]:80"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(Callback::receiver(url), receiver);
        }
    }
}
