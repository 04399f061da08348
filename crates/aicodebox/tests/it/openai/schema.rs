//! Answers that must meet a schema.

use serde_json::{Value, json};

use super::support::{
    CHANNELS, Events, chat, chat_with, chunks, content, error, finishes, says, streamed, with,
};
use crate::harness::Server;

fn format() -> Value {
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema":
        {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}}})
}

#[test]
fn the_answer_is_canonical_json_and_the_agent_knows_the_schema() {
    let server = Server::new().adapter(CHANNELS).start();
    let script = r#"cat "$SCHEMA" > /dev/null || exit 9; printf 'Here:\n```json\n{ "n": 1 }\n```\n'"#;
    let answer = chat(&server, with(script, format())).status(200);
    let answer = answer.field("/aicodebox_attempts/0/exitCode", 0).field("/choices/0/finish_reason", "stop");
    assert_eq!(content(answer), r#"{"n":1}"#);
    let object = json!({"response_format": {"type": "json_object"}});
    assert_eq!(content(chat(&server, with("echo '{\"a\": [1, 2]}'", object))), r#"{"a":[1,2]}"#);
    let header = [("x-aicodebox-json-schema", r#"{"type":"array"}"#)];
    assert_eq!(content(chat_with(&server, &header, says("echo '[ 1 ]'"))), "[1]");
}

#[test]
fn a_bad_answer_is_asked_for_again_and_at_last_refused() {
    let server = Server::new().adapter(CHANNELS).start();
    let script = r#"if [ -e tried ]; then echo '{"n":2}'; else touch tried; echo '{"n":"x"}'; fi; exit"#;
    let answer = chat(&server, with(script, format())).status(200);
    assert_eq!(answer.json()["aicodebox_attempts"].as_array().unwrap().len(), 2);
    assert_eq!(content(answer), r#"{"n":2}"#);
    // A chat with a schema has a place of its own.
    assert!(!server.workspace().join("tried").exists());
    let error = error(chat(&server, with("echo no; exit", format())), 422);
    assert_eq!(error["code"], "answer_not_accepted");
}

#[test]
fn it_streams_as_one_valid_piece() {
    let server = Server::new().adapter(CHANNELS).start();
    let events = Events::open(&server, &[], with("echo '{\"n\": 1}'", format())).rest();
    assert_eq!(streamed(&events), r#"{"n":1}"#);
    assert_eq!(finishes(&events), ["stop"]);
    assert_eq!(chunks(&events)[0]["choices"][0]["delta"]["role"], "assistant");
    // A failure before anything was sent is a status.
    assert_eq!(Events::open(&server, &[], with("echo no; exit", format())).status, 422);
}

#[test]
fn what_is_no_schema_is_refused_before_anything_runs() {
    let server = Server::new().adapter(CHANNELS).start();
    let mut body = with("touch ../ran", format());
    body["response_format"]["json_schema"]["schema"] = json!({"$ref": "http://127.0.0.1:1/x.json"});
    let refused = error(chat(&server, body.clone()), 400);
    assert_eq!(refused["param"], "response_format");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message
            .contains("http://127.0.0.1:1/x.json: a reference that leads out of the schema is not followed"),
        "{message}"
    );
    // Whoever sent it by a header is told of the header, also when there are tools.
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    for more in [json!({}), json!({ "tools": tools })] {
        let header = [("x-aicodebox-json-schema", r#"{"type":"nonsense"}"#)];
        let refused = error(chat_with(&server, &header, with("touch ../ran", more)), 400);
        assert_eq!(refused["param"], "x-aicodebox-json-schema");
        assert!(refused["message"].as_str().unwrap().starts_with("x-aicodebox-json-schema: "), "{refused}");
    }
    assert!(!server.workspace().join("../ran").exists());
}
