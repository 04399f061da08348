//! The body of the request that a connection is about.

use std::{
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{body::Body, extract::Request, http::header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::timeout;
use tracing::debug;

/// How long a body that nobody wants may take to be sent to its end.
const DISCARD_LIMIT: Duration = Duration::from_secs(5);

/// Follows the bodies of a connection, one after the other: HTTP/1 has one at a time.
#[derive(Clone, Default)]
pub(super) struct Inflow(Arc<Mutex<Stage>>);

#[derive(Default)]
enum Stage {
    /// All of it is there, or nothing more of it is wanted.
    #[default]
    Over,
    /// Somebody reads it.
    Open,
    /// A handler let go of it before its end.
    Left(Incoming),
}

impl Inflow {
    /// The request for a handler.
    pub(super) fn follow(&self, request: Request<Incoming>) -> Request {
        if request.body().is_end_stream() {
            return request.map(|_none| Body::empty());
        }
        *self.stage() = Stage::Open;
        // A client that asks first need not send anything when it is refused.
        let awaited = request.headers().contains_key(header::EXPECT);
        request.map(|body| Body::new(Followed { body: Some(body), awaited, inflow: self.clone() }))
    }

    /// Whether more of a request is to come.
    pub(super) fn open(&self) -> bool {
        !matches!(*self.stage(), Stage::Over)
    }

    /// Reads what its handler did not want, for a while: a client that writes everything before it reads would else see
    /// a broken connection instead of the answer.
    pub(super) async fn discard(&self) {
        let Stage::Left(mut body) = mem::replace(&mut *self.stage(), Stage::Open) else {
            *self.stage() = Stage::Over;
            return;
        };
        let rest = async { while let Some(Ok(_)) = body.frame().await {} };
        if timeout(DISCARD_LIMIT, rest).await.is_err() {
            debug!("a client took too long to send what is refused");
        }
        *self.stage() = Stage::Over;
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body in the hands of a handler.
struct Followed {
    /// `None` after its end.
    body: Option<Incoming>,
    /// The client waits to be asked for it.
    awaited: bool,
    inflow: Inflow,
}

impl HttpBody for Followed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.awaited = false;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            // By itself, one in chunks never says that it is at its end.
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let rest = self.body.take().filter(|body| !self.awaited && !body.is_end_stream());
        *self.inflow.stage() = rest.map_or(Stage::Over, Stage::Left);
    }
}
