//! What a failure is on each wire: the one table.

use aicodebox_engine::{
    adapter::WHOLE_REQUEST,
    run::{AgentFault, Failure, FailureKind},
};
use axum::http::StatusCode;

/// The part of a request that a failure is about, in the engine's spelling, and what is wrong with it; `None` when it is
/// about none or about the whole.
pub(crate) fn part_at_fault(failure: &Failure) -> Option<(&str, &str)> {
    let (FailureKind::Invalid { field } | FailureKind::TooLong { field }) = &failure.kind else {
        return None;
    };
    // What an adapter says begins with the field.
    let wrong = failure.message.strip_prefix(field.as_ref()).and_then(|rest| rest.strip_prefix(": "));
    (field != WHOLE_REQUEST).then(|| (field.as_ref(), wrong.unwrap_or(&failure.message)))
}

/// How a failure is told to a caller of `/run`, and to whoever reads its answer elsewhere.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// By a problem document: there is nothing else to tell.
    Problem(StatusCode),
    /// By the answer of the run: exit code, what it wrote, and `error` with this kind, if any.
    Answer(Option<&'static str>),
}

impl Wire {
    /// The table.
    pub(crate) fn of(kind: &FailureKind) -> Self {
        match kind {
            FailureKind::Invalid { field } if field == "workspace" => Self::Problem(StatusCode::BAD_REQUEST),
            FailureKind::Invalid { .. } => Self::Problem(StatusCode::UNPROCESSABLE_ENTITY),
            FailureKind::TooLong { .. } => Self::Problem(StatusCode::PAYLOAD_TOO_LARGE),
            FailureKind::Busy => Self::Problem(StatusCode::CONFLICT),
            FailureKind::QueueFull => Self::Problem(StatusCode::TOO_MANY_REQUESTS),
            FailureKind::Shutdown | FailureKind::Storage => Self::Problem(StatusCode::SERVICE_UNAVAILABLE),
            // Exit code and stderr say it all.
            FailureKind::Spawn { .. }
            | FailureKind::Deadline
            | FailureKind::Idle
            | FailureKind::Cancelled
            | FailureKind::Signal(_)
            | FailureKind::Exit(_)
            | FailureKind::Schema => Self::Answer(None),
            FailureKind::Budget => Self::Answer(Some(AgentFault::Quota.name())),
            // The exit code may well be 0: without a word the caller would take half an answer for a whole one.
            FailureKind::Stuck | FailureKind::NoFinalEvent => Self::Answer(Some(AgentFault::Internal.name())),
            FailureKind::Agent(fault) => Self::Answer(Some(fault.name())),
        }
    }
}
