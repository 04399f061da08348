use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::harness::{Home, SHELL, eventually, gone};

/// `aicodebox mcp` and its two pipes.
struct Piped {
    home: Home,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Piped {
    fn start() -> Self {
        let home = Home::new(SHELL);
        let mut child = home
            .command("mcp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { home, child, input, output }
    }

    /// One that has been introduced.
    fn introduced() -> Self {
        let mut piped = Self::start();
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        });
        let hello = piped.ask(0, "initialize", hello);
        assert_eq!(hello["result"]["serverInfo"]["name"], "aicodebox", "{hello}");
        piped.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        piped
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn call(&mut self, id: u64, prompt: &str) {
        let params = json!({"name": "run_prompt", "arguments": {"prompt": prompt}});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.answer(id)
    }

    fn answer(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "no answer to {id}");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }

    /// The pid that the agent wrote into this file.
    fn pid(&self, name: &str) -> i32 {
        let path = self.home.path("workspace").join(name);
        eventually("the agent works", || std::fs::read_to_string(&path).ok()?.trim().parse().ok())
    }

    fn ended(&mut self) -> Option<i32> {
        eventually("it ends", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

const STUBBORN: &str =
    "trap '' TERM; setsid sleep 300 & echo $! > child; echo $$ > agent; while true; do wait; sleep 1; done";

#[test]
fn the_same_tools_answer_on_pipes() {
    let mut piped = Piped::introduced();
    let listed = piped.ask(1, "tools/list", json!({}));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 8);
    // Not a line of JSON, and not a message: neither ends the connection.
    let input = piped.input.as_mut().unwrap();
    input.write_all(b"not json\n{\"jsonrpc\":\"2.0\"}\n").unwrap();
    piped.call(2, "echo $$ > agent; while [ ! -e go ]; do sleep 0.01; done; echo slow");
    piped.pid("agent");
    piped.call(3, "echo quick");
    assert_eq!(piped.answer(3)["result"]["content"][0]["text"], "quick");
    // Only now: an answer that comes before the one that is waited for is passed over.
    std::fs::write(piped.home.path("workspace/go"), "").unwrap();
    assert_eq!(piped.answer(2)["result"]["content"][0]["text"], "slow");
    piped.input = None;
    assert_eq!(piped.ended(), Some(0));
}

#[test]
fn a_call_is_cancelled_by_a_notification() {
    let mut piped = Piped::introduced();
    piped.call(1, STUBBORN);
    let pids = [piped.pid("agent"), piped.pid("child")];
    let begun = Instant::now();
    let params = json!({"requestId": 1});
    piped.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    pids.into_iter().for_each(gone);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    piped.call(2, "echo still here");
    assert_eq!(piped.answer(2)["result"]["content"][0]["text"], "still here");
}

#[test]
fn nothing_is_left_when_the_client_closes_its_end() {
    let mut piped = Piped::introduced();
    piped.call(1, STUBBORN);
    let pids = [piped.pid("agent"), piped.pid("child")];
    let begun = Instant::now();
    piped.input = None;
    pids.into_iter().for_each(gone);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(piped.ended(), Some(0));
}

#[test]
fn nothing_is_left_after_a_signal() {
    let mut piped = Piped::introduced();
    piped.call(1, STUBBORN);
    let pids = [piped.pid("agent"), piped.pid("child")];
    kill(Pid::from_raw(piped.child.id() as i32), Signal::SIGTERM).unwrap();
    // Its input is still open: nobody may wait for that.
    assert_eq!(piped.ended(), Some(0));
    pids.into_iter().for_each(gone);
}

#[test]
fn a_client_that_leaves_without_a_word_is_no_error() {
    let mut piped = Piped::start();
    piped.input = None;
    assert_eq!(piped.ended(), Some(0));
}
