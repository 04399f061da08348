use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{
    aside,
    error::ApiError,
    message::{Message, MessageReader},
    tools::Tools,
};
use crate::config::ChatAsides;

/// At most so many parts of a request that are not honoured are named.
const MAX_IGNORED: usize = 40;
/// So many messages with so many bytes are made a prompt in no time.
const SHORT: usize = 256;
const SHORT_BYTES: usize = 64 << 10;
/// Longest name of one.
const MAX_NAME: usize = 64;

/// The body of `POST /chat/completions`, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChatRequest {
    /// As the client wrote it.
    pub(crate) model: String,
    pub(crate) messages: Vec<Message>,
    /// URLs of the messages' images.
    pub(crate) images: Vec<String>,
    pub(crate) tools: Tools,
    /// JSON Schema that the answer must meet.
    pub(crate) schema: Option<Value>,
    /// The part of the request that it came with.
    pub(crate) schema_place: &'static str,
    pub(crate) effort: Option<String>,
    pub(crate) stream: Option<StreamOptions>,
    /// It asks about a conversation and is no part of it.
    pub(crate) aside: bool,
    /// Names of what was sent and is not honoured.
    pub(crate) ignored: Vec<String>,
}

/// How a stream is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamOptions {
    /// A last chunk with what was consumed.
    pub(crate) usage: bool,
    /// The provider's records among the chunks.
    pub(crate) natives: bool,
}

impl ChatRequest {
    /// Reads a body; `header_schema` counts when it has no `response_format`, and `asides` says whether it is a question
    /// beside the conversation.
    ///
    /// # Errors
    /// 400 naming the part at fault.
    pub(crate) fn from_object(
        mut body: Map<String, Value>,
        header_schema: Option<Value>,
        asides: ChatAsides,
    ) -> Result<Self, ApiError> {
        // A null means the same as nothing, everywhere.
        body.retain(|_, value| !value.is_null());
        refuse_what_cannot_be_done(&mut body)?;
        let messages = body.remove("messages").ok_or_else(|| ApiError::invalid("messages", "is required"))?;
        let mut reader = MessageReader::default();
        let messages = reader.read(messages)?;
        let named = aside::is_named(body.get("metadata"));
        let aside = aside::holds(asides, named, &messages);
        if named && aside {
            body.remove("metadata");
        }
        let parallel = boolean(&mut body, "parallel_tool_calls")?;
        let tools = Tools::read(body.remove("tools"), body.remove("tool_choice"), parallel)?;
        let (schema, schema_place) = match body.remove("response_format") {
            Some(format) => (response_format(format)?, "response_format"),
            None => (header_schema, "x-aicodebox-json-schema"),
        };
        let stream = stream(&mut body)?;
        let model = text(&mut body, "model")?.ok_or_else(|| ApiError::invalid("model", "is required"))?;
        let effort = text(&mut body, "reasoning_effort")?;
        let ignored = names(body.into_iter().map(|(name, _)| name).collect());
        Ok(Self {
            model,
            messages,
            images: reader.images,
            tools,
            schema,
            schema_place,
            effort,
            stream,
            aside,
            ignored,
        })
    }

    /// Whether making a prompt of it takes no time.
    pub(crate) fn is_short(&self) -> bool {
        self.messages.len() <= SHORT && self.messages.iter().map(Message::len).sum::<usize>() <= SHORT_BYTES
    }
}

/// Those of the names that a header can tell, in order.
pub(super) fn names(mut all: Vec<String>) -> Vec<String> {
    all.retain(|name| is_plain(name));
    all.sort_unstable();
    all.truncate(MAX_IGNORED);
    all
}

/// Whether the name may stand in a header.
fn is_plain(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// What would change the answer's shape, so that leaving it out in silence would break the client.
fn refuse_what_cannot_be_done(body: &mut Map<String, Value>) -> Result<(), ApiError> {
    match body.remove("n") {
        None => {}
        Some(n) if n.as_u64() == Some(1) => {}
        Some(n) if n.is_number() => return Err(ApiError::unsupported("n", "only one choice is given")),
        Some(_) => return Err(ApiError::invalid("n", "must be a number")),
    }
    if boolean(body, "logprobs")?.unwrap_or_default() {
        return Err(ApiError::unsupported("logprobs", "agents do not tell probabilities"));
    }
    if body.get("top_logprobs").is_some_and(|top| *top != 0) {
        return Err(ApiError::unsupported("top_logprobs", "agents do not tell probabilities"));
    }
    let audio = |modalities: &Value| {
        modalities.as_array().is_some_and(|list| list.iter().any(|modality| modality == "audio"))
    };
    if body.remove("modalities").is_some_and(|modalities| audio(&modalities)) {
        return Err(ApiError::unsupported("modalities", "agents do not speak"));
    }
    Ok(())
}

/// The schema that the answer must meet, if the format is more than text.
fn response_format(format: Value) -> Result<Option<Value>, ApiError> {
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(json!({"type": "object"}))),
        Some("json_schema") => match format.pointer("/json_schema/schema") {
            Some(schema @ Value::Object(_)) => Ok(Some(schema.clone())),
            // The name alone is allowed; then it is any JSON.
            None if format.get("json_schema").is_some_and(Value::is_object) => {
                Ok(Some(json!({"type": "object"})))
            }
            Some(_) | None => {
                Err(ApiError::invalid("response_format.json_schema.schema", "must be a JSON Schema object"))
            }
        },
        Some(other) => Err(ApiError::invalid(
            "response_format.type",
            format_args!("'{other}' is none of text, json_object, json_schema"),
        )),
        None => Err(ApiError::invalid("response_format.type", "is required")),
    }
}

fn stream(body: &mut Map<String, Value>) -> Result<Option<StreamOptions>, ApiError> {
    let streamed = boolean(body, "stream")?.unwrap_or_default();
    let natives = boolean(body, "include_aicodebox_events")?.unwrap_or_default();
    let usage = match body.remove("stream_options") {
        None => false,
        Some(Value::Object(mut options)) => boolean(&mut options, "include_usage")
            .map_err(|_| ApiError::invalid("stream_options.include_usage", "must be a boolean"))?
            .unwrap_or_default(),
        Some(_) => return Err(ApiError::invalid("stream_options", "must be an object")),
    };
    if natives && !streamed {
        return Err(ApiError::invalid("include_aicodebox_events", "needs \"stream\": true"));
    }
    Ok(streamed.then_some(StreamOptions { usage, natives }))
}

fn boolean(body: &mut Map<String, Value>, name: &'static str) -> Result<Option<bool>, ApiError> {
    match body.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(value)),
        Some(_) => Err(ApiError::invalid(Cow::Borrowed(name), "must be a boolean")),
    }
}

fn text(body: &mut Map<String, Value>, name: &'static str) -> Result<Option<String>, ApiError> {
    match body.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        Some(_) => Err(ApiError::invalid(name, "must be a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(extra: Value) -> Result<ChatRequest, ApiError> {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        object(body, None)
    }

    fn object(body: Value, header_schema: Option<Value>) -> Result<ChatRequest, ApiError> {
        let Value::Object(body) = body else { panic!("no object") };
        ChatRequest::from_object(body, header_schema, ChatAsides::Known)
    }

    fn param(extra: Value) -> Value {
        let error = read(extra.clone()).expect_err(&extra.to_string());
        serde_json::to_value(error.object()).unwrap()
    }

    #[test]
    fn what_is_not_known_is_accepted_and_named() {
        let request = read(json!({"temperature": 1, "seed": null, "user": "u", "x y": 1, "n": 1})).unwrap();
        assert_eq!(request.ignored, ["temperature", "user"]);
    }

    #[test]
    fn what_cannot_be_done_is_refused_and_not_passed_over() {
        for (extra, name) in [
            (json!({"n": 2}), "n"),
            (json!({"logprobs": true}), "logprobs"),
            (json!({"top_logprobs": 3}), "top_logprobs"),
            (json!({"modalities": ["text", "audio"]}), "modalities"),
        ] {
            let error = param(extra);
            assert_eq!((&error["param"], &error["code"]), (&name.into(), &"unsupported_parameter".into()));
        }
        assert!(read(json!({"logprobs": false, "modalities": ["text"]})).is_ok());
    }

    #[test]
    fn the_wrong_type_is_told_by_name() {
        for (extra, name) in [
            (json!({"stream": "yes"}), "stream"),
            (json!({"include_aicodebox_events": 1, "stream": true}), "include_aicodebox_events"),
            (json!({"include_aicodebox_events": true}), "include_aicodebox_events"),
            (json!({"stream_options": 1}), "stream_options"),
            (json!({"stream_options": {"include_usage": 1}}), "stream_options.include_usage"),
            (json!({"model": 1}), "model"),
            (json!({"model": ""}), "model"),
            (json!({"response_format": {"type": "xml"}}), "response_format.type"),
            (json!({"response_format": "json"}), "response_format.type"),
            (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema.schema"),
            (json!({"messages": null}), "messages"),
        ] {
            assert_eq!(param(extra)["param"], name);
        }
    }

    #[test]
    fn the_bodys_format_wins_over_the_headers() {
        let header = Some(json!({"title": "header"}));
        let read = |format: Value| {
            let body = json!({"model": "m", "messages": [{"role": "user"}], "response_format": format});
            object(body, header.clone()).unwrap().schema
        };
        assert_eq!(read(Value::Null), header);
        assert_eq!(read(json!({"type": "text"})), None);
        assert_eq!(read(json!({"type": "json_object"})), Some(json!({"type": "object"})));
        let schema =
            json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {"title": "body"}}});
        assert_eq!(read(schema), Some(json!({"title": "body"})));
    }
}
