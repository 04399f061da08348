//! A client of a chat that goes away (O9, O10).

use std::io::Write;

use serde_json::{Value, json};

use super::support::{CHANNELS, Events, PATH, chat_with, says, with};
use crate::{
    disconnect::{completed, large_schema},
    harness::{Server, eventually, gone},
};

const HANGS: &str = "echo $$ > agent; echo begun; sleep 300";

#[test]
fn a_stream_whose_client_left_is_cancelled() {
    let server = Server::new().start();
    let mut stream = Events::open(&server, &[("x-aicodebox-workspace", "w")], says(HANGS));
    assert_eq!(stream.text(), "begun\n");
    let agent = server.wait_for_file("w/agent").trim().parse().unwrap();
    drop(stream);
    gone(agent);
    chat_with(&server, &[("x-aicodebox-workspace", "w")], says("echo next")).status(200);
}

#[test]
fn also_before_its_first_word_and_in_every_other_mode() {
    let server = Server::new().adapter(CHANNELS).start();
    let silent = "echo $$ > agent; sleep 300";
    let schema = json!({"response_format": {"type": "json_object"}});
    let tools = json!({"tools": [{"type": "function", "function": {"name": "f"}}]});
    for more in [json!({}), json!({"stream": true}), schema, tools] {
        let _old = std::fs::remove_file(server.workspace().join("w/agent"));
        let body = with(silent, more).to_string();
        let client = server.open("POST", PATH, &[("x-aicodebox-workspace", "w")], Some(body));
        let agent = server.wait_for_file("w/agent").trim().parse().unwrap();
        drop(client);
        gone(agent);
        eventually("the workspace is free", || {
            (server.get("/status").json()["busyWorkspaces"] == json!([])).then_some(())
        });
    }
}

#[test]
fn also_while_it_waits_in_the_queue() {
    let server = Server::new().env("AICODEBOX_MAX_CONCURRENT_RUNS", "1").start();
    let running = Events::open(&server, &[], says(HANGS));
    let client = server.open("POST", PATH, &[], Some(says("touch never").to_string()));
    let runs = || server.get("/status").json()["runs"].as_array().map_or(0, Vec::len);
    eventually("it waits", || (runs() == 2).then_some(()));
    drop(client);
    eventually("it is forgotten", || (runs() == 1).then_some(()));
    drop(running);
    chat_with(&server, &[], says("echo next")).status(200);
    assert!(!server.workspace().join("never").exists());
}

#[test]
fn a_detached_run_goes_on_and_can_be_fetched() {
    let server = Server::new().start();
    for stream in [false, true] {
        let script = "echo half; while [ ! -e go ]; do sleep 0.01; done; echo whole";
        let body = with(script, json!({"stream": stream})).to_string();
        let client = server.open("POST", PATH, &[("x-aicodebox-detach", "1")], Some(body));
        let id = eventually("it runs", || {
            let status = server.get("/status").json();
            status.pointer("/runs/0/runId").and_then(Value::as_str).map(str::to_owned)
        });
        drop(client);
        eventually("the server has seen it", || {
            server.log.text().contains("the client went away").then_some(())
        });
        std::fs::write(server.workspace().join("go"), "").unwrap();
        let result = format!("/run/result?runId={id}");
        eventually("it has completed", || (server.get(&result).text("/status") == "completed").then_some(()));
        server.get(&result).field("/text", "half\nwhole");
        std::fs::remove_file(server.workspace().join("go")).unwrap();
    }
}

#[test]
fn a_detached_run_starts_although_its_client_left_at_once() {
    let server = Server::new().adapter(CHANNELS).env("AICODEBOX_MAX_QUEUED_RUNS", "100").start();
    let schema = json!({"response_format": {"type": "json_schema", "json_schema": {
        "name": "n", "schema": large_schema(),
    }}});
    let mut count = 0;
    for _round in 0..4 {
        for more in [json!({}), json!({"stream": true}), schema.clone()] {
            let body = with("echo '{}'", more).to_string();
            drop(server.open("POST", PATH, &[("x-aicodebox-detach", "1")], Some(body)));
            count += 1;
        }
    }
    completed(&server, count);
}

#[test]
fn bytes_behind_the_request_do_not_hide_that_the_client_left() {
    let server = Server::new().start();
    for stream in [false, true] {
        let _old = std::fs::remove_file(server.workspace().join("agent"));
        let body = with(HANGS, json!({"stream": stream})).to_string();
        let mut client = server.open("POST", PATH, &[], Some(body));
        client.write_all(b"\r\n").unwrap();
        let agent = server.wait_for_file("agent").trim().parse().unwrap();
        drop(client);
        gone(agent);
    }
}

#[test]
fn what_a_detached_run_answered_by_a_form_is_fetched_as_that() {
    let server = Server::new().adapter(CHANNELS).start();
    let schema = json!({"response_format": {"type": "json_object"}});
    let tools = json!({"tools": [{"type": "function", "function": {"name": "f"}}]});
    let call = json!({"tool_calls": [{"name": "f", "arguments": {}}]});
    for (more, printed, expected) in
        [(schema, r#"so: {"n": 1}"#.to_owned(), json!({"n": 1})), (tools, format!("I call it: {call}"), call)]
    {
        let body = with(&format!("echo '{printed}'"), more);
        let answer = chat_with(&server, &[("x-aicodebox-detach", "1")], body).status(200);
        let id = answer.header("x-aicodebox-run-id").unwrap().to_owned();
        let fetched = server.get(&format!("/run/result?runId={id}")).status(200).json();
        assert_eq!(
            (&fetched["json"], &fetched["attempts"][0]["exitCode"]),
            (&expected, &json!(0)),
            "{fetched}"
        );
    }
}
