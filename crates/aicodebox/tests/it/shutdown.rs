//! P22 and P18: how a server ends, and how it does not.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{Answer, Server, eventually, gone};

/// The most that SIGTERM may take.
const LIMIT: Duration = Duration::from_secs(8);

fn pid(text: &str) -> i32 {
    text.trim().parse().unwrap()
}

#[test]
fn sigterm_stops_agents_answers_callers_and_ends_with_0() {
    let mut server = Server::new().start();
    // One that ends politely and leaves a mark, one that is deaf.
    let polite = "trap 'echo bye > ../bye; exit 0' TERM; echo $$ > ../polite; while :; do sleep 0.1; done";
    let deaf =
        "trap '' TERM; setsid sleep 300 & echo $! > ../child; echo $$ > ../deaf; while :; do sleep 1; done";
    let waiting =
        server.open("POST", "/run", &[], Some(json!({"prompt": polite, "workspace": "a"}).to_string()));
    let fetched =
        server.run(json!({"prompt": deaf, "workspace": "b", "async": true})).status(200).text("/runId");
    let agents = ["polite", "deaf", "child"].map(|name| pid(&server.wait_for_file(name)));

    let begun = Instant::now();
    server.signal(Signal::SIGTERM);
    // Until the last moment probes are answered, and new work is not taken.
    eventually("it says that it goes down", || (server.get("/readyz").json()["ok"] == false).then_some(()));
    let refused = server.run(json!({"prompt": "true", "workspace": "c"}));
    assert!(refused.header("retry-after").is_some());
    refused.problem(503);
    Answer::read(waiting).problem(503);
    let status = server.ended();
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    assert_eq!(status.code(), Some(0));
    agents.into_iter().for_each(gone);
    assert_eq!(server.wait_for_file("bye"), "bye\n");
    // Both are on record, with what became of them.
    let server = server.restart();
    server.get(&format!("/run/{fetched}")).status(200).field("/status", "interrupted");
    let list = server.get("/runs?status=interrupted").status(200).json();
    assert_eq!(list["runs"].as_array().unwrap().len(), 2, "{list}");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut server = Server::new().start();
    let deaf = "trap '' TERM; echo $$ > ../deaf; while :; do sleep 1; done";
    server.run(json!({"prompt": deaf, "workspace": "b", "async": true})).status(200);
    let agent = pid(&server.wait_for_file("deaf"));
    let begun = Instant::now();
    server.signal(Signal::SIGINT);
    server.log.wait("going down");
    server.signal(Signal::SIGINT);
    assert_eq!(server.ended().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    gone(agent);
}

#[test]
fn an_agent_that_signals_its_group_does_not_reach_the_server() {
    let server = Server::new().start();
    for signal in ["TERM", "KILL"] {
        server.run(json!({"prompt": format!("kill -{signal} 0; sleep 5")})).status(200);
        server.get("/readyz").status(200);
    }
    server.run(json!({"prompt": "echo still"})).status(200).field("/text", "still");
}

#[test]
fn when_the_server_is_killed_its_agents_go_too() {
    let mut server = Server::new().start();
    let script = "setsid sleep 300 & echo $! > ../child; echo $$ > ../agent; wait";
    server.run(json!({"prompt": script, "workspace": "w", "async": true})).status(200);
    let agents = ["child", "agent"].map(|name| pid(&server.wait_for_file(name)));
    server.signal(Signal::SIGKILL);
    server.ended();
    agents.into_iter().for_each(gone);
}
