//! `POST /run` and `GET /run/result`: the shapes of their answers.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{EVENTS, Server, eventually};

const LEAN: [&str; 4] = ["runId", "workspace", "exitCode", "text"];

#[test]
fn a_run_is_answered_lean() {
    let server = Server::new().start();
    let answer = server
        .run(json!({"prompt": "echo hi; pwd"}))
        .status(200)
        .names(&LEAN)
        .field("/exitCode", 0)
        .field("/workspace", server.workspace().to_str().unwrap())
        .field("/text", format!("hi\n{}", server.workspace().display()));
    let id = answer.text("/runId");
    assert!(id.len() == 32 && id.bytes().all(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase()), "{id}");
    server
        .run(json!({"prompt": "echo hi", "workspace": "a/b"}))
        .status(200)
        .field("/workspace", server.workspace().join("a/b").to_str().unwrap());
}

#[test]
fn a_failing_agent_is_an_answer_with_its_code_and_its_own_words() {
    let server = Server::new().start();
    server
        .run(json!({"prompt": "echo half; echo broken >&2; exit 3"}))
        .status(200)
        .names(&[LEAN.as_slice(), &["stderr"]].concat())
        .field("/exitCode", 3)
        .field("/text", "half")
        .field("/stderr", "broken\n");
    server.run(json!({"prompt": "kill -9 $$"})).status(200).field("/exitCode", 137);
}

#[test]
fn both_spellings_of_a_field_are_read_and_unknown_fields_are_not_minded() {
    let server = Server::new().start();
    for name in ["include_raw", "includeRaw"] {
        let body = json!({"prompt": "echo out; echo err >&2", (name): true, "somethingElse": {"a": [1]}});
        server
            .run(body)
            .status(200)
            .names(&[LEAN.as_slice(), &["stdout", "stderr"]].concat())
            .field("/stdout", "out\n")
            .field("/stderr", "err\n");
    }
}

#[test]
fn raw_output_is_bounded_and_says_so() {
    let server = Server::new().start();
    let answer = server
        .run(json!({"prompt": "head -c 3000000 /dev/zero | tr '\\0' x", "includeRaw": true}))
        .status(200)
        .field("/stdoutTruncated", true);
    let stdout = answer.text("/stdout");
    assert!(stdout.len() > 2 << 20 && stdout.len() < (2 << 20) + 100, "{}", stdout.len());
    assert!(answer.json().get("stderrTruncated").is_none());
}

#[test]
fn a_limit_ends_the_run_with_124() {
    let server = Server::new().start();
    for limit in ["timeoutSeconds", "idle_timeout_seconds"] {
        let answer = server
            .run(json!({"prompt": "echo begun; sleep 60", (limit): 0.3}))
            .status(200)
            .field("/exitCode", 124)
            .field("/text", "begun");
        assert!(!answer.text("/stderr").is_empty());
    }
}

#[test]
fn the_agents_words_and_settings_reach_it() {
    let server = Server::new().start();
    let script = r#"for word in "$@"; do echo "$word"; done"#;
    server
        .run(json!({"prompt": script, "model": "large", "extraArgs": ["--flag", "a b"]}))
        .status(200)
        .field("/text", "large\n--flag\na b");
    let closed = Server::new().env("AICODEBOX_ALLOW_EXTRA_ARGS", "0").start();
    let detail = closed.run(json!({"prompt": script, "extraArgs": ["--flag"]})).problem(422);
    assert!(detail.starts_with("extraArgs: "), "{detail}");
    closed.run(json!({"prompt": script, "extraArgs": []})).status(200);
}

#[test]
fn images_are_files_in_the_workspace() {
    let server = Server::new().start();
    fs::write(server.workspace().join("a.png"), "x").unwrap();
    fs::write(server.home().path("outside.png"), "x").unwrap();
    std::os::unix::fs::symlink(server.home().path("outside.png"), server.workspace().join("link.png"))
        .unwrap();
    let image = server.workspace().join("a.png");
    server
        .run(json!({"prompt": "echo \"$1\"", "images": ["a.png"]}))
        .status(200)
        .field("/text", format!("{}", image.display()));
    for outside in ["../outside.png", "link.png", "/etc/passwd", "missing.png", "."] {
        let detail = server.run(json!({"prompt": "true", "images": ["a.png", outside]})).problem(400);
        assert!(detail.starts_with("images[1]: "), "{outside}: {detail}");
    }
}

#[test]
fn an_ephemeral_workspace_goes_with_its_run() {
    let server = Server::new().start();
    let answer = server.run(json!({"prompt": "echo x > made; pwd", "ephemeral": true})).status(200);
    let workspace = answer.text("/workspace");
    assert_eq!(answer.text("/text"), workspace);
    assert!(!std::path::Path::new(&workspace).starts_with(server.workspace()));
    eventually("the directory is removed", || (!std::path::Path::new(&workspace).exists()).then_some(()));
}

#[test]
fn a_run_in_the_background_is_answered_at_once_and_read_any_number_of_times() {
    let server = Server::new().start();
    for (name, forget) in [("async", false), ("fireAndForget", true)] {
        let script = "echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done; echo done";
        let started = server
            .run(json!({"prompt": script, "workspace": name, (name): true}))
            .status(200)
            .names(&["runId", "workspace", "status", "fireAndForget"])
            .field("/status", "running")
            .field("/fireAndForget", forget);
        let result = format!("/run/result?runId={}", started.text("/runId"));
        server.get(&result).status(200).names(&["runId", "workspace", "status"]).field("/status", "running");
        let workspace = server.workspace().join(name);
        server
            .get("/status")
            .status(200)
            .field("/busyWorkspaces/0", workspace.to_str().unwrap())
            .field("/runs/0/runId", started.text("/runId"))
            .field("/runs/0/workspace", workspace.to_str().unwrap())
            .field("/runs/0/status", "running");
        fs::write(workspace.join("go"), "").unwrap();
        eventually("the run is over", || {
            (server.get(&result).status(200).text("/status") == "completed").then_some(())
        });
        // M6: the original forgot a result once it was read.
        for _ in 0..2 {
            server
                .get(&result)
                .status(200)
                .names(&[LEAN.as_slice(), &["status"]].concat())
                .field("/text", "done");
        }
        server.get("/status").field("/busyWorkspaces", json!([])).field("/runs", json!([]));
    }
}

#[test]
fn a_synchronous_run_can_be_read_again_too_as_it_was_asked_for() {
    let server = Server::new().start();
    let answer = server.run(json!({"prompt": "echo hi; exit 2", "includeRaw": true})).status(200);
    let again = server.get(&format!("/run/result?runId={}", answer.text("/runId"))).status(200);
    let mut expected = answer.json();
    expected["status"] = "completed".into();
    assert_eq!(again.json(), expected);
}

#[test]
fn a_workspace_that_is_taken_is_a_conflict_and_the_root_is_not() {
    let server = Server::new().start();
    let script = "echo $$ > ../begun; while [ ! -e go ]; do sleep 0.01; done";
    let started = server.run(json!({"prompt": script, "workspace": "taken", "async": true})).status(200);
    server.wait_for_file("begun");
    let busy = server.run(json!({"prompt": "true", "workspace": "taken"}));
    assert!(busy.header("retry-after").is_some_and(|after| after.parse::<u64>().unwrap() > 0));
    busy.problem(409);
    server.run(json!({"prompt": "true", "workspace": "other"})).status(200);
    server.run(json!({"prompt": "true"})).status(200);
    server.delete(&format!("/run/{}", started.text("/runId"))).status(200);
    server.run(json!({"prompt": "true", "workspace": "taken"})).status(200);
}

#[test]
fn verbose_adds_session_usage_tokens_and_events() {
    let server = Server::new().adapter(EVENTS).start();
    let script = r#"
echo '{"session":"s-1"}'
echo 'not json'
echo '{"delta":"he"}'
echo '{"delta":"llo"}'
echo '{"usage":{"input":5,"output":7}}'
echo '{"done":"ok"}'
"#;
    let verbose = server
        .run(json!({"prompt": script, "outputFormat": "json-verbose"}))
        .status(200)
        .names(&[LEAN.as_slice(), &["sessionId", "usage", "tokens", "events"]].concat())
        .field("/text", "hello")
        .field("/sessionId", "s-1")
        .field("/usage", json!({"input": 5, "output": 7}))
        .field("/tokens/input", 5)
        .field("/tokens/output", 7)
        .field("/tokens/cacheRead", Value::Null);
    let events = verbose.json()["events"].clone();
    assert_eq!(events.as_array().unwrap().len(), 6, "{events}");
    assert_eq!(
        events[1],
        json!({"sequence": 2, "attempt": 0, "backend": "events", "eventType": "raw", "event": "not json"})
    );
    assert_eq!(events[2]["event"], json!({"delta": "he"}));

    let body = json!({"prompt": script, "outputFormat": "json-verbose", "eventMode": "none"});
    server.run(body).names(&[LEAN.as_slice(), &["sessionId", "usage", "tokens"]].concat());
    let body = json!({"prompt": script, "eventMode": "full"});
    server.run(body).names(&[LEAN.as_slice(), &["events"]].concat());
    for format in ["text", "json"] {
        server.run(json!({"prompt": script, "outputFormat": format})).names(&LEAN);
    }
}

#[test]
fn the_lines_of_plain_text_are_the_records() {
    let server = Server::new().start();
    let record = |sequence: u64, line: &str| json!({"sequence": sequence, "attempt": 0, "backend": "shell", "eventType": "raw", "event": line});
    let script = r"printf 'a\n\nb \303\251\r\nc'";
    server
        .run(json!({"prompt": script, "eventMode": "full"}))
        .status(200)
        .field("/text", "a\n\nb é\r\nc")
        .field("/events", json!([record(1, "a"), record(2, "b é"), record(3, "c")]));
}

#[test]
fn a_providers_error_is_told_with_its_kind() {
    let server = Server::new().adapter(EVENTS).start();
    let script =
        r#"echo '{"delta":"half"}'; echo '{"error":"Quota exceeded for today"}'; echo '{"done":"error"}'"#;
    let answer = server
        .run(json!({"prompt": script}))
        .status(200)
        .names(&[LEAN.as_slice(), &["error"]].concat())
        .field("/exitCode", 0)
        .field("/text", "half")
        .field("/error/kind", "quota");
    assert!(answer.text("/error/message").contains("Quota exceeded"));
    server
        .get(&format!("/run/result?runId={}", answer.text("/runId")))
        .field("/status", "failed")
        .field("/error/kind", "quota");
}

#[test]
fn the_next_run_continues_the_last_session_unless_told_otherwise() {
    let server = Server::new().adapter(EVENTS).start();
    let script =
        r#"echo '{"session":"s-7"}'; printf '{"message":"%s"}\n' "${1:-fresh}"; echo '{"done":"ok"}'"#;
    let run = |more: Value| {
        let mut body = json!({"prompt": script, "workspace": "w"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.run(body).status(200).text("/text")
    };
    assert_eq!(run(json!({})), "fresh");
    assert_eq!(run(json!({})), "resumed:s-7");
    assert_eq!(run(json!({"noContinue": true})), "fresh");
    assert_eq!(run(json!({"resume": "s-0"})), "resumed:s-0");
}

/// Its answers are the lines of the file `answers`, one per start.
const ANSWERS: &str = r#"
schema = 1
name   = "answers"
binary = "/bin/sh"
[models]
list = ["small"]
[run]
argv  = ["-c", 'cat >/dev/null; echo x >> starts; sed -n "$(wc -l < starts)p" answers']
stdin = "{prompt}"
[output]
format = "text"
[fallback]
json_schema = "prefix"
"#;

#[test]
fn an_answer_by_schema_is_json_and_is_asked_for_again() {
    let server = Server::new().adapter(ANSWERS).start();
    let ask = |workspace: &str, answers: &str| {
        fs::create_dir(server.workspace().join(workspace)).unwrap();
        fs::write(server.workspace().join(workspace).join("answers"), answers).unwrap();
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        server.run(json!({"prompt": "x", "workspace": workspace, "jsonSchema": schema})).status(200)
    };
    let names = [LEAN.as_slice(), &["sessionId", "usage", "tokens", "events", "attempts"]].concat();
    let attempt = |index| json!({"index": index, "usage": null, "exitCode": 0, "parseError": null});
    ask("first", "{\"n\": 1}\n")
        .names(&[names.as_slice(), &["json"]].concat())
        .field("/json", json!({"n": 1}))
        .field("/attempts", json!([attempt(0)]));
    let second = ask("second", "no idea\n{\"n\": 2}\n")
        .names(&[names.as_slice(), &["json", "jsonRetries"]].concat())
        .field("/json", json!({"n": 2}))
        .field("/jsonRetries", 1)
        .field("/attempts/1", attempt(1));
    assert!(!second.text("/attempts/0/parseError").is_empty());
    let never = ask("never", "a\nb\nc\nd\n")
        .names(&[names.as_slice(), &["parseError", "jsonRetries"]].concat())
        .field("/jsonRetries", 3)
        .field("/exitCode", 0);
    assert!(!never.text("/parseError").is_empty());

    let answer = server.run(json!({"prompt": "x", "jsonSchema": {"type": "nonsense"}})).status(422);
    assert_eq!(answer.json()["field"], "jsonSchema");
}
