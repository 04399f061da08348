use std::time::Duration;

use axum::{
    Router,
    http::{HeaderName, Method, StatusCode, header},
    middleware::{from_fn, from_fn_with_state},
    routing::{delete, get, post},
};
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::{Api, Problem, auth, files, health, request_id, run, status};
use crate::{
    config::{Access, ApiConfig, Cors},
    surface::token::Token,
};

/// The whole API, and MCP beside it, which has rules of its own for who may call.
pub(crate) fn router(api: Api, config: &ApiConfig, mcp: Option<Router>) -> Router {
    let mut guarded = Router::new()
        .route("/run", post(run::start))
        .route("/run/result", get(run::result))
        .route("/run/{id}", delete(run::cancel))
        .route("/status", get(status::show))
        .route("/files", get(files::root))
        .route("/files/", get(files::root))
        .route("/files/{*path}", get(files::get).put(files::put).delete(files::delete))
        .fallback(unknown_path);
    if let Access::Token(token) = &config.access {
        guarded = guarded.layer(from_fn_with_state(Token::new(token), auth::require));
    }
    let mut all = probes().merge(guarded).method_not_allowed_fallback(wrong_method).with_state(api);
    if let Some(cors) = cors(&config.cors) {
        all = all.layer(cors);
    }
    if let Some(mcp) = mcp {
        all = all.merge(mcp);
    }
    all.layer(from_fn(request_id::follow))
}

/// Another surface on a port of its own, with the probes.
pub(crate) fn alone(api: Api, surface: Router) -> Router {
    probes()
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(api)
        .merge(surface)
        .layer(from_fn(request_id::follow))
}

fn probes() -> Router<Api> {
    Router::new()
        .route("/healthz", get(health::health))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
}

async fn unknown_path() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is nothing at this path")
}

/// The router adds `Allow`.
async fn wrong_method(method: Method) -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not allowed here"))
}

fn cors(config: &Cors) -> Option<CorsLayer> {
    let origins = match config {
        Cors::Off => return None,
        Cors::Any => AllowOrigin::any(),
        Cors::Origins(origins) => AllowOrigin::list(origins.clone()),
    };
    Some(
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
            .allow_headers([
                header::AUTHORIZATION,
                header::CONTENT_TYPE,
                request_id::X_REQUEST_ID,
                HeaderName::from_static("idempotency-key"),
                HeaderName::from_static("last-event-id"),
            ])
            .expose_headers([request_id::X_REQUEST_ID, header::RETRY_AFTER])
            .max_age(Duration::from_secs(3_600)),
    )
}
