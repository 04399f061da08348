//! However a client gives up a call, nothing of its run is left after three seconds.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Client, Revision, beside_the_api, lines, message};
use crate::harness::{Running, eventually, gone};

/// An agent that will not go by itself, with a child that has left its session.
const STUBBORN: &str =
    "trap '' TERM; setsid sleep 300 & echo $! > child; echo $$ > agent; while true; do wait; sleep 1; done";
/// Three seconds, and one for a busy machine.
const SOON: Duration = Duration::from_secs(4);

fn call(client: &Client, meta: Value) -> Value {
    let arguments = json!({"prompt": STUBBORN});
    client.request(7, "tools/call", json!({"name": "run_prompt", "arguments": arguments, "_meta": meta}))
}

/// Waits until the agent works, lets the client give up, and sees that all of the run goes.
fn given_up(server: &Running, give_up: impl FnOnce()) {
    let pids: Vec<i32> =
        ["agent", "child"].map(|name| server.wait_for_file(name).trim().parse().unwrap()).into();
    let begun = Instant::now();
    give_up();
    pids.into_iter().for_each(gone);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    eventually("the run is over", || (server.get("/status").json()["runs"] == json!([])).then_some(()));
}

#[test]
fn by_a_notification() {
    let server = beside_the_api().start();
    let client = Client::of(&server, Revision::Of2025);
    let stream = client.open(&call(&client, json!({"progressToken": 1})));
    given_up(&server, || {
        client.notify("notifications/cancelled", json!({"requestId": 7, "reason": "enough"}))
    });
    // A call that was cancelled is not answered, and the session lives on.
    let mut answers = lines(stream).map_while(Result::ok).filter_map(|line| message(&line));
    assert!(answers.all(|message| message["id"] != 7));
    client.good("list_files", json!({}));
}

#[test]
fn by_the_end_of_its_session() {
    let server = beside_the_api().start();
    let client = Client::of(&server, Revision::Of2025);
    let _stream = client.open(&call(&client, json!({})));
    given_up(&server, || client.delete());
    client.post(&client.request(8, "tools/list", json!({}))).status(404);
}

#[test]
fn by_hanging_up_in_a_session() {
    let server = beside_the_api().start();
    let client = Client::of(&server, Revision::Of2025);
    let stream = client.open(&call(&client, json!({})));
    given_up(&server, || drop(stream));
    client.good("list_files", json!({}));
}

#[test]
fn by_hanging_up_before_anything_was_said() {
    let server = beside_the_api().start();
    let client = Client::of(&server, Revision::Of2026);
    let stream = client.open(&call(&client, json!({})));
    given_up(&server, || drop(stream));
}

#[test]
fn by_hanging_up_in_the_middle() {
    let server = beside_the_api().start();
    let client = Client::of(&server, Revision::Of2026);
    let mut lines = lines(client.open(&call(&client, json!({"progressToken": 1})))).map_while(Result::ok);
    assert!(lines.any(|line| message(&line).is_some_and(|told| told["method"] == "notifications/progress")));
    given_up(&server, || drop(lines));
}

#[test]
fn by_giving_up_a_call_that_waits() {
    let server = beside_the_api().env("AICODEBOX_MAX_CONCURRENT_RUNS", "1").start();
    let client = Client::of(&server, Revision::Of2026);
    let (_, first) = client.good("start_run", json!({"prompt": "echo $$ > first; sleep 300"}));
    server.wait_for_file("first");
    let stream = client.open(&call(&client, json!({})));
    let runs = || server.get("/status").json()["runs"].as_array().unwrap().len();
    eventually("it waits", || (runs() == 2).then_some(()));
    drop(stream);
    eventually("it is forgotten", || (runs() == 1).then_some(()));
    client.good("cancel_run", json!({"run_id": first["runId"]}));
    assert!(!server.workspace().join("agent").exists());
}

#[test]
fn but_a_run_in_the_background_goes_on() {
    let server = beside_the_api().start();
    let client = Client::of(&server, Revision::Of2025);
    let script = "echo $$ > agent; while [ ! -e go ]; do sleep 0.01; done; echo done > done";
    client.good("start_run", json!({"prompt": script}));
    server.wait_for_file("agent");
    client.delete();
    std::fs::write(server.workspace().join("go"), "").unwrap();
    server.wait_for_file("done");
}
