//! Tools that the client runs.

use serde_json::{Value, json};

use super::support::{CHANNELS, Events, chat, chunks, content, error, finishes, with};
use crate::harness::Server;

fn tools() -> Value {
    json!([
        {"type": "function", "function": {"name": "weather", "description": "Of a city", "parameters":
            {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}},
        {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}},
    ])
}

const BOTH: &str = r#"echo '{"tool_calls":[{"name":"weather","arguments":{"city":"Rome"}},{"name":"clock","arguments":{}}]}'"#;

#[test]
fn calls_are_the_same_whole_and_streamed() {
    let server = Server::new().adapter(CHANNELS).start();
    let body = with(BOTH, json!({"tools": tools()}));
    let answer = chat(&server, body.clone()).status(200);
    let answer = answer.field("/choices/0/finish_reason", "tool_calls");
    let message = answer.json()["choices"][0]["message"].clone();
    assert_eq!(message["content"], Value::Null);
    let calls = message["tool_calls"].as_array().unwrap().clone();
    assert_eq!(calls[0]["function"], json!({"name": "weather", "arguments": "{\"city\":\"Rome\"}"}));
    assert_ne!(calls[0]["id"], calls[1]["id"]);

    // O1: index, id, type and name come first; O2: the reason is that of the whole answer.
    let events = Events::open(&server, &[], body).rest();
    assert_eq!(finishes(&events), ["tool_calls"]);
    let deltas: Vec<_> = chunks(&events)
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array())
        .flatten()
        .cloned()
        .collect();
    for (index, call) in calls.iter().enumerate() {
        let mine: Vec<_> = deltas.iter().filter(|delta| delta["index"] == index).collect();
        assert_eq!(mine[0]["type"], "function");
        assert!(mine[0]["id"].as_str().is_some_and(|id| id.starts_with("call_")));
        assert_eq!(mine[0]["function"]["name"], call["function"]["name"]);
        assert!(mine[1..].iter().all(|delta| delta.get("id").is_none()));
        let arguments: String =
            mine.iter().map(|delta| delta["function"]["arguments"].as_str().unwrap()).collect();
        assert_eq!(arguments, call["function"]["arguments"].as_str().unwrap());
    }
}

#[test]
fn the_agent_is_told_of_them_and_has_none_of_its_own() {
    let server = Server::new().adapter(CHANNELS).start();
    let script = "echo \"$2\"; cat \"$SYSTEM\"";
    let text = content(chat(&server, with(script, json!({"tools": tools()}))));
    assert!(text.starts_with("--no-tools\n"), "{text}");
    assert!(
        text.contains("\n- name: weather\n  description: Of a city\n  parameters (JSON Schema): {\""),
        "{text}"
    );
    let kept = super::support::chat_with(
        &server,
        &[("x-aicodebox-no-tools", "0")],
        with("echo \"own:$2\"", json!({"tools": tools()})),
    );
    assert_eq!(content(kept), "own:");
    let none = with(script, json!({"tools": tools(), "tool_choice": "none"}));
    assert!(!content(chat(&server, none)).contains("- name:"));
}

#[test]
fn calls_that_are_not_allowed_are_repaired_or_refused() {
    let server = Server::new().adapter(CHANNELS).start();
    let repaired = |first: &str, choice: Value| {
        let good = r#"{"tool_calls":[{"name":"weather","arguments":{"city":"Rome"}}]}"#;
        let script =
            format!("if [ -e tried ]; then echo '{good}'; else touch tried; echo '{first}'; fi; exit");
        let body = with(&script, json!({"tools": tools(), "tool_choice": choice}));
        let answer = chat(&server, body).status(200).field("/choices/0/finish_reason", "tool_calls");
        assert_eq!(answer.json()["aicodebox_attempts"].as_array().unwrap().len(), 2, "{first}");
    };
    repaired(r#"{"tool_calls":[{"name":"rm","arguments":{}}]}"#, json!("auto"));
    repaired(r#"{"tool_calls":[{"name":"weather","arguments":{"city":1}}]}"#, json!("auto"));
    repaired("It is sunny.", json!("required"));
    let named = json!({"type": "function", "function": {"name": "weather"}});
    repaired(r#"{"tool_calls":[{"name":"clock","arguments":{}}]}"#, named);

    let body = with("echo sunny; exit", json!({"tools": tools(), "tool_choice": "required"}));
    assert_eq!(error(chat(&server, body), 422)["code"], "answer_not_accepted");
    let unknown = json!({"tools": tools(), "tool_choice": {"type": "function", "function": {"name": "x"}}});
    assert_eq!(error(chat(&server, with("x", unknown)), 400)["param"], "tool_choice");
}

#[test]
fn the_last_answer_meets_the_format_and_a_call_need_not() {
    let server = Server::new().adapter(CHANNELS).start();
    let more = json!({"tools": tools(), "response_format": {"type": "json_schema", "json_schema":
        {"name": "x", "schema": {"type": "object", "required": ["n"]}}}});
    chat(&server, with(BOTH, more.clone())).status(200).field("/choices/0/finish_reason", "tool_calls");
    assert_eq!(content(chat(&server, with("echo 'so: {\"n\": 1}'", more.clone()))), r#"{"n":1}"#);
    error(chat(&server, with("echo sunny; exit", more)), 422);
}

#[test]
fn a_result_is_answered() {
    let server = Server::new().adapter(CHANNELS).start();
    let call = json!({"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}});
    let body = json!({"model": "small", "tools": tools(), "messages": [
        {"role": "user", "content": "cat > /dev/null; echo sunny; exit"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "20 degrees"},
    ]});
    let answer = chat(&server, body).status(200).field("/choices/0/finish_reason", "stop");
    assert_eq!(content(answer), "sunny");
}
