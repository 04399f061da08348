//! An answer that takes long begins before it is there.
//!
//! A request of the 2026 revision is answered when the tool has something to say; that can be hours after the question,
//! and until then rmcp sends not even a header. Proxies and clients cut such a connection after a minute or two. So
//! after a while the answer is begun as a stream, which is kept alive until there is something to put into it.

use std::{convert::Infallible, future::Future, pin::Pin, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use tokio::time::{sleep, timeout};

/// How long an answer may take before it is begun; errors with an HTTP status of their own come sooner.
const BEGIN: Duration = Duration::from_secs(10);
/// How often it is kept alive.
const EVERY: Duration = Duration::from_secs(15);

const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");

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
    let parts = stream::unfold(
        (KEEP_ALIVE, Some(Stage::Waiting(answering))),
        |(next, stage): (Bytes, Option<Stage>)| async move {
            if !next.is_empty() {
                return Some((Ok::<_, Infallible>(next), (Bytes::new(), stage)));
            }
            let (part, stage) = part(stage?).await?;
            Some((Ok(part), (Bytes::new(), stage)))
        },
    );
    let mut response = Response::new(Body::from_stream(parts));
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The next part, and how it goes on.
async fn part(stage: Stage) -> Option<(Bytes, Option<Stage>)> {
    match stage {
        Stage::Waiting(mut answering) => {
            let Ok(response) = timeout(EVERY, &mut answering).await else {
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
