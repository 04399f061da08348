//! The bodies of requests, whatever is in them.

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

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
pub(crate) async fn collect(body: Body, limit: usize) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > limit as u64 {
        return Err(BodyError::TooLong { limit });
    }
    match Limited::new(body, limit).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(BodyError::TooLong { limit }),
        Err(error) => Err(BodyError::Broken(error)),
    }
}

/// An empty text is as good as none.
pub(crate) fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
