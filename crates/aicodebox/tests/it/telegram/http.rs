//! Just enough HTTP for the fake Bot API server: requests with a length, kept connections, multipart bodies.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use serde_json::{Map, Value};

/// A request.
pub(super) struct Request {
    pub(super) path: String,
    pub(super) params: Value,
    pub(super) files: HashMap<String, Upload>,
}

/// A file in a multipart body.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

pub(super) struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { reader: BufReader::new(stream) }
    }

    /// The next request; `None` when the client left.
    pub(super) fn request(&mut self) -> Option<Request> {
        let mut line = String::new();
        self.reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let path = line.split(' ').nth(1)?.to_owned();
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let body = if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            self.chunked()?
        } else {
            let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            self.reader.read_exact(&mut body).ok()?;
            body
        };
        let kind = headers.get("content-type").cloned().unwrap_or_default();
        let (params, files) = match kind.split_once("boundary=") {
            Some((_, boundary)) => multipart(&body, boundary.trim_matches('"')),
            None => (serde_json::from_slice(&body).unwrap_or(Value::Null), HashMap::new()),
        };
        Some(Request { path, params, files })
    }

    fn chunked(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).ok()?;
            let length = usize::from_str_radix(line.trim(), 16).ok()?;
            let mut chunk = vec![0; length + 2];
            self.reader.read_exact(&mut chunk).ok()?;
            if length == 0 {
                return Some(body);
            }
            body.extend_from_slice(&chunk[..length]);
        }
    }

    pub(super) fn answer(&mut self, status: u16, body: &[u8]) {
        let kind = if body.first() == Some(&b'{') { "application/json" } else { "application/octet-stream" };
        let head =
            format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
        // The client may have left.
        let _gone = self.reader.get_mut().write_all(&[head.as_bytes(), body].concat());
    }
}

fn multipart(body: &[u8], boundary: &str) -> (Value, HashMap<String, Upload>) {
    let mark = format!("--{boundary}");
    let (mut params, mut files) = (Map::new(), HashMap::new());
    for part in split(body, mark.as_bytes()).skip(1) {
        let Some(at) = find(part, b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&part[..at]).into_owned();
        let content = &part[at + 4..part.len() - 2];
        let named = |what: &str| {
            head.split(what).nth(1).map(|rest| rest.split('"').next().unwrap_or_default().to_owned())
        };
        let name = named(" name=\"").unwrap();
        match named("filename=\"") {
            Some(file) => {
                files.insert(name, Upload { name: file, bytes: content.to_vec() });
            }
            None => {
                let text = String::from_utf8_lossy(content).into_owned();
                let textual = matches!(name.as_str(), "caption" | "text" | "parse_mode");
                let json = serde_json::from_str(&text).ok().filter(|_| !textual);
                params.insert(name, json.unwrap_or(Value::String(text)));
            }
        }
    }
    (Value::Object(params), files)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn split<'a>(mut bytes: &'a [u8], mark: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut done = false;
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        match find(bytes, mark) {
            Some(at) => {
                let part = &bytes[..at];
                bytes = &bytes[at + mark.len()..];
                Some(part)
            }
            None => {
                done = true;
                Some(bytes)
            }
        }
    })
}
