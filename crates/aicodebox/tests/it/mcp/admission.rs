use serde_json::json;

use super::client::{Client, Revision, alone, beside_the_api};
use crate::harness::{Answer, Running};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

fn list(server: &Running, path: &str, headers: &[(&str, &str)]) -> Answer {
    let usual = [
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/list"),
    ];
    server.send("POST", path, &[headers, usual.as_slice()].concat(), Some(PING.to_owned()))
}

#[test]
fn a_page_that_was_given_our_address_gets_nothing() {
    // F3: DNS rebinding, and a page that just calls.
    let server = alone().start();
    list(&server, "/mcp", &[]).status(200);
    for method in ["POST", "GET", "DELETE", "OPTIONS"] {
        let host = server.address.to_string();
        for hosts in [&[("Host", "evil.example")][..], &[("Host", &host), ("Host", "evil.example")]] {
            server.send(method, "/mcp", hosts, None).status(421);
        }
    }
    for origin in ["http://evil.example", "null", "http://localhost.evil.example"] {
        let refused = list(&server, "/mcp", &[("Origin", origin)]).status(403);
        assert_eq!(refused.header("access-control-allow-origin"), None);
        assert!(refused.text("/error/message").contains("AICODEBOX_MCP_MODE_ALLOWED_ORIGINS"));
        server.send("OPTIONS", "/mcp", &[("Origin", origin)], None).status(403);
    }
    let page = ("Origin", "http://localhost:6274");
    let allowed = list(&server, "/mcp", &[page]).status(200);
    assert_eq!(allowed.header("access-control-allow-origin"), Some(page.1));
    server.send("OPTIONS", "/mcp", &[page], None).status(204);

    let call = |content_type| {
        let headers = [("Content-Type", content_type), ("Accept", "application/json, text/event-stream")];
        server.send("POST", "/mcp", &headers, Some(PING.to_owned()))
    };
    for plain in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        call(plain).status(415);
    }
}

#[test]
fn a_wrong_host_is_misdirected() {
    let server = alone().env("AICODEBOX_MCP_MODE_ALLOWED_HOSTS", "box.example").start();
    // We are called by our address here.
    let refused = list(&server, "/mcp", &[]).status(421);
    assert!(refused.text("/error/message").contains("AICODEBOX_MCP_MODE_ALLOWED_HOSTS"));
    list(&alone().env("AICODEBOX_MCP_MODE_ALLOWED_HOSTS", "*").start(), "/mcp", &[]).status(200);
}

#[test]
fn the_token_is_its_own_and_never_logged() {
    let server = beside_the_api()
        .token("of-the-api")
        .env("AICODEBOX_MCP_MODE_TOKEN", "of-mcp")
        .env("RUST_LOG", "trace")
        .start();
    let no = ("Authorization", "Basic x");
    for path in ["/mcp", "/mcp?apiToken=of-the-api", "/mcp/?apiToken=", "/mcp?apitoken=of-mcp"] {
        let refused = list(&server, path, &[no]).status(401);
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }
    list(&server, "/mcp", &[("Authorization", "Bearer of-the-api")]).status(401);
    list(&server, "/mcp", &[("Authorization", "bearer of-mcp")]).status(200);
    list(&server, "/mcp?apiToken=of-mcp", &[no]).status(200);
    list(&server, "/mcp/?x=1&apiToken=of%2Dmcp", &[no]).status(200);
    // Nor does MCP's open the API.
    server.send("GET", "/status", &[("Authorization", "Bearer of-mcp")], None).status(401);
    server.get("/status").status(200);
    let log = server.log.text();
    assert!(log.contains("/mcp") && !log.contains("of-mcp") && !log.contains("of-the-api"), "{log}");
}

#[test]
fn prompts_and_sessions_are_not_logged_either() {
    let server = beside_the_api().env("RUST_LOG", "debug").start();
    let client = Client::of(&server, Revision::Of2025);
    client.good("run_prompt", json!({"prompt": "echo very-private"}));
    client.notify("notifications/cancelled", json!({"requestId": 99, "reason": "very-private"}));
    client.delete();
    assert!(!server.log.text().contains("very-private"));
}

#[test]
fn who_takes_anything_is_answered() {
    let server = alone().start();
    let send = |accept| {
        let headers =
            [("Accept", accept), ("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/list")];
        server.send("POST", "/mcp", &headers, Some(PING.to_owned()))
    };
    send("*/*").status(200);
    send("application/json").status(406);
}

#[test]
fn what_is_no_message_is_refused() {
    let server = alone().env("AICODEBOX_API_MODE_MAX_BODY", "1KiB").start();
    let send = |body: &str| {
        let accept = ("Accept", "application/json, text/event-stream");
        server.send("POST", "/mcp", &[accept], Some(body.to_owned()))
    };
    for broken in ["", "{", "not json", "{\"jsonrpc\":\"2.0\",}"] {
        send(broken).status(400).field("/error/code", -32_700).field("/jsonrpc", "2.0");
    }
    for other in ["1", "[]", "{}", "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]"] {
        send(other).status(400).field("/error/code", -32_600);
    }
    send(&format!("\"{}\"", "x".repeat(2_000))).status(413);
    server.send("PUT", "/mcp", &[], None).status(405);
}
