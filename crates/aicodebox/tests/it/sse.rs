//! A reader of server-sent events that keeps the very bytes it was given.

use std::{
    io::{BufRead, BufReader, Read},
    net::TcpStream,
};

use serde_json::Value;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) data: String,
    /// As it came.
    pub(crate) bytes: String,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

/// An open stream of events.
pub(crate) struct Events {
    stream: Box<dyn BufRead>,
    pub(crate) status: u16,
}

impl Events {
    /// Reads the head of the answer.
    pub(crate) fn of(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        // A server that was killed may leave nothing at all.
        while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|count| count > 0) {}
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let stream: Box<dyn BufRead> =
            if chunked { Box::new(BufReader::new(Chunks { reader, left: 0 })) } else { Box::new(reader) };
        Self { stream, status }
    }
}

/// Ends with the stream, also one that was cut: an event that is not whole was not given.
impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut bytes = String::new();
        while !bytes.ends_with("\n\n") {
            if self.stream.read_line(&mut bytes).ok()? == 0 {
                return None;
            }
        }
        if bytes.starts_with(':') {
            return self.next();
        }
        let field = |name: &str| {
            let line = bytes.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.unwrap_or_else(|| panic!("no {name} in {bytes:?}")).to_owned()
        };
        Some(Event { id: field("id").parse().unwrap(), name: field("event"), data: field("data"), bytes })
    }
}

/// The bytes of a body in chunks.
struct Chunks<R> {
    reader: R,
    left: usize,
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            let mut line = String::new();
            while line.trim().is_empty() {
                line.clear();
                if self.reader.read_line(&mut line)? == 0 {
                    return Ok(0);
                }
            }
            self.left = usize::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
        }
        let wanted = buffer.len().min(self.left);
        let count = self.reader.read(&mut buffer[..wanted])?;
        self.left -= count;
        Ok(count)
    }
}
