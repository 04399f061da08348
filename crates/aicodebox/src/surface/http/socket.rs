//! A client's connection, watched while it is used.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// What hyper reads from and writes to.
pub(super) struct Socket {
    incoming: OwnedReadHalf,
    shared: Arc<Shared>,
}

/// Tells how it is with the client, whatever of its bytes nobody has read.
pub(super) struct Watch(Arc<Shared>);

struct Shared {
    outgoing: OwnedWriteHalf,
    /// Whoever reads waits for more.
    reading: AtomicBool,
    /// Whoever writes waits for the client to take it.
    writing: AtomicBool,
}

impl Socket {
    /// The same registration serves both: a connection costs no second file descriptor, and a request nothing.
    pub(super) fn new(stream: TcpStream) -> (Self, Watch) {
        let (incoming, outgoing) = stream.into_split();
        let (reading, writing) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Arc::new(Shared { outgoing, reading, writing });
        (Self { incoming, shared: shared.clone() }, Watch(shared))
    }
}

impl Watch {
    /// Waits until the client has closed its side, or the connection is broken. Cancel-safe.
    ///
    /// Not known where a client sent more beyond its request than the kernel keeps for us, before all of that is read.
    pub(super) async fn closed(&self) {
        // Of all interests the one that bytes do not wake: that the other side has closed belongs to each, and urgent
        // data, which this one is about, is not registered for.
        while self.0.outgoing.ready(Interest::PRIORITY).await.is_ok_and(|ready| !ready.is_read_closed()) {}
    }

    /// Whether somebody waits for the socket, and so will find out by itself what becomes of the client.
    pub(super) fn waited_for(&self) -> bool {
        self.0.reading.load(Ordering::Relaxed) || self.0.writing.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn write(
        &self,
        cx: &mut Context<'_>,
        attempt: impl Fn(&OwnedWriteHalf) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let writable = self.outgoing.as_ref().poll_write_ready(cx);
            self.writing.store(writable.is_pending(), Ordering::Relaxed);
            ready!(writable)?;
            match attempt(&self.outgoing) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.incoming).poll_read(cx, buffer);
        self.shared.reading.store(read.is_pending(), Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.shared.write(cx, |half| half.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.shared.write(cx, |half| half.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The kernel has it already.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The half does so when it is dropped, with the connection.
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
