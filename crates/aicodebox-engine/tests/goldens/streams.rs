//! What a reader tells while the agent works.

use std::sync::{Arc, Mutex, PoisonError};

use aicodebox_engine::{
    adapter::{Adapter, FileAdapter, OutputReader, ReaderContext, Reading},
    process::{Flow, Stream},
    run::{
        AgentFault, EndedBy, EventSink, Exit, ExitStatus, FailureKind, Origin, RunEvent, RunRequest, Verdict,
        Workspace,
    },
};

use crate::cases::{built_in, load};

/// Keeps events, each as one line of text.
#[derive(Default)]
pub(crate) struct Events(Mutex<Vec<String>>);

impl Events {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// All but the provider's records, which every line is.
    pub(crate) fn take(&self) -> Vec<String> {
        self.all().into_iter().filter(|line| !line.starts_with("native ")).collect()
    }

    fn all(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn notices(&self) -> Vec<String> {
        let notices = |line: String| line.strip_prefix("notice ").map(str::to_owned);
        self.take().into_iter().filter_map(notices).collect()
    }
}

impl EventSink for Events {
    fn push(&self, event: RunEvent) {
        let line = match event {
            RunEvent::Session(id) => format!("session {}", id.0),
            RunEvent::Delta(text) => format!("delta {text}"),
            RunEvent::Message { text, streamed: true } => format!("streamed {text}"),
            RunEvent::Message { text, streamed: false } => format!("message {text}"),
            RunEvent::Thinking(text) => format!("thinking {text}"),
            RunEvent::Tool(tool) => format!("tool {} {:?} {:?}", tool.id, tool.phase, tool.failed),
            RunEvent::Usage(usage) => format!("usage {:?}", usage.tokens.input),
            RunEvent::Notice(notice) => format!("notice {}: {}", notice.code, notice.message),
            RunEvent::Native(record) => {
                format!("native {} {}", record.event_type, String::from_utf8_lossy(&record.line))
            }
            RunEvent::Status(_) | RunEvent::Truncated(_) => unreachable!("these are the engine's"),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

pub(crate) fn request() -> RunRequest {
    RunRequest::new("x", Workspace { path: "/".into(), root: true, guard: None }, Origin::Cli)
}

pub(crate) fn reader(adapter: &FileAdapter, request: &RunRequest) -> (Box<dyn OutputReader>, Arc<Events>) {
    let events = Events::new();
    let context =
        ReaderContext { request, resumes: false, baseline: None, ticket: None, events: events.clone() };
    (adapter.reader(context), events)
}

pub(crate) fn exit(status: ExitStatus, ended_by: EndedBy) -> Exit {
    Exit::bare(Some(status), ended_by)
}

fn finish(reader: Box<dyn OutputReader>, exit: Exit) -> Reading {
    use std::task::{Context, Poll, Waker};
    let mut reading = reader.finish(exit);
    match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(reading)) => reading,
        Poll::Ready(Err(error)) => panic!("{error}"),
        Poll::Pending => panic!("a file's reader waits for nothing"),
    }
}

pub(crate) fn ended(reader: Box<dyn OutputReader>, code: i32) -> Reading {
    finish(reader, exit(ExitStatus::Code(code), EndedBy::Itself))
}

fn kind(reading: &Reading) -> Option<FailureKind> {
    match &reading.verdict {
        Verdict::Ok => None,
        Verdict::Failed(failure) => Some(failure.kind.clone()),
    }
}

#[test]
fn deltas_come_at_once_and_a_message_that_repeats_them_is_marked() {
    let request = request();
    let (mut reader, events) = reader(&built_in("claude"), &request);
    let delta = |text: &str| {
        format!(
            "{{\"type\":\"stream_event\",\"session_id\":\"S\",\"event\":{{\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}}}\n"
        )
    };
    let message = |text: &str| {
        format!(
            "{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n"
        )
    };
    reader.feed(Stream::Stdout, delta("Hel").as_bytes());
    assert_eq!(events.take(), ["session S", "delta Hel"]);
    reader.feed(Stream::Stdout, delta("lo").as_bytes());
    reader.feed(Stream::Stdout, message("Hello").as_bytes());
    reader.feed(Stream::Stdout, message("again").as_bytes());
    assert_eq!(events.take(), ["delta lo", "streamed Hello", "message again"]);
    assert_eq!(ended(reader, 143).text, "Hello\nagain");
}

#[test]
fn plain_text_is_passed_on_as_it_comes_but_never_half_a_character() {
    let request = request();
    let (mut reader, events) = reader(&built_in("text"), &request);
    for piece in [b"a\xc3".as_slice(), b"\xa9\n", b"\x1b[1mb"] {
        reader.feed(Stream::Stdout, piece);
    }
    assert_eq!(events.take(), ["delta a", "delta é\n", "delta \u{1b}[1mb"]);
    assert_eq!(ended(reader, 0).text, "aé\nb");
}

#[test]
fn native_records_are_given_as_they_are() {
    let lines = b"{\"type\":\"turn.started\",\"x\":1}\nnot json\n\n{\"no\":\"type\"}\n";
    let request = request();
    let (mut reader, events) = reader(&built_in("codex"), &request);
    reader.feed(Stream::Stdout, lines);
    assert_eq!(
        events.all(),
        [
            "native turn.started {\"type\":\"turn.started\",\"x\":1}",
            "native raw not json",
            "native unknown {\"no\":\"type\"}"
        ]
    );
}

#[test]
fn tools_are_told_at_their_start_and_at_their_end() {
    let request = request();
    let (mut reader, events) = reader(&built_in("codex"), &request);
    let item = |event: &str, id: &str, status: &str| {
        format!(
            "{{\"type\":\"item.{event}\",\"item\":{{\"id\":\"{id}\",\"type\":\"command_execution\",\"status\":\"{status}\"}}}}\n"
        )
    };
    for (event, id, status) in
        [("started", "a", "in_progress"), ("completed", "a", "failed"), ("completed", "b", "completed")]
    {
        reader.feed(Stream::Stdout, item(event, id, status).as_bytes());
    }
    assert_eq!(events.take(), ["tool a Start None", "tool a End Some(true)", "tool b Both Some(false)"]);
}

#[test]
fn the_final_event_is_told_to_the_supervisor() {
    let request = request();
    let (mut reader, _) = reader(&built_in("codex"), &request);
    assert_eq!(reader.feed(Stream::Stdout, b"{\"type\":\"turn.started\"}\n"), Flow::Go);
    assert_eq!(reader.feed(Stream::Stdout, b"{\"type\":\"turn.completed\"}\n"), Flow::Done);
    assert_eq!(reader.feed(Stream::Stdout, b"{\"type\":\"x\"}\n"), Flow::Go);
}

#[test]
fn a_retry_that_nobody_should_wait_for_ends_the_run() {
    let request = request();
    let (mut reader, events) = reader(&built_in("codex"), &request);
    let line = b"{\"type\":\"error\",\"message\":\"Reconnecting... 1/5 (unexpected status 401 X: bad key, url: u)\"}\n";
    let Flow::Abort(failure) = reader.feed(Stream::Stdout, line) else { panic!("it waits") };
    assert_eq!((failure.kind.clone(), failure.status), (FailureKind::Agent(AgentFault::Auth), Some(401)));
    assert_eq!(events.take(), ["notice retry: bad key"]);
    let mut exit = exit(ExitStatus::Signal(2), EndedBy::Abort);
    exit.abort = Some(failure);
    assert_eq!(kind(&finish(reader, exit)), Some(FailureKind::Agent(AgentFault::Auth)));
}

#[test]
fn more_retries_than_the_file_waits_for_end_the_run() {
    let request = request();
    let (mut reader, _) = reader(&built_in("gemini"), &request);
    let line = b"Attempt 1 failed with status 429. Retrying with backoff... slow down\n";
    let flows: Vec<bool> =
        (0..5).map(|_| matches!(reader.feed(Stream::Stderr, line), Flow::Abort(_))).collect();
    assert_eq!(flows, [false, false, true, false, false]);
}

#[test]
fn our_own_stop_is_the_verdict_whatever_was_printed() {
    let stops = [
        (EndedBy::Deadline, FailureKind::Deadline),
        (EndedBy::Idle, FailureKind::Idle),
        (EndedBy::Cancelled, FailureKind::Cancelled),
        (EndedBy::Shutdown, FailureKind::Shutdown),
    ];
    for (ended_by, want) in stops {
        let request = request();
        let (mut reader, _) = reader(&built_in("gemini"), &request);
        let lines = "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"half\"}\n\
                     {\"type\":\"result\",\"status\":\"success\",\"stats\":{\"input_tokens\":3}}\n";
        reader.feed(Stream::Stdout, lines.as_bytes());
        let reading = finish(reader, exit(ExitStatus::Code(0), ended_by));
        assert_eq!(kind(&reading), Some(want));
        assert_eq!(
            (reading.text.as_str(), reading.usage.and_then(|usage| usage.tokens.input)),
            ("half", Some(3))
        );
    }
}

#[test]
fn what_nobody_explained_says_how_the_process_ended() {
    let cases = [
        ("codex", ExitStatus::Signal(9), FailureKind::Signal(9)),
        ("codex", ExitStatus::Code(0), FailureKind::NoFinalEvent),
        ("codex", ExitStatus::Code(7), FailureKind::Exit(7)),
        ("opencode", ExitStatus::Code(1), FailureKind::Exit(1)),
        ("opencode", ExitStatus::Signal(11), FailureKind::Signal(11)),
        ("text", ExitStatus::Code(3), FailureKind::Exit(3)),
    ];
    for (name, status, want) in cases {
        let request = request();
        let (reader, _) = reader(&built_in(name), &request);
        assert_eq!(kind(&finish(reader, exit(status, EndedBy::Itself))), Some(want), "{name}");
    }
}

#[test]
fn an_agent_that_lingered_after_its_final_event_is_not_blamed_for_our_signal() {
    let request = request();
    let (mut reader, _) = reader(&built_in("pi"), &request);
    let lines = "{\"type\":\"message_end\",\"message\":{\"role\":\"assistant\",\"content\":[{\"text\":\"hi\"}]}}\n\
                 {\"type\":\"agent_settled\"}\n";
    assert_eq!(reader.feed(Stream::Stdout, lines.as_bytes()), Flow::Done);
    let reading = finish(reader, exit(ExitStatus::Signal(15), EndedBy::Finished));
    assert_eq!((kind(&reading), reading.text.as_str()), (None, "hi"));
}

#[test]
fn the_order_of_the_two_streams_does_not_matter() {
    let file = "schema = 1\nname = \"x\"\n[run]\nstdin = \"{prompt}\"\n[output]\nformat = \"jsonl\"\n\
                [[event]]\nmessage = \"/t\"\ndone = \"ok\"\n[[stderr]]\nfind = \"^fatal\"\nas = \"error\"\nkind = \"config\"\n";
    let adapter = load(file);
    for order in [[Stream::Stdout, Stream::Stderr], [Stream::Stderr, Stream::Stdout]] {
        let request = request();
        let (mut reader, _) = reader(&adapter, &request);
        for stream in order {
            let bytes = if stream == Stream::Stdout { "{\"t\":\"hi\"}\n" } else { "fatal: no config\n" };
            reader.feed(stream, bytes.as_bytes());
        }
        assert_eq!(kind(&ended(reader, 0)), Some(FailureKind::Agent(AgentFault::Config)));
    }
}
