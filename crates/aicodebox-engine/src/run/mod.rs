//! The vocabulary of a run: what is asked, what happens, how it ends. Depends on nothing else here.

mod check;
mod event;
mod exit;
mod failure;
mod id;
mod json_text;
mod outcome;
mod request;
mod usage;

pub use check::AnswerCheck;
pub use event::{EventSink, LeftOut, NativeRecord, Notice, Room, RunEvent, Stage, ToolEvent, ToolPhase};
pub use exit::{Capture, EndedBy, Exit, ExitStatus};
pub use failure::{AgentFault, Failure, FailureKind};
pub use id::{RunId, SessionId, SessionKey};
pub use outcome::{Attempt, Finish, RunOutcome, RunStatus, Verdict};
pub use request::{Claim, Origin, RunRequest, SessionChoice, ToolPolicy, Workspace};
pub use usage::{SessionTotals, Tokens, Usage};
pub(crate) use usage::{add_numbers, subtract_numbers};
