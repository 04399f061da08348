use std::pin::Pin;

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{SessionId, Usage, json_text};

/// Something that happened in a run. Immutable once the log has given it a number; the outcome is kept apart,
/// so that it always fits. Stored by the position of its variant: new ones go to the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RunEvent {
    /// The agent named its conversation.
    Session(SessionId),
    /// A piece of the answer's text, to be appended.
    Delta(String),
    /// A whole message. `streamed` = its text has already been given as deltas.
    Message {
        /// The text.
        text: String,
        /// Whether deltas have carried it.
        streamed: bool,
    },
    /// A piece of reasoning text.
    Thinking(String),
    /// A tool call begins or ends.
    Tool(ToolEvent),
    /// What was consumed so far, as far as the agent has said.
    Usage(Usage),
    /// A warning for the user: something was left out, retried or cut.
    Notice(Notice),
    /// The provider's own record, untouched.
    Native(NativeRecord),
    /// Where the run stands before it has an outcome.
    Status(Stage),
    /// What the log has no room for; nothing but the outcome follows.
    Truncated(LeftOut),
}

/// Where a run stands before it has an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// It waits for its place.
    Queued,
    /// It has one.
    Running,
}

/// What did not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Events.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Which part of a tool call an event tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolPhase {
    /// It begins.
    Start,
    /// It ended; the start was told before.
    End,
    /// It is over; there was no start event.
    Both,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolEvent {
    /// The agent's id of the call, or a running number.
    pub id: String,
    /// Start, end, or both in one.
    pub phase: ToolPhase,
    /// Name of the tool.
    pub name: Option<String>,
    /// Its arguments, as the agent printed them.
    #[serde(with = "json_text::optional")]
    pub input: Option<Value>,
    /// What it answered.
    pub output: Option<String>,
    /// Whether it failed; `None` at the start.
    pub failed: Option<bool>,
}

/// A warning: a short word for programs, a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// `ignored`, `retry`, `agent`, `truncated`, `usage`, …
    pub code: Cow<'static, str>,
    /// The sentence.
    pub message: String,
}

/// One record as the agent printed it. Attempt and sequence are given by the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeRecord {
    /// The provider's name of the record (its `type`), or `raw` for a line that is no JSON object.
    pub event_type: String,
    /// The line without its newline. When `json`, these bytes are one valid JSON object.
    pub line: Bytes,
    /// Whether the line is a JSON object.
    pub json: bool,
}

/// Ready when a taker has room again.
pub type Room = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes events as they come. Never blocks and never fails: what does not fit is counted by the taker.
pub trait EventSink: Send + Sync {
    /// Takes one event.
    fn push(&self, event: RunEvent);
}
