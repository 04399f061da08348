use aicodebox_engine::run::Claim;
use axum::http::HeaderMap;
use sha2::{Digest, Sha256};

use super::Problem;
use crate::surface::token::bearer;

/// Longest key, in bytes.
const MAX_LENGTH: usize = 255;

/// What `Idempotency-Key` asks for: with the same key, the same token and the same body, the same run.
///
/// # Errors
/// 422 for a key that is none, and for several.
pub(crate) fn claim(headers: &HeaderMap, body: &[u8]) -> Result<Option<Claim>, Problem> {
    let mut sent = headers.get_all("idempotency-key").iter();
    let Some(key) = sent.next() else { return Ok(None) };
    if sent.next().is_some() {
        return Err(Problem::unprocessable("Idempotency-Key", "is there more than once"));
    }
    let key = key.to_str().ok().map(str::trim).filter(|key| {
        (1..=MAX_LENGTH).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
    });
    let key = key.ok_or_else(|| {
        let detail = format_args!("must have 1 to {MAX_LENGTH} visible ASCII characters").to_string();
        Problem::unprocessable("Idempotency-Key", detail)
    })?;
    Ok(Some(Claim {
        scope: Sha256::digest(bearer(headers).unwrap_or_default()).into(),
        key: key.to_owned(),
        body: Sha256::digest(body).into(),
    }))
}
