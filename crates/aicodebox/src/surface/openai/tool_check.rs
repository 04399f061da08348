use std::sync::atomic::{AtomicBool, Ordering};

use aicodebox_engine::{
    engine::{Schema, json_pieces},
    run::AnswerCheck,
};
use serde_json::{Map, Value, json};

use super::{
    error::ApiError,
    tools::{Choice, FORM, Tools},
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
    /// Whether this run's agent was asked what it meant by something between a call and words about one.
    asked: AtomicBool,
}

impl ToolCheck {
    /// The check of a request with these tools. Compiles schemas: not for the reactor.
    ///
    /// # Errors
    /// 400 naming the tool whose schema is not usable, or `answer_place`.
    pub(crate) fn new(
        tools: &Tools,
        answer_schema: Option<&Value>,
        answer_place: &'static str,
    ) -> Result<Self, ApiError> {
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
            answer: answer_schema.map(|schema| compile(answer_place.to_owned(), schema)).transpose()?,
            instruction,
            asked: AtomicBool::new(false),
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
        match value.get("tool_calls") {
            Some(Value::Array(calls)) => return Some(calls),
            Some(call @ Value::Object(_)) => return Some(std::slice::from_ref(call)),
            _ => {}
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

/// What tells a call from any other object.
const KEY: &str = "\"tool_calls\"";

/// How many objects with calls are begun.
fn calls_begun(text: &str) -> usize {
    text.match_indices(KEY).filter(|(at, _)| text[..*at].trim_end().ends_with('{')).count()
}

/// Whether a text begins as JSON does, fenced or not.
fn is_nothing_but_json(text: &str) -> bool {
    let text = text.trim_start();
    let inside = match text.strip_prefix("```") {
        Some(fenced) => fenced.split_once('\n').map_or("", |(_language, inside)| inside.trim_start()),
        None => text,
    };
    inside.starts_with(['{', '['])
}

impl AnswerCheck for ToolCheck {
    fn read(&self, text: &str, _structured: Option<Value>) -> Result<Value, String> {
        let (mut calls, mut calling, mut broken, mut ended) = (Vec::new(), false, None, 0);
        for (piece, value) in json_pieces(text) {
            match value {
                Ok(value) => {
                    ended += calls_begun(piece);
                    if let Some(meant) = self.meant(&value) {
                        calling = true;
                        calls.extend_from_slice(meant);
                    }
                }
                // Our own words are no call.
                Err(error) if piece.contains(KEY) && piece != FORM => {
                    broken = broken.or(Some(format!("the call is no JSON: {error}")));
                }
                Err(_) => {}
            }
        }
        if !calling && broken.is_none() && !text.contains(FORM) && calls_begun(text) > ended {
            broken = Some("the call is no JSON: it does not end".to_owned());
        }
        match broken {
            // One that was left out of several would be missed by nobody.
            Some(wrong) if calling || self.choice.is_forced() || is_nothing_but_json(text) => {
                return Err(wrong);
            }
            // An answer may show the form in its own words: the agent is asked once, and then taken at its word.
            Some(wrong) if !self.asked.swap(true, Ordering::Relaxed) => return Err(wrong),
            Some(_) | None => {}
        }
        if calling {
            return Ok(json!({ "tool_calls": self.calls(&calls)? }));
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
        ToolCheck::new(&tools, answer.as_ref(), "response_format").unwrap()
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
    fn several_calls_are_all_found_however_they_are_written() {
        let one = r#"{"tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}]}"#;
        let two = r#"{"tool_calls": [{"name": "time"}]}"#;
        let (first, second) =
            (r#"{"name": "weather", "arguments": {"city": "Rome"}}"#, r#"{"name": "time", "arguments": {}}"#);
        let expected = json!({"tool_calls": [
            {"name": "weather", "arguments": {"city": "Rome"}}, {"name": "time", "arguments": {}},
        ]});
        for text in [
            format!("{one}\n{two}"),
            format!("{first}\n{second}"),
            format!("First:\n```json\n{one}\n```\nand then\n```json\n{second}\n```\n"),
            format!("```json\n{first}\n{second}\n```"),
            format!("{first} and [{second}]"),
        ] {
            assert_eq!(auto(&text), Ok(expected.clone()), "{text}");
        }
        let many = vec![second; 100].join("\n");
        assert_eq!(auto(&many).unwrap()["tool_calls"].as_array().unwrap().len(), 100);
        let wrong = auto(&format!("{one}\n{{\"tool_calls\": [{{\"name\": \"rm\"}}]}}")).unwrap_err();
        assert!(wrong.starts_with("tool_calls[1]: there is no tool 'rm'"), "{wrong}");
        assert!(check(json!("auto"), false, None).read(&format!("{one}\n{two}"), None).is_err());
    }

    #[test]
    fn a_single_object_is_a_call_too() {
        let expected = json!({"tool_calls": [{"name": "time", "arguments": {}}]});
        assert_eq!(auto(r#"{"tool_calls": {"name": "time", "arguments": {}}}"#), Ok(expected));
    }

    #[test]
    fn a_call_that_is_not_quite_json_is_told_what_is_wrong_with_it() {
        for (text, reason) in [
            (
                "{\"tool_calls\": [{\"name\": \"weather\", \"arguments\": {\"city\": \"Ro\nme\"}}]}",
                "control character",
            ),
            (r#"{"tool_calls": [{"name": "time", "arguments": {}},]}"#, "trailing comma"),
            ("```json\n{\"tool_calls\": [{\"name\": \"time\",}]}\n```", "trailing comma"),
            (r#"{"tool_calls": [{"name": "weather", "arguments": {"city": "Ro"#, "it does not end"),
            (r#"{"tool_calls": null} {"tool_calls": [{"name": "time""#, "it does not end"),
        ] {
            for choice in [json!("auto"), json!("required")] {
                let check = check(choice, true, None);
                for _ in 0..2 {
                    let wrong = check.read(text, None).unwrap_err();
                    assert!(
                        wrong.starts_with("the call is no JSON: ") && wrong.contains(reason),
                        "{text}: {wrong}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_answer_that_shows_the_form_is_asked_about_once() {
        let text =
            "To call one, write {\"tool_calls\": [{\"name\": \"time\", \"arguments\": {…}}]} and stop.";
        let auto = check(json!("auto"), true, None);
        assert!(auto.read(text, None).is_err());
        assert_eq!(auto.read(text, None), Ok(json!({ "content": text })));
        let required = check(json!("required"), true, None);
        assert!(required.read(text, None).is_err() && required.read(text, None).is_err());
        // Neither are the word alone and what the agent was told.
        let quoted = format!("I was told to write {FORM} for that.");
        assert_eq!(check(json!("auto"), true, None).read(&quoted, None), Ok(json!({ "content": quoted })));
        let named = "The key \"tool_calls\" holds a list.";
        assert_eq!(check(json!("auto"), true, None).read(named, None), Ok(json!({ "content": named })));
    }

    #[test]
    fn an_answer_that_calls_nothing_is_content() {
        for text in [
            "It is sunny.",
            r#"{"name": "Ada"}"#,
            r#"{"name": "weather"}"#,
            "[]",
            // JSON that has the key, whole and not for us.
            r#"{"openai": {"tool_calls": [{"name": "weather"}]}}"#,
            r#"{"tool_calls": null, "content": "hey"}"#,
            "```json\n{\"a\": {\"tool_calls\": null}}\n```",
            r#"Both {"tool_calls": null} and {"a": {"tool_calls": []}} are whole."#,
        ] {
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
        let error = ToolCheck::new(&tools, None, "response_format").unwrap_err();
        assert_eq!(serde_json::to_value(error.object()).unwrap()["param"], "tools[0].function.parameters");
    }
}
