use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use crate::{
    BoxFuture,
    process::{Flow, Launch, Stream, Variables},
    run::{
        AgentFault, EventSink, Exit, Finish, Notice, RunRequest, SessionId, SessionTotals, Usage, Verdict,
    },
};

/// An answer longer than this many bytes keeps its first and its last half, with a mark between them.
pub const TEXT_LIMIT: usize = 8 << 20;

/// The `field` of a refusal that names none: it is of the request as a whole, and its message is complete.
pub const WHOLE_REQUEST: &str = "request";

/// One agent CLI.
pub trait Adapter: Send + Sync {
    /// What users and surfaces may know of it.
    fn info(&self) -> &AdapterInfo;

    /// Builds the command line. Pure but for a Python adapter, which is asked over its bridge.
    ///
    /// # Errors
    /// [`PlanError`] when the request cannot be carried out by this agent.
    fn plan<'a>(&'a self, request: &'a RunRequest, host: &'a Host) -> BoxFuture<'a, Result<Plan, PlanError>>;

    /// Where its program is.
    ///
    /// # Errors
    /// [`PlanError::Program`] when it is missing or may not be executed.
    fn program(&self, host: &Host) -> Result<PathBuf, PlanError>;

    /// The questions that the program must be asked before a plan can be made, each by a run of its own; the
    /// engine asks them once per version of the program and hands the answers over in [`Host::flags`].
    fn probes(&self, _host: &Host) -> Vec<Probe> {
        Vec::new()
    }

    /// The question for the program's version, for showing it beside the one that the adapter was tried with.
    fn version_probe(&self, _host: &Host) -> Option<VersionProbe> {
        None
    }

    /// A reader for one attempt.
    fn reader(&self, context: ReaderContext<'_>) -> Box<dyn OutputReader>;
}

/// A question to the program: start it so, and see which of the flags it knows.
pub struct Probe {
    /// How to ask. Both output streams are the answer.
    pub launch: Launch,
    /// Reads the answer.
    pub read: ReadProbe,
}

/// The question for a program's version.
pub struct VersionProbe {
    /// How to ask. Both output streams are the answer.
    pub launch: Launch,
    /// Reads the answer.
    pub read: ReadVersion,
}

/// Reads the version out of a program's answer.
pub type ReadVersion = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Reads a program's answer: each flag that was asked for, and whether it is known.
pub type ReadProbe = Box<dyn Fn(&str) -> Vec<(String, bool)> + Send + Sync>;

/// What a reader knows before the first byte.
pub struct ReaderContext<'a> {
    /// The request, with defaults applied as the adapter will apply them.
    pub request: &'a RunRequest,
    /// Whether this attempt resumes a session.
    pub resumes: bool,
    /// The counters of that session before this attempt; `None` = not known.
    pub baseline: Option<SessionTotals>,
    /// [`Plan::ticket`] of this attempt's plan.
    pub ticket: Option<u64>,
    /// Where events go.
    pub events: Arc<dyn EventSink>,
}

/// Reads the output of one attempt. Called in the pipe loop: never blocks, never fails.
pub trait OutputReader: Send {
    /// Takes the next bytes of a stream, cut anywhere.
    fn feed(&mut self, stream: Stream, bytes: &[u8]) -> Flow;

    /// Takes the end and gives the reading.
    ///
    /// # Errors
    /// [`ReadError`] only where the reader is another process that failed.
    fn finish(self: Box<Self>, exit: Exit) -> BoxFuture<'static, Result<Reading, ReadError>>;
}

/// What one attempt's output says.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Good or not (adapter-format §3). A stop of ours is `Failed` with the kind of [`Exit::ended_by`].
    pub verdict: Verdict,
    /// The answer, also a partial one.
    pub text: String,
    /// The object that answers a schema, where the agent has such a channel.
    pub structured: Option<Value>,
    /// The conversation.
    pub session: Option<SessionId>,
    /// What this attempt consumed.
    pub usage: Option<Usage>,
    /// The session's counters after it, to be kept for the next attempt that resumes it; only from agents that
    /// report totals of the session.
    pub totals: Option<SessionTotals>,
    /// Why the model stopped.
    pub finish: Finish,
    /// A Python adapter's own parse error.
    pub parse_error: Option<String>,
    /// The end, handed back.
    pub exit: Exit,
}

/// A plan: the launch, the files that it refers to, and what the user should know.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How to start and stop it.
    pub launch: Launch,
    /// Files to write before the start.
    pub files: Vec<RunFile>,
    /// What was dropped or prefixed, and why.
    pub notices: Vec<Notice>,
    /// Fields that the agent has no way for and that were dropped (header `x-aicodebox-ignored`).
    pub ignored: Vec<&'static str>,
    /// The longest silence of a healthy run; a shorter idle limit is raised to it.
    pub quiet: Option<Duration>,
    /// Ties this attempt's reader to its plan, for an adapter that keeps something between the two (a Python
    /// adapter: its request object); `None` for all others. Handed back in [`ReaderContext::ticket`].
    pub ticket: Option<u64>,
}

/// A file that a launch needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFile {
    /// Absolute path.
    pub path: PathBuf,
    /// Its text; mode 0600.
    pub text: String,
    /// `true`: removed after the run, beneath [`Host::tmp`]. `false`: written only if absent, and left there.
    pub temporary: bool,
}

/// What a plan may know of the machine.
#[derive(Clone, Debug)]
pub struct Host {
    /// Home directory of the agent.
    pub home: PathBuf,
    /// Private directory of this attempt. It exists only if the plan has temporary files.
    pub tmp: PathBuf,
    /// The agent's environment before the adapter's own changes: clean of the gateway's secrets.
    pub env: Arc<Variables>,
    /// Whether the agent runs as uid 0.
    pub root: bool,
    /// `AICODEBOX_AGENT_AUTH=subscription`.
    pub subscription: bool,
    /// Program to start instead of the file's `binary`.
    pub binary: Option<PathBuf>,
    /// Model of a request that names none; wins over the file's.
    pub default_model: Option<String>,
    /// Models that are offered instead of the adapter's own; empty = those. One that is listed with its provider is
    /// passed on with it.
    pub models: Arc<[String]>,
    /// Flags that were probed: known to the program or not. A flag that is not in here counts as known.
    pub flags: Arc<HashMap<String, bool>>,
}

impl Host {
    /// A variable of the agent's environment.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(AsRef::as_ref)
    }
}

/// Why a request cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The agent has no way for this field, or its value is not acceptable.
    #[error("{message}")]
    Refused {
        /// The request's field.
        field: &'static str,
        /// What and why.
        message: String,
    },
    /// The field does not fit its channel.
    #[error("{message}")]
    TooLong {
        /// The request's field.
        field: &'static str,
        /// How long it is, and how long it may be.
        message: String,
    },
    /// The program was not found on the agent's PATH, or may not be executed.
    #[error("{message}")]
    Program {
        /// 127 or 126.
        code: i32,
        /// Where it was looked for, and what to do.
        message: String,
    },
    /// The adapter itself failed (a Python adapter).
    #[error("{0}")]
    Adapter(String),
}

/// Why a reader gave no reading.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ReadError {
    /// What went wrong, and what to do.
    pub message: String,
    /// The end, handed back.
    pub exit: Box<Exit>,
}

/// How a field reaches the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// By words of its command line.
    Flag,
    /// By a variable.
    Env,
    /// By a file.
    File,
    /// By text before the prompt.
    Prefix,
    /// Left out, with a notice.
    Drop,
    /// 422.
    Refuse,
}

impl Capability {
    /// The word that `adapter show` prints.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Env => "env",
            Self::File => "file",
            Self::Prefix => "prefix",
            Self::Drop => "drop",
            Self::Refuse => "refuse",
        }
    }
}

/// What an agent can do, derived from its file (adapter-format §9).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// By the request's field: model, effort, system_prompt, …
    pub fields: BTreeMap<&'static str, Capability>,
    /// Text arrives while it is written.
    pub streaming: bool,
    /// It reports a session's id.
    pub sessions: bool,
    /// It reports tool calls.
    pub tool_events: bool,
    /// It reports usage.
    pub usage: bool,
    /// It has a channel of its own for an answer by schema.
    pub structured: bool,
}

/// What users and surfaces may know of an adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdapterInfo {
    /// Name; also the `backend` of provider records.
    pub name: String,
    /// Program, as the file names it; `None` = `AICODEBOX_AGENT_BINARY`.
    pub binary: Option<String>,
    /// Version that the file was tried with.
    pub tested: Option<String>,
    /// Models that it offers.
    pub models: Vec<String>,
    /// Default model of the file.
    pub default_model: Option<String>,
    /// Efforts that it accepts; empty = passed on unchecked.
    pub efforts: Vec<String>,
    /// Whether `provider/model` is passed on whole.
    pub keeps_prefix: bool,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Whether it has sessions of any kind (an id, or "continue the last one").
    pub has_sessions: bool,
    /// Variables with keys that are paid by use: with [`Host::subscription`] the agent does not get them.
    pub metered: Vec<String>,
    /// What to tell somebody who is not signed in.
    pub auth_hint: Option<String>,
    /// Paths that a sandboxed run must be able to write; nothing reads them before there is a sandbox.
    pub state_paths: Vec<String>,
}

impl AdapterInfo {
    /// What a user can do about a fault, where the file knows.
    pub fn hint(&self, fault: AgentFault) -> Option<&str> {
        self.auth_hint.as_deref().filter(|_| fault == AgentFault::Auth)
    }
}
