use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

/// What a tool answers: a text for the model, and for programs the same as a value that fits the output schema.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) text: String,
    pub(super) value: Value,
}

/// Why a tool did not do what it was asked. The model is to read it, so it is a result like any other, marked as an
/// error; errors of the protocol are only for what is no call of a tool.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) text: String,
    pub(super) value: Option<Value>,
}

impl Reply {
    pub(super) fn new(text: impl Into<String>, value: &impl Serialize) -> Self {
        // What we make can always be a value: no maps with odd keys, no numbers that JSON lacks.
        Self { text: text.into(), value: serde_json::to_value(value).unwrap_or_default() }
    }
}

impl<T: std::fmt::Display> From<T> for Refusal {
    fn from(reason: T) -> Self {
        Self { text: reason.to_string(), value: None }
    }
}

/// The result as the protocol has it.
pub(super) fn result(answer: Result<Reply, Refusal>) -> CallToolResult {
    match answer {
        Ok(Reply { text, value }) => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = Some(value);
            result
        }
        Err(Refusal { text, value }) => {
            let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
            result.structured_content = value;
            result
        }
    }
}
