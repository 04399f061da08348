//! Whether somebody is there to receive an answer.
//!
//! rmcp ends a call when the client cancels it, but not when a client of a session hangs up, nor at once when a
//! session is closed. Neither leaves anybody who could take the answer of a run that may go on for hours. So every
//! request carries a [`Presence`], which is over when its response is: sent to the end, or dropped. In a session the
//! response is a stream that ends with the session, so that closing it is the same.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{body::Body, http::request::Parts, response::Response};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use rmcp::{RoleServer, service::RequestContext};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Over when nobody can receive the answer any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Presence(CancellationToken);

impl Presence {
    /// What ends it when dropped.
    pub(super) fn guard(&self) -> DropGuard {
        self.0.clone().drop_guard()
    }

    pub(super) fn end(&self) {
        self.0.cancel();
    }

    pub(super) async fn over(&self) {
        self.0.cancelled().await;
    }

    /// That of the HTTP request which carried a call.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<Self> {
        context.extensions.get::<Parts>()?.extensions.get::<Self>().cloned()
    }
}

/// The response, with what ends the presence of its receiver.
pub(super) fn watched(response: Response<BoxBody<Bytes, Infallible>>, guard: DropGuard) -> Response {
    response.map(|inner| Body::new(Watched { inner, _guard: guard }))
}

struct Watched {
    inner: BoxBody<Bytes, Infallible>,
    _guard: DropGuard,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
