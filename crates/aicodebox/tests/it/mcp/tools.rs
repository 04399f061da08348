use std::{fs, thread};

use serde_json::{Value, json};

use super::client::{Client, Revision, alone, beside_the_api};
use crate::{
    harness::{EVENTS, SHELL, eventually},
    telegram::fake::{FakeTelegram, TOKEN},
};

const REVISIONS: [Revision; 2] = [Revision::Of2025, Revision::Of2026];

#[test]
fn the_file_tools_answer_as_the_original_did_and_with_values_beside() {
    let server = beside_the_api().start();
    for revision in REVISIONS {
        let client = Client::of(&server, revision);
        let (text, value) = client.good("write_file", json!({"path": "d/x.txt", "content": "h\u{e9}"}));
        assert_eq!(text, r#"{"status":"ok","path":"d/x.txt","size":3}"#);
        assert_eq!(value, json!({"status": "ok", "path": "d/x.txt", "size": 3}));
        let (text, value) = client.good("read_file", json!({"path": "d/x.txt"}));
        assert_eq!(text, "h\u{e9}");
        assert_eq!(value, json!({"path": "d/x.txt", "size": 3, "content": text, "encoding": "utf-8"}));
        for root in [
            json!({}),
            json!({"path": null}),
            json!({"path": ""}),
            json!({"path": "/"}),
            json!({"path": "."}),
        ] {
            let (text, _) = client.good("list_files", root);
            assert_eq!(text, r#"{"path":"/","entries":[{"name":"d","type":"dir"}]}"#);
        }
        let (text, value) = client.good("list_files", json!({"path": "d"}));
        assert_eq!(text, r#"{"path":"d","entries":[{"name":"x.txt","type":"file"}]}"#);
        assert_eq!(value["entries"][0], json!({"name": "x.txt", "type": "file", "size": 3}));

        assert!(client.bad("read_file", json!({"path": "../../etc/passwd"})).contains("leads out"));
        assert!(client.bad("read_file", json!({"path": "/etc/passwd"})).contains("absolute"));
        assert_eq!(client.bad("read_file", json!({"path": "d/y"})), "not found: d/y");
        assert_eq!(client.bad("delete_file", json!({"path": "d"})), "is a directory: d");
        let (text, _) = client.good("delete_file", json!({"path": "d/x.txt"}));
        assert_eq!(text, r#"{"status":"ok","path":"d/x.txt"}"#);
    }
    fs::write(server.workspace().join("binary"), [0xff, 0, 1]).unwrap();
    let (_, value) = Client::of(&server, Revision::Of2025).good("read_file", json!({"path": "binary"}));
    assert_eq!(value, json!({"path": "binary", "size": 3, "content": "/wAB", "encoding": "base64"}));
}

#[test]
fn a_prompt_is_run_and_a_failure_is_told_to_the_model() {
    let server = beside_the_api().start();
    for revision in REVISIONS {
        let client = Client::of(&server, revision);
        let (text, value) = client.good("run_prompt", json!({"prompt": "echo hi; pwd", "workspace": "w"}));
        let workspace = server.workspace().join("w").display().to_string();
        assert_eq!(text, format!("hi\n{workspace}"));
        assert_eq!((&value["text"], &value["workspace"]), (&json!(text), &json!(workspace)));
        assert_eq!((&value["status"], &value["exitCode"]), (&json!("completed"), &json!(0)));

        let failed = client.call("run_prompt", json!({"prompt": "echo half; echo why >&2; exit 3"}));
        assert_eq!(failed["isError"], true, "{failed}");
        let account = super::client::text(&failed);
        assert!(account.contains('3') && account.contains("why") && account.contains("half"), "{account}");
        assert_eq!(failed["structuredContent"]["exitCode"], 3);

        assert!(client.bad("run_prompt", json!({"prompt": " "})).contains("prompt"));
        assert!(client.bad("run_prompt", json!({})).contains("prompt"));
        assert!(client.bad("run_prompt", json!({"prompt": "true", "promt": 1})).contains("promt"));
        assert!(
            client.bad("run_prompt", json!({"prompt": "true", "workspace": "../x"})).contains("leads out")
        );
        let schema = json!({"type": "nonsense"});
        assert!(
            client
                .bad("run_prompt", json!({"prompt": "true", "json_schema": schema, "workspace": "ghost"}))
                .contains("Schema")
        );
        assert!(!server.workspace().join("ghost").exists());
    }
    // F11, M26: the agent's FIFO holds nobody up.
    let client = Client::of(&server, Revision::Of2025);
    client.good("run_prompt", json!({"prompt": "mkfifo fifo && echo made"}));
    for (tool, arguments) in
        [("read_file", json!({"path": "fifo"})), ("write_file", json!({"path": "fifo", "content": "x"}))]
    {
        assert_eq!(client.bad(tool, arguments), "not a regular file: fifo");
    }
}

#[test]
fn a_schema_gives_a_value_that_fits_it() {
    let channel = "[env]\nSCHEMA = { when = \"json_schema\", value = \"{json_schema.file}\" }\n[output]";
    let server = beside_the_api().adapter(&SHELL.replace("[output]", channel)).start();
    let client = Client::of(&server, Revision::Of2025);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    // The prompt is a script here, and what is added to it when it is asked again must be none of it.
    let prompt = "echo '{\"n\": 1}'; exit 0\n";
    for schema in [schema.clone(), json!(schema.to_string())] {
        let (text, value) = client.good("run_prompt", json!({"prompt": prompt, "json_schema": schema}));
        assert_eq!((text.as_str(), &value["json"]), (r#"{"n":1}"#, &json!({"n": 1})));
    }
    let never = json!({"prompt": "echo nothing; exit 0\n", "json_schema": schema});
    let failed = client.call("run_prompt", never);
    assert_eq!(failed["isError"], true, "{failed}");
}

#[test]
fn a_run_in_the_background_is_started_looked_at_and_cancelled() {
    let server = beside_the_api().start();
    let client = Client::of(&server, Revision::Of2026);
    let script = "echo $$ > agent; while [ ! -e go ]; do sleep 0.01; done; echo done";
    let (_, started) = client.good("start_run", json!({"prompt": script}));
    assert_eq!(started["status"], "running");
    let id = json!({"run_id": started["runId"]});
    server.wait_for_file("agent");
    let (_, standing) = client.good("get_run", id.clone());
    assert_eq!(standing["status"], "running");
    fs::write(server.workspace().join("go"), "").unwrap();
    let ended = eventually("it has ended", || {
        let (text, standing) = client.good("get_run", id.clone());
        (standing["status"] == "completed").then_some((text, standing))
    });
    assert_eq!((ended.0.as_str(), &ended.1["text"]), ("done", &json!("done")));

    let (_, second) = client.good("start_run", json!({"prompt": "sleep 300"}));
    let id = json!({"run_id": second["runId"]});
    for _ in 0..2 {
        assert_eq!(client.good("cancel_run", id.clone()).1["status"], "cancelled");
    }
    assert_eq!(client.good("get_run", id).1["status"], "cancelled");
    for tool in ["get_run", "cancel_run"] {
        assert!(client.bad(tool, json!({"run_id": "0".repeat(32)})).contains("no run"));
        assert!(client.bad(tool, json!({"run_id": "x"})).contains("32 hex digits"));
    }
}

#[test]
fn a_slow_run_blocks_nobody() {
    let server = beside_the_api().start();
    for revision in REVISIONS {
        let client = Client::of(&server, revision);
        let name = format!("go-{revision:?}");
        let script = format!("echo $$ > agent-{name}; while [ ! -e {name} ]; do sleep 0.01; done; echo done");
        thread::scope(|scope| {
            let slow = scope.spawn(|| client.good("run_prompt", json!({"prompt": script})));
            server.wait_for_file(&format!("agent-{name}"));
            // Also not a run in the same place, and not another call of the same session.
            client.good("list_files", json!({}));
            assert_eq!(client.good("run_prompt", json!({"prompt": "echo quick"})).0, "quick");
            server.get("/healthz").status(200);
            assert!(!slow.is_finished());
            client.good("write_file", json!({"path": name, "content": ""}));
            assert_eq!(slow.join().unwrap().0, "done");
        });
    }
}

#[test]
fn runs_in_one_named_workspace_wait_for_each_other() {
    let server = beside_the_api().start();
    let client = Client::of(&server, Revision::Of2026);
    let script = "[ ! -e here ] && touch here && sleep 0.2 && rm here && echo alone";
    thread::scope(|scope| {
        let runs: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| client.good("run_prompt", json!({"prompt": script, "workspace": "w"}))))
            .collect();
        for run in runs {
            assert_eq!(run.join().unwrap().0, "alone");
        }
    });
}

#[test]
fn a_conversation_is_resumed_by_its_id() {
    let server = beside_the_api().adapter(EVENTS).start();
    let client = Client::of(&server, Revision::Of2026);
    let script = r#"printf '{"session":"s1"}\n{"message":"%s"}\n{"done":"ok"}\n' "${1:-fresh}""#;
    let (_, first) = client.good("run_prompt", json!({"prompt": script, "no_continue": false}));
    assert_eq!(first["sessionId"], "s1", "{first}");
    let (text, _) = client.good("run_prompt", json!({"prompt": script, "resume": first["sessionId"]}));
    assert_eq!(text, "resumed:s1");
    let (text, _) = client.good("run_prompt", json!({"prompt": script, "no_continue": false}));
    assert_eq!(text, "resumed:s1");
    for usual in [json!({"prompt": script}), json!({"prompt": script, "no_continue": null})] {
        assert_eq!(client.good("run_prompt", usual).0, "fresh");
    }
}

#[test]
fn every_tool_has_hints_and_schemas() {
    let server = beside_the_api().start();
    for revision in REVISIONS {
        let listed = Client::of(&server, revision).ask("tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "run_prompt",
                "list_files",
                "read_file",
                "write_file",
                "delete_file",
                "start_run",
                "get_run",
                "cancel_run"
            ]
        );
        for tool in tools {
            assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
            assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
            assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
            assert!(!tool["description"].as_str().unwrap().is_empty());
        }
        let hint = |name: &str, hint: &str| -> Value {
            tools.iter().find(|tool| tool["name"] == name).unwrap()["annotations"][hint].clone()
        };
        assert_eq!(hint("read_file", "readOnlyHint"), true);
        assert_eq!(hint("run_prompt", "destructiveHint"), true);
    }
}

#[test]
fn it_answers_beside_the_bot_and_the_jobs() {
    let telegram = FakeTelegram::start();
    let folder = tempfile::tempdir().unwrap();
    let jobs = folder.path().join("cron.yml");
    let job = "jobs:\n  - name: tick\n    schedule: '* * * * * *'\n    instruction: echo ticked\n    telegram_chat_id: 5\n";
    fs::write(&jobs, job).unwrap();
    let server = alone()
        .env("AICODEBOX_CRON_MODE", "1")
        .env("AICODEBOX_CRON_MODE_FILE", jobs.to_str().unwrap())
        .env("AICODEBOX_TELEGRAM_MODE", "1")
        .env("AICODEBOX_TELEGRAM_MODE_TOKEN", TOKEN)
        .env("AICODEBOX_TELEGRAM_MODE_API_URL", telegram.url())
        .env("TELEGRAM_CHAT_ID", "5")
        .start();
    telegram.writes(5, "echo from the chat");
    telegram.said(5, "from the chat");
    telegram.said(5, "ticked");
    for revision in REVISIONS {
        let (text, _) =
            Client::of(&server, revision).good("run_prompt", json!({"prompt": "echo from a tool"}));
        assert!(text.contains("from a tool"), "{text}");
    }
}
