//! What the fuzz targets call: what strangers write, taken as the chat surface takes it.

use std::sync::LazyLock;

use aicodebox_engine::run::AnswerCheck;
use serde_json::{Map, Value, json};

use crate::{
    config::ChatAsides,
    surface::openai::{ChatRequest, Message, ToolCheck, render},
};

/// The prompts of the conversation in this body: of its first message that is not of the system, of the first two, and so
/// on to all of it. Nothing when the body is refused.
pub fn chat_prompts(body: &[u8]) -> Vec<String> {
    let Ok(body) = serde_json::from_slice::<Map<String, Value>>(body) else { return Vec::new() };
    let Ok(request) = ChatRequest::from_object(body, None, ChatAsides::Known) else { return Vec::new() };
    let messages = &request.messages;
    let first = messages.iter().position(|message| !matches!(message, Message::System(_)));
    let ends = first.map_or(0..0, |first| first + 1..messages.len() + 1);
    ends.map(|end| render(&messages[..end], |index| Some(format!("IMAGE {index}")))).collect()
}

/// The calls in this answer of an agent that was offered `weather` (of a city) and `clock` (of nothing).
pub fn tool_calls(answer: &str) -> Vec<Value> {
    static CHECK: LazyLock<Option<ToolCheck>> = LazyLock::new(|| {
        let Value::Object(body) = json!({
            "model": "m", "messages": [{"role": "user", "content": "hi"}],
            "tools": [
                {"type": "function", "function": {"name": "weather", "parameters":
                    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}},
                {"type": "function", "function": {"name": "clock", "parameters":
                    {"type": "object", "maxProperties": 0}}},
            ],
        }) else {
            return None;
        };
        ToolCheck::new(
            &ChatRequest::from_object(body, None, ChatAsides::Known).ok()?.tools,
            None,
            "response_format",
        )
        .ok()
    });
    let accepted = CHECK.as_ref().and_then(|check| check.read(answer, None).ok()).unwrap_or_default();
    accepted["tool_calls"].as_array().cloned().unwrap_or_default()
}
