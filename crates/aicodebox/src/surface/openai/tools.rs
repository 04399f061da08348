use std::fmt::Write;

use serde_json::{Value, json};

use super::error::ApiError;

/// More tools than this are refused, as OpenAI does.
const MAX_TOOLS: usize = 128;

/// What a call looks like, as the agent is told.
pub(crate) const FORM: &str =
    r#"{"tool_calls": [{"name": "<name of the tool>", "arguments": {<its parameters>}}]}"#;

/// The tools that a client offers to run, in its order, and how they may be used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tools {
    pub(crate) offered: Vec<Tool>,
    pub(crate) choice: Choice,
    /// Whether one answer may call several.
    pub(crate) parallel: bool,
}

/// A tool that the client runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// JSON Schema of its arguments.
    pub(crate) parameters: Value,
}

/// Whether a tool is to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// No.
    None,
    /// As the model likes.
    Auto,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

impl Choice {
    /// Whether an answer without a call is not accepted.
    pub(crate) fn is_forced(&self) -> bool {
        match self {
            Self::Required | Self::Named(_) => true,
            Self::None | Self::Auto => false,
        }
    }
}

impl Tools {
    /// Reads `tools`, `tool_choice` and `parallel_tool_calls`.
    ///
    /// # Errors
    /// 400 naming the part at fault.
    pub(crate) fn read(
        tools: Option<Value>,
        choice: Option<Value>,
        parallel: Option<bool>,
    ) -> Result<Self, ApiError> {
        let mut offered: Vec<Tool> = Vec::new();
        let list = match tools {
            None => Vec::new(),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(ApiError::invalid("tools", "must be a list")),
        };
        if list.len() > MAX_TOOLS {
            return Err(ApiError::invalid("tools", format_args!("at most {MAX_TOOLS} are accepted")));
        }
        for (index, tool) in list.into_iter().enumerate() {
            let tool = read_tool(&format!("tools[{index}]"), tool)?;
            if offered.iter().any(|other| other.name == tool.name) {
                let place = format!("tools[{index}].function.name");
                return Err(ApiError::invalid(place, format_args!("'{}' is there twice", tool.name)));
            }
            offered.push(tool);
        }
        let mut tools = Self { offered, choice: Choice::Auto, parallel: parallel.unwrap_or(true) };
        tools.choose(choice)?;
        Ok(tools)
    }

    /// Whether the answer may call a tool.
    pub(crate) fn callable(&self) -> bool {
        !self.offered.is_empty() && self.choice != Choice::None
    }

    /// What the agent is told of them, after the client's own system text. The form of the list is fixed: agents
    /// that were made to be run behind a gateway look for it.
    pub(crate) fn directive(&self, answer_schema: Option<&Value>) -> String {
        let mut text = format!(
            "You can call the tools listed below; the user's program runs them. To call, answer with nothing but one \
             JSON object of this form, and stop:\n{FORM}\n\
             What they return comes with the next message, under [TOOL RESULT name (id)]."
        );
        if !self.parallel {
            text.push_str(" Call one tool at a time.");
        }
        match &self.choice {
            Choice::None | Choice::Auto => text.push_str(" When no tool is needed, answer as usual."),
            Choice::Required => text.push_str(" You must call a tool now; no other answer is accepted."),
            // Writing to a string cannot fail.
            Choice::Named(name) => {
                _ = write!(text, " You must call the tool {name} now; no other answer is accepted.");
            }
        }
        if let Some(schema) = answer_schema {
            _ = write!(
                text,
                "\nAn answer that calls no tool must be nothing but one JSON value that is valid against this schema: \
                 {schema}"
            );
        }
        text.push_str("\nThe tools:\n");
        for Tool { name, description, parameters } in &self.offered {
            _ = write!(text, "\n- name: {name}");
            if let Some(description) = description {
                let words: Vec<_> = description.split_whitespace().collect();
                _ = write!(text, "\n  description: {}", words.join(" "));
            }
            _ = write!(text, "\n  parameters (JSON Schema): {parameters}");
        }
        text
    }

    fn choose(&mut self, choice: Option<Value>) -> Result<(), ApiError> {
        let invalid = |detail: &str| Err(ApiError::invalid("tool_choice", detail));
        let choice = match choice {
            None => return Ok(()),
            Some(Value::String(word)) => match word.as_str() {
                "none" => Choice::None,
                "auto" => Choice::Auto,
                "required" | "any" => Choice::Required,
                _ => return invalid("must be none, auto, required, or an object that names a tool"),
            },
            Some(Value::Object(object)) => match object.get("type").and_then(Value::as_str) {
                Some("function") => {
                    let name = object.get("function").unwrap_or(&Value::Null).get("name");
                    match name.or_else(|| object.get("name")).and_then(Value::as_str) {
                        Some(name) => Choice::Named(name.to_owned()),
                        None => return invalid("must name a function"),
                    }
                }
                Some("allowed_tools") => {
                    // `/responses` has the list and the mode beside the type.
                    let allowed = object.get("allowed_tools").and_then(Value::as_object).unwrap_or(&object);
                    let listed = allowed.get("tools").and_then(Value::as_array);
                    let Some(listed) = listed else { return invalid("allowed_tools must list tools") };
                    let mode = allowed.get("mode").and_then(Value::as_str);
                    return self.allow(listed, mode == Some("required"));
                }
                Some(_) | None => return invalid("its type must be function or allowed_tools"),
            },
            Some(_) => return invalid("must be a string or an object"),
        };
        match &choice {
            Choice::Required if self.offered.is_empty() => return invalid("there are no tools to call"),
            Choice::Named(name) if !self.offered.iter().any(|tool| tool.name == *name) => {
                return invalid(&format!("there is no tool '{name}'"));
            }
            Choice::None | Choice::Auto | Choice::Required | Choice::Named(_) => {}
        }
        self.choice = choice;
        Ok(())
    }

    /// Leaves only these tools to be called. None of them is as good as no call: the tools stay offered, since a chat
    /// without any would be given to the agent and its own.
    fn allow(&mut self, listed: &[Value], required: bool) -> Result<(), ApiError> {
        let invalid = |detail: &str| Err(ApiError::invalid("tool_choice", detail));
        let mut names = Vec::new();
        for tool in listed {
            let name = tool.pointer("/function/name").or_else(|| tool.get("name")).and_then(Value::as_str);
            let Some(name) = name else { return invalid("allowed_tools must name each of its tools") };
            if !self.offered.iter().any(|tool| tool.name == name) {
                return invalid(&format!("there is no tool '{name}'"));
            }
            names.push(name);
        }
        self.choice = match (names.is_empty(), required) {
            (true, true) => return invalid("there are no tools to call"),
            (true, false) => Choice::None,
            (false, true) => Choice::Required,
            (false, false) => Choice::Auto,
        };
        if !names.is_empty() {
            self.offered.retain(|tool| names.contains(&tool.name.as_str()));
        }
        Ok(())
    }
}

fn read_tool(place: &str, tool: Value) -> Result<Tool, ApiError> {
    let invalid = |part: &str, detail: &str| ApiError::invalid(format!("{place}{part}"), detail);
    match tool.get("type").and_then(Value::as_str) {
        Some("function") => {}
        Some(other) => {
            return Err(invalid(".type", &format!("'{other}' is not supported; only function is")));
        }
        None => return Err(invalid(".type", "must be function")),
    }
    let Some(Value::Object(function)) = tool.get("function") else {
        return Err(invalid(".function", "must be an object"));
    };
    let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
    let good = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
    if name.is_empty() || name.len() > 128 || !name.chars().all(good) {
        return Err(invalid(".function.name", "must be 1 to 128 of the characters a-z A-Z 0-9 _ - . : /"));
    }
    let description = match function.get("description") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Some(_) => return Err(invalid(".function.description", "must be a string")),
    };
    let parameters = match function.get("parameters") {
        None | Some(Value::Null) => json!({"type": "object", "properties": {}}),
        Some(schema @ Value::Object(_)) => schema.clone(),
        Some(_) => return Err(invalid(".function.parameters", "must be a JSON Schema object")),
    };
    Ok(Tool { name: name.to_owned(), description, parameters })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Value {
        json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
    }

    fn choose(choice: Value) -> Result<Tools, ApiError> {
        Tools::read(Some(json!([tool("a"), tool("b")])), Some(choice), None)
    }

    #[test]
    fn all_choices_are_read() {
        assert_eq!(choose(json!("none")).unwrap().choice, Choice::None);
        assert_eq!(choose(json!("auto")).unwrap().choice, Choice::Auto);
        assert_eq!(choose(json!("required")).unwrap().choice, Choice::Required);
        let named = choose(json!({"type": "function", "function": {"name": "b"}})).unwrap();
        assert_eq!(named.choice, Choice::Named("b".into()));
        let allowed = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required",
            "tools": [{"type": "function", "function": {"name": "b"}}]}});
        let allowed = choose(allowed).unwrap();
        assert_eq!((allowed.choice, allowed.offered.len()), (Choice::Required, 1));
        let allow = |tools: Value| json!({"type": "allowed_tools", "mode": "auto", "tools": tools});
        let one = choose(allow(json!([{"type": "function", "name": "a"}]))).unwrap();
        assert_eq!((one.choice, one.offered.len()), (Choice::Auto, 1));
        // Not a chat without tools, which would be one with the agent's own.
        let none = choose(allow(json!([]))).unwrap();
        assert_eq!((none.choice, none.offered.len()), (Choice::None, 2));
        for wrong in [
            allow(json!([{"type": "function", "name": "c"}])),
            allow(json!([{}])),
            json!("x"),
            json!(1),
            json!({"type": "function", "function": {"name": "c"}}),
            json!({}),
        ] {
            assert!(choose(wrong.clone()).is_err(), "{wrong}");
        }
        assert!(Tools::read(None, Some(json!("required")), None).is_err());
    }

    #[test]
    fn the_directive_has_a_line_for_each_part_and_keeps_the_order() {
        let tools = json!([
            {"type": "function", "function": {"name": "z", "description": "two\nlines", "parameters": {"b": 1, "a": 2}}},
            {"type": "function", "function": {"name": "a"}},
        ]);
        let directive = Tools::read(Some(tools), None, Some(false)).unwrap().directive(None);
        assert!(directive.ends_with(
            "\nThe tools:\n\n- name: z\n  description: two lines\n  parameters (JSON Schema): {\"b\":1,\"a\":2}\
             \n- name: a\n  parameters (JSON Schema): {\"type\":\"object\",\"properties\":{}}"
        ), "{directive}");
        assert!(directive.contains("one tool at a time"));
    }

    #[test]
    fn a_tool_that_is_none_is_refused_by_its_place() {
        for (tools, place) in [
            (json!({}), "tools"),
            (json!([{"type": "web_search"}]), "tools[0].type"),
            (json!([tool("a b")]), "tools[0].function.name"),
            (json!([tool("a"), tool("a")]), "tools[1].function.name"),
            (
                json!([{"type": "function", "function": {"name": "a", "parameters": []}}]),
                "tools[0].function.parameters",
            ),
        ] {
            let error = Tools::read(Some(tools.clone()), None, None).unwrap_err();
            assert_eq!(serde_json::to_value(error.object()).unwrap()["param"], place, "{tools}");
        }
    }
}
