//! The probes.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::harness::{EVENTS, Finished, Server, eventually};

#[test]
fn a_server_that_is_well_says_so() {
    let server = Server::new().start();
    server
        .get("/healthz")
        .status(200)
        .names(&["ok", "adapter"])
        .field("/ok", true)
        .field("/adapter", "shell");
    server.get("/livez").status(200);
    server.get("/readyz").status(200);
    let mut check = server.home().command("healthcheck");
    check.env("AICODEBOX_API_MODE", "1").env("AICODEBOX_API_MODE_PORT", server.address.port().to_string());
    let finished = Finished::of(&mut check).code(0);
    assert!(finished.stdout().contains("\"ok\":true"), "{}", finished.stdout());
    drop(server);
}

#[test]
fn the_health_check_fails_where_nobody_answers() {
    let server = Server::new().start();
    let port = server.address.port().to_string();
    let home = crate::harness::Home::new(crate::harness::SHELL);
    drop(server);
    let mut check = home.command("healthcheck");
    check.env("AICODEBOX_API_MODE", "1").env("AICODEBOX_API_MODE_PORT", port);
    Finished::of(&mut check).code(1);
    // A box without a port is well as long as it runs.
    Finished::of(&mut home.command("healthcheck")).code(0);
}

#[test]
fn a_directory_that_cannot_be_written_is_not_ready() {
    let server = Server::new().unprivileged().start();
    let workspace = server.workspace();
    std::fs::set_permissions(&workspace, PermissionsExt::from_mode(0o555)).unwrap();
    let answer = server.get("/readyz").status(503);
    assert!(answer.text("/detail").contains(workspace.to_str().unwrap()));
    server.get("/livez").status(200);
    std::fs::set_permissions(&workspace, PermissionsExt::from_mode(0o755)).unwrap();
    server.get("/readyz").status(200);
}

/// M17: the original answered after 2.7 s, because probes waited behind 45 runs.
#[test]
fn probes_do_not_wait_for_runs() {
    let server = Server::new().start();
    thread::scope(|scope| {
        for _ in 0..45 {
            scope.spawn(|| {
                let waits = "while [ ! -e go ]; do sleep 0.05; done; echo done";
                server.run(json!({"prompt": waits})).status(200).field("/text", "done");
            });
        }
        eventually("45 runs are in flight", || {
            (server.get("/status").json()["runs"].as_array().unwrap().len() == 45).then_some(())
        });
        for path in ["/healthz", "/livez", "/readyz"] {
            let begun = Instant::now();
            server.get(path).status(200);
            assert!(begun.elapsed() < Duration::from_secs(1), "{path} took {:?}", begun.elapsed());
        }
        std::fs::write(server.workspace().join("go"), "").unwrap();
    });
}

/// A worker that read such a line answered nobody else.
#[test]
fn heavy_probes_are_quick_while_long_lines_are_read() {
    let server = Server::new().adapter(EVENTS).start();
    let numbers = "0,".repeat(3_900_000);
    let line = format!("{{\"notice\":\"n\",\"more\":[{numbers}0]}}\n");
    fs::write(server.workspace().join("lines"), line.repeat(3) + "{\"done\":\"ok\"}\n").unwrap();
    let mut slowest = Duration::ZERO;
    thread::scope(|scope| {
        let run = scope.spawn(|| server.run(json!({"prompt": "cat lines"})).status(200));
        while !run.is_finished() {
            let begun = Instant::now();
            server.get("/healthz").status(200);
            slowest = slowest.max(begun.elapsed());
            thread::sleep(Duration::from_millis(5));
        }
    });
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
}

/// One MCP run that takes long, one reader of a stream who does not read, and one answer of 200 MB, at the same time.
#[test]
fn heavy_probes_are_quick_beside_whatever_is_slow() {
    const QUICK: Duration = Duration::from_millis(50);
    let server = Server::new().env("AICODEBOX_MCP_MODE", "1").start();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "run_prompt", "arguments": {"prompt": "sleep 300"},
        "_meta": {"progressToken": 1, "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}});
    let mcp = [
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "run_prompt"),
    ];
    let lines = |bytes: usize| format!("yes {} | head -c {bytes}", "x".repeat(199));
    let chat = json!({"model": "small", "stream": true, "messages": [{"role": "user", "content": lines(20_000_000)}]});
    let _slow = server.open("POST", "/mcp", &mcp, Some(call.to_string()));
    let _unread = server.open("POST", "/v1/chat/completions", &[], Some(chat.to_string()));
    let mut took = thread::scope(|scope| {
        let large = scope.spawn(|| server.run(json!({"prompt": lines(200_000_000)})).status(200));
        eventually("the slow run and the large one have begun", || {
            (server.get("/status").json()["runs"].as_array().unwrap().len() >= 2).then_some(())
        });
        let mut took = Vec::new();
        while !large.is_finished() || took.len() < 200 {
            let begun = Instant::now();
            server.get("/healthz").status(200);
            took.push(begun.elapsed());
            thread::sleep(Duration::from_millis(5));
        }
        large.join().unwrap();
        took
    });
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100];
    assert!(p99 <= QUICK, "p99 of {} probes: {p99:?}, slowest {:?}", took.len(), took.last());
}
