use std::path::Path;

use aicodebox_engine::{
    run::{Capture, RunEvent, RunId, RunOutcome, RunStatus, Tokens},
    store::LoggedEvent,
};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, value::RawValue};
use utoipa::ToSchema;

use super::{records::Records, run_event, wire::Wire};

/// What an agent wrote that never started.
static NO_OUTPUT: Capture = Capture::EMPTY;

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
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunAnswer)]
pub(crate) struct RunAnswer<'a> {
    /// 32 hex digits.
    #[schema(value_type = String)]
    run_id: RunId,
    /// Absolute path of the directory that the agent worked in.
    #[serde(serialize_with = "path")]
    #[schema(value_type = String)]
    workspace: &'a Path,
    /// How the run ended: `completed`, `failed`, `cancelled`, `timed_out` or `interrupted`. Told where the answer is
    /// fetched, and where somebody else cancelled the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// The agent's own; 124 for a limit, 143 for a cancelled run, 126 and 127 when it could not start, 128 + n for a
    /// signal.
    exit_code: i32,
    /// The answer, also a partial one.
    text: &'a str,
    /// The conversation, for `resume`. Told with `jsonSchema` or `outputFormat: "json-verbose"`, as the next two.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    session_id: Option<Option<&'a str>>,
    /// The provider's own object, summed over all attempts; `null` = not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    usage: Option<Option<&'a Value>>,
    /// The same in our words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TokensPart>)]
    tokens: Option<Option<TokensPart>>,
    /// The answer as JSON. Told with `jsonSchema`, as the next three.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    json: Option<&'a Value>,
    /// Why no attempt met the schema; stands in the place of `json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    parse_error: Option<&'a str>,
    /// Every start of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<AttemptPart<'a>>>,
    /// How often the agent was asked again, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    json_retries: Option<usize>,
    /// The provider's records, by `eventMode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<Record<'a>>>,
    /// Some of them did not fit.
    #[serde(skip_serializing_if = "is_false")]
    #[schema(required = false)]
    events_truncated: bool,
    /// What the agent or its provider reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorPart<'a>>,
    /// What the agent wrote, by `includeRaw`: at most the first and the last MiB.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "captured")]
    #[schema(value_type = Option<String>)]
    stdout: Option<&'a Capture>,
    /// Something between the two was left out.
    #[serde(skip_serializing_if = "is_false")]
    #[schema(required = false)]
    stdout_truncated: bool,
    /// The same of standard error; also when `exitCode` is not 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    /// Something between the two was left out.
    #[serde(skip_serializing_if = "is_false")]
    #[schema(required = false)]
    stderr_truncated: bool,
}

/// Token counts that mean the same for every agent; `null` = the agent did not say.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Tokens)]
pub(crate) struct TokensPart {
    /// All input tokens, cached ones included.
    input: Option<u64>,
    /// Generated tokens.
    output: Option<u64>,
    /// The part of `input` that was read from a cache.
    cache_read: Option<u64>,
    /// The part of `input` that was written to a cache.
    cache_write: Option<u64>,
    /// The part of the output that was reasoning.
    reasoning: Option<u64>,
    /// US dollars.
    cost_usd: Option<f64>,
}

/// One start of the agent.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Attempt)]
pub(crate) struct AttemptPart<'a> {
    /// From 0.
    index: usize,
    /// The provider's own object.
    #[schema(value_type = Option<Value>)]
    usage: Option<&'a Value>,
    exit_code: i32,
    /// Why its answer did not meet the schema.
    parse_error: Option<&'a str>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = RunError)]
struct ErrorPart<'a> {
    /// auth, permission, rate_limit, quota, context, content_filter, bad_request, model_not_found, overloaded, provider,
    /// network, config, session_not_found, empty or internal.
    kind: &'static str,
    /// For people.
    message: &'a str,
}

/// One record of the provider: its JSON untouched, or the raw line.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProviderRecord)]
pub(crate) struct Record<'a> {
    /// Running number over all attempts, from 1.
    sequence: u64,
    /// Index of the attempt, from 0.
    attempt: u32,
    /// Name of the adapter.
    backend: &'a str,
    /// The record's own type, or `raw`.
    event_type: &'a str,
    /// The record, or the line.
    #[schema(value_type = Value)]
    event: Box<RawValue>,
}

impl<'a> Record<'a> {
    /// The record of a logged event; `None` when that is none.
    pub(crate) fn of(logged: &'a LoggedEvent, backend: &'a str) -> Option<Self> {
        let RunEvent::Native(record) = &logged.event else { return None };
        Some(Self {
            sequence: logged.native_sequence,
            attempt: logged.attempt,
            backend,
            event_type: &record.event_type,
            event: run_event::raw(record),
        })
    }
}

impl<'a> RunAnswer<'a> {
    /// The answer to `outcome`. `status` is told with a fetched result, and to a caller whose run was cancelled by
    /// somebody or interrupted. `records` are looked at only where `shape` wants events.
    pub(crate) fn new(
        workspace: &'a Path,
        outcome: &'a RunOutcome,
        records: &'a Records,
        backend: &'a str,
        shape: Shape,
    ) -> Self {
        let failure = outcome.failure();
        let kind = failure.and_then(|failure| match Wire::of(&failure.kind) {
            Wire::Answer(kind) => kind,
            Wire::Problem(_) => None,
        });
        let usage = outcome.usage.as_ref();
        let last_error = outcome.attempts.last().and_then(|attempt| attempt.parse_error.as_deref());
        // What came after an answer that was not accepted; a conversation that was gone is begun anew for nobody's fault.
        let earlier = outcome.attempts.split_last().map_or(&[][..], |(_last, earlier)| earlier);
        let retries = earlier.iter().filter(|attempt| attempt.parse_error.is_some()).count();
        let exit = outcome.exit.as_ref();
        let stdout = shape.raw.then(|| exit.map_or(&NO_OUTPUT, |exit| &exit.stdout));
        let stderr = exit.map(|exit| &exit.stderr).filter(|_| shape.raw || outcome.exit_code != 0);
        // An agent that never ran, or was stopped before it said a word, leaves the explaining to us.
        let stderr_text = match (stderr.map(Capture::to_string).filter(|text| !text.is_empty()), failure) {
            (None, Some(failure)) if outcome.exit_code != 0 => Some(failure.message.clone()),
            (text, _) => text.or((shape.raw || outcome.exit_code != 0).then(String::new)),
        };
        Self {
            run_id: outcome.id,
            workspace,
            status: Some(outcome.status())
                .filter(|status| matches!(status, RunStatus::Cancelled | RunStatus::Interrupted))
                .map(RunStatus::name),
            exit_code: outcome.exit_code,
            text: &outcome.text,
            session_id: shape.verbose.then(|| outcome.session.as_ref().map(|id| id.0.as_str())),
            usage: shape.verbose.then(|| usage.map(|usage| &usage.native)),
            tokens: shape.verbose.then(|| usage.map(|usage| TokensPart::from(usage.tokens))),
            json: outcome.parsed.as_ref().filter(|_| shape.schema),
            parse_error: last_error.filter(|_| shape.schema && outcome.parsed.is_none()),
            attempts: shape.schema.then(|| attempts(outcome)),
            json_retries: Some(retries).filter(|retries| shape.schema && *retries > 0),
            events: shape.events.then(|| events(records, backend)),
            events_truncated: shape.events && records.truncated,
            error: failure.zip(kind).map(|(failure, kind)| ErrorPart { kind, message: &failure.message }),
            stdout,
            stdout_truncated: stdout.is_some_and(|capture| capture.dropped > 0),
            stderr: stderr_text,
            stderr_truncated: stderr.is_some_and(|capture| capture.dropped > 0),
        }
    }

    /// The same with nothing for a text.
    pub(crate) fn without_text(self) -> Self {
        Self { text: "", ..self }
    }

    /// The same with the run's status, whatever it is.
    pub(crate) fn with_status(self, status: RunStatus) -> Self {
        Self { status: Some(status.name()), ..self }
    }
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

impl From<Tokens> for TokensPart {
    fn from(tokens: Tokens) -> Self {
        let Tokens { input, output, cache_read, cache_write, reasoning, total: _, cost_usd } = tokens;
        Self { input, output, cache_read, cache_write, reasoning, cost_usd }
    }
}

fn events<'a>(records: &'a Records, backend: &'a str) -> Vec<Record<'a>> {
    records.events.iter().filter_map(|logged| Record::of(logged, backend)).collect()
}

/// A path as JSON text; what is not UTF-8 in it is replaced.
pub(crate) fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Written as it is escaped: there may be two MiB.
fn captured<S: Serializer>(capture: &Option<&Capture>, serializer: S) -> Result<S::Ok, S::Error> {
    match capture {
        Some(capture) => serializer.collect_str(capture),
        None => serializer.serialize_none(),
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}
