//! The scheduler, seen from the API.

use axum::{
    Json,
    extract::{Path as UrlPath, State, rejection::PathRejection},
    http::StatusCode,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Api, Problem};
use crate::surface::cron::{CronControl, CronList, CronRefusal};

/// What became of an order.
#[derive(Serialize, ToSchema)]
pub(crate) struct Done {
    job: String,
    #[schema(example = "started")]
    status: &'static str,
}

/// The scheduled jobs, when each is due, and how the last run of each ended
#[utoipa::path(
    get,
    path = "/cron",
    operation_id = "listJobs",
    tag = "cron",
    responses(
        (status = 200, description = "The jobs", body = CronList),
        (status = 404, description = "The scheduler is off"),
        (status = 503, description = "The server is shutting down"),
    ),
)]
pub(crate) async fn list(State(api): State<Api>) -> Result<Json<CronList>, Problem> {
    Ok(Json(control(&api)?.list().await.map_err(refused)?))
}

/// Runs a job now, whatever its schedule says
#[utoipa::path(
    post,
    path = "/cron/{job}/run",
    operation_id = "runJob",
    tag = "cron",
    params(("job" = String, Path, description = "Name of the job")),
    responses(
        (status = 200, description = "It has been started", body = Done),
        (status = 404, description = "There is no such job, or the scheduler is off"),
        (status = 409, description = "It is running"),
        (status = 500, description = "It was not started: that could not be written down"),
        (status = 503, description = "The server is shutting down"),
    ),
)]
pub(crate) async fn run(
    State(api): State<Api>,
    job: Result<UrlPath<String>, PathRejection>,
) -> Result<Json<Done>, Problem> {
    let job = named(job)?;
    control(&api)?.run(job.clone()).await.map_err(refused)?;
    Ok(Json(Done { job, status: "started" }))
}

/// Stops the times of a job, until it is resumed
#[utoipa::path(
    post,
    path = "/cron/{job}/pause",
    operation_id = "pauseJob",
    tag = "cron",
    params(("job" = String, Path, description = "Name of the job")),
    responses(
        (status = 200, description = "It is paused", body = Done),
        (status = 404, description = "There is no such job, or the scheduler is off"),
        (status = 500, description = "It could not be stored, and lasts until the next start only"),
        (status = 503, description = "The server is shutting down"),
    ),
)]
pub(crate) async fn pause(
    State(api): State<Api>,
    job: Result<UrlPath<String>, PathRejection>,
) -> Result<Json<Done>, Problem> {
    let job = named(job)?;
    control(&api)?.pause(job.clone(), true).await.map_err(refused)?;
    Ok(Json(Done { job, status: "paused" }))
}

/// Lets the times of a job come again, from now on
#[utoipa::path(
    post,
    path = "/cron/{job}/resume",
    operation_id = "resumeJob",
    tag = "cron",
    params(("job" = String, Path, description = "Name of the job")),
    responses(
        (status = 200, description = "It is no longer paused", body = Done),
        (status = 404, description = "There is no such job, or the scheduler is off"),
        (status = 500, description = "It could not be stored, and lasts until the next start only"),
        (status = 503, description = "The server is shutting down"),
    ),
)]
pub(crate) async fn resume(
    State(api): State<Api>,
    job: Result<UrlPath<String>, PathRejection>,
) -> Result<Json<Done>, Problem> {
    let job = named(job)?;
    control(&api)?.pause(job.clone(), false).await.map_err(refused)?;
    Ok(Json(Done { job, status: "resumed" }))
}

fn control(api: &Api) -> Result<&CronControl, Problem> {
    let off =
        || Problem::new(StatusCode::NOT_FOUND, "the scheduler is off; AICODEBOX_CRON_MODE=1 turns it on");
    api.cron().ok_or_else(off)
}

/// A name that is not text is no job's.
fn named(job: Result<UrlPath<String>, PathRejection>) -> Result<String, Problem> {
    job.map(|UrlPath(job)| job).map_err(|_not_text| refused(CronRefusal::Unknown))
}

fn refused(refusal: CronRefusal) -> Problem {
    let status = match refusal {
        CronRefusal::Unknown => StatusCode::NOT_FOUND,
        CronRefusal::Running => StatusCode::CONFLICT,
        CronRefusal::Stopped => StatusCode::SERVICE_UNAVAILABLE,
        CronRefusal::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Problem::new(status, refusal.to_string())
}
