use std::{borrow::Cow, fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// Why a run did not end well. One table in each surface maps it to the wire; the match has no wildcard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The request cannot be carried out as it is; `field` names the part at fault.
    Invalid {
        /// The request's field, in the spelling of [`super::RunRequest`].
        field: Cow<'static, str>,
    },
    /// The prompt, or another field, does not fit the agent's channel; `field` names it.
    TooLong {
        /// The request's field.
        field: Cow<'static, str>,
    },
    /// The workspace is taken by another exclusive run.
    Busy,
    /// The queue for a place is full.
    QueueFull,
    /// The agent could not be started.
    Spawn {
        /// 127 not found, 126 not executable.
        code: i32,
    },
    /// Wall clock limit.
    Deadline,
    /// No output for too long.
    Idle,
    /// Cancelled by somebody, or its client went away.
    Cancelled,
    /// The server is going down.
    Shutdown,
    /// A spending limit was reached.
    Budget,
    /// The store refused.
    Storage,
    /// Processes of the run could not be killed.
    Stuck,
    /// A signal that was not ours ended the agent.
    Signal(i32),
    /// The agent failed with this exit code, and nothing told why.
    Exit(i32),
    /// The agent ended without its final event.
    NoFinalEvent,
    /// The agent or its provider reported a fault.
    Agent(AgentFault),
    /// No answer met the schema, or whatever else it was checked against.
    Schema,
}

impl FailureKind {
    /// The word in labels and logs; of a fault that the agent reported, its own name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid",
            Self::TooLong { .. } => "too_long",
            Self::Busy => "busy",
            Self::QueueFull => "queue_full",
            Self::Spawn { .. } => "spawn",
            Self::Deadline => "deadline",
            Self::Idle => "idle",
            Self::Cancelled => "cancelled",
            Self::Shutdown => "shutdown",
            Self::Budget => "budget",
            Self::Storage => "storage",
            Self::Stuck => "stuck",
            Self::Signal(_) => "signal",
            Self::Exit(_) => "exit",
            Self::NoFinalEvent => "no_final_event",
            Self::Agent(fault) => fault.name(),
            Self::Schema => "schema",
        }
    }
}

/// What an agent or its provider reports. The one list; the names on the wire are in [`AgentFault::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentFault {
    /// Not signed in, or a bad key.
    Auth,
    /// Signed in, but not allowed.
    Permission,
    /// Too many requests.
    RateLimit,
    /// The plan or the budget is used up.
    Quota,
    /// The input does not fit the model's context.
    Context,
    /// Refused by a content filter.
    ContentFilter,
    /// The provider refused the request.
    BadRequest,
    /// No such model.
    ModelNotFound,
    /// The provider is overloaded.
    Overloaded,
    /// Any other fault of the provider.
    Provider,
    /// The provider could not be reached.
    Network,
    /// The agent's configuration is wrong.
    Config,
    /// The session to resume does not exist.
    SessionNotFound,
    /// The agent ended well but gave no answer.
    Empty,
    /// The agent failed by itself.
    Internal,
}

impl AgentFault {
    /// All of them, in the order of the contract.
    pub const ALL: [Self; 15] = [
        Self::Auth,
        Self::Permission,
        Self::RateLimit,
        Self::Quota,
        Self::Context,
        Self::ContentFilter,
        Self::BadRequest,
        Self::ModelNotFound,
        Self::Overloaded,
        Self::Provider,
        Self::Network,
        Self::Config,
        Self::SessionNotFound,
        Self::Empty,
        Self::Internal,
    ];

    /// The name on every wire and in adapter files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Permission => "permission",
            Self::RateLimit => "rate_limit",
            Self::Quota => "quota",
            Self::Context => "context",
            Self::ContentFilter => "content_filter",
            Self::BadRequest => "bad_request",
            Self::ModelNotFound => "model_not_found",
            Self::Overloaded => "overloaded",
            Self::Provider => "provider",
            Self::Network => "network",
            Self::Config => "config",
            Self::SessionNotFound => "session_not_found",
            Self::Empty => "empty",
            Self::Internal => "internal",
        }
    }

    /// The fault of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

/// A failure: the kind for programs, a sentence for people, and when to try again if anybody said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// What happened, where, and what to do. Never a secret.
    pub message: String,
    /// The HTTP status that the provider answered, where it is known.
    pub status: Option<u16>,
    /// How long to wait before another try.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure that only has a kind and a message.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, retry_after: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
