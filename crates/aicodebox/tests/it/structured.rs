//! Answers that must meet a schema, and how the agent is asked again.

use std::{
    fs,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    harness::{Answer, Running, Server},
    sse::Events,
};

/// An agent that leaves what it was asked, and as what, in its home, reports another conversation at every start, and
/// answers with the lines of the file `answers` there.
const ANSWERS: &str = r#"
schema = 1
name   = "answers"
binary = "/bin/sh"
[models]
list = ["small"]
[run]
argv  = ["-c", '''cd; n=$(($(ls | grep -c ^asked) + 1)); cat > asked-$n; echo "$1" > resumed-$n
    printf '{{"session":"s-%s"}}\n{{"usage":{{"input":10,"output":%s}}}}\n' $n $n; line=$(sed -n ${{n}}p answers)
    case $line in
        exit*) $line ;;
        error*) printf '{{"error":"rate limit"}}\n{{"done":"error"}}\n' ;;
        *) printf '{{"message":"%s"}}\n{{"done":"ok"}}\n' "$line" ;;
    esac''', "answers", { when = "resume", args = ["{resume}"] }]
stdin = "{prompt}"
[env]
SCHEMA = { when = "json_schema", value = "{json_schema.file}" }
[output]
format = "events"
"#;

fn start(answers: &str) -> Running {
    let server = Server::new().adapter(ANSWERS).start();
    fs::write(server.home().path("home/answers"), answers).unwrap();
    server
}

fn ask(server: &Running, more: Value) -> Answer {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let mut body = json!({"prompt": "count to three", "jsonSchema": schema});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.run(body).status(200)
}

fn left(server: &Running, name: &str) -> String {
    fs::read_to_string(server.home().path("home").join(name)).unwrap()
}

#[test]
fn in_a_temporary_workspace_the_first_conversation_goes_on() {
    let server = start("no idea\n{\\\"n\\\": \\\"x\\\"}\n{\\\"n\\\": 3}\n");
    let answer = ask(&server, json!({"ephemeral": true}))
        .field("/json", json!({"n": 3}))
        .field("/jsonRetries", 2)
        .field("/sessionId", "s-1")
        .field("/usage", json!({"input": 30, "output": 6}))
        .field("/tokens/input", 30);
    let attempts = answer.json()["attempts"].clone();
    assert!(attempts[0]["parseError"].as_str().unwrap().contains("no JSON"), "{attempts}");
    assert!(attempts[1]["parseError"].as_str().unwrap().contains("/n"), "{attempts}");
    // Always the first one, never the newest.
    assert_eq!(
        ["resumed-1", "resumed-2", "resumed-3"].map(|name| left(&server, name)),
        ["\n", "s-1\n", "s-1\n"]
    );
    // It knows the task: only the correction is said.
    let last = left(&server, "asked-3");
    assert!(last.contains("was not accepted: /n") && !last.contains("count to three"), "{last}");
    assert!(last.contains("\"required\":[\"n\"]"), "{last}");
}

#[test]
fn elsewhere_the_task_is_restated_in_a_fresh_one() {
    for place in [json!({}), json!({"workspace": "w"}), json!({"noContinue": true})] {
        let server = start("no idea\n{\\\"n\\\": 3}\n");
        ask(&server, place).field("/json", json!({"n": 3})).field("/jsonRetries", 1);
        assert_eq!(left(&server, "resumed-2"), "\n");
        let last = left(&server, "asked-2");
        assert_eq!(last.matches("count to three").count(), 1, "{last}");
        assert!(last.contains("no idea") && last.contains("was not accepted: no JSON"), "{last}");
    }
}

#[test]
fn nothing_is_asked_again_after_a_crash_or_an_error_of_the_provider() {
    for (line, code) in [("exit 3", 3), ("error", 0)] {
        let server = start(&format!("{line}\n{{\\\"n\\\": 3}}\n"));
        let answer = ask(&server, json!({})).field("/exitCode", code);
        assert_eq!(answer.json()["attempts"].as_array().unwrap().len(), 1, "{line}");
        assert!(answer.json().get("json").is_none() && answer.json().get("jsonRetries").is_none(), "{line}");
        if line == "error" {
            answer.field("/error/kind", "provider");
        }
        // Nor when it crashes while it is asked again.
        let server = start(&format!("no idea\n{line}\n{{\\\"n\\\": 3}}\n"));
        let answer = ask(&server, json!({})).field("/exitCode", code).field("/jsonRetries", 1);
        assert_eq!(answer.json()["attempts"].as_array().unwrap().len(), 2, "{line}");
    }
}

#[test]
fn a_check_that_takes_for_ever_holds_nothing_up() {
    // Each level of the answer is looked at twice by each of the two that look at the level above.
    let level = json!({"properties": {"c": {"$ref": "#/$defs/n"}}});
    let schema = json!({"$defs": {"n": {"allOf": [level, level]}}, "$ref": "#/$defs/n"});
    let answer = format!(r"{}1{}\n", r#"{\"c\":"#.repeat(60), "}".repeat(60)).replace(r"\n", "\n");
    let mut server = start(&answer.repeat(4));
    let slow = |more: Value| {
        let mut body = json!({"prompt": "x", "jsonSchema": schema, "workspace": "w"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.run(body)
    };
    slow(json!({"timeoutSeconds": 1})).field("/exitCode", 124).field("/stderr", "timed out after 1.0 s");
    for _ in 0..3 {
        let id = slow(json!({"async": true})).text("/runId");
        let events = server.open("GET", &format!("/run/{id}/events"), &[], None);
        Events::of(events).find(|event| event.name == "message").expect("it answers");
        server.delete(&format!("/run/{id}")).status(200).field("/status", "cancelled");
    }
    // Four of them go on, and each has a processor: there must not be more and more.
    slow(json!({})).status(429);
    let begun = Instant::now();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}
