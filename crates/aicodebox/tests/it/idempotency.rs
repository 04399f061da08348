//! `Idempotency-Key`: asked again, the same run answers.

use std::{fs, sync::Arc, thread};

use serde_json::{Value, json};

use crate::harness::{Answer, Home, Running, SHELL, Server, eventually};

/// Leaves a line for every time that it runs.
const ONCE: &str = "echo ran >> ran; cat go > /dev/null 2>&1; echo done";

fn ask(server: &Running, key: &str, body: &Value) -> Answer {
    server.send("POST", "/run", &[("Idempotency-Key", key)], Some(body.to_string()))
}

fn times(server: &Running) -> usize {
    fs::read_to_string(server.workspace().join("ran")).unwrap_or_default().lines().count()
}

#[test]
fn the_same_key_and_body_are_the_same_run_also_after_a_restart() {
    let server = Server::new().token("t").start();
    let body = json!({"prompt": ONCE});
    let first = ask(&server, "a", &body).status(200).field("/text", "done");
    let again = ask(&server, "a", &body).status(200);
    assert_eq!(first.body, again.body);
    let server = server.restart();
    assert_eq!(ask(&server, "a", &body).status(200).body, first.body);
    assert_eq!(times(&server), 1);
    let other = ask(&server, "b", &body).status(200);
    assert_ne!(other.text("/runId"), first.text("/runId"));
    assert_eq!(times(&server), 2);
}

#[test]
fn a_run_that_the_end_of_the_server_cut_short_says_so_to_who_asks_again() {
    let body = json!({"prompt": "echo ran >> ran; echo half; sleep 300"});
    let mut server = Server::new().start();
    let mut first = None;
    for killed in [true, false] {
        let key = format!("killed:{killed}");
        let waiting = server.open("POST", "/run", &[("Idempotency-Key", &key)], Some(body.to_string()));
        let runs = usize::from(first.is_some()) + 1;
        eventually("it runs", || (times(&server) == runs).then_some(()));
        server = if killed { server.restart() } else { server.stopped().start_again() };
        if !killed {
            Answer::read(waiting).problem(503);
        }
        let again = ask(&server, &key, &body).status(200);
        let again = again.field("/status", "interrupted").field("/exitCode", 143);
        let result = server.get(&format!("/run/result?runId={}", again.text("/runId"))).status(200);
        assert_eq!(again.json(), result.json());
        assert_eq!(times(&server), runs, "it is not run again");
        assert_ne!(first.replace(again.text("/runId")), Some(again.text("/runId")));
    }
}

#[test]
fn another_body_under_the_same_key_is_refused() {
    let server = Server::new().start();
    ask(&server, "a", &json!({"prompt": "echo a"})).status(200);
    let answer = ask(&server, "a", &json!({"prompt": "echo b"})).field("/field", "Idempotency-Key");
    answer.problem(422);
    for bad in ["a b", "é", &"x".repeat(256)] {
        ask(&server, bad, &json!({"prompt": "echo a"})).problem(422);
    }
}

#[test]
fn keys_of_another_token_are_other_keys() {
    let home = Arc::new(Home::new(SHELL));
    let server = Server::new().token("t").start_in(&home);
    let first = ask(&server, "a", &json!({"prompt": "echo a"})).status(200);
    drop(server);
    let server = Server::new().token("u").start_in(&home);
    ask(&server, "a", &json!({"prompt": "echo b"})).status(200).field("/text", "b");
    server.get(&format!("/run/{}", first.text("/runId"))).status(200).field("/text", "a");
}

#[test]
fn who_asks_while_it_runs_waits_for_it() {
    let server = Server::new().start();
    let body = json!({"prompt": "echo ran >> ran; until [ -e go ]; do sleep 0.01; done; echo done"});
    let answers: Vec<_> = thread::scope(|scope| {
        let callers: Vec<_> = (0..8).map(|_| scope.spawn(|| ask(&server, "a", &body))).collect();
        eventually("it runs", || (times(&server) > 0).then_some(()));
        fs::write(server.workspace().join("go"), "").unwrap();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    let id = answers[0].text("/runId");
    for answer in answers {
        answer.status(200).field("/text", "done").field("/runId", id.as_str());
    }
    assert_eq!(times(&server), 1);
}

#[test]
fn one_caller_who_leaves_does_not_end_the_run_of_the_others() {
    let server = Server::new().start();
    let body = json!({"prompt": "echo ran >> ran; until [ -e go ]; do sleep 0.01; done; echo done"});
    let first = server.open("POST", "/run", &[("Idempotency-Key", "a")], Some(body.to_string()));
    eventually("it runs", || (times(&server) > 0).then_some(()));
    let second = server.open("POST", "/run", &[("Idempotency-Key", "a")], Some(body.to_string()));
    // The second may be read before or after the first has left: the run goes on for it either way.
    drop(first);
    server.log.wait("the client went away");
    fs::write(server.workspace().join("go"), "").unwrap();
    Answer::read(second).status(200).field("/text", "done");
}

#[test]
fn who_lost_the_connection_gets_the_answer_by_asking_again() {
    let server = Server::new().start();
    let body = json!({"prompt": "echo ran >> ran; until [ -e go ]; do sleep 0.01; done; echo done"});
    let lost = server.open("POST", "/run", &[("Idempotency-Key", "a")], Some(body.to_string()));
    eventually("it runs", || (times(&server) > 0).then_some(()));
    drop(lost);
    server.log.wait("the client went away");
    let again = server.open("POST", "/run", &[("Idempotency-Key", "a")], Some(body.to_string()));
    fs::write(server.workspace().join("go"), "").unwrap();
    Answer::read(again).status(200).field("/text", "done").field("/exitCode", 0);
    assert_eq!(times(&server), 1);
}

#[test]
fn an_async_run_says_where_it_stands_and_a_forgotten_one_frees_its_key() {
    let server = Server::new().start();
    let body = json!({"prompt": ONCE, "async": true});
    let first = ask(&server, "a", &body).status(200).field("/status", "running");
    let id = first.text("/runId");
    eventually("it ends", || {
        let again = ask(&server, "a", &body).status(200).field("/runId", id.as_str());
        (again.text("/status") == "completed").then_some(())
    });
    server.delete(&format!("/run/{id}?purge=1")).status(200);
    assert_ne!(ask(&server, "a", &body).status(200).text("/runId"), id);
    // A request that was refused has not used its key.
    ask(&server, "c", &json!({"prompt": ""})).problem(422);
    ask(&server, "c", &json!({"prompt": "echo c"})).status(200);
}

#[test]
fn none_is_taken_of_two_keys() {
    let server = Server::new().start();
    let two = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")];
    let answer = server.send("POST", "/run", &two, Some(json!({"prompt": ONCE}).to_string()));
    assert!(answer.field("/field", "Idempotency-Key").problem(422).ends_with("more than once"));
    assert_eq!(times(&server), 0);
}
