use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// One call of a hook, as the bridge reads it: one line of JSON.
#[derive(Debug, Serialize)]
pub(super) struct Call<'a> {
    pub(super) id: u64,
    #[serde(rename = "do")]
    pub(super) what: What,
    /// Finds the request object of an earlier call again.
    pub(super) run: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stdout: Option<&'a str>,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// `validate`, `build_argv`, `build_env`.
    Plan,
    /// `parse_stream_event` for each line.
    Lines,
    /// `parse_output`, and `parse_events` when records are wanted.
    Parse,
    /// The run is over; no answer.
    Close,
}

/// The first line of a bridge.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Hello {
    Ready(Ready),
    Failed(String),
}

/// What the class says of itself.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Ready {
    pub(super) name: String,
    pub(super) binary: String,
    pub(super) models: Vec<String>,
    pub(super) efforts: Vec<String>,
    pub(super) auth_paths: Vec<String>,
    pub(super) version: String,
}

/// Any other line of a bridge.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    /// `None` for a line that was no call.
    pub(super) id: Option<u64>,
    #[serde(default)]
    pub(super) ok: Option<Box<RawValue>>,
    #[serde(default)]
    pub(super) error: Option<HookError>,
}

/// Why a hook gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct HookError {
    #[serde(rename = "type")]
    pub(super) kind: HookErrorKind,
    pub(super) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HookErrorKind {
    /// `ValueError` of `validate`.
    Refused,
    /// Any other exception.
    Raised,
    /// The bridge does not know the run (any more).
    UnknownRun,
    /// The call makes no sense to the bridge.
    BadCall,
}

/// The answer to [`What::Plan`].
#[derive(Debug, Deserialize)]
pub(super) struct Planned {
    pub(super) argv: Vec<String>,
    /// Variables that the adapter added or changed.
    pub(super) set: BTreeMap<String, String>,
    /// Variables that it took away.
    pub(super) unset: Vec<String>,
}

/// The answer to [`What::Lines`].
#[derive(Debug, Deserialize)]
pub(super) struct Streamed {
    pub(super) events: Vec<StreamEvent>,
    /// The exception that stopped it after these events.
    #[serde(default)]
    pub(super) error: Option<String>,
}

/// A `StreamEvent`.
#[derive(Debug, Deserialize)]
pub(super) struct StreamEvent {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) text: String,
    pub(super) data: Option<Value>,
}

/// The answer to [`What::Parse`].
#[derive(Debug, Default, Deserialize)]
pub(super) struct Parsed {
    pub(super) text: String,
    pub(super) session_id: String,
    #[serde(default)]
    pub(super) parsed: Option<Value>,
    pub(super) parse_error: Option<String>,
    pub(super) provider_error: Option<String>,
    pub(super) usage: Option<Value>,
    /// Type and JSON text of each record.
    #[serde(default)]
    pub(super) events: Vec<(String, String)>,
    #[serde(default)]
    pub(super) events_dropped: u64,
}
