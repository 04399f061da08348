//! A server without a token, which only this machine reaches, and the web pages that are shown on this machine.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::Problem;
use crate::{
    config::{Access, ApiConfig, Cors, Names},
    surface::callers::{Callers, Stranger},
};

/// Who may call the API without a token; `None` where there is one, or where others than this machine are meant to call.
pub(crate) fn callers(config: &ApiConfig) -> Option<Arc<Callers>> {
    let local = matches!(config.access, Access::Open) && config.listen.ip().is_loopback();
    let allowed = match &config.cors {
        Cors::Off => Names::These(Vec::new()),
        Cors::Any => Names::Any,
        Cors::Origins(origins) => {
            let texts = origins.iter().filter_map(|origin| origin.to_str().ok());
            Names::These(texts.map(str::to_owned).collect())
        }
    };
    let callers = Callers { hosts: Names::Loopback, origins: vec![Names::Loopback, allowed] };
    local.then(|| Arc::new(callers))
}

/// What a stranger is told.
pub(crate) fn refusal(stranger: Stranger) -> (StatusCode, &'static str) {
    match stranger {
        Stranger::Host => (
            StatusCode::MISDIRECTED_REQUEST,
            "without a token this server goes by no other Host than localhost; AICODEBOX_API_MODE_TOKEN sets one",
        ),
        Stranger::Origin => (
            StatusCode::FORBIDDEN,
            "this Origin may not call without a token; AICODEBOX_API_MODE_CORS_ORIGINS lists the ones that may",
        ),
    }
}

/// Lets a request through that comes from this machine.
pub(super) async fn admit(State(callers): State<Arc<Callers>>, request: Request, next: Next) -> Response {
    match callers.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(stranger) => {
            let (status, detail) = refusal(stranger);
            Problem::new(status, detail).into_response()
        }
    }
}
