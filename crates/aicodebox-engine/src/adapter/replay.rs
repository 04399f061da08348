use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Map, Value, json};

use super::{FileAdapter, OutputReader, ReaderContext, Reading};
use crate::{
    process::{Flow, Stream},
    run::{
        AgentFault, EndedBy, EventSink, Exit, ExitStatus, Failure, FailureKind, Origin, RunEvent, RunRequest,
        SessionId, SessionTotals, Tokens, ToolEvent, Verdict, Workspace,
    },
};

/// Output of an agent that was kept, and what is known of the run.
#[derive(Clone, Debug, Default)]
pub struct Recording<'a> {
    /// Standard output, in pieces cut anywhere.
    pub stdout: &'a [&'a [u8]],
    /// Standard error, likewise. It is read after all of stdout.
    pub stderr: &'a [&'a [u8]],
    /// The exit code; −n for signal n.
    pub exit: i32,
    /// We stopped it.
    pub stopped: bool,
    /// The schema that the request had.
    pub json_schema: Option<Value>,
    /// The run resumed a session.
    pub resumes: bool,
    /// The session's counters before it, if they were known.
    pub baseline: Option<SessionTotals>,
}

#[derive(Default)]
struct Kept(Mutex<Vec<RunEvent>>);

impl EventSink for Kept {
    fn push(&self, event: RunEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// Reads kept output as if the agent printed it now, and gives the outcome as one JSON object: `verdict` (`ok`,
/// `failed`, `stopped`), `kind`, `message`, `text`, `structured`, `session`, `usage`, `finish`, `tools`, `notices`,
/// `retries`, `thinking`, `abort`.
pub fn replay(adapter: &FileAdapter, recording: &Recording<'_>) -> Value {
    let workspace = Workspace { path: PathBuf::from("/"), root: true, guard: None };
    let mut request = RunRequest::new("", workspace, Origin::Cli);
    request.json_schema.clone_from(&recording.json_schema);
    if recording.resumes {
        request.session = crate::run::SessionChoice::Resume(SessionId("resumed".to_owned()));
    }
    let kept = Arc::new(Kept::default());
    let mut reader = adapter.file_reader(ReaderContext {
        request: &request,
        resumes: recording.resumes,
        baseline: recording.baseline.clone(),
        ticket: None,
        events: Arc::clone(&kept) as Arc<dyn EventSink>,
    });
    let mut abort: Option<Failure> = None;
    for (stream, pieces) in [(Stream::Stdout, recording.stdout), (Stream::Stderr, recording.stderr)] {
        for piece in pieces {
            if let Flow::Abort(failure) = reader.feed(stream, piece) {
                abort.get_or_insert(failure);
            }
        }
    }
    let reading = reader.read(exit(recording, abort));
    let events = std::mem::take(&mut *kept.0.lock().unwrap_or_else(PoisonError::into_inner));
    outcome(&reading, events)
}

fn exit(recording: &Recording<'_>, abort: Option<Failure>) -> Exit {
    let ended_by = match (&abort, recording.stopped) {
        (Some(_), _) => EndedBy::Abort,
        (None, true) => EndedBy::Cancelled,
        (None, false) => EndedBy::Itself,
    };
    let code = recording.exit;
    let status = if code < 0 { ExitStatus::Signal(-code) } else { ExitStatus::Code(code) };
    Exit { abort, ..Exit::bare(Some(status), ended_by) }
}

fn outcome(reading: &Reading, events: Vec<RunEvent>) -> Value {
    let (verdict, failure) = match &reading.verdict {
        Verdict::Ok => ("ok", None),
        Verdict::Failed(failure) => match failure.kind {
            FailureKind::Deadline | FailureKind::Idle | FailureKind::Cancelled | FailureKind::Shutdown => {
                ("stopped", None)
            }
            _ => ("failed", Some(failure)),
        },
    };
    let (mut tools, mut notices, mut retries, mut thinking) = (Vec::new(), Vec::new(), 0, String::new());
    for event in events {
        match event {
            RunEvent::Tool(tool) => merge_tool(&mut tools, tool),
            RunEvent::Notice(notice) if notice.code == "retry" => retries += 1,
            RunEvent::Notice(notice) => notices.push(notice.message),
            RunEvent::Thinking(text) => thinking.push_str(&text),
            RunEvent::Session(_)
            | RunEvent::Delta(_)
            | RunEvent::Message { .. }
            | RunEvent::Usage(_)
            | RunEvent::Native(_)
            | RunEvent::Status(_)
            | RunEvent::Truncated(_) => {}
        }
    }
    json!({
        "verdict": verdict,
        "kind": failure.map(|failure| kind(failure).name()),
        "message": failure.map(|failure| &failure.message),
        "text": reading.text,
        "structured": reading.structured,
        "session": reading.session,
        "usage": reading.usage.as_ref().map(|usage| numbers(&usage.tokens)),
        "finish": (verdict == "ok").then(|| reading.finish.name()),
        "tools": tools,
        "notices": notices,
        "retries": retries,
        "thinking": thinking,
        "abort": reading.exit.abort.is_some(),
    })
}

/// The kind in the words of adapter files, which call everything that nobody explained `internal`.
fn kind(failure: &Failure) -> AgentFault {
    match failure.kind {
        FailureKind::Agent(fault) => fault,
        _ => AgentFault::Internal,
    }
}

/// A call is told of at its start and at its end; here it is one object.
fn merge_tool(tools: &mut Vec<Value>, event: ToolEvent) {
    let index = tools.iter().position(|tool| tool["id"] == event.id.as_str()).unwrap_or_else(|| {
        tools.push(json!({ "id": event.id }));
        tools.len() - 1
    });
    let parts = [
        ("name", event.name.map(Value::from)),
        ("input", event.input),
        ("output", event.output.map(Value::from)),
        ("ok", event.failed.map(|failed| Value::from(!failed))),
    ];
    for (key, value) in parts {
        if let Some(value) = value {
            tools[index][key] = value;
        }
    }
}

fn numbers(tokens: &Tokens) -> Value {
    let counts = [
        ("input", tokens.input),
        ("output", tokens.output),
        ("cache_read", tokens.cache_read),
        ("cache_write", tokens.cache_write),
        ("reasoning", tokens.reasoning),
        ("total", tokens.total),
    ];
    let counts = counts.into_iter().filter_map(|(name, count)| Some((name.to_owned(), Value::from(count?))));
    let cost = tokens.cost_usd.map(|cost| ("cost".to_owned(), Value::from(cost)));
    Value::Object(counts.chain(cost).collect::<Map<_, _>>())
}
