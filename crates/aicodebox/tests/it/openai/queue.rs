//! Chats beside one another.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::support::{CHANNELS, chat, chat_with, content, error, says, with};
use crate::harness::{Running, Server, eventually};

#[test]
fn a_hundred_chats_succeed_beside_a_long_run_on_the_root() {
    // M2: in the original all shared the lock of the root.
    let server = Server::new().start();
    let long = server.run(json!({"prompt": "sleep 300", "async": true})).status(200);
    thread::scope(|scope| {
        let chats: Vec<_> = (0..100)
            .map(|index| {
                (
                    index,
                    scope.spawn({
                        let server = &server;
                        move || content(chat(server, says(&format!("sleep 0.2; echo {index}"))))
                    }),
                )
            })
            .collect();
        for (index, chat) in chats {
            assert_eq!(chat.join().unwrap(), index.to_string());
        }
    });
    server.delete(&format!("/run/{}", long.text("/runId"))).status(200);
}

#[test]
fn a_request_for_a_title_is_answered_during_a_long_chat() {
    // O11: clients ask for titles and tags by chats of their own; these wait for nobody.
    let server = Server::new().start();
    thread::scope(|scope| {
        scope.spawn(|| {
            chat(&server, says("touch begun; while [ ! -e go ]; do sleep 0.01; done; echo x")).status(200)
        });
        eventually("it has begun", || server.workspace().join("begun").exists().then_some(()));
        let asked = Instant::now();
        assert_eq!(content(chat(&server, says("echo '{\"title\": \"x\"}'"))), "{\"title\": \"x\"}");
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        fs::write(server.workspace().join("go"), "").unwrap();
    });
}

#[test]
fn a_request_for_a_title_has_no_tools_and_nobodys_workspace() {
    // O11.
    let server = Server::new().adapter(CHANNELS).start();
    let here = [("x-aicodebox-workspace", "w"), ("x-aicodebox-continue", "1")];
    let script = "basename \"$PWD\"; echo \"tools:$2\"";
    let chat = |more: Value| content(chat_with(&server, &here, with(script, more)));
    assert_eq!(chat(json!({})), "w\ntools:");
    let title = chat(json!({"metadata": {"task": "title_generation"}}));
    assert!(!title.starts_with("w\n") && title.ends_with("\ntools:--no-tools"), "{title}");

    let (named, no_more) = (json!({"metadata": {"task": "title_generation"}}), json!({}));
    let said = |server: &Running, aside, more: &Value| {
        let headers = [here[0], ("x-aicodebox-aside", aside)];
        content(chat_with(server, &headers, with(script, more.clone()))) == "w\ntools:"
    };
    assert!(said(&server, "0", &named) && !said(&server, "1", &no_more), "the caller knows better");
    let never = Server::new().adapter(CHANNELS).env("AICODEBOX_API_MODE_CHAT_ASIDES", "never").start();
    assert!(said(&never, "", &named) && !said(&never, "1", &named));
}

#[test]
fn chats_of_one_workspace_run_one_after_another_in_order() {
    let server = Server::new().start();
    let here = [("x-aicodebox-workspace", "w")];
    thread::scope(|scope| {
        for index in 0..5 {
            let (server, here) = (&server, &here);
            scope.spawn(move || {
                let wait =
                    if index == 0 { "touch begun; while [ ! -e go ]; do sleep 0.01; done;" } else { "" };
                let script =
                    format!("{wait} mkdir alone && echo {index} >> order; sleep 0.05; rmdir alone; echo ok");
                content(chat_with(server, here, says(&script)))
            });
            // Each is in its place before the next one comes.
            let runs = || server.get("/status").json()["runs"].as_array().map_or(0, Vec::len);
            eventually("it is there", || (runs() == index + 1).then_some(()));
        }
        fs::write(server.workspace().join("w/go"), "").unwrap();
    });
    assert_eq!(fs::read_to_string(server.workspace().join("w/order")).unwrap(), "0\n1\n2\n3\n4\n");
}

#[test]
fn a_full_queue_is_told_with_when_to_come_again() {
    let server =
        Server::new().env("AICODEBOX_MAX_CONCURRENT_RUNS", "1").env("AICODEBOX_MAX_QUEUED_RUNS", "0").start();
    let long = server.run(json!({"prompt": "sleep 300", "async": true})).status(200);
    let refused = chat(&server, says("echo hi"));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.header("x-should-retry"), None, "nothing was begun");
    let error = error(refused, 429);
    assert_eq!((&error["type"], &error["code"]), (&json!("rate_limit_error"), &json!("queue_full")));
    server.delete(&format!("/run/{}", long.text("/runId"))).status(200);
}
