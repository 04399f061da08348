//! Whatever goes wrong has OpenAI's shape (M12, O12).

use serde_json::json;

use super::support::{PATH, chat, chat_with, error, says, with};
use crate::harness::{EVENTS, Server};

#[test]
fn a_crash_names_exit_code_and_stderr() {
    // M1: the original answered 200 with empty content.
    let server = Server::new().start();
    let answer = chat(&server, says("echo oops >&2; exit 3"));
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    let error = error(answer, 500);
    assert_eq!(error["type"], "server_error");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("exit code 3") && message.contains("oops"), "{message}");
}

#[test]
fn an_agent_that_cannot_be_started_is_told_by_a_status() {
    // M27: the original cut the connection of a stream.
    let adapter = r#"
schema = 1
name = "missing"
binary = "/nonexistent/agent"
[models]
list = ["small"]
[run]
argv = ["{model}"]
stdin = "{prompt}"
[output]
format = "text"
"#;
    let server = Server::new().adapter(adapter).start();
    for stream in [false, true] {
        let error = error(chat(&server, with("x", json!({"stream": stream}))), 500);
        assert_eq!(error["code"], "agent_not_started");
    }
}

#[test]
fn the_wrong_token_and_none_and_any_case_of_the_scheme() {
    let server = Server::new().token("secret").start();
    for path in ["/v1/models", "/openai/v1/models", "/v1/nothing", "/v1", "/v1/"] {
        for (header, code) in [("Bearer wrong", "invalid_api_key"), ("", "missing_api_key")] {
            let answer = server.send("GET", path, &[("Authorization", header)], None);
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            assert_eq!(error(answer, 401)["code"], code);
        }
    }
    // M14.
    server.send("GET", "/v1/models", &[("Authorization", "bearer secret")], None).status(200);
    server.send("POST", PATH, &[], Some(says("echo hi").to_string())).status(200);
}

#[test]
fn what_is_no_request_is_refused() {
    let server = Server::new().env("AICODEBOX_API_MODE_MAX_BODY", "4KiB").start();
    let post = |body: &str| server.send("POST", PATH, &[], Some(body.to_owned()));
    assert_eq!(error(post("{"), 400)["code"], "invalid_json");
    assert_eq!(error(post("[]"), 400)["param"], "body");
    assert_eq!(error(post(r#"{"model":"small"}"#), 400)["param"], "messages");
    assert_eq!(error(post(r#"{"messages":[{"role":"user","content":"x"}]}"#), 400)["param"], "model");
    assert_eq!(error(post(r#"{"messages":[]}"#), 400)["param"], "messages");
    error(post(&says(&"x".repeat(5000)).to_string()), 413);
    error(server.send("POST", PATH, &[("Content-Type", "text/plain")], Some("{}".into())), 415);
    let wrong = server.get(PATH);
    assert_eq!(wrong.header("allow"), Some("POST"));
    error(wrong, 405);
    for nowhere in ["/v1/nothing/here", "/v1/nothing", "/v1", "/v1/", "/openai/v1/"] {
        assert_eq!(error(server.get(nowhere), 404)["code"], "unknown_url");
    }
    error(server.get("/openai/v1/models/nope"), 404);
    // M25.
    let choices = error(chat(&server, with("x", json!({"n": 2}))), 400);
    assert_eq!((&choices["param"], &choices["code"]), (&json!("n"), &json!("unsupported_parameter")));
    let events = error(chat(&server, with("x", json!({"include_aicodebox_events": true}))), 400);
    assert_eq!(events["param"], "include_aicodebox_events");
    let header = error(chat_with(&server, &[("x-aicodebox-no-tools", "maybe")], says("x")), 400);
    assert_eq!(header["param"], "x-aicodebox-no-tools");
}

#[test]
fn provider_errors_go_by_their_kind() {
    let server = Server::new().adapter(&format!("{EVENTS}append_system_prompt = \"drop\"\n")).start();
    for (message, status, code) in [
        ("quota exceeded", 429, "quota"),
        ("invalid api key", 502, "auth"),
        ("prompt is too long", 400, "context_length_exceeded"),
        ("connection refused", 502, "network"),
    ] {
        let script = format!("echo '{{\"error\":\"{message}\"}}'; echo '{{\"done\":\"error\"}}'");
        for stream in [false, true] {
            let answer = chat(&server, with(&script, json!({"stream": stream})));
            if status == 429 {
                assert!(answer.header("retry-after").is_some());
            }
            assert_eq!(error(answer, status)["code"], code, "{message}");
        }
    }
}

#[test]
fn somebody_elses_cancel_is_a_conflict() {
    let server = Server::new().start();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| chat(&server, says("echo $$ > agent; sleep 300")));
        server.wait_for_file("agent");
        let id = server.get("/status").text("/runs/0/runId");
        server.delete(&format!("/run/{id}")).status(200);
        let answer = waiting.join().unwrap();
        // Or else the clients of OpenAI start it once more.
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        assert_eq!(error(answer, 409)["code"], "run_cancelled");
    });
}

/// An adapter whose prompt is an argument, and so has more rules.
const ARGUMENT: &str = r#"
schema = 1
name   = "argument"
binary = "/bin/sh"
[models]
list = ["small"]
[run]
argv = ["-c", "--", "{prompt}", "argument", { when = "model", args = ["{model}"] }]
[output]
format = "text"
[fallback]
append_system_prompt = "drop"
"#;

#[test]
fn a_part_at_fault_is_named_once_and_as_the_client_wrote_it() {
    let server = Server::new().adapter(ARGUMENT).start();
    for (headers, body, part) in [
        (None, with("true", json!({"model": "-x"})), "model"),
        (None, says("a\0b"), "messages"),
        (Some(("x-aicodebox-resume", "-x")), says("true"), "x-aicodebox-resume"),
        (Some(("x-aicodebox-workspace", "../x")), says("true"), "x-aicodebox-workspace"),
        (
            Some(("x-aicodebox-json-schema", r#"{"type": "nonsense"}"#)),
            says("true"),
            "x-aicodebox-json-schema",
        ),
    ] {
        let error = error(chat_with(&server, headers.as_slice(), body), 400);
        assert_eq!(error["param"], part);
        let message = error["message"].as_str().unwrap();
        let detail = message.strip_prefix(&format!("{part}: ")).unwrap_or_else(|| panic!("{message}"));
        for field in ["model: ", "prompt: ", "resume: ", "workspace: ", "json_schema: "] {
            assert!(!detail.starts_with(field), "{message}");
        }
    }
}

#[test]
fn the_newer_api_takes_nothing_in_silence_either() {
    let server = Server::new().adapter(ARGUMENT).start();
    let ask = |headers: &[(&str, &str)], more: serde_json::Value| {
        let mut body = json!({"model": "small", "input": "echo hi"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.send("POST", "/v1/responses", headers, Some(body.to_string()))
    };
    let schema = [("x-aicodebox-json-schema", r#"{"type": "nonsense"}"#)];
    assert_eq!(error(ask(&schema, json!({})), 400)["param"], "x-aicodebox-json-schema");
    assert_eq!(error(ask(&[], json!({"tool_choice": "required"})), 400)["param"], "tool_choice");
    let format = json!({"type": "json_schema", "name": "x", "schema": {"type": "nonsense"}});
    assert_eq!(error(ask(&[], json!({"text": {"format": format}})), 400)["param"], "text.format");
    assert_eq!(error(ask(&[], json!({"input": "a\0b"})), 400)["param"], "input");
    let tool = json!({"type": "function", "name": "w", "parameters": {"type": "nonsense"}});
    assert_eq!(error(ask(&[], json!({"tools": [tool]})), 400)["param"], "tools[0].parameters");
    let answer = ask(&[], json!({"text": {"verbosity": "low"}, "messages": []})).status(200);
    assert_eq!(answer.header("x-aicodebox-ignored"), Some("messages, text.verbosity"));
    assert_eq!(answer.json()["usage"]["estimated"], true);
}
