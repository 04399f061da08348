//! A client that goes away.

use std::{io::Write, net::Shutdown};

use serde_json::{Value, json};

use crate::harness::{Running, SHELL, Server, eventually, gone};

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

/// A schema that takes its time to be compiled.
pub(crate) fn large_schema() -> Value {
    let properties: serde_json::Map<_, _> =
        (0..2_000).map(|number| (format!("p{number}"), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties})
}

/// Waits until so many runs have completed, and no other has been begun.
pub(crate) fn completed(server: &Running, count: usize) {
    let stands = || {
        let list = server.get("/runs?limit=500").json();
        let runs = list["runs"].as_array().unwrap().iter();
        runs.map(|run| run["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    eventually(&format!("{count} have completed"), || {
        let stands = stands();
        assert!(!stands.iter().any(|status| status == "cancelled"), "{stands:?}");
        (stands.iter().filter(|status| *status == "completed").count() == count).then_some(())
    });
}

#[test]
fn a_run_that_nobody_waits_for_starts_although_its_client_left_at_once() {
    let adapter = format!("{SHELL}json_schema = \"drop\"\n");
    let server = Server::new().adapter(&adapter).env("AICODEBOX_MAX_QUEUED_RUNS", "100").start();
    let asked = [
        (json!({"fireAndForget": true}), None),
        (json!({"async": true}), None),
        (json!({"detach": true}), None),
        (json!({"detach": true, "jsonSchema": large_schema()}), None),
        (json!({}), Some("key")),
    ];
    let mut count = 0;
    for round in 0..4 {
        for (more, key) in &asked {
            let mut body = json!({"prompt": "echo '{}'", "noContinue": true});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let key = key.map(|key| format!("{key}{round}"));
            let headers: Vec<_> = key.iter().map(|key| ("Idempotency-Key", key.as_str())).collect();
            drop(server.open("POST", "/run", &headers, Some(body.to_string())));
            count += 1;
        }
    }
    completed(&server, count);
}

#[test]
fn also_one_that_sent_its_body_in_chunks() {
    let server = Server::new().start();
    let chunked = [("Transfer-Encoding", "chunked"), ("Content-Type", "application/json")];
    let mut client = server.open("POST", "/run", &chunked, None);
    let body = json!({"prompt": HANGS, "workspace": "w"}).to_string();
    write!(client, "{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).unwrap();
    let agent = server.wait_for_file("agent").trim().parse().unwrap();
    drop(client);
    gone(agent);
}

#[test]
fn bytes_behind_the_request_do_not_hide_that_the_client_left() {
    let server = Server::new().start();
    // What old clients send behind a body, and a request ahead of its time.
    for behind in ["\r\n", "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
        for half in [false, true] {
            let _old = std::fs::remove_file(server.workspace().join("agent"));
            let body = json!({"prompt": HANGS, "workspace": "w"});
            let mut client = server.open("POST", "/run", &[], Some(body.to_string()));
            client.write_all(behind.as_bytes()).unwrap();
            let agent = server.wait_for_file("agent").trim().parse().unwrap();
            // A client that says that it has nothing more to say is not told from one that is gone.
            let kept = half.then(|| client.shutdown(Shutdown::Write).map(|()| client).unwrap());
            gone(agent);
            eventually("the workspace is free", || {
                (server.get("/status").json()["busyWorkspaces"] == json!([])).then_some(())
            });
            drop(kept);
        }
    }
}
