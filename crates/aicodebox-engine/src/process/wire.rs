use std::{
    collections::VecDeque,
    io::{self, IoSliceMut, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use serde::Serialize;

use super::message;

/// The most descriptors that come with one message.
pub(super) const MAX_FDS: usize = 3;

/// The launcher's and a keeper's end of a socket: blocking, one message at a time.
pub(super) struct Wire {
    socket: UnixStream,
    fds: VecDeque<OwnedFd>,
    held: Vec<u8>,
}

impl Wire {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket: socket.into(), fds: VecDeque::new(), held: Vec::new() }
    }

    /// Waits for one message. `None` when the other end is closed.
    pub(super) fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut header = [0; message::HEADER];
        let mut space = nix::cmsg_space!([RawFd; MAX_FDS]);
        let got = {
            let mut parts = [IoSliceMut::new(&mut header)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            let received = recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, Some(&mut space), flags);
            let received = match received {
                Ok(received) => received,
                Err(nix::Error::ECONNRESET) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            for control in received.cmsgs()? {
                if let ControlMessageOwned::ScmRights(fds) = control {
                    self.fds.extend(fds.into_iter().map(own));
                }
            }
            received.bytes
        };
        if got == 0 {
            return Ok(None);
        }
        self.socket.read_exact(header.get_mut(got..).unwrap_or_default())?;
        let length = message::length(header).ok_or(io::ErrorKind::InvalidData)?;
        let mut body = vec![0; length];
        self.socket.read_exact(&mut body)?;
        Ok(Some(body))
    }

    /// The next descriptor that came with a message.
    pub(super) fn take_fd(&mut self) -> io::Result<OwnedFd> {
        self.fds.pop_front().ok_or_else(|| io::Error::other("a message came without its descriptors"))
    }

    /// Sends one message, behind those that were held back.
    pub(super) fn send(&mut self, report: &impl Serialize) -> io::Result<()> {
        self.hold(report)?;
        self.flush()
    }

    /// Holds one message back, to go out with the next one or by [`Wire::flush`].
    pub(super) fn hold(&mut self, report: &impl Serialize) -> io::Result<()> {
        self.held.append(&mut message::encode(report).ok_or(io::ErrorKind::InvalidData)?);
        Ok(())
    }

    /// Sends what was held back.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let sent = self.socket.write_all(&self.held);
        self.held.clear();
        sent
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[expect(unsafe_code, reason = "recvmsg returns numbers")]
fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just put this descriptor into our table; nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
