//! The bodies of requests, whatever is in them.

use axum::{
    body::{Body, HttpBody},
    http::{HeaderMap, StatusCode, header},
};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

/// Why there is no body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error("Content-Encoding is not supported, whatever it is: send the body as it is")]
    Encoded,
    #[error("the body could not be read: {0}")]
    Broken(Box<dyn std::error::Error + Send + Sync>),
}

impl BodyError {
    /// What it is on the wire.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Encoded => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// Refuses a body that is compressed, or encoded in another way: nothing here undoes that.
///
/// # Errors
/// [`BodyError::Encoded`].
pub(crate) fn require_plain(headers: &HeaderMap) -> Result<(), BodyError> {
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    let plain = encodings.all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if plain { Ok(()) } else { Err(BodyError::Encoded) }
}

/// Reads a body of at most `limit` bytes, which came with these headers.
///
/// # Errors
/// See [`BodyError`].
pub(crate) async fn collect(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, BodyError> {
    require_plain(headers)?;
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
