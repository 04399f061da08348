use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use aicodebox_engine::{
    run::{RunId, RunStatus},
    store::{RunRecord, RunSummary},
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    records::NO_RECORDS,
    run_answer::{self, RunAnswer, Shape},
};

/// Everything that is known of a run: while it runs where it stands, afterwards its whole answer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunRecord)]
pub(crate) struct RunRecordAnswer<'a> {
    #[serde(flatten)]
    state: State<'a>,
    /// Who asked: `api`, `openai`, `mcp`, `telegram`, `cron` or `cli`.
    surface: &'static str,
    /// When it was accepted.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    finished_at: Option<String>,
    /// What became of an answer that was sent to Telegram: `chat`, `messages` (ids), and `failure` when not all arrived.
    #[serde(skip_serializing_if = "Value::is_null")]
    delivery: &'a Value,
}

#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = RunState)]
enum State<'a> {
    Running(RunningAnswer<'a>),
    Over(Box<RunAnswer<'a>>),
}

/// A run that is not over.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Running)]
struct RunningAnswer<'a> {
    #[schema(value_type = String)]
    run_id: RunId,
    #[serde(serialize_with = "run_answer::path")]
    #[schema(value_type = String)]
    workspace: &'a Path,
    /// `running`.
    status: &'static str,
    /// Whether it waits for its place.
    queued: bool,
}

impl<'a> RunRecordAnswer<'a> {
    /// All of it but the provider's records, which the run's events have.
    pub(crate) fn new(record: &'a RunRecord, queued: bool, backend: &'a str) -> Self {
        let state = match record.outcome.as_deref() {
            None => State::Running(RunningAnswer {
                run_id: record.id,
                workspace: &record.workspace,
                status: RunStatus::Running.name(),
                queued,
            }),
            Some(outcome) => {
                let shape = Shape { verbose: true, events: false, ..Shape::from_note(&record.note) };
                let answer = RunAnswer::new(&record.workspace, outcome, &NO_RECORDS, backend, shape);
                State::Over(Box::new(answer.with_status(outcome.status())))
            }
        };
        Self {
            state,
            surface: record.origin.surface(),
            created_at: timestamp(record.created),
            finished_at: record.finished.map(timestamp),
            delivery: &record.delivery,
        }
    }
}

/// A run in a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunSummary)]
pub(crate) struct RunSummaryAnswer {
    #[schema(value_type = String)]
    run_id: RunId,
    workspace: String,
    /// `running`, `completed`, `failed`, `cancelled`, `timed_out` or `interrupted`.
    status: &'static str,
    /// Whether it waits for its place.
    queued: bool,
    /// Who asked: `api`, `openai`, `mcp`, `telegram`, `cron` or `cli`.
    surface: &'static str,
    /// When it was accepted.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    finished_at: Option<String>,
}

impl RunSummaryAnswer {
    pub(crate) fn new(run: &RunSummary, queued: bool) -> Self {
        Self {
            run_id: run.id,
            workspace: run.workspace.display().to_string(),
            status: run.status.name(),
            queued,
            surface: run.origin.surface(),
            created_at: timestamp(run.created),
            finished_at: run.finished.map(timestamp),
        }
    }
}

/// `2026-03-01T12:00:00.123Z`.
fn timestamp(time: SystemTime) -> String {
    // The store keeps milliseconds, and the same run must read the same before and after.
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(since.as_millis()).unwrap_or(0));
    humantime::format_rfc3339_millis(time).to_string()
}
