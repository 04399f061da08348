//! Server-sent events, as all surfaces write them.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde::Serialize;

/// A stream that has been silent for this long shows that it is alive: proxies cut those that do not.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How it does that.
pub(crate) const KEEP_ALIVE_LINE: &[u8] = b": keep-alive\n\n";

/// An answer of these pieces, each one or more whole events.
pub(crate) fn response(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let mut response = Response::new(Body::from_stream(pieces.map(Ok::<_, std::convert::Infallible>)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Writes one event: its id, if it has one, its name, and its data as one line of JSON.
pub(crate) fn event(out: &mut Vec<u8>, id: Option<u64>, name: &str, data: &impl Serialize) {
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    out.extend_from_slice(format!("event: {name}\ndata: ").as_bytes());
    // Neither a vector nor our events can fail to be written.
    _ = serde_json::to_writer(&mut *out, data);
    out.extend_from_slice(b"\n\n");
}
