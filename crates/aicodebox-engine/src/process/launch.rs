use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use super::times;

use serde::{Deserialize, Serialize};

/// The variables of an environment by name. Cheap to copy, since every run has its own: the texts are shared.
pub type Variables = BTreeMap<Arc<OsStr>, Arc<OsStr>>;

/// Variables of these names and values; of two with one name the later counts.
pub fn variables<N: Into<OsString>, V: Into<OsString>>(texts: impl IntoIterator<Item = (N, V)>) -> Variables {
    texts.into_iter().map(|(name, value)| (name.into().into(), value.into().into())).collect()
}

/// How to start one process and how to stop it: pure data, what a keeper gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// `argv[0]` and the arguments.
    pub args: Vec<OsString>,
    /// The whole environment; nothing is inherited.
    pub env: Variables,
    /// Working directory.
    pub cwd: PathBuf,
    /// What it reads.
    pub stdin: Stdin,
    /// How to stop it.
    pub stop: StopPlan,
    /// Resource limits, set in the leader.
    pub rlimits: Vec<Rlimit>,
    /// `PR_SET_NO_NEW_PRIVS` in the leader.
    pub no_new_privs: bool,
}

/// Standard input of a leader. Never inherited, never left open.
#[derive(Clone, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`.
    Null,
    /// These bytes, then end of file. They stay in the server, which writes them beside reading.
    Bytes(Vec<u8>),
    /// A pipe that whoever called [`Pool::spawn`](super::Pool::spawn) writes to; at its end under `supervise`.
    Piped,
}

impl std::fmt::Debug for Stdin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Piped => f.write_str("Piped"),
            // A prompt is private: it must not reach a log by way of a derived Debug.
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
        }
    }
}

/// The polite signal and how long it has before everything is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopPlan {
    /// Signal number, sent to the leader alone (with SIGCONT).
    pub signal: i32,
    /// Grace after it.
    pub grace: Duration,
}

impl Default for StopPlan {
    fn default() -> Self {
        Self { signal: nix::sys::signal::Signal::SIGTERM as i32, grace: times::GRACE }
    }
}

/// One `setrlimit` of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    /// `RLIMIT_…` number.
    pub resource: u32,
    /// Soft and hard limit.
    pub value: u64,
}

/// The limits under which the server watches a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Wall clock, from the start of the process.
    pub deadline: Option<Duration>,
    /// Longest time without a byte on stdout or stderr.
    pub idle: Option<Duration>,
}
