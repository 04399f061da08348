//! A client that goes away.

use serde_json::json;

use crate::harness::{Server, eventually, gone};

const HANGS: &str = "echo $$ > ../agent; sleep 300";

#[test]
fn a_run_whose_client_left_is_cancelled() {
    let server = Server::new().start();
    let body = json!({"prompt": HANGS, "workspace": "w"});
    let client = server.open("POST", "/run", &[], Some(body.to_string()));
    let agent = server.wait_for_file("agent").trim().parse().unwrap();
    drop(client);
    // M16: in the original the agent went on and the workspace stayed taken.
    gone(agent);
    eventually("the workspace is free", || {
        (server.get("/status").json()["busyWorkspaces"] == json!([])).then_some(())
    });
    server.run(json!({"prompt": "echo next", "workspace": "w"})).status(200);
    server.log.wait("the client went away");
}

#[test]
fn also_while_it_waits_in_the_queue() {
    let server = Server::new().env("AICODEBOX_MAX_CONCURRENT_RUNS", "1").start();
    let first = server.run(json!({"prompt": HANGS, "workspace": "w", "async": true})).status(200);
    server.wait_for_file("agent");
    let body = json!({"prompt": "echo never > ../never", "workspace": "v"});
    let client = server.open("POST", "/run", &[], Some(body.to_string()));
    let runs = || server.get("/status").json()["runs"].as_array().unwrap().len();
    eventually("it waits", || (runs() == 2).then_some(()));
    drop(client);
    eventually("it is forgotten", || (runs() == 1).then_some(()));
    server.delete(&format!("/run/{}", first.text("/runId"))).status(200);
    server.run(json!({"prompt": "true"})).status(200);
    assert!(!server.workspace().join("never").exists());
}

#[test]
fn a_detached_run_goes_on() {
    let server = Server::new().start();
    let script = "echo $$ > ../agent; while [ ! -e go ]; do sleep 0.01; done; echo done > ../done";
    let body = json!({"prompt": script, "workspace": "w", "detach": true});
    let client = server.open("POST", "/run", &[], Some(body.to_string()));
    server.wait_for_file("agent");
    let id = server.get("/status").text("/runs/0/runId");
    drop(client);
    server.log.wait("the client went away");
    std::fs::write(server.workspace().join("w/go"), "").unwrap();
    server.wait_for_file("done");
    eventually("it has completed", || {
        (server.get(&format!("/run/result?runId={id}")).text("/status") == "completed").then_some(())
    });
}
