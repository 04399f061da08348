use std::sync::Arc;

use memchr::{memchr, memrchr};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::watch,
    task::block_in_place,
};

use crate::{
    adapter::OutputReader,
    process::{Flow, Output, Stream},
    run::Room,
    store::EventLog,
};

/// From so many bytes on a line of stdout is read while another thread does the rest of this worker's work.
const LONG_LINE: usize = 256 << 10;

/// Gives the pipes' bytes to the adapter's reader.
pub(super) struct ReaderOutput<'a> {
    reader: Box<dyn OutputReader>,
    begun: &'a watch::Sender<bool>,
    log: &'a Arc<EventLog>,
    /// Bytes of the line of stdout that has not ended.
    line: usize,
}

impl<'a> ReaderOutput<'a> {
    pub(super) fn new(
        reader: Box<dyn OutputReader>,
        begun: &'a watch::Sender<bool>,
        log: &'a Arc<EventLog>,
    ) -> Self {
        Self { reader, begun, log, line: 0 }
    }

    pub(super) fn into_reader(self) -> Box<dyn OutputReader> {
        self.reader
    }

    /// Whether these bytes end a line of [`LONG_LINE`].
    fn end_long_line(&mut self, bytes: &[u8]) -> bool {
        let (Some(first), Some(last)) = (memchr(b'\n', bytes), memrchr(b'\n', bytes)) else {
            self.line += bytes.len();
            return false;
        };
        let ended = self.line + first;
        self.line = bytes.len() - last - 1;
        ended >= LONG_LINE
    }
}

impl Output for ReaderOutput<'_> {
    fn started(&mut self, pid: i32) {
        tracing::debug!(pid, "agent started");
        self.begun.send_replace(true);
    }

    fn feed(&mut self, stream: Stream, bytes: &[u8]) -> Flow {
        let long = stream == Stream::Stdout && self.end_long_line(bytes);
        if long && Handle::try_current().is_ok_and(|here| here.runtime_flavor() == RuntimeFlavor::MultiThread)
        {
            // A worker that read 8 MB of numbers answered nobody else for a second.
            return block_in_place(|| self.reader.feed(stream, bytes));
        }
        self.reader.feed(stream, bytes)
    }

    fn full(&self) -> Option<Room> {
        self.log.full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        BoxFuture,
        adapter::{ReadError, Reading},
        run::Exit,
    };

    struct Deaf;

    impl OutputReader for Deaf {
        fn feed(&mut self, _stream: Stream, _bytes: &[u8]) -> Flow {
            Flow::Go
        }

        fn finish(self: Box<Self>, _exit: Exit) -> BoxFuture<'static, Result<Reading, ReadError>> {
            unreachable!("it is not asked")
        }
    }

    #[test]
    fn a_line_is_as_long_as_all_its_pieces() {
        let (begun, log) = (watch::Sender::new(false), EventLog::in_memory());
        let mut output = ReaderOutput::new(Box::new(Deaf), &begun, &log);
        let piece = vec![b'x'; LONG_LINE / 4];
        assert!((0..4).all(|_| !output.end_long_line(&piece)), "it has no end");
        assert!(output.end_long_line(b"x\nnext"));
        assert_eq!(output.line, 4);
        assert!(!output.end_long_line(b" and\nlast\n"));
        assert_eq!(output.line, 0);
    }
}
