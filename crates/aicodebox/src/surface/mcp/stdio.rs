use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use rmcp::{ServiceExt, service::ServerInitializeError};
use tokio::io::{AsyncRead, ReadBuf, stdin, stdout};
use tokio_util::sync::CancellationToken;

use super::{handler::Handler, presence::Presence};

/// Speaks the protocol with the client at the other end of our standard input and output, until that closes its end or
/// `stop` is cancelled.
///
/// # Errors
/// When the client does not begin as the protocol wants it.
pub(crate) async fn serve_stdio(
    handler: Handler,
    stop: CancellationToken,
) -> Result<(), Box<ServerInitializeError>> {
    let presence = Presence::default();
    let input = Input { inner: stdin(), presence: presence.clone() };
    let handler = handler.with_presence(presence);
    match handler.serve_with_ct((input, stdout()), stop).await {
        Ok(serving) => {
            if let Err(error) = serving.waiting().await {
                tracing::error!(%error, "the connection to the client broke");
            }
            Ok(())
        }
        // A client that leaves without a word, or a signal before its first one.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(Box::new(error)),
    }
}

/// Our input, which says when it has ended. rmcp waits for the calls that it still has to answer before it tells
/// them, and by then a run has gone on for seconds that nobody wants.
struct Input<R> {
    inner: R,
    presence: Presence,
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let room = buffer.remaining() > 0;
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        let ended = match &read {
            Poll::Ready(Ok(())) => room && buffer.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if ended {
            self.presence.end();
        }
        read
    }
}
