//! `DELETE /run/{id}`.

use std::thread;

use serde_json::json;

use crate::harness::{Server, gone};

/// Says its pid and that of a grandchild in another session, which keeps the pipes open; then both hang.
const HANGS: &str = "setsid sleep 300 & echo $! > ../child; echo $$ > ../agent; wait";

fn pid(text: &str) -> i32 {
    text.trim().parse().unwrap()
}

#[test]
fn everything_is_stopped_and_the_workspace_free_when_the_answer_comes() {
    let server = Server::new().start();
    let started = server.run(json!({"prompt": HANGS, "workspace": "w", "async": true})).status(200);
    let id = started.text("/runId");
    let (child, agent) = (pid(&server.wait_for_file("child")), pid(&server.wait_for_file("agent")));
    server
        .delete(&format!("/run/{id}"))
        .status(200)
        .names(&["runId", "status"])
        .field("/runId", id.as_str())
        .field("/status", "cancelled");
    // M5: in the original the grandchild lived on and the workspace stayed busy.
    gone(child);
    gone(agent);
    server.get("/status").field("/busyWorkspaces", json!([])).field("/runs", json!([]));
    server.run(json!({"prompt": "echo next", "workspace": "w"})).status(200).field("/text", "next");
    server
        .get(&format!("/run/result?runId={id}"))
        .status(200)
        .field("/status", "cancelled")
        .field("/exitCode", 143);
    server.delete(&format!("/run/{id}")).status(200).field("/status", "cancelled");
}

#[test]
fn a_caller_who_still_waits_is_told() {
    let server = Server::new().start();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            server
                .run(json!({"prompt": format!("echo part; {HANGS}"), "workspace": "w"}))
                .status(200)
                .field("/exitCode", 143)
                .field("/status", "cancelled")
                .field("/text", "part");
        });
        server.wait_for_file("agent");
        let id = server.get("/status").text("/runs/0/runId");
        server.delete(&format!("/run/{id}")).status(200);
        waiting.join().unwrap();
    });
}

#[test]
fn a_finished_run_keeps_its_status_and_an_unknown_one_is_not_found() {
    let server = Server::new().start();
    let id = server.run(json!({"prompt": "true; echo x"})).status(200).text("/runId");
    server.delete(&format!("/run/{id}")).status(200).field("/status", "completed");
    for unknown in ["0123456789abcdef0123456789abcdef", "nonsense", "%ff"] {
        assert_eq!(server.delete(&format!("/run/{unknown}")).problem(404), "run not found");
    }
    assert_eq!(server.get("/run/result?runId=nonsense").problem(404), "run not found");
}
