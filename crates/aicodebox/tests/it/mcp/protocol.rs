use std::{fs, thread, time::Instant};

use serde_json::json;

use super::client::{Client, Revision, alone, beside_the_api, lines, message};

#[test]
fn both_revisions_are_spoken_at_all_its_paths() {
    let beside = beside_the_api().start();
    let alone = alone().start();
    for (server, paths) in [(&beside, ["/mcp", "/mcp/"].as_slice()), (&alone, &["/", "/mcp", "/mcp/"])] {
        for path in paths {
            for revision in [Revision::Of2025, Revision::Of2026] {
                let client = Client::at(server, path, revision);
                assert_eq!(client.good("run_prompt", json!({"prompt": "echo hi"})).0, "hi");
            }
        }
        server.get("/healthz").status(200).field("/adapter", "shell");
    }
    alone.get("/files").status(404);
    let described = Client::of(&beside, Revision::Of2026).ask("server/discover", json!({}));
    let versions = described["result"]["supportedVersions"].as_array().unwrap();
    for version in ["2025-11-25", "2026-07-28"] {
        assert!(versions.contains(&json!(version)), "{versions:?}");
    }
}

#[test]
fn only_what_is_no_call_of_a_tool_is_an_error_of_the_protocol() {
    let server = beside_the_api().start();
    for revision in [Revision::Of2025, Revision::Of2026] {
        let client = Client::of(&server, revision);
        let unknown = client.ask("tools/call", json!({"name": "rm", "arguments": {}}));
        assert_eq!(unknown["error"]["code"], -32_602, "{unknown}");
        assert!(unknown["error"]["message"].as_str().unwrap().contains("unknown tool: rm"));
        for (params, wrong) in [
            (json!({"name": "run_prompt", "arguments": "hi"}), "params.arguments must be an object"),
            (json!({"name": "run_prompt", "arguments": [1]}), "params.arguments must be an object"),
            (json!({"arguments": {}}), "params.name is missing"),
            (json!({"name": 1, "arguments": {}}), "params.name must be a string"),
        ] {
            let answer = client.post(&client.request(9, "tools/call", params.clone())).status(200);
            assert!(
                answer.body.contains("-32602") && answer.body.contains(wrong),
                "{params}: {}",
                answer.body
            );
        }
        let unknown = client.ask("tools/eat", json!({}));
        assert_eq!(unknown["error"]["code"], -32_601, "{unknown}");
    }
}

#[test]
fn progress_rises_while_the_agent_works_and_ends_with_it() {
    let server = beside_the_api().start();
    for revision in [Revision::Of2025, Revision::Of2026] {
        let client = Client::of(&server, revision);
        let call = client.request(
            7,
            "tools/call",
            json!({"name": "run_prompt", "arguments": {"prompt": "sleep 2.6"}, "_meta": {"progressToken": "t"}}),
        );
        let messages: Vec<_> =
            lines(client.open(&call)).map_while(Result::ok).filter_map(|line| message(&line)).collect();
        let (answer, told) = messages.split_last().unwrap();
        assert_eq!(answer["id"], 7, "{messages:?}");
        assert!(told.len() >= 2, "{told:?}");
        let mut last = 0.0;
        for progress in told {
            assert_eq!(progress["method"], "notifications/progress");
            assert_eq!(progress["params"]["progressToken"], "t");
            let now = progress["params"]["progress"].as_f64().unwrap();
            assert!(now > last, "{told:?}");
            last = now;
        }
    }
    // Nobody who has not asked for it is told.
    let client = Client::of(&server, Revision::Of2025);
    let call =
        client.request(7, "tools/call", json!({"name": "run_prompt", "arguments": {"prompt": "sleep 0.5"}}));
    let messages = lines(client.open(&call)).map_while(Result::ok).filter(|line| message(line).is_some());
    assert_eq!(messages.count(), 1);
}

#[test]
fn a_long_call_is_kept_alive_before_it_has_anything_to_say() {
    let server = beside_the_api().start();
    let client = Client::of(&server, Revision::Of2026);
    let script = "while [ ! -e go ]; do sleep 0.01; done; echo done";
    let call =
        client.request(7, "tools/call", json!({"name": "run_prompt", "arguments": {"prompt": script}}));
    let begun = Instant::now();
    let mut lines = lines(client.open(&call)).map_while(Result::ok);
    assert!(lines.next().unwrap().contains("200"));
    assert!(lines.by_ref().any(|line| line == ": keep-alive"), "after {:?}", begun.elapsed());
    fs::write(server.workspace().join("go"), "").unwrap();
    let answer = lines.find_map(|line| message(&line)).unwrap();
    assert_eq!(answer["result"]["structuredContent"]["text"], "done", "{answer}");
}

#[test]
fn a_run_outlives_the_time_after_which_an_idle_session_ends() {
    let server = beside_the_api().env("AICODEBOX_MCP_MODE_SESSION_IDLE", "1s").start();
    let (busy, idle) = (Client::of(&server, Revision::Of2025), Client::of(&server, Revision::Of2025));
    let prompt = "sleep 2; echo > old; until [ -e go ]; do sleep 0.1; done; echo done";
    thread::scope(|scope| {
        let run = scope.spawn(|| busy.good("run_prompt", json!({"prompt": prompt})));
        server.wait_for_file("old");
        // A session that begins makes the idle ones go.
        Client::of(&server, Revision::Of2025);
        idle.post(&idle.request(8, "tools/list", json!({}))).status(404);
        fs::write(server.workspace().join("go"), "").unwrap();
        assert_eq!(run.join().unwrap().0.trim(), "done");
    });
    busy.good("list_files", json!({}));
}
