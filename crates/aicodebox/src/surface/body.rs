//! The bodies of requests, whatever is in them.

use std::time::Duration;

use axum::{
    body::{Body, HttpBody},
    http::{HeaderMap, header},
};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

/// How long a body that is refused may take to be sent to its end.
const DISCARD_LIMIT: Duration = Duration::from_secs(5);

/// Why there is no body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error("the body could not be read: {0}")]
    Broken(Box<dyn std::error::Error + Send + Sync>),
}

/// Reads a body of at most `limit` bytes.
///
/// # Errors
/// See [`BodyError`].
pub(crate) async fn collect(headers: &HeaderMap, mut body: Body, limit: usize) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > limit as u64 {
        discard(headers, body).await;
        return Err(BodyError::TooLong { limit });
    }
    match Limited::new(&mut body, limit).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            discard(headers, body).await;
            Err(BodyError::TooLong { limit })
        }
        Err(error) => Err(BodyError::Broken(error)),
    }
}

/// Reads what nobody wants, for a while: a client that writes everything before it reads would else see a broken
/// connection instead of the answer. One that asks first need not send anything.
pub(crate) async fn discard(headers: &HeaderMap, mut body: Body) {
    if headers.contains_key(header::EXPECT) {
        return;
    }
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    if timeout(DISCARD_LIMIT, rest).await.is_err() {
        tracing::debug!("a client took too long to send what is refused");
    }
}

/// An empty text is as good as none.
pub(crate) fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
