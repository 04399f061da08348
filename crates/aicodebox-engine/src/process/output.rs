use crate::run::{Failure, Room};

/// Which stream a chunk came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What the supervisor should do after a chunk.
#[derive(Clone, Debug, PartialEq)]
pub enum Flow {
    /// Go on.
    Go,
    /// The final event has been read: do not wait long for the process.
    Done,
    /// A fault that no waiting heals: stop at once.
    Abort(Failure),
}

/// Takes what a process writes. Called in the pipe loop: never blocks, never fails.
pub trait Output: Send {
    /// The leader runs under this pid.
    fn started(&mut self, pid: i32);

    /// Takes the next bytes of a stream, cut anywhere.
    fn feed(&mut self, stream: Stream, bytes: &[u8]) -> Flow;

    /// Whether nothing more should be read for now: the process then waits at its pipe. Until when, bounded.
    fn full(&self) -> Option<Room> {
        None
    }
}
