use std::{
    io::{self, IoSlice, Read},
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::net::UnixStream,
    },
};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{Interest, unix::AsyncFd};

use super::message;

/// Room for the messages that usually arrive together.
const ROOM: usize = 256;

/// The server's end of a socket to the launcher or to a keeper.
///
/// It is watched for reading only: with tokio's own type, each message that the other end took out of the buffer
/// would wake us to say that there is room again.
#[derive(Debug)]
pub(super) struct Socket {
    stream: AsyncFd<UnixStream>,
    received: Vec<u8>,
}

impl Socket {
    /// A pair: ours, and the blocking end for the other process.
    pub(super) fn pair() -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let stream = watched(ours, Interest::READABLE)?;
        Ok((Self { stream, received: Vec::new() }, theirs))
    }

    /// Sends a frame, and descriptors with its first byte.
    pub(super) async fn send(&self, frame: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut sent = 0;
        while let Some(rest) = frame.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.write(rest, if sent == 0 { fds } else { &[] }) {
                Ok(length) => sent += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends a small message if there is room for it, as there always is when the other end reads.
    pub(super) fn send_now(&self, message: &impl Serialize) -> io::Result<()> {
        let frame = message::encode(message).ok_or(io::ErrorKind::InvalidData)?;
        if self.write(&frame, &[])? < frame.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
    }

    fn write(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let fds: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let control = if fds.is_empty() { [].as_slice() } else { &rights };
        let parts = [IoSlice::new(bytes)];
        Ok(sendmsg::<()>(self.stream.as_raw_fd(), &parts, control, MsgFlags::MSG_NOSIGNAL, None)?)
    }

    /// Only a command line of some 200 KiB fills the buffer.
    async fn writable(&self) -> io::Result<()> {
        let stream = watched(self.stream.get_ref().try_clone()?, Interest::WRITABLE)?;
        stream.writable().await.map(drop)
    }

    /// The next message; an error when the other end is closed, [`io::ErrorKind::ConnectionReset`] if it had not
    /// read all that we sent. Nothing is lost when the future is dropped.
    pub(super) async fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        loop {
            if let Some(message) = message::take(&mut self.received)? {
                return Ok(message);
            }
            let mut ready = self.stream.readable().await?;
            let mut bytes = [0; ROOM];
            match self.stream.get_ref().read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    self.received.extend(bytes.get(..length).unwrap_or_default());
                    if length < ROOM {
                        // All that there is: the next message raises the flag again.
                        ready.clear_ready();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) => return Err(error),
            }
        }
    }
}

#[expect(unsafe_code, reason = "tokio cannot know that a type keeps its descriptor")]
fn watched(stream: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    // SAFETY: a UnixStream owns its descriptor, always returns the same one, and closes it when it is dropped.
    unsafe { AsyncFd::register_with_interest(stream, interest) }.map_err(|error| error.into_parts().1)
}
