use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::{
    ansi,
    contract::{OutputReader, ReadError, Reading},
    fault::{Facts, seconds, shorten},
    json::Json,
    object_line::with_object,
    pointer::At,
    progress::Progress,
    rule::Rule,
    spec::{Format, StderrMeaning},
    verdict,
};
use crate::{
    BoxFuture,
    process::{Flow, Line, Lines, MAX_LINE, Stream, Utf8Chunks},
    run::{AgentFault, Exit, Failure, FailureKind, Finish, NativeRecord, RunEvent, SessionId, Verdict},
};

/// Characters of a message from stderr.
const STDERR_MESSAGE_CHARS: usize = 400;

/// Longest line of plain text that is kept as a record; of a longer one, this much.
const MAX_TEXT_LINE: usize = 1 << 20;

/// Longest line of stderr that is looked at.
const MAX_STDERR_LINE: usize = 64 << 10;

/// Reads the output of one attempt by the rules of a file.
pub(super) struct FileReader {
    stdout: Stdout,
    stderr: Lines,
    /// The rules whose condition on the request holds.
    rules: Vec<Rule>,
    wants_schema: bool,
    progress: Progress,
}

enum Stdout {
    /// The answer as it comes; its lines are the records.
    Text {
        chunks: Utf8Chunks,
        lines: Lines,
    },
    Lines(Lines),
    /// All of it; beyond [`MAX_LINE`] it cannot be read, and `whole` is false.
    Document {
        bytes: Vec<u8>,
        whole: bool,
    },
}

impl FileReader {
    pub(super) fn new(progress: Progress, set: u32, wants_schema: bool) -> Self {
        let spec = Arc::clone(&progress.spec);
        let stdout = match spec.format {
            Format::Text => Stdout::Text { chunks: Utf8Chunks::default(), lines: Lines::new(MAX_TEXT_LINE) },
            Format::Lines => Stdout::Lines(Lines::new(MAX_LINE)),
            Format::Document => Stdout::Document { bytes: Vec::new(), whole: true },
        };
        let rules = spec.rules.iter().filter(|rule| rule.when.holds(set)).cloned().collect();
        Self { stdout, stderr: Lines::new(MAX_STDERR_LINE), rules, wants_schema, progress }
    }

    /// Takes what is left when both streams are over, and judges.
    pub(super) fn read(mut self, exit: Exit) -> Reading {
        let (rules, progress) = (&self.rules, &mut self.progress);
        match &mut self.stdout {
            Stdout::Text { chunks, lines } => {
                progress.delta(&chunks.end());
                lines.end(|line| raw_line(progress, line.bytes));
            }
            Stdout::Lines(lines) => lines.end(|line| stdout_line(progress, rules, line)),
            Stdout::Document { bytes, whole } => {
                let line = Line { bytes, truncated: !*whole };
                stdout_line(progress, rules, line);
            }
        }
        self.stderr.end(|line| stderr_line(progress, line));
        finish(self.progress, self.wants_schema, exit)
    }
}

impl OutputReader for FileReader {
    fn feed(&mut self, stream: Stream, bytes: &[u8]) -> Flow {
        let (rules, progress) = (&self.rules, &mut self.progress);
        match (stream, &mut self.stdout) {
            (Stream::Stderr, _) => self.stderr.feed(bytes, |line| stderr_line(progress, line)),
            (Stream::Stdout, Stdout::Text { chunks, lines }) => {
                progress.delta(&chunks.feed(bytes));
                lines.feed(bytes, |line| raw_line(progress, line.bytes));
            }
            (Stream::Stdout, Stdout::Lines(lines)) => {
                lines.feed(bytes, |line| stdout_line(progress, rules, line));
            }
            (Stream::Stdout, Stdout::Document { bytes: all, whole }) => {
                *whole &= all.len() + bytes.len() <= MAX_LINE;
                if *whole {
                    all.extend_from_slice(bytes);
                }
            }
        }
        self.progress.take_news()
    }

    fn finish(self: Box<Self>, exit: Exit) -> BoxFuture<'static, Result<Reading, ReadError>> {
        Box::pin(std::future::ready(Ok(self.read(exit))))
    }
}

fn stdout_line(progress: &mut Progress, rules: &[Rule], line: Line<'_>) {
    if line.truncated {
        progress.unread = true;
        progress.notice("truncated", format!("a line of more than {MAX_LINE} bytes was not read"));
    }
    let bytes = line.bytes;
    let read = !line.truncated
        && with_object(bytes, |object, text| {
            progress.push(RunEvent::Native(native(object, text)));
            for rule in rules {
                if apply(progress, rule, object) && !rule.also {
                    break;
                }
            }
        });
    if !read {
        raw_line(progress, bytes);
    }
}

/// A line that is no JSON object is a record all the same.
fn raw_line(progress: &mut Progress, bytes: &[u8]) {
    if !bytes.is_empty() {
        let line = Bytes::copy_from_slice(bytes);
        progress.push(RunEvent::Native(NativeRecord { event_type: "raw".to_owned(), line, json: false }));
    }
}

/// The record of a line; a document over several lines is written as one.
fn native(object: &Json<'_>, text: &[u8]) -> NativeRecord {
    let line = match text.contains(&b'\n') {
        true => Bytes::from(object.to_value().to_string()),
        false => Bytes::copy_from_slice(text),
    };
    let event_type = object.get("type").and_then(Json::as_text).unwrap_or("unknown").to_owned();
    NativeRecord { event_type, line, json: true }
}

/// Does what the rule says, for each item where it matches; returns whether it did at all.
fn apply(progress: &mut Progress, rule: &Rule, line: &Json<'_>) -> bool {
    let Some(each) = &rule.each else {
        let at = At { line, item: None };
        let hit = rule.matches.holds(at);
        if hit {
            progress.fire(rule, at);
        }
        return hit;
    };
    let at = At { line, item: None };
    // Once, not for each of them: a line of 1 MB with as many keys as items took half a minute.
    if !rule.matches.holds_of_line(at) {
        return false;
    }
    let mut hit = false;
    each.any(at, &mut |item| {
        let at = At { line, item: Some(item) };
        if rule.matches.holds_of_item(at) {
            hit = true;
            progress.fire(rule, at);
        }
        false
    });
    hit
}

fn stderr_line(progress: &mut Progress, line: Line<'_>) {
    let text = String::from_utf8_lossy(line.bytes);
    let text = ansi::strip(&text);
    if !progress.stderr.is_empty() {
        progress.stderr.push("\n");
    }
    progress.stderr.push(&text);
    let spec = Arc::clone(&progress.spec);
    let Some((rule, groups)) =
        spec.stderr.iter().find_map(|rule| rule.find.captures(&text).map(|groups| (rule, groups)))
    else {
        let said = text.trim();
        if !said.is_empty() {
            if !progress.said.is_empty() {
                progress.said.push("\n");
            }
            progress.said.push(said);
        }
        return;
    };
    let group = |name: &str| groups.name(name).map(|found| found.as_str()).filter(|text| !text.is_empty());
    let facts = Facts {
        message: group("message").unwrap_or(&text).to_owned(),
        status: group("status").and_then(|status| status.parse().ok()),
        codes: Vec::new(),
        retry_after: group("retry_after").and_then(seconds),
    };
    let mut failure = spec.classifier.failure(facts, rule.kind);
    failure.message = shorten(&failure.message, STDERR_MESSAGE_CHARS).to_owned();
    match rule.means {
        StderrMeaning::Retry => progress.retry(failure, false),
        StderrMeaning::Notice => progress.notice("agent", failure.message),
        StderrMeaning::Error => progress.stderr_error(failure),
        StderrMeaning::Ignore => {}
    }
}

fn finish(mut progress: Progress, wants_schema: bool, exit: Exit) -> Reading {
    let usage = progress.usage();
    if usage.left_out {
        progress.notice("usage", "usage of this session before this run is not known");
    }
    let (mut text, cut) = std::mem::take(&mut progress.answer).into_text();
    if cut {
        progress.notice("truncated", "the answer was too long: its middle was left out");
    }
    if progress.spec.format == Format::Text {
        if let Cow::Owned(plain) = ansi::strip(&text) {
            text = plain;
        }
        text.truncate(text.trim_end().len());
        text.drain(..text.len() - text.trim_start().len());
    }
    let result = progress.result.take().filter(|result| !result.is_empty());
    // The agent's closing words and its answer to a schema are whole, whatever it said before.
    let whole = result.is_some() || progress.structured.is_some();
    text = result.unwrap_or(text);
    if text.is_empty() {
        text = progress.structured.as_ref().map(Value::to_string).unwrap_or_default();
    }
    let mut verdict = verdict::judge(&progress, wants_schema, text.is_empty(), &exit);
    if progress.unread {
        let why =
            format!("a line of more than {} MiB in the agent's output could not be read", MAX_LINE >> 20);
        if let Verdict::Failed(Failure {
            kind: FailureKind::NoFinalEvent | FailureKind::Exit(_) | FailureKind::Agent(AgentFault::Empty),
            message,
            ..
        }) = &mut verdict
        {
            message.push_str(&format!("; {why}"));
        }
        if !text.is_empty() && !whole {
            let mark = format!("\n[{why}: something may be missing here]");
            text.push_str(&format!("\n{mark}"));
            progress.push(RunEvent::Message { text: mark, streamed: false });
        }
    }
    Reading {
        verdict,
        text,
        structured: progress.structured,
        session: progress.session.map(SessionId),
        usage: usage.usage,
        totals: usage.totals,
        finish: progress.finish.unwrap_or(Finish::Stop),
        parse_error: None,
        exit,
    }
}
