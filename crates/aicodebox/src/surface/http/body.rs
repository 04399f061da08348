use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use bytes::Bytes;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::Problem;
use crate::surface::body::{BodyError, collect};

/// The bytes of a body that is declared as JSON, at most `limit` of them; [`parse`] makes something of them.
///
/// # Errors
/// 415 when it is not declared as JSON, or is encoded; 413 when it is too long.
pub(crate) async fn read_json(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Problem> {
    if !is_json(headers) {
        let detail = "the body must be JSON: send `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    Ok(collect(headers, body, limit).await?)
}

/// What [`read_json`] gave.
///
/// # Errors
/// 400 when it is no JSON, 422 when a part of it is of the wrong type; the latter names the part.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let invalid =
        |error| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not valid JSON: {error}"));
    // Else an array would be read as the fields in their order, and serde would tell our name of the type.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        let other = serde_json::from_slice::<IgnoredAny>(bytes);
        return Err(other.map_or_else(invalid, |_| Problem::unprocessable("body", "expected an object")));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        if !error.is_data() {
            return invalid(error);
        }
        // Once more, this time keeping track of where we are: a body that is right should not pay for it.
        let mut source = serde_json::Deserializer::from_slice(bytes);
        let Err(error) = serde_path_to_error::deserialize::<_, T>(&mut source) else {
            return Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string());
        };
        let reason = error.inner().to_string();
        // The position is of no use beside the path.
        let reason = reason.split(" at line ").next().unwrap_or(&reason);
        Problem::of_part(&error.path().to_string(), reason, "body")
    })
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or(value).trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}
