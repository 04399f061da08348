//! Conversations: who has a directory to itself, and what goes on.

use std::fs;

use serde_json::{Value, json};

use crate::{
    harness::{EVENTS, Running, Server},
    sse::Events,
};

/// An agent that goes on with a conversation only where it knows of it.
const FORGETFUL: &str = r#"if [ -n "$1" ]; then echo "no conversation $1" >&2; exit 1; fi
    echo '{"session":"s-1"}'; echo '{"message":"{\"n\": 1}"}'; echo '{"done":"ok"}'"#;

fn forgetful() -> Running {
    let more = r#"
[env]
SCHEMA = { when = "json_schema", value = "{json_schema.file}" }
[[class]]
kind   = "session_not_found"
stderr = "no conversation"
"#;
    Server::new().adapter(&format!("{EVENTS}{more}")).start()
}

#[test]
fn whoever_may_go_on_with_a_conversation_has_its_directory_alone() {
    let server = Server::new().adapter(&format!("{EVENTS}append_system_prompt = \"drop\"\n")).start();
    let quick = r#"echo '{"message":"hi"}'; echo '{"done":"ok"}'"#;
    let run = |more: Value| {
        let mut body = json!({"prompt": quick});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.run(body)
    };
    // Also where there is no conversation yet.
    let first = server.run(json!({"prompt": "echo $$ > begun; sleep 300", "async": true})).status(200);
    server.wait_for_file("begun");
    for going_on in [json!({}), json!({"noContinue": false}), json!({"noContinue": true, "resume": "s"})] {
        run(going_on).problem(409);
    }
    // What goes on with nothing, or elsewhere, is in nobody's way.
    for alone in [json!({"noContinue": true}), json!({"ephemeral": true}), json!({"workspace": "other"})] {
        run(alone).status(200).field("/text", "hi");
    }
    let chat = json!({"model": "small", "messages": [{"role": "user", "content": quick}]});
    server.send("POST", "/v1/chat/completions", &[], Some(chat.to_string())).status(200);
    server.get("/status").field("/busyWorkspaces", json!([server.workspace().to_str().unwrap()]));
    server.delete(&format!("/run/{}", first.text("/runId"))).status(200);
    run(json!({})).status(200);
}

#[test]
fn a_conversation_that_the_agent_has_forgotten_is_begun_anew() {
    let server = forgetful();
    let run = |more: Value| {
        let mut body = json!({"prompt": FORGETFUL, "workspace": "w"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.run(body).status(200)
    };
    run(json!({})).field("/exitCode", 0);
    let second =
        run(json!({"outputFormat": "json-verbose"})).field("/exitCode", 0).field("/sessionId", "s-1");
    let events = server.open("GET", &format!("/run/{}/events", second.text("/runId")), &[], None);
    let notice = Events::of(events).find(|event| event.name == "notice").unwrap().json();
    assert_eq!(notice["code"], "session");
    // The answer met its schema at once: that is no repair.
    let schema = json!({"type": "object", "required": ["n"]});
    let third = run(json!({"jsonSchema": schema})).field("/json", json!({"n": 1}));
    assert_eq!(third.json().get("jsonRetries"), None);
    // Whoever names one is told.
    run(json!({"resume": "s-1"})).field("/exitCode", 1).field("/error/kind", "session_not_found");
}

#[test]
fn an_id_that_no_agent_could_be_given_is_not_gone_on_with() {
    let server = Server::new().adapter(EVENTS).start();
    for id in ["--evil", r"a\u0000b", &"x".repeat(200_000)] {
        let session = json!({"prompt": "cat ../line", "workspace": "w"});
        fs::write(
            server.workspace().join("line"),
            format!("{{\"session\":\"{id}\"}}\n{{\"done\":\"ok\"}}\n"),
        )
        .unwrap();
        let first = server.run(session.clone()).status(200);
        let events = server.open("GET", &format!("/run/{}/events", first.text("/runId")), &[], None);
        assert!(Events::of(events).any(|event| event.name == "notice"), "nobody is told");
        let heard = r#"echo "{\"message\":\"${1:-nothing}\"}"; echo '{"done":"ok"}'"#;
        server.run(json!({"prompt": heard, "workspace": "w"})).status(200).field("/text", "nothing");
    }
}
