use std::{
    io::{self, IoSlice},
    os::fd::{AsRawFd, BorrowedFd},
};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{io::Interest, net::UnixStream};

use super::message;

/// Room for the messages that usually arrive together.
const ROOM: usize = 256;

/// The server's end of a socket to the launcher or to a keeper.
#[derive(Debug)]
pub(super) struct Socket {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Socket {
    /// A pair: ours, and the blocking end for the other process.
    pub(super) fn pair() -> io::Result<(Self, std::os::unix::net::UnixStream)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        Ok((Self { stream: UnixStream::from_std(ours)?, received: Vec::new() }, theirs))
    }

    /// Sends a frame, and descriptors with its first byte.
    pub(super) async fn send(&self, frame: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut sent = 0;
        while let Some(rest) = frame.get(sent..).filter(|rest| !rest.is_empty()) {
            let fds = if sent == 0 { fds } else { &[] };
            sent += self.stream.async_io(Interest::WRITABLE, || self.write(rest, fds)).await?;
        }
        Ok(())
    }

    /// Sends a small message if there is room for it, as there always is when the other end reads.
    pub(super) fn send_now(&self, message: &impl Serialize) -> io::Result<()> {
        let frame = message::encode(message).ok_or(io::ErrorKind::InvalidData)?;
        let sent = self.stream.try_io(Interest::WRITABLE, || self.write(&frame, &[]))?;
        if sent < frame.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
    }

    fn write(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let fds: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let control = if fds.is_empty() { [].as_slice() } else { &rights };
        let parts = [IoSlice::new(bytes)];
        Ok(sendmsg::<()>(self.stream.as_raw_fd(), &parts, control, MsgFlags::MSG_NOSIGNAL, None)?)
    }

    /// The next message; an error when the other end is closed, [`io::ErrorKind::ConnectionReset`] if it had not
    /// read all that we sent. Nothing is lost when the future is dropped.
    pub(super) async fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        loop {
            if let Some(message) = message::take(&mut self.received)? {
                return Ok(message);
            }
            self.received.reserve(ROOM);
            self.stream.readable().await?;
            match self.stream.try_read_buf(&mut self.received) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}
