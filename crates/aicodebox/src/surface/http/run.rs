use std::path::Path;

use aicodebox_engine::{
    engine::{RunHandle, WhenBusy},
    run::{RunId, RunStatus},
};
use axum::{
    Json,
    extract::{
        Path as UrlPath, Query, Request, State,
        rejection::{PathRejection, QueryRejection},
    },
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};

use super::{
    Api, Problem, body,
    run_request::{Asked, RunBody},
};
use crate::surface::run_answer::{self, RunAnswer, Shape};

/// Where a run stands, when there is nothing more to tell.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Standing<'a> {
    run_id: RunId,
    #[serde(serialize_with = "run_answer::path")]
    workspace: &'a Path,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fire_and_forget: Option<bool>,
}

/// `POST /run`.
pub(crate) async fn start(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let (parts, content) = request.into_parts();
    let body: RunBody = body::json(&parts.headers, content, api.max_body()).await?;
    let asked = body.into_asked(&api, &parts.headers).await?;
    let Asked { request, shape, at_once, fire_and_forget, detach } = asked;
    let mut handle = api.engine().start(request, WhenBusy::Refuse).await.map_err(|failure| {
        // What the engine refuses is a problem document by the table; anything else would be its fault.
        Problem::of(&failure)
            .unwrap_or_else(|| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, failure.message))
    })?;
    if at_once || detach {
        handle.detach();
    }
    if at_once {
        let standing = Standing {
            run_id: handle.id,
            workspace: &handle.workspace,
            status: RunStatus::Running.name(),
            fire_and_forget: Some(fire_and_forget),
        };
        return Ok(Json(standing).into_response());
    }
    wait(&api, handle, shape).await
}

/// Waits for the end. When the client leaves, this future is dropped, and with it the handle.
async fn wait(api: &Api, mut handle: RunHandle, shape: Shape) -> Result<Response, Problem> {
    let outcome = handle.outcome().await.ok_or_else(|| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server went down before the run ended")
    })?;
    if let Some(problem) = outcome.failure().and_then(Problem::of) {
        return Err(problem);
    }
    let backend = &api.engine().adapter().name;
    Ok(Json(RunAnswer::new(&handle.workspace, &outcome, &handle.log(), backend, shape)).into_response())
}

#[derive(Deserialize)]
pub(crate) struct ResultQuery {
    #[serde(rename = "runId", alias = "run_id")]
    run_id: Option<String>,
}

/// `GET /run/result?runId=`: any number of times, until the run is forgotten.
pub(crate) async fn result(
    State(api): State<Api>,
    query: Result<Query<ResultQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| Problem::unprocessable("runId", error))?;
    let id = query.run_id.ok_or_else(|| Problem::unprocessable("runId", "is required"))?;
    let record = api.record(&id).await?.ok_or_else(Problem::no_such_run)?;
    let Some(outcome) = record.outcome.as_deref() else {
        let status = RunStatus::Running.name();
        let standing =
            Standing { run_id: record.id, workspace: &record.workspace, status, fire_and_forget: None };
        return Ok(Json(standing).into_response());
    };
    let shape = Shape::from_note(&record.note);
    let backend = &api.engine().adapter().name;
    let answer = RunAnswer::new(&record.workspace, outcome, &record.log, backend, shape);
    Ok(Json(answer.with_status(outcome.status())).into_response())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled {
    run_id: RunId,
    status: &'static str,
}

/// `DELETE /run/{id}`: answers when nothing of the run is left.
pub(crate) async fn cancel(
    State(api): State<Api>,
    id: Result<UrlPath<String>, PathRejection>,
) -> Result<Response, Problem> {
    let UrlPath(id) = id.map_err(|_| Problem::no_such_run())?;
    let run_id = RunId::parse(&id).ok_or_else(Problem::no_such_run)?;
    let status = match api.engine().cancel(run_id).await {
        Some(status) => status,
        None => api.record(&id).await?.ok_or_else(Problem::no_such_run)?.status(),
    };
    Ok(Json(Cancelled { run_id, status: status.name() }).into_response())
}
