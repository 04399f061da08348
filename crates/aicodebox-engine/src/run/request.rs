use std::{any::Any, fmt, path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AnswerCheck, SessionId, SessionKey};

/// Where a run works. Made by [`crate::workspace`] alone, so that no raw path travels.
#[derive(Clone)]
pub struct Workspace {
    /// Canonical absolute path.
    pub path: PathBuf,
    /// Whether it is the root of all workspaces.
    pub root: bool,
    /// Set for a temporary directory of this run alone: it is removed when the last clone of this is dropped.
    pub guard: Option<Arc<dyn Any + Send + Sync>>,
}

impl Workspace {
    /// Whether it is a temporary directory of this run alone.
    pub fn ephemeral(&self) -> bool {
        self.guard.is_some()
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace")
            .field("path", &self.path)
            .field("root", &self.root)
            .field("ephemeral", &self.ephemeral())
            .finish()
    }
}

/// Which conversation the run belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new one. `keep` = it will be resumed later.
    Fresh {
        /// Whether the agent must store it.
        keep: bool,
    },
    /// The last one that the run's origin had in this workspace ([`Origin::session_key`]); a fresh, kept one when
    /// there is none.
    Continue,
    /// That one.
    Resume(SessionId),
}

/// Which tools the agent may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolPolicy {
    /// What the agent does by default.
    #[default]
    All,
    /// None.
    None,
    /// These, by the agent's own names; not empty.
    Only(Vec<String>),
}

/// A caller's own key for a run: asked again with it, the caller gets the same run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Whose keys these are.
    pub scope: [u8; 32],
    /// The key.
    pub key: String,
    /// Digest of what was asked.
    pub body: [u8; 32],
}

/// Who asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// `POST /run`.
    Api,
    /// Chat completions.
    OpenAi,
    /// An MCP tool.
    Mcp,
    /// A Telegram chat.
    Telegram {
        /// Chat id.
        chat: i64,
        /// Topic (message thread) id.
        topic: Option<i32>,
    },
    /// A cron job.
    Cron {
        /// Name of the job.
        job: String,
    },
    /// `aicodebox run` or `verify`.
    Cli,
}

impl Origin {
    /// Whose conversations these are: one key per chat and topic, per job, else `run`.
    pub fn session_key(&self) -> SessionKey {
        SessionKey(match self {
            Self::Api | Self::OpenAi | Self::Mcp | Self::Cli => "run".into(),
            Self::Telegram { chat, topic: None } => format!("telegram:{chat}"),
            Self::Telegram { chat, topic: Some(topic) } => format!("telegram:{chat}:{topic}"),
            Self::Cron { job } => format!("cron:{job}"),
        })
    }

    /// The names of all surfaces.
    pub const SURFACES: [&'static str; 6] = ["api", "openai", "mcp", "telegram", "cron", "cli"];

    /// The surface's name, for labels and logs.
    pub fn surface(&self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::OpenAi => "openai",
            Self::Mcp => "mcp",
            Self::Telegram { .. } => "telegram",
            Self::Cron { .. } => "cron",
            Self::Cli => "cli",
        }
    }
}

/// What one run is asked to do. Every optional field that the agent has no channel for is handled as its
/// adapter file says: prefixed, dropped with a notice, or refused.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The task; not empty.
    pub prompt: String,
    /// The task with the conversation before it, for an agent that does not know that conversation: there is none to go
    /// on with, it is gone, or a new one has to be begun. `None`: the prompt says everything.
    pub whole_prompt: Option<String>,
    /// The images that go with `whole_prompt`.
    pub whole_images: Vec<PathBuf>,
    /// Where to work.
    pub workspace: Workspace,
    /// Which conversation.
    pub session: SessionChoice,
    /// The model; else the configured or the file's default.
    pub model: Option<String>,
    /// How hard to think, in the adapter's words.
    pub effort: Option<String>,
    /// Replaces the agent's system prompt.
    pub system_prompt: Option<String>,
    /// Added to the agent's system prompt.
    pub append_system_prompt: Option<String>,
    /// JSON Schema of the answer: the agent is told, and the answer is checked.
    pub json_schema: Option<Value>,
    /// Another check of the answer, in place of that by `json_schema`. The prompt has to tell the agent of it.
    pub check: Option<Arc<dyn AnswerCheck>>,
    /// Tools.
    pub tools: ToolPolicy,
    /// Image files, absolute, inside the workspace.
    pub images: Vec<PathBuf>,
    /// More words for the agent's command line.
    pub extra_args: Vec<String>,
    /// Wall clock limit from the start of the process; else the configured one.
    pub deadline: Option<Duration>,
    /// No-output limit; else the configured one.
    pub idle: Option<Duration>,
    /// Whether deltas are wanted as they come.
    pub stream: bool,
    /// Whether the caller wants the provider's records (`eventMode`).
    pub natives: bool,
    /// Who asked.
    pub origin: Origin,
    /// Whether the run goes on when its caller goes away. One with a `claim` does in any case.
    pub detach: bool,
    /// The key that the run can be asked for again with, as long as it is kept.
    pub claim: Option<Claim>,
    /// Where the surface sends the record when the run is over; the engine keeps it and does not look at it.
    pub callback: Option<String>,
    /// What the surface wants to find again in the record when it answers later; the engine does not look at it.
    pub note: Value,
}

impl RunRequest {
    /// A fresh run of `prompt` in `workspace`, everything else by default.
    pub fn new(prompt: impl Into<String>, workspace: Workspace, origin: Origin) -> Self {
        Self {
            prompt: prompt.into(),
            whole_prompt: None,
            whole_images: Vec::new(),
            workspace,
            session: SessionChoice::Fresh { keep: false },
            model: None,
            effort: None,
            system_prompt: None,
            append_system_prompt: None,
            json_schema: None,
            check: None,
            tools: ToolPolicy::All,
            images: Vec::new(),
            extra_args: Vec::new(),
            deadline: None,
            idle: None,
            stream: false,
            natives: false,
            origin,
            detach: false,
            claim: None,
            callback: None,
            note: Value::Null,
        }
    }
}
