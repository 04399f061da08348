//! The newer of OpenAI's two APIs, for clients that ask it by default: one question, one whole answer. What needs state
//! on the server, and streams, are refused with a word of where to have them.

use std::sync::Arc;

use aicodebox_engine::run::RunId;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    aside,
    error::ApiError,
    request::{self, ChatRequest},
    response::{Answer, Head, UsagePart},
};
use crate::config::ChatAsides;

/// Parts of the chat's request that this one has under another name, or not at all.
const FOREIGN: [&str; 3] = ["messages", "reasoning_effort", "response_format"];

/// The body of `POST /responses`, as the chat that it means.
#[derive(Debug)]
pub(crate) struct ResponsesRequest {
    pub(crate) chat: Arc<ChatRequest>,
    /// Which part of the request each message of the chat is.
    places: Vec<String>,
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
        refuse_what_cannot_be_done(&mut body)?;
        let mut ignored: Vec<_> = FOREIGN.map(str::to_owned).into();
        ignored.retain(|name| body.remove(name).is_some());
        let instructions = body.remove("instructions").unwrap_or_default();
        let (messages, places) = conversation(&instructions, body.remove("input"))?;
        body.insert("messages".into(), messages.into());
        let text = object(&mut body, "text")?;
        let reasoning = object(&mut body, "reasoning")?;
        let metadata = object(&mut body, "metadata")?.unwrap_or_default().into();
        for (name, parts, part, of_chat) in [
            ("text", &text, "format", "response_format"),
            ("reasoning", &reasoning, "effort", "reasoning_effort"),
        ] {
            let given = parts.iter().flatten().filter(|(_, value)| !value.is_null());
            for (key, value) in given {
                if key == part {
                    body.insert(of_chat.into(), nested(value, "json_schema"));
                } else {
                    ignored.push(format!("{name}.{key}"));
                }
            }
        }
        let by_format = body.contains_key("response_format");
        let tools = body.remove("tools");
        match &tools {
            Some(Value::Array(list)) => {
                body.insert("tools".into(), list.iter().map(|tool| nested(tool, "function")).collect());
            }
            Some(wrong) => _ = body.insert("tools".into(), wrong.clone()),
            None => {}
        }
        let tool_choice = body.remove("tool_choice");
        if let Some(choice) = &tool_choice {
            body.insert("tool_choice".into(), nested(choice, "function"));
        }
        // Nothing is kept beyond the run either way.
        body.remove("store");
        let mut chat = ChatRequest::from_object(body, header_schema, asides)
            .map_err(|error| error.renamed(|part| own_name(part, &places)))?;
        chat.aside = aside::holds(asides, aside::is_named(Some(&metadata)), &chat.messages);
        ignored.append(&mut chat.ignored);
        chat.ignored = request::names(ignored);
        if by_format {
            chat.schema_place = "text.format";
        }
        Ok(Self {
            chat: Arc::new(chat),
            places,
            instructions,
            tools: tools.unwrap_or_else(|| json!([])),
            tool_choice: tool_choice.unwrap_or_else(|| json!("auto")),
            text: text.map_or_else(|| json!({"format": {"type": "text"}}), Value::Object),
            metadata,
        })
    }

    /// An error of the chat in the words of this request.
    pub(crate) fn explain(&self, error: ApiError) -> ApiError {
        error.renamed(|part| own_name(part, &self.places))
    }
}

fn refuse_what_cannot_be_done(body: &mut Map<String, Value>) -> Result<(), ApiError> {
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
    Ok(())
}

/// The messages that instructions and input are, and which part of the request each of them is.
fn conversation(instructions: &Value, input: Option<Value>) -> Result<(Vec<Value>, Vec<String>), ApiError> {
    let mut messages = Vec::new();
    match instructions {
        Value::Null => {}
        Value::String(text) => {
            messages.push((json!({"role": "system", "content": text}), "instructions".to_owned()));
        }
        _ => return Err(ApiError::invalid("instructions", "must be a string")),
    }
    match input {
        Some(text @ Value::String(_)) => {
            messages.push((json!({"role": "user", "content": text}), "input".to_owned()));
        }
        Some(Value::Array(items)) if items.is_empty() => {
            return Err(ApiError::invalid("input", "must not be empty"));
        }
        Some(Value::Array(items)) => {
            for (index, item) in items.into_iter().enumerate() {
                let place = format!("input[{index}]");
                messages.extend(message(&place, item)?.map(|message| (message, place)));
            }
        }
        Some(_) => return Err(ApiError::invalid("input", "must be a string or a list")),
        None => return Err(ApiError::invalid("input", "is required")),
    }
    Ok(messages.into_iter().unzip())
}

fn object(body: &mut Map<String, Value>, name: &'static str) -> Result<Option<Map<String, Value>>, ApiError> {
    match body.remove(name) {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(ApiError::invalid(name, "must be an object")),
    }
}

/// What this API calls a part of a chat, if it calls it otherwise; `places` are those of the messages.
fn own_name(part: &str, places: &[String]) -> Option<String> {
    if let Some(rest) = part.strip_prefix("messages[") {
        let (index, rest) = rest.split_once(']')?;
        let place = places.get(index.parse::<usize>().ok()?)?;
        // Here a call is an item of its own.
        return Some(format!("{place}{}", rest.replacen(".tool_calls[0].function", "", 1)));
    }
    if let Some(rest) = part.strip_prefix("response_format") {
        return Some(format!("text.format{}", rest.strip_prefix(".json_schema").unwrap_or(rest)));
    }
    match part {
        "messages" => Some("input".to_owned()),
        "reasoning_effort" => Some("reasoning.effort".to_owned()),
        _ => part.starts_with("tools[").then(|| part.replacen(".function", "", 1)),
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
    fn the_headers_schema_counts_unless_the_text_has_a_format() {
        let header = Some(json!({"title": "header"}));
        let read = |more: Value| {
            let mut body = json!({"model": "m", "input": "x"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let Value::Object(body) = body else { panic!("no object") };
            let request = ResponsesRequest::read(body, header.clone(), ChatAsides::Known).unwrap();
            (request.chat.schema.clone(), request.chat.schema_place)
        };
        for more in [json!({}), json!({"text": {}}), json!({"text": null}), json!({"text": {"format": null}})]
        {
            assert_eq!(read(more.clone()), (header.clone(), "x-aicodebox-json-schema"), "{more}");
        }
        assert_eq!(read(json!({"text": {"format": {"type": "text"}}})), (None, "text.format"));
    }

    #[test]
    fn a_part_at_fault_has_the_name_that_the_client_gave_it() {
        for (more, part) in [
            (json!({"instructions": ["be"]}), "instructions"),
            (json!({"tools": {"type": "function", "name": "w"}}), "tools"),
            (json!({"tools": [{"type": "function", "name": "a b"}]}), "tools[0].name"),
            (json!({"tool_choice": "required"}), "tool_choice"),
            (json!({"tool_choice": "required", "tools": []}), "tool_choice"),
            (json!({"tool_choice": 1}), "tool_choice"),
            (json!({"text": "json"}), "text"),
            (json!({"text": {"format": "json"}}), "text.format.type"),
            (json!({"text": {"format": {"type": "json_schema", "schema": 1}}}), "text.format.schema"),
            (json!({"reasoning": "high"}), "reasoning"),
            (json!({"reasoning": {"effort": 1}}), "reasoning.effort"),
            (json!({"metadata": []}), "metadata"),
            (json!({"instructions": "Be brief.", "input": [{"role": "robot"}]}), "input[0].role"),
            (json!({"input": [{"type": "reasoning"}, {"role": 1}]}), "input[1].role"),
            (json!({"input": [{"type": "function_call", "name": 1}]}), "input[0].name"),
            (json!({"input": [{"type": "reasoning"}]}), "input"),
        ] {
            let mut body = json!({"model": "m", "input": "x"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let error = read(body).expect_err(&more.to_string());
            let error = serde_json::to_value(error.object()).unwrap();
            assert_eq!(error["param"], part, "{more}");
            assert!(error["message"].as_str().unwrap().starts_with(&format!("{part}: ")), "{error}");
        }
    }

    #[test]
    fn what_has_no_effect_is_named() {
        let request = read(json!({
            "model": "m", "input": "x", "temperature": 1, "messages": [], "response_format": {"type": "json_object"},
            "text": {"verbosity": "low"}, "reasoning": {"effort": null, "summary": "auto", "x y": 1},
        }));
        let chat = request.unwrap().chat;
        assert_eq!(
            chat.ignored,
            ["messages", "reasoning.summary", "response_format", "temperature", "text.verbosity"]
        );
        assert_eq!((&chat.schema, &chat.effort), (&None, &None));
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
