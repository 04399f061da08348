use aicodebox_engine::{
    engine::{Schema, json_values},
    run::AnswerCheck,
};
use serde_json::{Map, Value, json};

use super::{
    error::ApiError,
    tools::{Choice, Tools},
};

/// Tells an answer that calls tools from one that does not, and accepts only what the request allows. What it accepts
/// is `{"tool_calls": [{"name", "arguments"}]}` or `{"content": text}`.
#[derive(Debug)]
pub(crate) struct ToolCheck {
    /// Each tool with the schema of its arguments.
    tools: Vec<(String, Schema)>,
    choice: Choice,
    parallel: bool,
    /// What an answer without calls must be.
    answer: Option<Schema>,
    instruction: String,
}

impl ToolCheck {
    /// The check of a request with these tools. Compiles schemas: not for the reactor.
    ///
    /// # Errors
    /// 400 naming the tool or the response format whose schema is not usable.
    pub(crate) fn new(tools: &Tools, answer_schema: Option<&Value>) -> Result<Self, ApiError> {
        let compile = |place: String, schema: &Value| {
            Schema::compile(schema.clone()).map_err(|wrong| ApiError::invalid(place, wrong))
        };
        let place = |index: usize| format!("tools[{index}].function.parameters");
        let compiled = tools.offered.iter().enumerate().map(|(index, tool)| {
            Ok::<_, ApiError>((tool.name.clone(), compile(place(index), &tool.parameters)?))
        });
        let form = "one JSON object {\"tool_calls\": [{\"name\": …, \"arguments\": {…}}]}";
        let instruction = match &tools.choice {
            Choice::Required => format!("Answer again with nothing but {form} that calls one of the tools."),
            Choice::Named(name) => format!("Answer again with nothing but {form} that calls {name}."),
            Choice::None | Choice::Auto => {
                format!("Answer again. To call a tool, answer with nothing but {form}.")
            }
        };
        Ok(Self {
            tools: compiled.collect::<Result<_, ApiError>>()?,
            choice: tools.choice.clone(),
            parallel: tools.parallel,
            answer: answer_schema.map(|schema| compile("response_format".to_owned(), schema)).transpose()?,
            instruction,
        })
    }

    /// The calls of an answer, each with valid arguments.
    fn calls(&self, calls: &[Value]) -> Result<Vec<Value>, String> {
        if calls.is_empty() {
            return Err("tool_calls is empty".into());
        }
        if !self.parallel && calls.len() > 1 {
            return Err(format!(
                "{} tools were called, but only one call at a time is accepted",
                calls.len()
            ));
        }
        calls
            .iter()
            .enumerate()
            .map(|(index, call)| self.call(call).map_err(|wrong| format!("tool_calls[{index}]: {wrong}")))
            .collect()
    }

    fn call(&self, call: &Value) -> Result<Value, String> {
        // Models write calls in the form of the APIs that they know, too.
        let call = call.get("function").filter(|function| function.is_object()).unwrap_or(call);
        let name = call.get("name").and_then(Value::as_str).ok_or("it has no name")?;
        let Some((_, schema)) = self.tools.iter().find(|(offered, _)| offered == name) else {
            let names: Vec<_> = self.tools.iter().map(|(name, _)| name.as_str()).collect();
            return Err(format!("there is no tool '{name}'; there are: {}", names.join(", ")));
        };
        if let Choice::Named(wanted) = &self.choice
            && wanted != name
        {
            return Err(format!("'{name}' was called, but it must be '{wanted}'"));
        }
        let arguments = match call.get("arguments") {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(Value::String(text)) if text.trim().is_empty() => Value::Object(Map::new()),
            Some(Value::String(text)) => {
                serde_json::from_str(text).map_err(|error| format!("arguments is no JSON: {error}"))?
            }
            Some(value) => value.clone(),
        };
        match schema.complaint(&arguments) {
            None => Ok(json!({"name": name, "arguments": arguments})),
            Some(wrong) => Err(format!("arguments of {name}: {wrong}")),
        }
    }

    /// The calls that a value of an answer holds, if it is meant to hold any: in our form, or a bare call of a tool
    /// that there is.
    fn meant<'a>(&self, value: &'a Value) -> Option<&'a [Value]> {
        if let Some(calls) = value.get("tool_calls").and_then(Value::as_array) {
            return Some(calls);
        }
        let bare = |call: &Value| {
            call.get("arguments").is_some()
                && call.get("name").is_some_and(|name| self.tools.iter().any(|(offered, _)| offered == name))
        };
        match value {
            Value::Array(calls) if !calls.is_empty() && calls.iter().all(bare) => Some(calls),
            Value::Object(_) if bare(value) => Some(std::slice::from_ref(value)),
            _ => None,
        }
    }
}

impl AnswerCheck for ToolCheck {
    fn read(&self, text: &str, _structured: Option<Value>) -> Result<Value, String> {
        let mut complaint = None;
        for value in json_values(text) {
            let Some(calls) = self.meant(&value) else { continue };
            match self.calls(calls) {
                Ok(calls) => return Ok(json!({ "tool_calls": calls })),
                Err(wrong) => complaint = complaint.or(Some(wrong)),
            }
        }
        if let Some(wrong) = complaint {
            return Err(wrong);
        }
        match &self.choice {
            Choice::Required => return Err("it calls no tool, but one must be called".into()),
            Choice::Named(name) => return Err(format!("it does not call '{name}', which must be called")),
            Choice::None | Choice::Auto => {}
        }
        match &self.answer {
            Some(schema) => schema.find(text).map(|value| json!({ "content": value.to_string() })),
            None if text.trim().is_empty() => Err("it is empty".into()),
            None => Ok(json!({ "content": text })),
        }
    }

    fn instruction(&self) -> &str {
        &self.instruction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(choice: Value, parallel: bool, answer: Option<Value>) -> ToolCheck {
        let tools = json!([
            {"type": "function", "function": {"name": "weather", "parameters": {"type": "object",
                "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false}}},
            {"type": "function", "function": {"name": "time"}},
        ]);
        let tools = Tools::read(Some(tools), Some(choice), Some(parallel)).unwrap();
        ToolCheck::new(&tools, answer.as_ref()).unwrap()
    }

    fn auto(text: &str) -> Result<Value, String> {
        check(json!("auto"), true, None).read(text, None)
    }

    #[test]
    fn calls_are_found_in_the_forms_that_models_write() {
        let expected = json!({"tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}]});
        for text in [
            r#"{"tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}]}"#,
            "I look it up.\n```json\n{\"tool_calls\": [{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}]}\n```",
            r#"{"tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Rome\"}"}}]}"#,
            r#"{"name": "weather", "arguments": {"city": "Rome"}}"#,
            r#"[{"name": "weather", "arguments": {"city": "Rome"}}]"#,
        ] {
            assert_eq!(auto(text), Ok(expected.clone()), "{text}");
        }
        let none = json!({"tool_calls": [{"name": "time", "arguments": {}}]});
        assert_eq!(auto(r#"{"tool_calls": [{"name": "time"}]}"#), Ok(none));
    }

    #[test]
    fn an_answer_that_calls_nothing_is_content() {
        for text in ["It is sunny.", r#"{"name": "Ada"}"#, r#"{"name": "weather"}"#, "[]"] {
            assert_eq!(auto(text), Ok(json!({ "content": text })), "{text}");
        }
        assert!(auto(" ").is_err());
    }

    #[test]
    fn what_is_not_allowed_is_said() {
        for (text, complaint) in [
            (r#"{"tool_calls": []}"#, "tool_calls is empty"),
            (
                r#"{"tool_calls": [{"name": "rm"}]}"#,
                "tool_calls[0]: there is no tool 'rm'; there are: weather, time",
            ),
            (
                r#"{"tool_calls": [{"name": "weather", "arguments": {}}]}"#,
                "tool_calls[0]: arguments of weather: the answer: \"city\" is a required property",
            ),
            (r#"{"tool_calls": [{"arguments": {}}]}"#, "tool_calls[0]: it has no name"),
        ] {
            assert_eq!(auto(text).unwrap_err(), complaint, "{text}");
        }
        let one = r#"{"tool_calls": [{"name": "time"}]}"#;
        let two = r#"{"tool_calls": [{"name": "time"}, {"name": "time"}]}"#;
        assert!(check(json!("auto"), false, None).read(two, None).unwrap_err().contains("only one call"));
        assert!(check(json!("auto"), true, None).read(two, None).is_ok());
        assert!(check(json!("required"), true, None).read("Sunny.", None).is_err());
        let named = check(json!({"type": "function", "function": {"name": "weather"}}), true, None);
        assert!(named.read("Sunny.", None).is_err());
        assert!(named.read(one, None).unwrap_err().contains("must be 'weather'"));
    }

    #[test]
    fn a_tool_turn_is_not_checked_against_the_answers_schema_and_the_last_one_is() {
        let check = check(json!("auto"), true, Some(json!({"type": "object", "required": ["n"]})));
        assert!(check.read(r#"{"tool_calls": [{"name": "time"}]}"#, None).is_ok());
        assert_eq!(check.read("so: {\"n\": 1}", None), Ok(json!({"content": "{\"n\":1}"})));
        assert!(check.read("sunny", None).is_err());
    }

    #[test]
    fn a_schema_that_is_none_is_refused_by_its_tool() {
        let tools =
            json!([{"type": "function", "function": {"name": "a", "parameters": {"type": "nonsense"}}}]);
        let tools = Tools::read(Some(tools), None, None).unwrap();
        let error = ToolCheck::new(&tools, None).unwrap_err();
        assert_eq!(serde_json::to_value(error.object()).unwrap()["param"], "tools[0].function.parameters");
    }
}
