//! Answers of runs as responses; a long one is written while it is sent.

use std::{convert::Infallible, iter, sync::Arc};

use aicodebox_engine::run::RunOutcome;
use axum::{
    Json,
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;

use super::run::RunSays;
use crate::surface::run_answer::RunAnswer;

/// A text of up to so many bytes is written at once. Of a longer one there would be two copies for as long as the
/// client reads.
const AT_ONCE: usize = 256 << 10;
/// So much of a longer one is written at a time.
const PIECE: usize = 64 << 10;
/// Where the text begins in an answer. Nothing before it looks the same: within a string, a quote has a backslash before
/// it.
const GAP: &str = r#""text":""#;

/// The answer to `outcome`.
pub(super) fn response(answer: RunAnswer<'_>, outcome: &Arc<RunOutcome>) -> Response {
    if outcome.text.len() <= AT_ONCE {
        return Json(RunSays::Answer(Box::new(answer))).into_response();
    }
    let json = serde_json::to_string(&answer.without_text()).unwrap_or_default();
    // As `Json` answers what cannot be written.
    let Some(gap) = json.find(GAP) else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let (json, gap) = (Bytes::from(json), gap + GAP.len());
    // Written twice rather than kept: a client is told how much there will be.
    let length = json.len() + pieces(outcome.clone()).map(|piece| piece.len()).sum::<usize>();
    let parts =
        iter::once(json.slice(..gap)).chain(pieces(outcome.clone())).chain(iter::once(json.slice(gap..)));
    let body = Body::from_stream(stream::iter(parts.map(Ok::<_, Infallible>)));
    let headers =
        [(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_LENGTH, length.to_string())];
    (headers, body).into_response()
}

/// The text as the inside of a JSON string.
fn pieces(outcome: Arc<RunOutcome>) -> impl Iterator<Item = Bytes> + Send {
    let mut from = 0;
    iter::from_fn(move || {
        let rest = outcome.text.get(from..).filter(|rest| !rest.is_empty())?;
        let mut end = rest.len().min(PIECE);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let piece = &rest[..end];
        from += end;
        let quoted = Bytes::from(serde_json::to_vec(piece).ok()?);
        Some(quoted.slice(1..quoted.len() - 1))
    })
}

#[cfg(test)]
mod tests {
    use aicodebox_engine::run::{RunId, Verdict};
    use http_body_util::BodyExt;
    use serde_json::Value;

    use super::*;
    use crate::surface::{records::NO_RECORDS, run_answer::Shape};

    fn outcome(text: String) -> Arc<RunOutcome> {
        Arc::new(RunOutcome { text, ..RunOutcome::bare(RunId::random(), Verdict::Ok) })
    }

    #[tokio::test]
    async fn a_long_answer_reads_as_a_short_one() {
        let workspace = std::path::Path::new("/w/\"text\":\"");
        for text in ["short \"text\":\"", &"\"é€\n😀\\".repeat(70_001)] {
            let outcome = outcome(text.to_owned());
            let answer = || RunAnswer::new(workspace, &outcome, &NO_RECORDS, "demo", Shape::default());
            let response = response(answer(), &outcome);
            assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
            let length = response.headers().get(header::CONTENT_LENGTH).cloned();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let got: Value = serde_json::from_slice(&body).unwrap();
            assert!(got == serde_json::to_value(answer()).unwrap());
            assert!(length.is_none_or(|length| length == body.len().to_string()));
        }
    }

    #[test]
    fn a_long_text_is_written_in_small_pieces() {
        let outcome = outcome("\u{1}é".repeat(1 << 19));
        assert!(pieces(outcome).all(|piece| piece.len() <= 6 * PIECE));
    }
}
