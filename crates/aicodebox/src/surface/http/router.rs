use std::time::Duration;

use axum::{
    Router,
    http::{HeaderName, Method, StatusCode, header},
    middleware::{from_fn, from_fn_with_state},
};
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::{Api, Problem, auth, auth::Token, request_id, routes};
use crate::config::{Access, ApiConfig, Cors};

/// The whole API.
pub(crate) fn router(api: Api, config: &ApiConfig) -> Router {
    let (mut guarded, mut open) = (routes::guarded(), routes::open());
    if config.metrics_public {
        open = open.merge(routes::measured());
    } else {
        guarded = guarded.merge(routes::measured());
    }
    let mut guarded = Router::from(guarded).fallback(unknown_path);
    if let Access::Token(token) = &config.access {
        guarded = guarded.layer(from_fn_with_state(Token::new(token), auth::require));
    }
    let mut all = Router::from(open).merge(guarded).method_not_allowed_fallback(wrong_method).with_state(api);
    if let Some(cors) = cors(&config.cors) {
        all = all.layer(cors);
    }
    all.layer(from_fn(request_id::follow))
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
