use std::borrow::Cow;

use serde_json::{Map, Value};

use super::error::ApiError;

/// One message of a conversation, by whose words it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// `system` or `developer`.
    System(String),
    /// `user`.
    User(Vec<Part>),
    /// `assistant`.
    Assistant {
        /// What it said; may be empty.
        text: String,
        /// The tools that it called.
        calls: Vec<Call>,
    },
    /// `tool`: what a called tool answered.
    Tool {
        /// Id of the call.
        id: String,
        /// Its name, where the message says it.
        name: Option<String>,
        /// The answer.
        parts: Vec<Part>,
    },
}

impl Message {
    /// About how many bytes of text it has.
    pub(crate) fn len(&self) -> usize {
        let text = |parts: &[Part]| -> usize {
            parts.iter().map(|part| if let Part::Text(text) = part { text.len() } else { 0 }).sum()
        };
        match self {
            Self::System(text) => text.len(),
            Self::User(parts) | Self::Tool { parts, .. } => text(parts),
            Self::Assistant { text, calls } => {
                text.len() + calls.iter().map(|call| call.arguments.len()).sum::<usize>()
            }
        }
    }
}

impl Message {
    /// The indices of its images.
    pub(crate) fn images(&self) -> impl Iterator<Item = usize> {
        let parts = match self {
            Self::User(parts) | Self::Tool { parts, .. } => parts.as_slice(),
            Self::System(_) | Self::Assistant { .. } => &[],
        };
        parts.iter().filter_map(|part| if let Part::Image(index) = part { Some(*index) } else { None })
    }
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Text.
    Text(String),
    /// The image with this index among those of the conversation.
    Image(usize),
}

/// A tool that the assistant called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// As the client sent them back.
    pub(crate) arguments: String,
}

/// Reads messages and collects the URLs of their images.
#[derive(Debug, Default)]
pub(crate) struct MessageReader {
    pub(crate) images: Vec<String>,
}

impl MessageReader {
    /// Reads the list under `messages`.
    ///
    /// # Errors
    /// 400 naming the part at fault.
    pub(crate) fn read(&mut self, list: Value) -> Result<Vec<Message>, ApiError> {
        let Value::Array(list) = list else {
            return Err(ApiError::invalid("messages", "must be a list"));
        };
        if list.is_empty() {
            return Err(ApiError::invalid("messages", "must not be empty"));
        }
        list.into_iter()
            .enumerate()
            .map(|(index, message)| self.message(&format!("messages[{index}]"), message))
            .collect()
    }

    fn message(&mut self, place: &str, message: Value) -> Result<Message, ApiError> {
        let Value::Object(mut message) = message else {
            return Err(invalid(place, "must be an object"));
        };
        let content = message.remove("content").unwrap_or_default();
        let content_place = format!("{place}.content");
        let role = text_of(&message, place, "role")?.unwrap_or_default();
        match role.as_ref() {
            "system" | "developer" => Ok(Message::System(self.text(&content_place, content)?)),
            "user" => Ok(Message::User(self.parts(&content_place, content)?)),
            "assistant" => {
                let mut text = self.text(&content_place, content)?;
                if text.is_empty()
                    && let Some(refusal) = text_of(&message, place, "refusal")?
                {
                    text = refusal.into_owned();
                }
                let mut calls = calls(place, &mut message)?;
                if let Some(function) = message.remove("function_call").filter(|call| !call.is_null()) {
                    calls.push(call(&format!("{place}.function_call"), &function, "")?);
                }
                Ok(Message::Assistant { text, calls })
            }
            "tool" | "function" => {
                let name = text_of(&message, place, "name")?.map(Cow::into_owned);
                let id = text_of(&message, place, "tool_call_id")?.unwrap_or_default().into_owned();
                Ok(Message::Tool { id, name, parts: self.parts(&content_place, content)? })
            }
            "" => Err(invalid(&format!("{place}.role"), "is required")),
            other => Err(invalid(
                &format!("{place}.role"),
                &format!("'{other}' is none of system, developer, user, assistant, tool"),
            )),
        }
    }

    /// Content of a message that can hold only text.
    fn text(&mut self, place: &str, content: Value) -> Result<String, ApiError> {
        let before = self.images.len();
        let parts = self.parts(place, content)?;
        if self.images.len() > before {
            return Err(invalid(place, "an image may only be sent by the user or by a tool"));
        }
        let texts: Vec<_> = parts
            .into_iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(text),
                Part::Image(_) => None,
            })
            .collect();
        Ok(texts.join("\n"))
    }

    /// Content as a string, a list of parts, or nothing.
    fn parts(&mut self, place: &str, content: Value) -> Result<Vec<Part>, ApiError> {
        match content {
            Value::Null => Ok(Vec::new()),
            Value::String(text) => Ok(vec![Part::Text(text)]),
            Value::Array(parts) => parts
                .into_iter()
                .enumerate()
                .map(|(index, part)| self.part(&format!("{place}[{index}]"), part))
                .collect(),
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                Err(invalid(place, "must be a string or a list of parts"))
            }
        }
    }

    fn part(&mut self, place: &str, part: Value) -> Result<Part, ApiError> {
        let mut part = match part {
            Value::Object(part) => part,
            Value::String(text) => return Ok(Part::Text(text)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                return Err(invalid(place, "must be an object"));
            }
        };
        let kind = text_of(&part, place, "type")?.unwrap_or_default().into_owned();
        match kind.as_str() {
            "text" | "input_text" | "output_text" => match part.remove("text") {
                Some(Value::String(text)) => Ok(Part::Text(text)),
                _ => Err(invalid(&format!("{place}.text"), "must be a string")),
            },
            "refusal" => Ok(Part::Text(text_of(&part, place, "refusal")?.unwrap_or_default().into_owned())),
            "image_url" | "input_image" => {
                let url = match part.remove("image_url") {
                    Some(Value::String(url)) => Some(url),
                    Some(Value::Object(mut image)) => match image.remove("url") {
                        Some(Value::String(url)) => Some(url),
                        _ => None,
                    },
                    _ => None,
                };
                let url =
                    url.ok_or_else(|| invalid(&format!("{place}.image_url.url"), "must be a string"))?;
                self.images.push(url);
                Ok(Part::Image(self.images.len() - 1))
            }
            other => Err(invalid(
                &format!("{place}.type"),
                &format!("'{other}' is not supported; this agent takes text and image_url"),
            )),
        }
    }
}

fn calls(place: &str, message: &mut Map<String, Value>) -> Result<Vec<Call>, ApiError> {
    let place = format!("{place}.tool_calls");
    let list = match message.remove("tool_calls") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(invalid(&place, "must be a list")),
    };
    let read = |(index, entry): (usize, Value)| {
        let id = entry.get("id").and_then(Value::as_str).unwrap_or_default();
        let function = entry.get("function").unwrap_or(&Value::Null);
        call(&format!("{place}[{index}].function"), function, id)
    };
    list.into_iter().enumerate().map(read).collect()
}

/// What was called, as it stands under `function`, or under the older `function_call`, which has no id.
fn call(place: &str, function: &Value, id: &str) -> Result<Call, ApiError> {
    let function = function.as_object().ok_or_else(|| invalid(place, "must be an object"))?;
    let arguments = match function.get("arguments") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let name = text_of(function, place, "name")?.unwrap_or_default().into_owned();
    Ok(Call { id: id.to_owned(), name, arguments })
}

fn text_of<'a>(
    object: &'a Map<String, Value>,
    place: &str,
    key: &str,
) -> Result<Option<Cow<'a, str>>, ApiError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.into())),
        Some(_) => Err(invalid(&format!("{place}.{key}"), "must be a string")),
    }
}

fn invalid(place: &str, detail: &str) -> ApiError {
    ApiError::invalid(place.to_owned(), detail)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(messages: Value) -> Result<Vec<Message>, ApiError> {
        MessageReader::default().read(messages)
    }

    #[test]
    fn content_may_be_null_missing_or_empty_in_every_role() {
        for role in ["system", "developer", "user", "assistant", "tool"] {
            for message in [
                json!({"role": role}),
                json!({"role": role, "content": null}),
                json!({"role": role, "content": ""}),
                json!({"role": role, "content": []}),
                json!({"role": role, "content": [{"type": "text", "text": ""}]}),
            ] {
                assert!(read(json!([message])).is_ok(), "{message}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (messages, place) in [
            (json!({}), "messages: "),
            (json!([]), "messages: "),
            (json!([1]), "messages[0]: "),
            (json!([{"content": "x"}]), "messages[0].role: "),
            (json!([{"role": "robot"}]), "messages[0].role: "),
            (json!([{"role": "user", "content": 1}]), "messages[0].content: "),
            (json!([{"role": "user", "content": [{"type": "video"}]}]), "messages[0].content[0].type: "),
            (
                json!([{"role": "user", "content": [{"type": "image_url"}]}]),
                "messages[0].content[0].image_url",
            ),
            (json!([{"role": "assistant", "tool_calls": [{}]}]), "messages[0].tool_calls[0].function: "),
        ] {
            let error = read(messages.clone()).unwrap_err();
            let message = serde_json::to_value(error.object()).unwrap()["message"].clone();
            assert!(message.as_str().unwrap().starts_with(place), "{messages}: {message}");
        }
    }

    #[test]
    fn the_older_form_of_a_call_is_one_too() {
        let messages = json!([
            {"role": "assistant", "content": null, "function_call": {"name": "sum", "arguments": "{}"}},
            {"role": "function", "name": "sum", "content": "2"},
        ]);
        let call = Call { id: String::new(), name: "sum".into(), arguments: "{}".into() };
        let expected = Message::Assistant { text: String::new(), calls: vec![call] };
        assert_eq!(read(messages).unwrap().first(), Some(&expected));
    }

    #[test]
    fn images_are_collected_in_order() {
        let mut reader = MessageReader::default();
        let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        let messages = json!([{"role": "user", "content": [image("a"), image("b")]}]);
        assert_eq!(reader.read(messages).unwrap(), [Message::User(vec![Part::Image(0), Part::Image(1)])]);
        assert_eq!(reader.images, ["a", "b"]);
    }
}
