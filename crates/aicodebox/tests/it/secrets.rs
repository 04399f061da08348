//! M7: what belongs to the gateway stays with it.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;

use crate::harness::Server;

#[test]
fn an_agent_sees_nothing_of_the_gateways_secrets() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "secret-of-a-file").unwrap();
    fs::set_permissions(file.path(), PermissionsExt::from_mode(0o644)).unwrap();
    let server = Server::new()
        .unprivileged()
        .token("secret-of-the-api")
        .env("AICODEBOX_TELEGRAM_MODE_TOKEN", "secret-of-telegram")
        .env("AICODEBOX_MCP_MODE_TOKEN", "secret-of-mcp")
        .env("AICODEBOX_CALLBACK_SECRET_FILE", file.path().to_str().unwrap())
        .env("OPENAI_API_KEY", "key-of-the-agent")
        .start();
    let environment = server.run(json!({"prompt": "env"})).status(200).text("/text");
    for secret in ["secret-of", "_TOKEN", "_SECRET", file.path().to_str().unwrap()] {
        assert!(!environment.contains(secret), "{environment}");
    }
    assert!(environment.contains("OPENAI_API_KEY=key-of-the-agent"), "{environment}");

    // Nor by way of /proc, whatever process of ours it looks at.
    let script = format!(
        "for pid in {} $PPID; do cat /proc/$pid/environ /proc/$pid/cmdline 2>&1 | tr '\\0' '\\n'; done; true",
        server.pid()
    );
    let seen = server.run(json!({"prompt": script})).status(200).text("/text");
    assert!(!seen.contains("secret-of") && seen.contains("Permission denied"), "{seen}");
    let log = server.log.text();
    assert!(!log.contains("secret-of"), "{log}");
}

#[test]
fn neither_prompts_nor_answers_are_logged() {
    let server = Server::new().env("RUST_LOG", "debug").start();
    server.run(json!({"prompt": "echo private-$((40+2))-answer # private-prompt"})).status(200);
    server.run(json!({"prompt": "echo private-prompt >&2; exit 1"})).status(200);
    let log = server.log.text();
    assert!(!log.contains("private-"), "{log}");
}
