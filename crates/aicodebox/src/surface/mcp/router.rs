use std::{convert::Infallible, sync::Arc};

use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::any,
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    guard::{Admission, admit},
    handler::Handler,
    patience,
    presence::{Presence, watched},
    sessions::Sessions,
};
use crate::{config::McpConfig, surface::body::collect};

/// JSON-RPC's numbers of errors.
const PARSE_ERROR: i32 = -32_700;
const INVALID_REQUEST: i32 = -32_600;

/// The protocol over HTTP. Cheap to clone.
#[derive(Clone)]
struct Mcp {
    service: StreamableHttpService<Handler, Sessions>,
    max_body: usize,
}

/// The routes at these paths, all the same; no redirect, for clients do not follow one with a body. `stop` ends all
/// sessions and streams.
pub(crate) fn router(
    handler: Handler,
    config: &McpConfig,
    paths: &[&str],
    stop: CancellationToken,
) -> Router {
    let (max_body, sessions) = (config.max_body, Sessions::new(config.session_idle));
    let admission = Admission::new(config);
    let config = StreamableHttpServerConfig::default()
        // Ours is checked before: rmcp answers 403 where 421 is due, and lets every Origin in.
        .disable_allowed_hosts()
        .with_max_request_body_bytes(max_body)
        .with_sse_retry(None)
        .with_cancellation_token(stop);
    let service = StreamableHttpService::new(move || Ok(handler.clone()), Arc::new(sessions), config);
    let mcp = Mcp { service, max_body };
    let mut router = Router::new();
    for path in paths {
        router = router.route(path, any(answer));
    }
    router.with_state(mcp).layer(from_fn_with_state(Arc::new(admission), admit))
}

async fn answer(State(mcp): State<Mcp>, mut request: Request) -> Response {
    name_what_is_accepted(request.headers_mut());
    if request.method() != Method::POST {
        return mcp.service.handle(request.map(|_| Full::<Bytes>::default())).await.map(Body::new);
    }
    let (mut parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        let message = "the body must be JSON: send `Content-Type: application/json`";
        return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
    }
    let body = match collect(&parts.headers, body, mcp.max_body).await {
        Ok(body) => body,
        Err(error) => return refusal(error.status(), &error.to_string()),
    };
    let presence = Presence::default();
    let guard = presence.guard();
    parts.extensions.insert(presence);
    let request = Request::from_parts(parts, Full::new(body.clone()));
    let answering = async move {
        let response = mcp.service.handle(request).await;
        // So rmcp says that the body is no message; that it is declared as JSON is known by now.
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE { malformed(&body) } else { response }
    };
    patience::answer(async move { watched(answering.await, guard) }).await
}

/// Who takes anything, as curl and most libraries do unasked, takes both; rmcp wants each by its name.
fn name_what_is_accepted(headers: &mut HeaderMap) {
    if headers.get(header::ACCEPT).is_some_and(|accepted| accepted == "*/*") {
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, both);
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let declared = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    declared.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/json")
}

/// 400 for a body that is no JSON, or no message of JSON-RPC.
fn malformed(body: &[u8]) -> axum::http::Response<BoxBody<Bytes, Infallible>> {
    let (code, message) = match serde_json::from_slice::<IgnoredAny>(body) {
        Ok(_) => (INVALID_REQUEST, "the body is not one JSON-RPC message".to_owned()),
        Err(error) => (PARSE_ERROR, format!("the body is not valid JSON: {error}")),
    };
    let mut response = axum::http::Response::new(Full::from(document(code, &message).to_string()).boxed());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An error answer to a request that never became a message.
pub(super) fn refusal(status: StatusCode, message: &str) -> Response {
    let mut response = (status, Json(document(INVALID_REQUEST, message))).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn document(code: i32, message: &str) -> serde_json::Value {
    json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}})
}
