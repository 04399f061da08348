//! The runs that are kept: the list, and each one's record.

use aicodebox_engine::{
    run::{Origin, RunStatus},
    store::{RunFilter, RunRecord},
};
use axum::{
    Json,
    extract::{
        Path as UrlPath, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Api, Problem};
use crate::surface::run_record::{RunRecordAnswer, RunSummaryAnswer};

/// Runs on a page when nobody says how many, and at most.
const PAGE: usize = 50;
const MAX_PAGE: usize = 500;
/// A cursor has no more.
const CURSOR_DIGITS: usize = 18;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only runs that stand there: `running`, `completed`, `failed`, `cancelled`, `timed_out` or `interrupted`.
    #[param(pattern = "^(running|completed|failed|cancelled|timed_out|interrupted)$")]
    status: Option<String>,
    /// Only runs of that surface: `api`, `openai`, `mcp`, `telegram`, `cron` or `cli`.
    #[param(pattern = "^(api|openai|mcp|telegram|cron|cli)$")]
    surface: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 500, default = 50)]
    #[serde(default, deserialize_with = "super::query::number")]
    limit: Option<usize>,
    /// `nextCursor` of the page before.
    #[param(pattern = "^[0-9]{1,18}$")]
    cursor: Option<String>,
}

/// Runs, the newest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunList {
    runs: Vec<RunSummaryAnswer>,
    /// Where the next page begins; missing on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// The runs that are kept, the newest first
#[utoipa::path(
    get,
    path = "/runs",
    operation_id = "listRuns",
    tag = "runs",
    params(ListQuery),
    responses(
        (status = 200, description = "A page of them", body = RunList),
        (status = 422, description = "A bad filter"),
        (status = 503, description = "The store cannot be read"),
    ),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<RunList>, Problem> {
    let Query(query) = query?;
    let page = api.runs(query.filter()?).await?;
    let runs = page.runs.iter().map(|run| RunSummaryAnswer::new(run, api.engine().queued(run.id)));
    Ok(Json(RunList { runs: runs.collect(), next_cursor: page.next.map(|next| next.to_string()) }))
}

impl ListQuery {
    fn filter(self) -> Result<RunFilter, Problem> {
        let unknown = |field, expected: &[&str]| {
            Problem::unprocessable(field, format_args!("expected one of {}", expected.join(", ")))
        };
        let status = self.status.map(|name| {
            RunStatus::from_name(&name).ok_or_else(|| unknown("status", &RunStatus::ALL.map(RunStatus::name)))
        });
        let surface = self.surface.map(|name| {
            let known = Origin::SURFACES.into_iter().find(|surface| *surface == name);
            known.ok_or_else(|| unknown("surface", &Origin::SURFACES))
        });
        let limit = self.limit.unwrap_or(PAGE);
        if !(1..=MAX_PAGE).contains(&limit) {
            return Err(Problem::unprocessable("limit", format_args!("must be between 1 and {MAX_PAGE}")));
        }
        let cursor = self.cursor.map(|cursor| {
            let is_ours = cursor.bytes().all(|byte| byte.is_ascii_digit()) && cursor.len() <= CURSOR_DIGITS;
            let number = cursor.parse::<i64>().ok().filter(|_| is_ours);
            number.ok_or_else(|| Problem::unprocessable("cursor", "is none of ours"))
        });
        Ok(RunFilter {
            status: status.transpose()?,
            surface: surface.transpose()?,
            before: cursor.transpose()?,
            limit,
        })
    }
}

/// Everything that is known of a run
#[utoipa::path(
    get,
    path = "/run/{id}",
    operation_id = "getRun",
    tag = "runs",
    params(("id" = String, Path, description = "The run's id", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 200, description = "Its record", body = RunRecordAnswer<'_>),
        (status = 404, description = "No such run"),
        (status = 503, description = "The store cannot be read"),
    ),
)]
pub(crate) async fn show(
    State(api): State<Api>,
    id: Result<UrlPath<String>, PathRejection>,
) -> Result<Response, Problem> {
    let UrlPath(id) = id.map_err(|_| Problem::no_such_run())?;
    let record = api.record(&id).await?.ok_or_else(Problem::no_such_run)?;
    Ok(Json(answer(&api, &record)).into_response())
}

/// A record as it is shown.
pub(crate) fn answer<'a>(api: &'a Api, record: &'a RunRecord) -> RunRecordAnswer<'a> {
    RunRecordAnswer::new(record, api.engine().queued(record.id), &api.engine().adapter().name)
}
