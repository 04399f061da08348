use std::{
    io::{BufRead, BufReader, Read},
    net::TcpStream,
};

use serde_json::{Value, json};

use crate::harness::{Answer, Running};

pub(super) const PATH: &str = "/v1/chat/completions";

/// An adapter whose agent is the shell and whose prompt is the script, with a channel for everything: the script finds
/// files with its system prompt in $SYSTEM, with what is appended to it in $APPEND, with its schema in $SCHEMA.
pub(super) const CHANNELS: &str = r#"
schema = 1
name   = "channels"
binary = "/bin/sh"
[models]
list = ["small", "large"]
[run]
argv  = ["-c", 'eval "$(cat)"', "channels", { when = "model", args = ["{model}"] }, { when = "no_tools", args = ["--no-tools"] }]
stdin = "{prompt}"
[env]
SYSTEM = { when = "system_prompt", value = "{system_prompt.file}" }
APPEND = { when = "append_system_prompt", value = "{append_system_prompt.file}" }
SCHEMA = { when = "json_schema", value = "{json_schema.file}" }
EFFORT = { when = "effort", value = "{effort}" }
[output]
format = "text"
"#;

/// A chat with this one message.
pub(super) fn says(text: &str) -> Value {
    json!({"model": "small", "messages": [{"role": "user", "content": text}]})
}

/// The same with more in the body.
pub(super) fn with(text: &str, more: Value) -> Value {
    let mut body = says(text);
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

pub(super) fn chat(server: &Running, body: Value) -> Answer {
    chat_with(server, &[], body)
}

pub(super) fn chat_with(server: &Running, headers: &[(&str, &str)], body: Value) -> Answer {
    server.send("POST", PATH, headers, Some(body.to_string()))
}

/// Checks that it is an error in OpenAI's shape, with this status, and gives the object under `error`.
pub(super) fn error(answer: Answer, status: u16) -> Value {
    let answer = answer.status(status);
    assert!(answer.header("x-request-id").is_some_and(|id| !id.is_empty()));
    let json = answer.json();
    assert_eq!(json["detail"], json["error"]["message"], "{json}");
    let error = json["error"].clone();
    let mut names: Vec<_> = error.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["code", "message", "param", "type"]);
    error
}

/// The text of a whole answer.
pub(super) fn content(answer: Answer) -> String {
    answer.status(200).text("/choices/0/message/content")
}

/// A streamed answer, read as it comes.
pub(super) struct Events {
    pub(super) status: u16,
    pub(super) headers: Vec<String>,
    body: Dechunked,
}

/// What a stream consists of.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    /// A comment.
    Comment(String),
    /// The name, if there is one, and the data.
    Data(Option<String>, Value),
    /// `[DONE]`.
    Done,
}

/// The body of a chunked answer.
struct Dechunked {
    stream: BufReader<TcpStream>,
    left: usize,
}

impl Read for Dechunked {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            let mut size = String::new();
            self.stream.read_line(&mut size)?;
            if size.trim().is_empty() {
                size.clear();
                self.stream.read_line(&mut size)?;
            }
            self.left = usize::from_str_radix(size.trim(), 16).map_err(std::io::Error::other)?;
            if self.left == 0 {
                return Ok(0);
            }
        }
        let most = buffer.len().min(self.left);
        let length = self.stream.read(&mut buffer[..most])?;
        self.left -= length;
        Ok(length)
    }
}

impl Events {
    /// Starts a streamed chat and waits for its head.
    pub(super) fn open(server: &Running, headers: &[(&str, &str)], mut body: Value) -> Self {
        body["stream"] = json!(true);
        let mut stream = BufReader::new(server.open("POST", PATH, headers, Some(body.to_string())));
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_ascii_lowercase()),
            }
        }
        let status = head[0].split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, headers: head, body: Dechunked { stream, left: 0 } }
    }

    /// The next event; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Event> {
        let mut name = None;
        loop {
            let line = self.line()?;
            if let Some(comment) = line.strip_prefix(": ") {
                return Some(Event::Comment(comment.to_owned()));
            } else if let Some(given) = line.strip_prefix("event: ") {
                name = Some(given.to_owned());
            } else if line == "data: [DONE]" {
                return Some(Event::Done);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some(Event::Data(name, serde_json::from_str(data).unwrap()));
            }
        }
    }

    /// The next chunk with text, and that text.
    pub(super) fn text(&mut self) -> String {
        loop {
            if let Event::Data(None, chunk) = self.next().unwrap()
                && let Some(text) =
                    chunk["choices"][0]["delta"]["content"].as_str().filter(|text| !text.is_empty())
            {
                return text.to_owned();
            }
        }
    }

    /// Everything to the end.
    pub(super) fn rest(mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next()).collect()
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.body.read(&mut byte).unwrap() == 1 {
            if byte[0] == b'\n' {
                return Some(String::from_utf8(line).unwrap());
            }
            line.push(byte[0]);
        }
        None
    }
}

/// The chunks of a stream that ended as it must: with `[DONE]`, and nothing after it.
pub(super) fn chunks(events: &[Event]) -> Vec<&Value> {
    assert_eq!(events.last(), Some(&Event::Done));
    let chunks = events.iter().filter_map(|event| match event {
        Event::Data(None, chunk) => Some(chunk),
        Event::Data(Some(_), _) | Event::Comment(_) | Event::Done => None,
    });
    chunks.collect()
}

/// All text of a stream.
pub(super) fn streamed(events: &[Event]) -> String {
    chunks(events).iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

/// The reasons of the end that a stream gives.
pub(super) fn finishes(events: &[Event]) -> Vec<String> {
    chunks(events)
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str().map(str::to_owned))
        .collect()
}
