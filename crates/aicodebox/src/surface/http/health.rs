//! The probes. They wait for nothing that a run could hold.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::Api;

#[derive(Serialize)]
struct Health<'a> {
    ok: bool,
    adapter: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    demo: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// `GET /healthz`: whether this box can do its work.
pub(crate) async fn health(State(api): State<Api>) -> Response {
    let fault = going_down(&api).or_else(|| no_program(&api));
    answer(&api, fault)
}

/// `GET /livez`: whether the process answers at all.
pub(crate) async fn live(State(api): State<Api>) -> Response {
    answer(&api, None)
}

/// `GET /readyz`: whether a run that comes now can be taken.
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
    let status = if fault.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let health = Health { ok: fault.is_none(), adapter, demo: adapter == "demo", detail: fault };
    (status, Json(health)).into_response()
}
