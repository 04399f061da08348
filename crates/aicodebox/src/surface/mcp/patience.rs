//! An answer that takes long begins before it is there.
//!
//! A request of the 2026 revision is answered when the tool has something to say; that can be hours after the question,
//! and until then rmcp sends not even a header. Proxies and clients cut such a connection after a minute or two. So
//! after a while the answer is begun as a stream, which is kept alive until there is something to put into it.

use std::{future::Future, pin::Pin, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use tokio::time::{sleep, timeout};

use crate::surface::sse;

/// How long an answer may take before it is begun; errors with an HTTP status of their own come sooner.
const BEGIN: Duration = Duration::from_secs(10);
/// What keeps it alive.
const KEEP_ALIVE: Bytes = Bytes::from_static(sse::KEEP_ALIVE_LINE);

type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The answer, begun in time. Dropping it, begun or not, drops what makes it.
pub(super) async fn answer(answering: impl Future<Output = Response> + Send + 'static) -> Response {
    let mut answering: Answering = Box::pin(answering);
    tokio::select! {
        response = &mut answering => response,
        () = sleep(BEGIN) => begun(answering),
    }
}

enum Stage {
    Waiting(Answering),
    Streaming(Body),
}

fn begun(answering: Answering) -> Response {
    let rest = stream::unfold(Some(Stage::Waiting(answering)), |stage| async move { part(stage?).await });
    let mut response = sse::response(stream::iter([KEEP_ALIVE]).chain(rest));
    // As rmcp declares its own.
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

/// The next part, and how it goes on.
async fn part(stage: Stage) -> Option<(Bytes, Option<Stage>)> {
    match stage {
        Stage::Waiting(mut answering) => {
            let Ok(response) = timeout(sse::KEEP_ALIVE, &mut answering).await else {
                return Some((KEEP_ALIVE, Some(Stage::Waiting(answering))));
            };
            let streams = response
                .headers()
                .get(header::CONTENT_TYPE)
                .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
            let mut body = response.into_body();
            if streams {
                let bytes = frame(&mut body).await?;
                Some((bytes, Some(Stage::Streaming(body))))
            } else {
                let message = body.collect().await.ok()?.to_bytes();
                let event = [b"event: message\ndata: ", message.as_ref(), b"\n\n"].concat();
                Some((event.into(), None))
            }
        }
        Stage::Streaming(mut body) => {
            let bytes = frame(&mut body).await?;
            Some((bytes, Some(Stage::Streaming(body))))
        }
    }
}

async fn frame(body: &mut Body) -> Option<Bytes> {
    loop {
        if let Ok(bytes) = body.frame().await?.ok()?.into_data() {
            return Some(bytes);
        }
    }
}
