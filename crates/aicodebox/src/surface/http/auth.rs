use axum::{
    extract::{Request, State},
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::Problem;
use crate::surface::token::{Token, bearer};

/// Lets a request through that carries the token.
pub(crate) async fn require(State(token): State<Token>, request: Request, next: Next) -> Response {
    match bearer(request.headers()) {
        Some(candidate) if token.matches(candidate) => next.run(request).await,
        Some(_) => denied("the bearer token is wrong"),
        None => denied("a bearer token is needed: send `Authorization: Bearer <token>`"),
    }
}

fn denied(detail: &str) -> Response {
    Problem::new(StatusCode::UNAUTHORIZED, detail).into_response()
}
