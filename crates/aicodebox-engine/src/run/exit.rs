use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::Failure;

/// How the leader of a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It returned this code, 0–255.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl ExitStatus {
    /// As a shell reports it: the code, or 128 + the signal's number.
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// Why the process is gone. The first reason wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// It ended without our doing.
    Itself,
    /// Its final event had been read; it lingered and was stopped.
    Finished,
    /// The reader saw a fault that no waiting heals (`[retry]`).
    Abort,
    /// Wall clock limit.
    Deadline,
    /// Nothing was printed for too long.
    Idle,
    /// Somebody cancelled the run, or its client went away.
    Cancelled,
    /// The server is going down.
    Shutdown,
    /// Its keeper or the launcher died.
    Lost,
}

impl EndedBy {
    /// The word in labels and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Itself => "itself",
            Self::Finished => "finished",
            Self::Abort => "abort",
            Self::Deadline => "deadline",
            Self::Idle => "idle",
            Self::Cancelled => "cancelled",
            Self::Shutdown => "shutdown",
            Self::Lost => "lost",
        }
    }

    /// Whether we sent the stop, for another reason than that the run was over.
    pub fn stopped(self) -> bool {
        match self {
            Self::Deadline | Self::Idle | Self::Cancelled | Self::Shutdown => true,
            Self::Itself | Self::Finished | Self::Abort | Self::Lost => false,
        }
    }
}

/// The beginning and the end of a stream: at most 1 MiB of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes that are not in `head`.
    pub tail: Vec<u8>,
    /// How many bytes are missing between the two.
    pub dropped: u64,
}

impl Capture {
    /// Nothing was written.
    pub const EMPTY: Self = Self { head: Vec::new(), tail: Vec::new(), dropped: 0 };

    /// At most the last `limit` bytes as text, cut at a character.
    pub fn tail_text(&self, limit: usize) -> String {
        let mut all = if self.dropped == 0 { self.head.clone() } else { Vec::new() };
        all.extend_from_slice(&self.tail);
        let mut start = all.len().saturating_sub(limit);
        while start < all.len() && all[start] & 0xC0 == 0x80 {
            start += 1;
        }
        String::from_utf8_lossy(&all[start..]).into_owned()
    }
}

/// Both parts as text; a gap is marked, bad UTF-8 replaced.
impl fmt::Display for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dropped > 0 {
            f.write_str(&String::from_utf8_lossy(&self.head))?;
            write!(f, "\n[… {} bytes left out …]\n", self.dropped)?;
            return f.write_str(&String::from_utf8_lossy(&self.tail));
        }
        if self.tail.is_empty() {
            return f.write_str(&String::from_utf8_lossy(&self.head));
        }
        // A character may lie in both.
        f.write_str(&String::from_utf8_lossy(&[self.head.as_slice(), &self.tail].concat()))
    }
}

/// The end of one process tree, after the last process of it is gone. Serialised without the two captures: the
/// store keeps their bytes beside the record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Exit {
    /// How the leader ended; `None` when it was lost with its keeper or could not be reaped.
    pub status: Option<ExitStatus>,
    /// Why.
    pub ended_by: EndedBy,
    /// Processes killed by the sweep after the leader had gone.
    pub swept: u32,
    /// Pids that could not be killed within the sweep's limit; empty unless the run is stuck.
    pub stuck: Vec<i32>,
    /// From the launch message to the last report.
    pub took: Duration,
    /// What it wrote to standard output.
    #[serde(skip)]
    pub stdout: Capture,
    /// What it wrote to standard error.
    #[serde(skip)]
    pub stderr: Capture,
    /// The fault that the reader aborted for, when `ended_by` is [`EndedBy::Abort`].
    pub abort: Option<Failure>,
}

impl Exit {
    /// One at once, with nothing printed and nothing left.
    pub fn bare(status: Option<ExitStatus>, ended_by: EndedBy) -> Self {
        Self {
            status,
            ended_by,
            swept: 0,
            stuck: Vec::new(),
            took: Duration::ZERO,
            stdout: Capture::default(),
            stderr: Capture::default(),
            abort: None,
        }
    }
}
