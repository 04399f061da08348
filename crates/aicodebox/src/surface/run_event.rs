use aicodebox_engine::{
    run::{RunEvent, ToolPhase, Usage},
    store::LoggedEvent,
};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::run_answer::TokensPart;

/// One event of a run as JSON: the same words wherever events are shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventLine<'a> {
    sequence: u64,
    attempt: u32,
    event: &'static str,
    data: Data<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Data<'a> {
    Plain(Value),
    Native {
        #[serde(rename = "nativeSequence")]
        native_sequence: u64,
        #[serde(rename = "eventType")]
        event_type: &'a str,
        event: Box<RawValue>,
    },
}

impl<'a> EventLine<'a> {
    pub(crate) fn new(logged: &'a LoggedEvent) -> Self {
        let (event, data) = match &logged.event {
            RunEvent::Session(id) => ("session", json!({ "sessionId": id.0 })),
            RunEvent::Delta(text) => ("delta", json!({ "text": text })),
            RunEvent::Message { text, streamed } => {
                ("message", json!({ "text": text, "streamed": streamed }))
            }
            RunEvent::Thinking(text) => ("thinking", json!({ "text": text })),
            RunEvent::Tool(tool) => {
                let phase = match tool.phase {
                    ToolPhase::Start => "start",
                    ToolPhase::End => "end",
                    ToolPhase::Both => "both",
                };
                let mut data = json!({ "id": tool.id, "phase": phase });
                let parts = [
                    ("name", tool.name.as_deref().map(Value::from)),
                    ("input", tool.input.clone()),
                    ("output", tool.output.as_deref().map(Value::from)),
                    ("failed", tool.failed.map(Value::from)),
                ];
                for (name, value) in parts {
                    if let Some(value) = value {
                        data[name] = value;
                    }
                }
                ("tool", data)
            }
            RunEvent::Usage(Usage { native, tokens }) => {
                ("usage", json!({ "usage": native, "tokens": TokensPart::from(*tokens) }))
            }
            RunEvent::Notice(notice) => ("notice", json!({ "code": notice.code, "message": notice.message })),
            RunEvent::Native(record) => {
                let data = Data::Native {
                    native_sequence: logged.native_sequence,
                    event_type: &record.event_type,
                    event: raw(&record.line, record.json),
                };
                return Self { sequence: logged.sequence, attempt: logged.attempt, event: "native", data };
            }
        };
        Self { sequence: logged.sequence, attempt: logged.attempt, event, data: Data::Plain(data) }
    }
}

/// A provider's record as it was printed: its JSON untouched, any other line as a JSON string.
pub(crate) fn raw(line: &[u8], json: bool) -> Box<RawValue> {
    let text = String::from_utf8_lossy(line).into_owned();
    let whole = if json { RawValue::from_string(text.clone()).ok() } else { None };
    whole.or_else(|| serde_json::value::to_raw_value(&text).ok()).unwrap_or_default()
}
