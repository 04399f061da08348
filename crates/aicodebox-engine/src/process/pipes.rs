use std::{
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::pipe2,
};
use tokio::net::unix::pipe;

use super::Stdin;

/// The server's ends of a process's standard streams.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: Option<Feed>,
    /// Not watched yet: a quick agent has said everything before anybody looks.
    pub(super) stdout: Option<File>,
    pub(super) stderr: Option<File>,
}

/// The process's ends. Dropped as soon as it is started, so that end of file means that it is gone.
pub(super) struct Ends {
    /// `None`: `/dev/null`.
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// What is still to be written to standard input.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) pipe: pipe::Sender,
    pub(super) bytes: Vec<u8>,
    pub(super) written: usize,
}

impl Pipes {
    pub(super) fn open(stdin: Stdin) -> io::Result<(Self, Ends)> {
        let (stdout, out) = output()?;
        let (stderr, err) = output()?;
        let (stdin, input) = input(stdin)?;
        let pipes = Self { stdin, stdout: Some(stdout), stderr: Some(stderr) };
        Ok((pipes, Ends { stdin: input, stdout: out, stderr: err }))
    }
}

fn output() -> io::Result<(File, OwnedFd)> {
    let (ours, theirs) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((ours.into(), theirs))
}

fn input(stdin: Stdin) -> io::Result<(Option<Feed>, Option<OwnedFd>)> {
    let (bytes, stays_open) = match stdin {
        Stdin::Null => return Ok((None, None)),
        Stdin::Bytes(bytes) => (bytes, false),
        Stdin::Piped => (Vec::new(), true),
    };
    let (theirs, ours) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    // Most prompts fit into the pipe: then everything is said before there is a reader, and nothing to watch.
    let mut ours = File::from(ours);
    let written = if bytes.is_empty() { 0 } else { ours.write(&bytes)? };
    let done = written == bytes.len() && !stays_open;
    let feed = if done {
        None
    } else {
        Some(Feed { pipe: pipe::Sender::from_file_unchecked(ours)?, bytes, written })
    };
    Ok((feed, Some(theirs)))
}
