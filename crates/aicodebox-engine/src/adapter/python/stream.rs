use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::{sync::Notify, task::JoinSet, time::timeout};

use super::{
    super::{
        clip::Clip,
        contract::{OutputReader, ReadError, Reading, TEXT_LIMIT},
    },
    adapter::Run,
    bridge::{Ask, CallError},
    link::lock,
    reading::{Said, broken},
    usage::usage,
    whole::LIMIT_STOPPED,
    wire::{StreamEvent, Streamed, What},
};
use crate::{
    BoxFuture,
    process::{Flow, Line, Lines, MAX_LINE, Stream},
    run::{EventSink, Exit, Failure, Finish, NativeRecord, Notice, RunEvent, SessionId},
};

/// Bytes of lines that may wait for the class; further lines are left out, counted, and the user is told.
const MAX_BACKLOG: usize = 16 << 20;
/// And this is what a line takes beside its bytes: an agent that prints empty ones took 2 GB in five seconds.
const A_LINE: usize = 64;
/// Lines in one call; those that arrive meanwhile make the next one.
const MAX_BATCH: usize = 4096;
/// Bytes in one call.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// The longest wait for one batch.
const LIMIT: Duration = Duration::from_secs(10);
/// The longest wait for all that is left when the agent has ended.
const LIMIT_REST: Duration = Duration::from_secs(30);

/// Has every line read as it comes. The pipe never waits for the class: lines queue up, and a task of this reader
/// asks for them, as many at once as there are.
pub(super) struct StreamReader {
    lines: Lines,
    backlog: Arc<Backlog>,
    heard: Arc<Mutex<Heard>>,
    /// The one task; it ends with the reader.
    task: JoinSet<()>,
    events: Arc<dyn EventSink>,
}

#[derive(Default)]
struct Backlog {
    queue: Mutex<Queue>,
    more: Notify,
    /// Why the class reads no further line.
    failed: OnceLock<Failure>,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<String>,
    bytes: usize,
    /// Lines that did not fit.
    dropped: u64,
    /// Lines that were too long and lost their end.
    cut: u64,
    ended: bool,
}

/// What the events said so far.
struct Heard {
    said: Said,
    text: Clip,
}

impl StreamReader {
    pub(super) fn new(run: Run, request: Box<RawValue>, events: Arc<dyn EventSink>) -> Self {
        let backlog = Arc::new(Backlog::default());
        let heard = Arc::new(Mutex::new(Heard { said: Said::default(), text: Clip::new(TEXT_LIMIT) }));
        let asker = Asker { run, request, backlog: backlog.clone(), heard: heard.clone(), events };
        let events = asker.events.clone();
        let mut task = JoinSet::new();
        task.spawn(asker.serve());
        Self { lines: Lines::new(MAX_LINE), backlog, heard, task, events }
    }
}

impl OutputReader for StreamReader {
    fn feed(&mut self, stream: Stream, bytes: &[u8]) -> Flow {
        if stream == Stream::Stdout {
            let mut queue = lock(&self.backlog.queue);
            self.lines.feed(bytes, |line| queue.push(line));
            drop(queue);
            self.backlog.more.notify_one();
        }
        self.backlog.failed.get().map_or(Flow::Go, |failure| Flow::Abort(failure.clone()))
    }

    fn finish(mut self: Box<Self>, exit: Exit) -> BoxFuture<'static, Result<Reading, ReadError>> {
        Box::pin(async move {
            let (dropped, cut) = {
                let mut queue = lock(&self.backlog.queue);
                self.lines.end(|line| queue.push(line));
                queue.ended = true;
                (queue.dropped, queue.cut)
            };
            self.backlog.more.notify_one();
            if dropped > 0 {
                self.truncated(format!("{dropped} lines were left out: parse_stream_event did not keep up"));
            }
            if cut > 0 {
                self.truncated(format!("{cut} lines of more than {} MiB lost their end", MAX_LINE >> 20));
            }
            let limit = if exit.ended_by.stopped() { LIMIT_STOPPED } else { LIMIT_REST };
            let late = timeout(limit, self.task.join_next()).await.is_err();
            self.task.shutdown().await;
            let Heard { mut said, text } = {
                let mut heard = lock(&self.heard);
                let empty = Heard { said: Said::default(), text: Clip::new(0) };
                std::mem::replace(&mut *heard, empty)
            };
            if text.is_cut() {
                self.truncated("the answer was too long: its middle was left out".into());
            }
            said.text = text.into_text();
            said.broken = match self.backlog.failed.get() {
                Some(failure) => Some(failure.message.clone()),
                None => late.then(|| {
                    format!("parse_stream_event needed more than {} s for the rest", limit.as_secs())
                }),
            };
            Ok(said.reading(exit))
        })
    }
}

impl StreamReader {
    fn truncated(&self, message: String) {
        self.events.push(RunEvent::Notice(Notice { code: "truncated".into(), message }));
    }
}

impl Queue {
    fn push(&mut self, line: Line<'_>) {
        if self.bytes + line.bytes.len() + A_LINE > MAX_BACKLOG {
            self.dropped += 1;
            return;
        }
        self.cut += u64::from(line.truncated);
        let line = String::from_utf8_lossy(line.bytes).into_owned();
        self.bytes += line.len() + A_LINE;
        self.lines.push_back(line);
    }

    fn take(&mut self) -> Vec<String> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < MAX_BATCH && bytes < MAX_BATCH_BYTES {
            let Some(line) = self.lines.pop_front() else { break };
            bytes += line.len() + A_LINE;
            batch.push(line);
        }
        self.bytes -= bytes;
        batch
    }
}

impl Backlog {
    /// The next lines; `None` after the last.
    async fn next(&self) -> Option<Vec<String>> {
        loop {
            let (batch, ended) = {
                let mut queue = lock(&self.queue);
                (queue.take(), queue.ended)
            };
            if !batch.is_empty() {
                return Some(batch);
            }
            if ended {
                return None;
            }
            self.more.notified().await;
        }
    }
}

struct Asker {
    run: Run,
    request: Box<RawValue>,
    backlog: Arc<Backlog>,
    heard: Arc<Mutex<Heard>>,
    events: Arc<dyn EventSink>,
}

impl Asker {
    async fn serve(self) {
        while let Some(lines) = self.backlog.next().await {
            lines.iter().for_each(|line| self.events.push(RunEvent::Native(native(line))));
            let ask = Ask {
                what: What::Lines,
                run: self.run.number,
                request: &self.request,
                lines: Some(&lines),
                stdout: None,
                limit: LIMIT,
            };
            let failed = match self.run.bridge.ask::<Streamed>(ask).await {
                Ok(Streamed { events, error }) => {
                    let mut heard = lock(&self.heard);
                    events.into_iter().for_each(|event| heard.take(event, &*self.events));
                    error
                }
                Err(CallError::Refused(why) | CallError::Failed(why)) => Some(why),
            };
            if let Some(why) = failed {
                // As in the original the first exception ends the run; there is one task, so it is the first.
                let _first = self.backlog.failed.set(broken(why));
                return;
            }
        }
    }
}

impl Heard {
    fn take(&mut self, event: StreamEvent, events: &dyn EventSink) {
        let StreamEvent { kind, text, data } = event;
        match kind.as_str() {
            "delta" if !text.is_empty() => {
                self.text.push(&text);
                events.push(RunEvent::Delta(text));
            }
            "session" => {
                if let Some(id) =
                    data.as_ref().and_then(|data| data.get("id")?.as_str()).filter(|id| !id.is_empty())
                {
                    let session = SessionId(id.to_owned());
                    self.said.session = Some(session.clone());
                    events.push(RunEvent::Session(session));
                }
            }
            "usage" => self.usage(data, events),
            "stop" => {
                let reason = data.as_ref().and_then(|data| data.get("reason")?.as_str()).unwrap_or("stop");
                self.said.finish = finish(reason);
                if reason != "error" {
                    // The agent came to its end after all: what it complained about did not stop it.
                    self.said.provider_error = None;
                }
                self.usage(data.and_then(|mut data| Some(data.get_mut("usage")?.take())), events);
            }
            "error" => {
                events.push(RunEvent::Notice(Notice { code: "agent".into(), message: text.clone() }));
                self.said.provider_error = Some(text);
            }
            // "raw" is for debugging, and a class may have words of its own.
            _ => {}
        }
    }

    fn usage(&mut self, native: Option<Value>, events: &dyn EventSink) {
        if let Some(native) = native.filter(Value::is_object) {
            events.push(RunEvent::Usage(usage(native.clone())));
            self.said.usage = Some(native);
        }
    }
}

fn finish(reason: &str) -> Finish {
    match reason {
        "length" | "max_tokens" => Finish::Length,
        "content_filter" => Finish::ContentFilter,
        "tool_use" | "tool_calls" => Finish::Tool,
        _ => Finish::Stop,
    }
}

/// A line of the agent as a provider's record.
fn native(line: &str) -> NativeRecord {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(rename = "type")]
        kind: Option<Value>,
    }
    let typed = serde_json::from_str::<Typed>(line).ok().filter(|_| line.trim_start().starts_with('{'));
    let event_type = match &typed {
        None => "raw",
        Some(Typed { kind }) => kind.as_ref().and_then(Value::as_str).unwrap_or("unknown"),
    };
    NativeRecord {
        event_type: event_type.to_owned(),
        line: Bytes::from(line.to_owned()),
        json: typed.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_take_room_too() {
        let mut queue = Queue::default();
        for _ in 0..2_000_000 {
            queue.push(Line { bytes: b"", truncated: false });
        }
        assert!(queue.lines.len() < 300_000 && queue.dropped > 1_000_000, "{}", queue.lines.len());
        while !queue.take().is_empty() {}
        assert_eq!(queue.bytes, 0);
    }
}
