//! The probes. They wait for nothing that a run could hold.

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Api, problem::RETRY_AFTER};

/// Whether all is well.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health<'a> {
    /// Whether it is.
    ok: bool,
    /// Name of the agent's adapter.
    adapter: &'a str,
    /// The demo agent answers, which asks no model.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    demo: bool,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// Whether this box can do its work
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "getHealth",
    tag = "health",
    responses(
        (status = 200, description = "It is so", body = Health<'_>),
        (status = 503, description = "It is not", body = Health<'_>),
    ),
)]
pub(crate) async fn health(State(api): State<Api>) -> Response {
    let fault = going_down(&api).or_else(|| no_program(&api));
    answer(&api, fault)
}

/// Whether the process answers at all
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "getLiveness",
    tag = "health",
    responses(
        (status = 200, description = "It is so", body = Health<'_>),
    ),
)]
pub(crate) async fn live(State(api): State<Api>) -> Response {
    answer(&api, None)
}

/// Whether a run that comes now can be taken
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "getReadiness",
    tag = "health",
    responses(
        (status = 200, description = "It is so", body = Health<'_>),
        (status = 503, description = "It is not", body = Health<'_>),
    ),
)]
pub(crate) async fn ready(State(api): State<Api>) -> Response {
    let fault = match going_down(&api).or_else(|| no_program(&api)) {
        Some(fault) => Some(fault),
        None => api.not_writable().await,
    };
    answer(&api, fault)
}

fn going_down(api: &Api) -> Option<String> {
    api.engine().draining().then(|| "the server is shutting down".to_owned())
}

fn no_program(api: &Api) -> Option<String> {
    api.engine().program().err().map(|error| error.to_string())
}

fn answer(api: &Api, fault: Option<String>) -> Response {
    let adapter = &api.engine().adapter().name;
    let ok = fault.is_none();
    let health = Json(Health { ok, adapter, demo: adapter == "demo", detail: fault });
    if ok {
        return health.into_response();
    }
    let again = [(header::RETRY_AFTER, RETRY_AFTER.as_secs().to_string())];
    (StatusCode::SERVICE_UNAVAILABLE, again, health).into_response()
}
