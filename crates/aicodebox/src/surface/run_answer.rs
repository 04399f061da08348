use std::path::Path;

use aicodebox_engine::{
    run::{Capture, RunEvent, RunId, RunOutcome, RunStatus, Tokens},
    store::{EventLog, LoggedEvent},
};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, value::RawValue};

use super::{run_event, wire::Wire};

/// What the caller wants to see of the outcome. Kept with the run, for those who fetch it later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    /// Session, usage, tokens.
    pub(crate) verbose: bool,
    /// The JSON that a schema asked for, and the attempts at it.
    pub(crate) schema: bool,
    /// The provider's records.
    pub(crate) events: bool,
    /// Both output streams.
    pub(crate) raw: bool,
}

impl Shape {
    /// As the run's note; the usual shape is `null`, which costs nothing.
    pub(crate) fn to_note(self) -> Value {
        if self == Self::default() { Value::Null } else { serde_json::to_value(self).unwrap_or_default() }
    }

    pub(crate) fn from_note(note: &Value) -> Self {
        Self::deserialize(note).unwrap_or_default()
    }
}

/// The answer of `/run`: lean, and more where it was asked for or where the run went wrong.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunAnswer<'a> {
    run_id: RunId,
    #[serde(serialize_with = "path")]
    workspace: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    exit_code: i32,
    text: &'a str,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    verbose: Option<Verbose<'a>>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    schema: Option<SchemaPart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<Record<'a>>>,
    #[serde(skip_serializing_if = "is_false")]
    events_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorPart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    stdout_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    stderr_truncated: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Verbose<'a> {
    session_id: Option<&'a str>,
    usage: Option<&'a Value>,
    tokens: Option<TokensPart>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokensPart {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    reasoning: Option<u64>,
    cost_usd: Option<f64>,
}

/// `parseError` stands in the place of `json` when no attempt met the schema.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SchemaPart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parse_error: Option<&'a str>,
    attempts: Vec<AttemptPart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    json_retries: Option<usize>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AttemptPart<'a> {
    index: usize,
    usage: Option<&'a Value>,
    exit_code: i32,
    parse_error: Option<&'a str>,
}

#[derive(Serialize)]
struct ErrorPart<'a> {
    kind: &'static str,
    message: &'a str,
}

/// One record of the provider: its JSON untouched, or the raw line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record<'a> {
    sequence: u64,
    attempt: u32,
    backend: &'a str,
    event_type: String,
    event: Box<RawValue>,
}

impl<'a> Record<'a> {
    /// The record of a logged event; `None` when that is none.
    pub(crate) fn of(logged: &LoggedEvent, backend: &'a str) -> Option<Self> {
        let RunEvent::Native(record) = &logged.event else { return None };
        Some(Self {
            sequence: logged.native_sequence,
            attempt: logged.attempt,
            backend,
            event_type: record.event_type.clone(),
            event: run_event::raw(&record.line, record.json),
        })
    }
}

impl<'a> RunAnswer<'a> {
    /// The answer to `outcome`. `status` is told with a fetched result, and to a caller whose run somebody
    /// cancelled.
    pub(crate) fn new(
        workspace: &'a Path,
        outcome: &'a RunOutcome,
        log: &EventLog,
        backend: &'a str,
        shape: Shape,
    ) -> Self {
        let failure = outcome.failure();
        let kind = failure.and_then(|failure| match Wire::of(&failure.kind) {
            Wire::Answer(kind) => kind,
            Wire::Problem(_) => None,
        });
        let exit = outcome.exit.as_ref();
        let stdout = exit.map(|exit| &exit.stdout).filter(|_| shape.raw);
        let stderr = exit.map(|exit| &exit.stderr).filter(|_| shape.raw || outcome.exit_code != 0);
        // An agent that never ran, or was stopped before it said a word, leaves the explaining to us.
        let stderr_text = match (stderr.map(Capture::to_text).filter(|text| !text.is_empty()), failure) {
            (None, Some(failure)) if outcome.exit_code != 0 => Some(failure.message.clone()),
            (text, _) => text.or((shape.raw || outcome.exit_code != 0).then(String::new)),
        };
        Self {
            run_id: outcome.id,
            workspace,
            status: (outcome.status() == RunStatus::Cancelled).then(|| RunStatus::Cancelled.name()),
            exit_code: outcome.exit_code,
            text: &outcome.text,
            verbose: shape.verbose.then(|| Verbose::new(outcome)),
            schema: shape.schema.then(|| SchemaPart::new(outcome)),
            events: shape.events.then(|| records(log, backend)),
            events_truncated: shape.events && log.left_out().events > 0,
            error: failure.zip(kind).map(|(failure, kind)| ErrorPart { kind, message: &failure.message }),
            stdout: stdout.map(Capture::to_text).or(shape.raw.then(String::new)),
            stdout_truncated: stdout.is_some_and(|capture| capture.dropped > 0),
            stderr: stderr_text,
            stderr_truncated: stderr.is_some_and(|capture| capture.dropped > 0),
        }
    }

    /// The same with the run's status, whatever it is.
    pub(crate) fn with_status(self, status: RunStatus) -> Self {
        Self { status: Some(status.name()), ..self }
    }
}

impl<'a> Verbose<'a> {
    fn new(outcome: &'a RunOutcome) -> Self {
        let usage = outcome.usage.as_ref();
        Self {
            session_id: outcome.session.as_ref().map(|id| id.0.as_str()),
            usage: usage.map(|usage| &usage.native),
            tokens: usage.map(|usage| TokensPart::from(usage.tokens)),
        }
    }
}

impl<'a> SchemaPart<'a> {
    fn new(outcome: &'a RunOutcome) -> Self {
        let last = outcome.attempts.last().and_then(|attempt| attempt.parse_error.as_deref());
        Self {
            json: outcome.parsed.as_ref(),
            parse_error: last.filter(|_| outcome.parsed.is_none()),
            json_retries: outcome.attempts.len().checked_sub(1).filter(|retries| *retries > 0),
            attempts: attempts(outcome),
        }
    }
}

impl From<Tokens> for TokensPart {
    fn from(tokens: Tokens) -> Self {
        let Tokens { input, output, cache_read, cache_write, reasoning, total: _, cost_usd } = tokens;
        Self { input, output, cache_read, cache_write, reasoning, cost_usd }
    }
}

fn records<'a>(log: &EventLog, backend: &'a str) -> Vec<Record<'a>> {
    log.after(0, usize::MAX).iter().filter_map(|logged| Record::of(logged, backend)).collect()
}

/// The attempts of a run whose answer was checked.
pub(crate) fn attempts(outcome: &RunOutcome) -> Vec<AttemptPart<'_>> {
    let attempts = outcome.attempts.iter().enumerate().map(|(index, attempt)| AttemptPart {
        index,
        usage: attempt.usage.as_ref().map(|usage| &usage.native),
        exit_code: attempt.exit_code,
        parse_error: attempt.parse_error.as_deref(),
    });
    attempts.collect()
}

/// A path as JSON text; what is not UTF-8 in it is replaced.
pub(crate) fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

fn is_false(flag: &bool) -> bool {
    !flag
}
