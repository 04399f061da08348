use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Exit, Failure, FailureKind, RunId, SessionId, Usage};

/// The answer is good, or why it is not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The agent ended well.
    Ok,
    /// It did not.
    Failed(Failure),
}

/// Why the model stopped, in the words that OpenAI clients know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done.
    Stop,
    /// The output limit was reached.
    Length,
    /// A content filter cut it.
    ContentFilter,
    /// It ended in a tool call.
    Tool,
}

impl Finish {
    /// The word in adapter files and in `replay`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Tool => "tool",
        }
    }
}

/// The stored state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunStatus {
    /// Not final yet; also while it waits for a place.
    Running,
    /// The agent ended by itself and the provider reported no error.
    Completed,
    /// Provider error, no final event, could not start.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// A limit stopped it.
    TimedOut,
    /// The server went down under it.
    Interrupted,
}

impl RunStatus {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Running, Self::Completed, Self::Failed, Self::Cancelled, Self::TimedOut, Self::Interrupted];

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// The word on every wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Interrupted => "interrupted",
        }
    }
}

/// One start of the agent; a schema run may need several.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// What this attempt consumed; `None` = unknown.
    pub usage: Option<Usage>,
    /// As [`RunOutcome::exit_code`].
    pub exit_code: i32,
    /// Why its answer was not accepted.
    pub parse_error: Option<String>,
}

/// How a run ended. There is always one, and it always fits the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The run.
    pub id: RunId,
    /// Good or not.
    pub verdict: Verdict,
    /// The answer, also a partial one; at most [`crate::adapter::TEXT_LIMIT`] bytes. Stores keep it beside the rest.
    #[serde(default, skip_serializing)]
    pub text: String,
    /// The answer as JSON, when it was checked and accepted.
    pub parsed: Option<Value>,
    /// Why the model stopped.
    pub finish: Finish,
    /// The conversation, when the agent named it.
    pub session: Option<SessionId>,
    /// Sum over all attempts; `None` when it is not known.
    pub usage: Option<Usage>,
    /// All attempts, in order; at least one unless the agent never started.
    pub attempts: Vec<Attempt>,
    /// The exit code that callers see: the agent's own, 124 for a limit, 143 for a cancelled run, 126/127 when
    /// it could not start, 128 + n for a signal, 0 when it was stopped after its final event.
    pub exit_code: i32,
    /// The last attempt's end; `None` when nothing was started.
    pub exit: Option<Exit>,
    /// From the request to the outcome, waiting included.
    pub took: Duration,
}

impl RunOutcome {
    /// One with nothing answered and nothing started, at once.
    pub fn bare(id: RunId, verdict: Verdict) -> Self {
        Self {
            id,
            verdict,
            text: String::new(),
            parsed: None,
            finish: Finish::Stop,
            session: None,
            usage: None,
            attempts: Vec::new(),
            exit_code: 0,
            exit: None,
            took: Duration::ZERO,
        }
    }

    /// The failure, if there is one.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.verdict {
            Verdict::Ok => None,
            Verdict::Failed(failure) => Some(failure),
        }
    }

    /// `ok`, or the failure's [`FailureKind::name`].
    pub fn reason(&self) -> &'static str {
        self.failure().map_or("ok", |failure| failure.kind.name())
    }

    /// The stored status (architecture §4.5).
    pub fn status(&self) -> RunStatus {
        let Some(failure) = self.failure() else { return RunStatus::Completed };
        match failure.kind {
            FailureKind::Exit(_) | FailureKind::Schema | FailureKind::Agent(super::AgentFault::Empty) => {
                RunStatus::Completed
            }
            FailureKind::Deadline | FailureKind::Idle => RunStatus::TimedOut,
            FailureKind::Cancelled => RunStatus::Cancelled,
            FailureKind::Shutdown => RunStatus::Interrupted,
            FailureKind::Invalid { .. }
            | FailureKind::TooLong { .. }
            | FailureKind::Busy
            | FailureKind::QueueFull
            | FailureKind::Spawn { .. }
            | FailureKind::Budget
            | FailureKind::Storage
            | FailureKind::Stuck
            | FailureKind::Signal(_)
            | FailureKind::NoFinalEvent
            | FailureKind::Agent(_) => RunStatus::Failed,
        }
    }
}
