use std::borrow::Cow;

use aicodebox_engine::{
    run::{NativeRecord, RunEvent, Stage, ToolPhase},
    store::LoggedEvent,
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use utoipa::ToSchema;

use super::run_answer::TokensPart;

/// One event of a run as JSON: the same words wherever events are shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventLine<'a> {
    pub(crate) sequence: u64,
    attempt: u32,
    pub(crate) event: &'static str,
    data: EventData<'a>,
}

/// The same without what a stream of server-sent events has beside its data.
#[derive(Serialize, ToSchema)]
#[schema(as = RunEvent)]
pub(crate) struct EventBody<'a> {
    /// When, in milliseconds since 1970.
    at: u64,
    /// Index of the attempt, from 0.
    attempt: u32,
    #[serde(flatten)]
    data: EventData<'a>,
}

/// What an event tells. Which of these it is, is the name of the event.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = RunEventData)]
pub(crate) enum EventData<'a> {
    /// `status`: where the run stands before its `outcome`.
    Status {
        /// Always `running`: it has no outcome yet.
        status: &'static str,
        /// Whether it waits for its place.
        queued: bool,
    },
    /// `session`: the agent named its conversation.
    Session {
        /// Its id, for `resume`.
        #[serde(rename = "sessionId")]
        session_id: &'a str,
    },
    /// `message`: a whole message.
    Message {
        /// The text.
        text: &'a str,
        /// Whether its text has already been given as deltas.
        streamed: bool,
    },
    /// `delta`: a piece of the answer; `thinking`: a piece of reasoning.
    Text {
        /// To be appended.
        text: &'a str,
    },
    /// `tool`: a tool call begins or ends.
    Tool {
        /// The agent's id of the call, or a running number.
        id: &'a str,
        /// `start`, `end`, or `both` in one.
        phase: &'static str,
        /// Name of the tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        /// Its arguments.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<&'a Value>,
        /// What it answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<&'a str>,
        /// Whether it failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        failed: Option<bool>,
    },
    /// `usage`: what was consumed so far.
    Usage {
        /// The provider's object.
        usage: &'a Value,
        /// The same in our words.
        tokens: TokensPart,
    },
    /// `notice`: something was left out, retried or cut.
    Notice {
        /// A word for programs.
        code: &'a str,
        /// A sentence for people.
        message: &'a str,
    },
    /// `native`: a record of the provider.
    Native {
        /// Running number among the provider's records; `events[].sequence` in an answer.
        #[serde(rename = "nativeSequence")]
        native_sequence: u64,
        /// The record's own type, or `raw` for a line that is no JSON object.
        #[serde(rename = "eventType")]
        event_type: &'a str,
        /// The record untouched, or the line.
        #[schema(value_type = Value)]
        event: Box<RawValue>,
    },
    /// `truncated`: how much there was no room for.
    Truncated {
        /// Events.
        events: u64,
        /// Their bytes.
        bytes: u64,
    },
}

impl<'a> EventLine<'a> {
    pub(crate) fn new(logged: &'a LoggedEvent) -> Self {
        let (event, data) = told(logged);
        Self { sequence: logged.sequence, attempt: logged.attempt, event, data }
    }
}

impl<'a> EventBody<'a> {
    /// With the name of the event.
    pub(crate) fn new(logged: &'a LoggedEvent) -> (&'static str, Self) {
        let (event, data) = told(logged);
        (event, Self { at: logged.at, attempt: logged.attempt, data })
    }
}

fn told(logged: &LoggedEvent) -> (&'static str, EventData<'_>) {
    match &logged.event {
        RunEvent::Status(stage) => {
            ("status", EventData::Status { status: "running", queued: *stage == Stage::Queued })
        }
        RunEvent::Session(id) => ("session", EventData::Session { session_id: &id.0 }),
        RunEvent::Delta(text) => ("delta", EventData::Text { text }),
        RunEvent::Message { text, streamed } => ("message", EventData::Message { text, streamed: *streamed }),
        RunEvent::Thinking(text) => ("thinking", EventData::Text { text }),
        RunEvent::Tool(tool) => {
            let data = EventData::Tool {
                id: &tool.id,
                phase: match tool.phase {
                    ToolPhase::Start => "start",
                    ToolPhase::End => "end",
                    ToolPhase::Both => "both",
                },
                name: tool.name.as_deref(),
                input: tool.input.as_ref(),
                output: tool.output.as_deref(),
                failed: tool.failed,
            };
            ("tool", data)
        }
        RunEvent::Usage(usage) => {
            ("usage", EventData::Usage { usage: &usage.native, tokens: usage.tokens.into() })
        }
        RunEvent::Notice(notice) => {
            ("notice", EventData::Notice { code: &notice.code, message: &notice.message })
        }
        RunEvent::Native(record) => {
            let data = EventData::Native {
                native_sequence: logged.native_sequence,
                event_type: &record.event_type,
                event: raw(record),
            };
            ("native", data)
        }
        RunEvent::Truncated(left_out) => {
            ("truncated", EventData::Truncated { events: left_out.events, bytes: left_out.bytes })
        }
    }
}

/// A provider's record as it was printed: its JSON untouched, any other line as a JSON string.
pub(crate) fn raw(record: &NativeRecord) -> Box<RawValue> {
    let text = String::from_utf8_lossy(&record.line);
    let whole = if record.json { untouched(&text) } else { None };
    whole.or_else(|| serde_json::value::to_raw_value(&text).ok()).unwrap_or_default()
}

/// A carriage return may stand between the parts of a JSON text, but would end a line of an event stream.
fn untouched(text: &str) -> Option<Box<RawValue>> {
    let text = if text.contains(['\r', '\n']) {
        Cow::Owned(serde_json::from_str::<Value>(text).ok()?.to_string())
    } else {
        Cow::Borrowed(text)
    };
    RawValue::from_string(text.into_owned()).ok()
}
