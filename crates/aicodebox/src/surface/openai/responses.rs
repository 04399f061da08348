//! The newer of OpenAI's two APIs, for clients that ask it by default: one question, one whole answer. What needs state
//! on the server, and streams, are refused with a word of where to have them.

use std::sync::Arc;

use aicodebox_engine::run::RunId;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    aside,
    error::ApiError,
    request::ChatRequest,
    response::{Answer, Head, UsagePart},
};
use crate::config::ChatAsides;

/// The body of `POST /responses`, as the chat that it means.
#[derive(Debug)]
pub(crate) struct ResponsesRequest {
    pub(crate) chat: Arc<ChatRequest>,
    /// What the answer repeats.
    instructions: Value,
    tools: Value,
    tool_choice: Value,
    text: Value,
    metadata: Value,
}

impl ResponsesRequest {
    /// Reads a body; `header_schema` counts when it has no `text.format`, and `asides` as in a chat.
    ///
    /// # Errors
    /// 400 naming the part at fault.
    pub(crate) fn read(
        mut body: Map<String, Value>,
        header_schema: Option<Value>,
        asides: ChatAsides,
    ) -> Result<Self, ApiError> {
        body.retain(|_, value| !value.is_null());
        if body.remove("stream").is_some_and(|stream| stream != false) {
            return Err(ApiError::unsupported("stream", "streams are given at /chat/completions"));
        }
        for stateful in ["previous_response_id", "conversation", "prompt"] {
            if body.contains_key(stateful) {
                return Err(ApiError::unsupported(stateful, "nothing is kept here; send the conversation"));
            }
        }
        if body.remove("background").is_some_and(|background| background != false) {
            return Err(ApiError::unsupported("background", "use /run with async"));
        }
        let instructions = body.remove("instructions").unwrap_or_default();
        let mut messages = Vec::new();
        if instructions.is_string() {
            messages.push(json!({"role": "system", "content": instructions}));
        }
        match body.remove("input") {
            Some(text @ Value::String(_)) => messages.push(json!({"role": "user", "content": text})),
            Some(Value::Array(items)) if items.is_empty() => {
                return Err(ApiError::invalid("input", "must not be empty"));
            }
            Some(Value::Array(items)) => {
                for (index, item) in items.into_iter().enumerate() {
                    messages.extend(message(&format!("input[{index}]"), item)?);
                }
            }
            Some(_) => return Err(ApiError::invalid("input", "must be a string or a list")),
            None => return Err(ApiError::invalid("input", "is required")),
        }
        let tools = body.remove("tools").unwrap_or_else(|| json!([]));
        let tool_choice = body.remove("tool_choice").unwrap_or_else(|| json!("auto"));
        let text = body.remove("text").unwrap_or_else(|| json!({"format": {"type": "text"}}));
        let metadata = body.remove("metadata").unwrap_or_else(|| json!({}));
        if let Some(effort) =
            body.remove("reasoning").and_then(|mut reasoning| reasoning.get_mut("effort").map(Value::take))
        {
            body.insert("reasoning_effort".into(), effort);
        }
        if let Some(format) = text.get("format") {
            body.insert("response_format".into(), nested(format, "json_schema"));
        }
        if let Some(list) = tools.as_array().filter(|list| !list.is_empty()) {
            body.insert("tools".into(), list.iter().map(|tool| nested(tool, "function")).collect());
            body.insert("tool_choice".into(), nested(&tool_choice, "function"));
        }
        body.insert("messages".into(), messages.into());
        // Nothing is kept beyond the run either way.
        body.remove("store");
        let mut chat = ChatRequest::from_object(body, header_schema, asides)?;
        chat.aside = aside::holds(asides, aside::is_named(Some(&metadata)), &chat.messages);
        if text.get("format").is_some() {
            chat.schema_place = "text.format";
        }
        let chat = Arc::new(chat);
        Ok(Self { chat, instructions, tools, tool_choice, text, metadata })
    }
}

/// An object of this API in the form of the other, where its fields lie below the name of its type.
fn nested(object: &Value, kind: &str) -> Value {
    let (Some(fields), true) = (object.as_object(), object["type"] == kind) else { return object.clone() };
    let inner: Map<_, _> = fields
        .iter()
        .filter(|(name, _)| *name != "type")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    json!({"type": kind, kind: inner})
}

/// An item of the input as a message of a chat; what a model thought is no part of that.
fn message(place: &str, item: Value) -> Result<Option<Value>, ApiError> {
    match item.get("type").and_then(Value::as_str) {
        Some("message") | None => Ok(Some(item)),
        Some("function_call") => Ok(Some(json!({"role": "assistant", "tool_calls": [{
            "id": item["call_id"], "type": "function",
            "function": {"name": item["name"], "arguments": item["arguments"]}}]}))),
        Some("function_call_output") => {
            Ok(Some(json!({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})))
        }
        Some("reasoning") => Ok(None),
        Some(other) => Err(ApiError::invalid(
            format!("{place}.type"),
            format_args!("'{other}' is none of message, function_call, function_call_output, reasoning"),
        )),
    }
}

/// A whole answer.
#[derive(Serialize)]
pub(crate) struct ResponseObject<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    status: &'static str,
    error: (),
    incomplete_details: Option<Value>,
    instructions: &'a Value,
    metadata: &'a Value,
    model: &'a str,
    output: Vec<Value>,
    parallel_tool_calls: bool,
    previous_response_id: (),
    reasoning: Value,
    store: bool,
    temperature: (),
    text: &'a Value,
    tool_choice: &'a Value,
    tools: &'a Value,
    top_p: (),
    truncation: &'static str,
    usage: Value,
}

impl<'a> ResponseObject<'a> {
    /// The answer to `request`.
    pub(crate) fn new(
        head: &'a Head,
        request: &'a ResponsesRequest,
        answer: Answer,
        usage: UsagePart,
    ) -> Self {
        let id = |kind: &str| format!("{kind}_{}", RunId::random());
        let mut output = Vec::new();
        if let Some(text) = answer.content {
            output
                .push(json!({"type": "message", "id": id("msg"), "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]}));
        }
        output.extend(answer.calls.into_iter().map(|call| {
            json!({"type": "function_call", "id": id("fc"), "call_id": call.id, "name": call.function.name,
                "arguments": call.function.arguments, "status": "completed"})
        }));
        let cut = match answer.finish {
            "length" => Some("max_output_tokens"),
            "content_filter" => Some("content_filter"),
            _ => None,
        };
        Self {
            id: &head.id,
            object: "response",
            created_at: head.created,
            status: if cut.is_some() { "incomplete" } else { "completed" },
            error: (),
            incomplete_details: cut.map(|reason| json!({ "reason": reason })),
            instructions: &request.instructions,
            metadata: &request.metadata,
            model: &head.model,
            output,
            parallel_tool_calls: request.chat.tools.parallel,
            previous_response_id: (),
            reasoning: json!({"effort": request.chat.effort, "summary": null}),
            store: false,
            temperature: (),
            text: &request.text,
            tool_choice: &request.tool_choice,
            tools: &request.tools,
            top_p: (),
            truncation: "disabled",
            usage: usage.as_of_responses(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surface::openai::{message::Message, tools::Choice};

    fn read(body: Value) -> Result<ResponsesRequest, ApiError> {
        let Value::Object(body) = body else { panic!("no object") };
        ResponsesRequest::read(body, None, ChatAsides::Known)
    }

    #[test]
    fn items_become_messages() {
        let request = read(json!({
            "model": "m", "instructions": "Be brief.", "reasoning": {"effort": "low"},
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": true}],
            "tool_choice": {"type": "function", "name": "f"},
            "text": {"format": {"type": "json_schema", "name": "x", "schema": {"title": "t"}}},
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            ],
        }))
        .unwrap();
        let chat = &request.chat;
        assert_eq!(chat.messages.len(), 4);
        assert!(matches!(&chat.messages[2], Message::Assistant { calls, .. } if calls[0].id == "c1"));
        assert!(matches!(&chat.messages[3], Message::Tool { id, .. } if id == "c1"));
        assert_eq!((&chat.tools.choice, chat.effort.as_deref()), (&Choice::Named("f".into()), Some("low")));
        assert_eq!(chat.schema, Some(json!({"title": "t"})));
        assert!(chat.ignored.is_empty(), "{:?}", chat.ignored);
    }

    #[test]
    fn what_needs_state_or_a_stream_is_refused() {
        for more in ["stream", "background"] {
            assert!(read(json!({"model": "m", "input": "x", more: true})).is_err(), "{more}");
            assert!(read(json!({"model": "m", "input": "x", more: false})).is_ok(), "{more}");
        }
        assert!(read(json!({"model": "m", "input": "x", "previous_response_id": "resp_1"})).is_err());
        assert!(read(json!({"model": "m", "input": [{"type": "computer_call"}]})).is_err());
        assert!(read(json!({"model": "m"})).is_err());
        assert!(read(json!({"model": "m", "input": [], "instructions": "Be brief."})).is_err());
    }
}
