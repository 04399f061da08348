use std::sync::Arc;

use axum::{
    extract::{Query, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, uri::PathAndQuery},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use super::router::refusal;
use crate::{
    config::{Access, McpConfig},
    surface::{
        callers::{Callers, Stranger},
        token::{Token, bearer},
    },
};

/// Who is let in: by the name under which this server was called, by the web page that calls, by the token.
pub(super) struct Admission {
    callers: Callers,
    token: Option<Token>,
}

impl Admission {
    pub(super) fn new(config: &McpConfig) -> Self {
        let token = match &config.access {
            Access::Open => None,
            Access::Token(secret) => Some(Token::new(secret)),
        };
        let callers = Callers { hosts: config.hosts.clone(), origins: vec![config.origins.clone()] };
        Self { callers, token }
    }

    fn token_right(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        match bearer(headers) {
            Some(candidate) => token.matches(candidate),
            None => Query::<TokenQuery>::try_from_uri(uri)
                .ok()
                .and_then(|query| query.0.api_token)
                .is_some_and(|candidate| token.matches(candidate.as_bytes())),
        }
    }
}

/// For clients that cannot set headers.
#[derive(Deserialize)]
struct TokenQuery {
    #[serde(rename = "apiToken")]
    api_token: Option<String>,
}

/// Lets a request through, without the query that may have held the token.
pub(super) async fn admit(
    State(admission): State<Arc<Admission>>,
    mut request: Request,
    next: Next,
) -> Response {
    match admission.callers.check(request.uri(), request.headers()) {
        Ok(()) => {}
        Err(Stranger::Host) => {
            return refusal(
                StatusCode::MISDIRECTED_REQUEST,
                "this server does not go by that Host; AICODEBOX_MCP_MODE_ALLOWED_HOSTS lists the ones that it does",
            );
        }
        Err(Stranger::Origin) => {
            return refusal(
                StatusCode::FORBIDDEN,
                "this Origin may not call; AICODEBOX_MCP_MODE_ALLOWED_ORIGINS lists the ones that may",
            );
        }
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let mut response = if request.method() == Method::OPTIONS {
        StatusCode::NO_CONTENT.into_response()
    } else if admission.token_right(request.uri(), request.headers()) {
        forget_query(&mut request);
        next.run(request).await
    } else {
        refusal(StatusCode::UNAUTHORIZED, "a bearer token is needed: send `Authorization: Bearer <token>`")
    };
    if let Some(origin) = origin {
        allow_page(response.headers_mut(), origin);
    }
    response
}

fn forget_query(request: &mut Request) {
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = request.uri().path().parse::<PathAndQuery>().ok();
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
}

/// Tells the browser that the page may see the answer.
fn allow_page(headers: &mut HeaderMap, origin: HeaderValue) {
    let fixed = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id",
        ),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, "mcp-session-id, www-authenticate"),
        (header::VARY, "origin"),
    ];
    for (name, value) in fixed {
        headers.insert::<HeaderName>(name, HeaderValue::from_static(value));
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
}
