//! A client that knows nothing but JSON-RPC.

use std::{
    io::{BufRead, BufReader, Lines},
    net::TcpStream,
    sync::atomic::{AtomicU64, Ordering},
};

use serde_json::{Value, json};

use crate::harness::{Answer, Running, Server};

/// A server with MCP beside its API.
pub(super) fn beside_the_api() -> Server {
    Server::new().env("AICODEBOX_MCP_MODE", "1")
}

/// A server with MCP alone.
pub(super) fn alone() -> Server {
    Server::new()
        .env("AICODEBOX_API_MODE", "0")
        .env("AICODEBOX_MCP_MODE", "1")
        .env("AICODEBOX_MCP_MODE_HOST", "127.0.0.1")
        .env("AICODEBOX_MCP_MODE_PORT", "0")
}

/// Which revision of the protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Revision {
    /// With an introduction and a session.
    Of2025,
    /// Every request for itself.
    Of2026,
}

pub(super) struct Client<'a> {
    server: &'a Running,
    path: &'static str,
    revision: Revision,
    session: Option<String>,
    /// The id of the next request of [`Client::ask`].
    asked: AtomicU64,
}

impl<'a> Client<'a> {
    /// Introduces itself, where the protocol wants it.
    pub(super) fn of(server: &'a Running, revision: Revision) -> Self {
        Self::at(server, "/mcp", revision)
    }

    pub(super) fn at(server: &'a Running, path: &'static str, revision: Revision) -> Self {
        let mut client = Self { server, path, revision, session: None, asked: AtomicU64::new(100) };
        if revision == Revision::Of2025 {
            let hello = json!({
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
            });
            let answer =
                client.post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
            let session = answer.header("mcp-session-id").map(str::to_owned);
            let version = messages(&answer.status(200))[0]["result"]["protocolVersion"].clone();
            assert_eq!(version, "2025-11-25");
            client.session = Some(session.unwrap());
            client.notify("notifications/initialized", json!({}));
        }
        client
    }

    pub(super) fn request(&self, id: u64, method: &str, mut params: Value) -> Value {
        if self.revision == Revision::Of2026 {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    fn headers<'b>(&'b self, message: &'b Value) -> Vec<(&'b str, &'b str)> {
        let mut headers = vec![("Accept", "application/json, text/event-stream")];
        if self.revision == Revision::Of2026 {
            headers.push(("MCP-Protocol-Version", "2026-07-28"));
            headers.extend(message["method"].as_str().map(|method| ("Mcp-Method", method)));
            headers.extend(message["params"]["name"].as_str().map(|name| ("Mcp-Name", name)));
        }
        if let Some(session) = &self.session {
            headers.extend([("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Session-Id", session)]);
        }
        headers
    }

    pub(super) fn post(&self, message: &Value) -> Answer {
        self.server.send("POST", self.path, &self.headers(message), Some(message.to_string()))
    }

    /// Sends a request and leaves the answer to the caller.
    pub(super) fn open(&self, message: &Value) -> TcpStream {
        self.server.open("POST", self.path, &self.headers(message), Some(message.to_string()))
    }

    pub(super) fn notify(&self, method: &str, params: Value) {
        self.post(&json!({"jsonrpc": "2.0", "method": method, "params": params})).status(202);
    }

    /// Ends the session.
    pub(super) fn delete(&self) {
        self.server.send("DELETE", self.path, &self.headers(&Value::Null), None).status(202);
    }

    /// The message that answers a request.
    pub(super) fn ask(&self, method: &str, params: Value) -> Value {
        // Several may be on their way at the same time, and what answers them is told apart by the id alone.
        let id = self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = self.post(&self.request(id, method, params));
        messages(&answer)
            .into_iter()
            .find(|message| message["id"] == id)
            .unwrap_or_else(|| panic!("{}", answer.body))
    }

    /// The result of a tool.
    pub(super) fn call(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// The text and the value of a tool's result, which must be good.
    pub(super) fn good(&self, tool: &str, arguments: Value) -> (String, Value) {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        (text(&result), result["structuredContent"].clone())
    }

    /// The text of a tool's result, which must be marked as an error.
    pub(super) fn bad(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        text(&result)
    }
}

pub(super) fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

/// The messages in an answer: one as JSON, or those of an event stream.
fn messages(answer: &Answer) -> Vec<Value> {
    if answer.header("content-type") == Some("application/json") {
        return vec![answer.json()];
    }
    answer.body.lines().filter_map(message).collect()
}

/// The message in a line of an event stream.
pub(super) fn message(line: &str) -> Option<Value> {
    serde_json::from_str(line.strip_prefix("data:")?.trim()).ok()
}

/// The lines of an answer, as they come.
pub(super) fn lines(stream: TcpStream) -> Lines<BufReader<TcpStream>> {
    BufReader::new(stream).lines()
}
