use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::run::{RunEvent, ToolEvent};

/// One event with its number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedEvent {
    /// 1, 2, 3, …; 0 = one of those that the log has no room for, and only a reader who was there has seen.
    pub sequence: u64,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// Index of the attempt, from 0.
    pub attempt: u32,
    /// Running number among the provider's records of the run, from 1; 0 for all other events.
    pub native_sequence: u64,
    /// What.
    pub event: RunEvent,
}

/// About what an event holds in memory, in bytes.
pub(super) fn size(event: &RunEvent) -> usize {
    let payload = match event {
        RunEvent::Session(id) => id.0.len(),
        RunEvent::Delta(text) | RunEvent::Thinking(text) | RunEvent::Message { text, .. } => text.len(),
        RunEvent::Tool(ToolEvent { name, input, output, .. }) => {
            name.as_ref().map_or(0, String::len)
                + input.as_ref().map_or(0, |input| input.to_string().len())
                + output.as_ref().map_or(0, String::len)
        }
        RunEvent::Usage(usage) => usage.native.to_string().len(),
        RunEvent::Notice(notice) => notice.message.len(),
        RunEvent::Native(record) => record.line.len() + record.event_type.len(),
        RunEvent::Status(_) | RunEvent::Truncated(_) => 0,
    };
    payload + size_of::<LoggedEvent>()
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
