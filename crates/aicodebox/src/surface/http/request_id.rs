use std::time::Instant;

use aicodebox_engine::run::RunId;
use axum::{
    extract::Request,
    http::{HeaderName, HeaderValue, Method, StatusCode},
    middleware::Next,
    response::Response,
};
use tracing::{Instrument, debug, info, info_span};

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A caller's id longer than this is replaced by one of ours.
const MAX_LENGTH: usize = 128;

/// Gives the request its id, takes it along in every log line, puts it on the answer, and logs the answer.
pub(crate) async fn follow(request: Request, next: Next) -> Response {
    let id = request
        .headers()
        .get(X_REQUEST_ID)
        .filter(|id| acceptable(id.as_bytes()))
        .cloned()
        .unwrap_or_else(made);
    let span = info_span!("http", request_id = id.to_str().unwrap_or_default());
    let mut ending = Ending::new(&request);
    let mut response = async {
        let response = next.run(request).await;
        ending.answered(response.status());
        response
    }
    .instrument(span)
    .await;
    response.headers_mut().insert(X_REQUEST_ID, id);
    response
}

/// Only what can do no harm in a header, a log line, or a shell that somebody pastes it into.
fn acceptable(id: &[u8]) -> bool {
    let harmless = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    (1..=MAX_LENGTH).contains(&id.len()) && id.iter().all(harmless)
}

fn made() -> HeaderValue {
    HeaderValue::try_from(RunId::random().to_string()).unwrap_or(HeaderValue::from_static("-"))
}

/// Logs how a request ended, also when its client went away. The path alone: a query may carry a token.
struct Ending {
    method: Method,
    path: String,
    begun: Instant,
    open: bool,
}

impl Ending {
    fn new(request: &Request) -> Self {
        let path = request.uri().path();
        Self { method: request.method().clone(), path: path.to_owned(), begun: Instant::now(), open: true }
    }

    fn answered(&mut self, status: StatusCode) {
        self.open = false;
        let (method, path, took_ms) = (&self.method, &self.path, self.begun.elapsed().as_millis() as u64);
        // What went well is not worth a line: a run has one of its own, and probes come every few seconds.
        if status.is_success() {
            debug!(%method, path, status = status.as_u16(), took_ms, "answered");
        } else {
            info!(%method, path, status = status.as_u16(), took_ms, "answered");
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.open {
            info!(method = %self.method, path = self.path, "the client went away");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_id_is_taken_only_if_it_is_short_and_harmless() {
        assert!(acceptable(b"7f3a-2_b.c:d/e+f="));
        assert!(acceptable(&[b'a'; MAX_LENGTH]));
        for bad in [b"".as_slice(), &[b'a'; MAX_LENGTH + 1], b"a b", b"a\"b", b"$(x)", "\u{e9}".as_bytes()] {
            assert!(!acceptable(bad), "{bad:?}");
        }
    }
}
