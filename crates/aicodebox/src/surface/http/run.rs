use std::path::Path;

use aicodebox_engine::{
    engine::{RunHandle, WhenBusy},
    run::{Claim, RunId, RunRequest, RunStatus},
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
use utoipa::{IntoParams, ToSchema};

use super::{
    Api, Problem, body, idempotency, long_answer,
    run_request::{Asked, RunBody},
};
use crate::{
    config::parse::boolean,
    surface::run_answer::{self, RunAnswer, Shape},
};

/// Where a run stands, when there is nothing more to tell.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Standing<'a> {
    /// 32 hex digits.
    #[schema(value_type = String)]
    run_id: RunId,
    /// Absolute path of the directory that the agent works in.
    #[serde(serialize_with = "run_answer::path")]
    #[schema(value_type = String)]
    workspace: &'a Path,
    /// `running` until the run is over, also while it waits.
    status: &'static str,
    /// What was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    fire_and_forget: Option<bool>,
}

/// What a run has to say: its whole answer, or where it stands.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum RunSays<'a> {
    Answer(Box<RunAnswer<'a>>),
    Standing(Standing<'a>),
}

/// Start an agent
///
/// Waits for its answer, unless `async` or `fireAndForget` is set. A client that leaves meanwhile cancels the run,
/// unless `detach` is set or the request has an `Idempotency-Key`.
#[utoipa::path(
    post,
    path = "/run",
    operation_id = "startRun",
    tag = "runs",
    params((
        "Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]+$",
        description = "A name of the caller's own: asked again with it and the same body, the same run answers",
    )),
    request_body = RunBody,
    responses(
        (status = 200, description = "The answer, or where the run stands", body = RunSays<'_>),
        (status = 400, description = "No JSON, or a path that leads nowhere good"),
        (status = 409, description = "Another run has this workspace to itself; `Retry-After` says when to ask again"),
        (status = 413, description = "The body is too long, or the prompt for this agent"),
        (status = 415, description = "The body is not declared as JSON, or it is encoded"),
        (status = 422, description = "`field` names the part that cannot be accepted"),
        (status = 429, description = "Too many runs wait; `Retry-After` says when to ask again"),
        (status = 500, description = "A fault of the server"),
        (status = 503, description = "The server goes down, or its store cannot be written"),
    ),
)]
pub(crate) async fn start(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let (parts, content) = request.into_parts();
    let bytes = body::read_json(&parts.headers, content, api.max_body()).await?;
    let body = body::parse::<RunBody>(&bytes)?;
    let claim = idempotency::claim(&parts.headers, &bytes)?;
    let (at_once, fire_and_forget) = (body.at_once(), body.fire_and_forget());
    let lasting = body.detach() || claim.is_some();
    let (handle, shape) = api.engine().accept(lasting, accept(api.clone(), body, claim)).await?;
    if at_once {
        let standing = Standing {
            run_id: handle.id,
            workspace: &handle.workspace,
            // Asked again with the same key, it may be over.
            status: handle.status().name(),
            fire_and_forget: Some(fire_and_forget),
        };
        return Ok(Json(RunSays::Standing(standing)).into_response());
    }
    wait(&api, handle, shape).await
}

/// Has the run started that a body asks for.
async fn accept(api: Api, body: RunBody, claim: Option<Claim>) -> Result<(RunHandle, Shape), Problem> {
    let Asked { request, shape } = body.into_asked(&api).await?;
    let request = RunRequest { claim, ..request };
    let handle = api.engine().start(request, WhenBusy::Refuse).await.map_err(|failure| {
        // What the engine refuses is a problem document by the table; anything else would be its fault.
        Problem::of(&failure)
            .unwrap_or_else(|| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, failure.message))
    })?;
    Ok((handle, shape))
}

/// Waits for the end. When the client leaves, this future is dropped, and with it the handle.
async fn wait(api: &Api, mut handle: RunHandle, shape: Shape) -> Result<Response, Problem> {
    // Asked for again by its key after the server went down. A 503 would have the caller try again for ever.
    let settled = handle.status() == RunStatus::Interrupted;
    let outcome = handle.outcome().await.ok_or_else(|| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server went down before the run ended")
    })?;
    if let Some(problem) = outcome.failure().and_then(Problem::of).filter(|_| !settled) {
        return Err(problem);
    }
    let backend = &api.engine().adapter().name;
    let records = api.records(handle.id, shape).await?;
    let answer = RunAnswer::new(&handle.workspace, &outcome, &records, backend, shape);
    Ok(long_answer::response(answer, &outcome))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ResultQuery {
    /// The run's id.
    #[serde(rename = "runId", alias = "run_id")]
    #[param(required, value_type = String, pattern = "^[0-9a-f]{32}$")]
    run_id: Option<String>,
}

/// The answer of a run, or where it stands
///
/// Any number of times, until the run is forgotten.
#[utoipa::path(
    get,
    path = "/run/result",
    operation_id = "getResult",
    tag = "runs",
    params(ResultQuery),
    responses(
        (status = 200, description = "The answer, or where the run stands", body = RunSays<'_>),
        (status = 404, description = "No such run"),
        (status = 422, description = "No id was given"),
        (status = 503, description = "The store cannot be read"),
    ),
)]
pub(crate) async fn result(
    State(api): State<Api>,
    query: Result<Query<ResultQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query?;
    let id = query.run_id.ok_or_else(|| Problem::unprocessable("runId", "is required"))?;
    let record = api.record(&id).await?.ok_or_else(Problem::no_such_run)?;
    let Some(outcome) = &record.outcome else {
        let status = RunStatus::Running.name();
        let standing =
            Standing { run_id: record.id, workspace: &record.workspace, status, fire_and_forget: None };
        return Ok(Json(RunSays::Standing(standing)).into_response());
    };
    let shape = Shape::from_note(&record.note);
    let backend = &api.engine().adapter().name;
    let records = api.records(record.id, shape).await?;
    let answer = RunAnswer::new(&record.workspace, outcome, &records, backend, shape);
    Ok(long_answer::response(answer.with_status(outcome.status()), outcome))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cancelled {
    #[schema(value_type = String)]
    run_id: RunId,
    /// How the run ended.
    status: &'static str,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CancelQuery {
    /// Forget the run afterwards: its record, its events, its key.
    #[param(
        pattern = "^(1|[Tt][Rr][Uu][Ee]|[Yy][Ee][Ss]|[Oo][Nn]|0|[Ff][Aa][Ll][Ss][Ee]|[Nn][Oo]|[Oo][Ff][Ff])$"
    )]
    purge: Option<String>,
}

/// Stop a run
///
/// Answers when nothing of it is left. A run that is over keeps its status.
#[utoipa::path(
    delete,
    path = "/run/{id}",
    operation_id = "cancelRun",
    tag = "runs",
    params(("id" = String, Path, description = "The run's id", pattern = "^[0-9a-f]{32}$"), CancelQuery),
    responses(
        (status = 200, description = "How it ended", body = Cancelled),
        (status = 404, description = "No such run"),
        (status = 422, description = "`purge` is none of 1, true, yes, on, 0, false, no, off"),
        (status = 503, description = "The store cannot be used"),
    ),
)]
pub(crate) async fn cancel(
    State(api): State<Api>,
    id: Result<UrlPath<String>, PathRejection>,
    query: Result<Query<CancelQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let UrlPath(id) = id.map_err(|_| Problem::no_such_run())?;
    let Query(query) = query?;
    let purge = match query.purge.as_deref() {
        None => false,
        Some(text) => {
            boolean(text).ok_or_else(|| Problem::unprocessable("purge", "must be true or false"))?
        }
    };
    let run_id = RunId::parse(&id).ok_or_else(Problem::no_such_run)?;
    let status = match api.engine().cancel(run_id).await {
        Some(status) => status,
        None => api.record(&id).await?.ok_or_else(Problem::no_such_run)?.status(),
    };
    if purge {
        api.purge(run_id).await?;
    }
    Ok(Json(Cancelled { run_id, status: status.name() }).into_response())
}
