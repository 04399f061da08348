//! The pipes of a run: what is read of two, and what is written to the third.

use std::{
    cell::RefCell,
    fs::File,
    io::{self, Read},
};

use tokio::{net::unix::pipe, time::Instant};

use super::{Flow, Output, Stream, pipes::Feed, tail::Tail};

/// What one `read` takes: as much as a pipe holds.
const CHUNK: usize = 64 << 10;

thread_local! {
    /// One buffer per worker instead of one per run: it is never held across an await.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// One output stream: until its end, and what is kept of it.
pub(super) struct Pump {
    stream: Stream,
    /// `None` after its end.
    pub(super) pipe: Option<Pipe>,
    /// The last read took all that it could: there may be more.
    pub(super) full: bool,
    pub(super) kept: Tail,
}

/// Both kinds never block.
pub(super) enum Pipe {
    Fresh(File),
    Watched(pipe::Receiver),
}

impl Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Fresh(file) => file.read(buffer),
            Self::Watched(pipe) => pipe.try_read(buffer),
        }
    }
}

impl Pump {
    pub(super) fn new(stream: Stream, pipe: Option<File>) -> Self {
        Self { stream, pipe: pipe.map(Pipe::Fresh), full: false, kept: Tail::default() }
    }

    /// From now on [`Pump::ready`] tells when there is something to read.
    pub(super) fn watch(&mut self) -> io::Result<()> {
        if let Some(Pipe::Fresh(file)) = self.pipe.take_if(|pipe| matches!(pipe, Pipe::Fresh(_))) {
            self.pipe = Some(Pipe::Watched(pipe::Receiver::from_file_unchecked(file)?));
        }
        Ok(())
    }

    async fn ready(&self) {
        match &self.pipe {
            // An error shows again in the read.
            Some(Pipe::Watched(pipe)) => drop(pipe.readable().await),
            Some(Pipe::Fresh(_)) | None => std::future::pending().await,
        }
    }

    /// Reads once, at most [`CHUNK`] bytes.
    pub(super) fn drain(&mut self, output: &mut dyn Output, last_byte: &mut Instant) -> Flow {
        self.full = false;
        BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(CHUNK, 0);
            let Some(pipe) = &mut self.pipe else { return Flow::Go };
            match pipe.read(buffer) {
                Ok(length @ 1..) => {
                    let bytes = buffer.get(..length).unwrap_or_default();
                    self.full = length == CHUNK;
                    *last_byte = Instant::now();
                    self.kept.push(bytes);
                    return output.feed(self.stream, bytes);
                }
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                // The end, or a pipe that cannot be read: both are the end.
                Ok(0) | Err(_) => self.pipe = None,
            }
            Flow::Go
        })
    }
}

/// A pipe that something can be done with.
pub(super) enum Ready {
    Stdout,
    Stderr,
    /// And it was done.
    Stdin,
}

/// Waits for one of the pipes, whichever: an agent that printed without end on one never got its prompt through
/// another. Cancel-safe.
pub(super) async fn any(stdout: &Pump, stderr: &Pump, stdin: &mut Option<Feed>, reads: bool) -> Ready {
    tokio::select! {
        () = stdout.ready(), if reads => Ready::Stdout,
        () = stderr.ready(), if reads => Ready::Stderr,
        () = write(stdin), if stdin.is_some() => Ready::Stdin,
        else => std::future::pending().await,
    }
}

/// Writes what standard input still takes, and closes it after the last byte. That nobody reads it is no failure:
/// an agent may have enough, or may have ended.
async fn write(stdin: &mut Option<Feed>) {
    let Some(feed) = stdin else { return };
    if feed.pipe.writable().await.is_ok() {
        match feed.pipe.try_write(feed.bytes.get(feed.written..).unwrap_or_default()) {
            Ok(written) => feed.written += written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => feed.written = feed.bytes.len(),
        }
    }
    if feed.written == feed.bytes.len() {
        *stdin = None;
    }
}
