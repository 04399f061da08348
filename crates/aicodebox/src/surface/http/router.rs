use std::time::Duration;

use axum::{
    Router,
    http::{HeaderName, Method, StatusCode, header},
    middleware::{from_fn, from_fn_with_state},
    routing::get,
};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use super::{Api, Problem, auth, files, local, request_id, routes};
use crate::{
    config::{Access, ApiConfig, Cors},
    surface::token::Token,
};

/// The whole API: the routes of chat, which look after access and errors themselves, and MCP beside it, which has
/// rules of its own also for web pages.
pub(crate) fn router(api: Api, config: &ApiConfig, chat: Router, mcp: Option<Router>) -> Router {
    let (mut guarded, mut open) = (routes::guarded(), routes::described());
    if config.metrics_public {
        open = open.merge(routes::measured());
    } else {
        guarded = guarded.merge(routes::measured());
    }
    let mut guarded = Router::from(guarded)
        .route("/files", get(files::root))
        .route("/files/", get(files::root))
        .route("/files/{*path}", get(files::get).put(files::put).delete(files::delete))
        .fallback(unknown_path)
        // Before what asks for the token is laid around it all: a stranger is told nothing of methods either.
        .method_not_allowed_fallback(wrong_method);
    if let Access::Token(token) = &config.access {
        guarded = guarded.layer(from_fn_with_state(Token::new(token), auth::require));
    }
    let mut ours = Router::from(open).method_not_allowed_fallback(wrong_method).merge(guarded);
    if let Some(callers) = local::callers(config) {
        ours = ours.layer(from_fn_with_state(callers, local::admit));
    }
    let probes = Router::from(routes::probes()).method_not_allowed_fallback(wrong_method);
    let mut all = ours.merge(probes).with_state(api).merge(chat);
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
    Router::from(routes::probes())
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(api)
        .merge(surface)
        .layer(from_fn(request_id::follow))
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
            // SDKs send dozens of their own, and name them in the preflight; none of them gives a page more than the
            // allowed origin already has.
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers([
                request_id::X_REQUEST_ID,
                header::RETRY_AFTER,
                header::ALLOW,
                // A page cannot send `If-Match`, nor put a file together from parts, without these.
                header::ETAG,
                header::ACCEPT_RANGES,
                header::CONTENT_RANGE,
                // The clients of OpenAI go by it in a page too.
                HeaderName::from_static("x-should-retry"),
                HeaderName::from_static("x-aicodebox-run-id"),
                HeaderName::from_static("x-aicodebox-ignored"),
            ])
            .max_age(Duration::from_secs(3_600)),
    )
}
