/// Which part of the box a variable belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// The engine, for every surface.
    Engine,
    /// The HTTP API.
    Api,
    /// The Telegram bot.
    Telegram,
    /// The scheduler.
    Cron,
    /// The MCP server.
    Mcp,
    /// Variables that many programs share.
    Common,
}

impl Group {
    pub(crate) const ALL: [Self; 6] =
        [Self::Engine, Self::Api, Self::Telegram, Self::Cron, Self::Mcp, Self::Common];

    /// The heading above its variables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Engine => "Engine",
            Self::Api => "HTTP API",
            Self::Telegram => "Telegram",
            Self::Cron => "Cron",
            Self::Mcp => "MCP",
            Self::Common => "Common",
        }
    }
}

/// What holds when a variable is unset or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fallback {
    /// Nothing.
    Nothing,
    /// This text, as a user would have written it.
    Text(&'static str),
    /// Something that is only known at run time; these words describe it.
    Derived(&'static str),
}

/// One environment variable of the box.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    /// An older name that is read when `name` is unset.
    pub(crate) alias: Option<&'static str>,
    pub(crate) fallback: Fallback,
    /// Never printed, never in an agent's environment, and readable from the file that `<name>_FILE` names.
    pub(crate) secret: bool,
    pub(crate) group: Group,
    /// One sentence for the tables.
    pub(crate) meaning: &'static str,
}

impl Variable {
    const fn new(group: Group, name: &'static str, fallback: Fallback, meaning: &'static str) -> Self {
        Self { name, alias: None, fallback, secret: false, group, meaning }
    }

    const fn secret(group: Group, name: &'static str, meaning: &'static str) -> Self {
        Self { secret: true, ..Self::new(group, name, Fallback::Nothing, meaning) }
    }

    const fn alias(self, alias: &'static str) -> Self {
        Self { alias: Some(alias), ..self }
    }

    /// `<name>_FILE`, which holds the path of a file with the secret.
    pub(crate) fn file_name(&self) -> Option<String> {
        self.secret.then(|| format!("{}_FILE", self.name))
    }
}

use Fallback::{Derived, Nothing, Text};
use Group::{Api, Common, Cron, Engine, Mcp, Telegram};

/// Declares each variable once, as a constant and as a row of [`VARIABLES`].
macro_rules! variables {
    ($($id:ident = $variable:expr;)*) => {
        $(pub(crate) const $id: Variable = $variable;)*

        /// Every variable that the box reads: parsing, warnings about unknown names, `aicodebox config`, the
        /// README's table and the agents' environment all come from this list.
        pub(crate) const VARIABLES: &[Variable] = &[$($id),*];
    };
}

variables! {
    ADAPTER = Variable::new(Engine, "AICODEBOX_ADAPTER", Text("demo"),
        "Built-in adapter, path of an adapter file (`.toml`), or `pkg.module:Class` (Python). Unset: the demo agent, with a warning.");
    AGENT_BINARY = Variable::new(Engine, "AICODEBOX_AGENT_BINARY", Derived("the adapter's program"),
        "Program of the passthrough mode; also the program of an adapter file that names none.");
    ADAPTER_BINARY = Variable::new(Engine, "AICODEBOX_ADAPTER_BINARY", Nothing,
        "Program that runs start instead of the adapter's.");
    AGENT_AUTH = Variable::new(Engine, "AICODEBOX_AGENT_AUTH", Text("auto"),
        "`auto` or `subscription`; the latter takes the metered keys that the adapter names out of the agent's environment.");
    WORKSPACE = Variable::new(Engine, "AICODEBOX_WORKSPACE", Text("/workspace"),
        "Root of all workspaces.").alias("AICODE_WORKSPACE");
    STATE_DIR = Variable::new(Engine, "AICODEBOX_STATE_DIR", Derived("`$HOME/.aicodebox`"),
        "Directory of everything that the box keeps.");
    PREFIX = Variable::new(Engine, "AICODEBOX_PREFIX", Nothing,
        "Another beginning of all these names, for images of your own: with `MYBOX`, `MYBOX_API_MODE` is read as `AICODEBOX_API_MODE` and wins over it.");
    CONTAINER_NAME = Variable::new(Engine, "AICODEBOX_CONTAINER_NAME", Text("aicodebox"),
        "Display name; also in the name of the auth file.");
    AVAILABLE_MODELS = Variable::new(Engine, "AICODEBOX_AVAILABLE_MODELS", Derived("the adapter's list"),
        "Models to offer, comma separated.");
    AVAILABLE_EFFORTS = Variable::new(Engine, "AICODEBOX_AVAILABLE_EFFORTS", Derived("the adapter's list"),
        "Efforts to offer, comma separated.");
    DEFAULT_MODEL = Variable::new(Engine, "AICODEBOX_DEFAULT_MODEL", Derived("the adapter's"),
        "Model of a run that names none.");
    ANTHROPIC_MODEL = Variable::new(Engine, "ANTHROPIC_MODEL", Nothing,
        "The same, read after `AICODEBOX_DEFAULT_MODEL`; only with the `claude` adapter and Python adapters.");
    MAX_CONCURRENT_RUNS = Variable::new(Engine, "AICODEBOX_MAX_CONCURRENT_RUNS", Text("64"),
        "Agents that run at the same time; more wait in one fair queue.");
    MAX_QUEUED_RUNS = Variable::new(Engine, "AICODEBOX_MAX_QUEUED_RUNS", Text("1024"),
        "Runs that may wait; one more is answered 429.");
    RUN_TIMEOUT = Variable::new(Engine, "AICODEBOX_RUN_TIMEOUT", Text("2h"),
        "Wall clock limit of a run that names none.");
    IDLE_TIMEOUT = Variable::new(Engine, "AICODEBOX_IDLE_TIMEOUT", Text("off"),
        "Longest time without output for a run that names none, or `off`.");
    RUN_TTL = Variable::new(Engine, "AICODEBOX_RUN_TTL", Text("7d"),
        "How long finished runs are kept.");
    STORE_MAX_BYTES = Variable::new(Engine, "AICODEBOX_STORE_MAX_BYTES", Text("2GiB"),
        "How much is kept; the events of the oldest finished runs go first.");
    ALLOW_EXTRA_ARGS = Variable::new(Engine, "AICODEBOX_ALLOW_EXTRA_ARGS", Text("1"),
        "Whether callers may add words to the agent's command line.");
    NO_NEW_PRIVS = Variable::new(Engine, "AICODEBOX_NO_NEW_PRIVS", Text("0"),
        "Start agents with `no_new_privs` (sudo and setuid programs stop working for them).");
    CALLBACK_SECRET = Variable::secret(Engine, "AICODEBOX_CALLBACK_SECRET",
        "Key that signs callbacks; `callbackUrl` is refused without it.");
    CALLBACK_ALLOWED_HOSTS = Variable::new(Engine, "AICODEBOX_CALLBACK_ALLOWED_HOSTS", Nothing,
        "Hosts that callbacks may reach although their address is private, comma separated.");

    API_MODE = Variable::new(Api, "AICODEBOX_API_MODE", Text("0"),
        "Serve the HTTP API.");
    API_HOST = Variable::new(Api, "AICODEBOX_API_MODE_HOST", Text("0.0.0.0"),
        "Address to listen on.");
    API_PORT = Variable::new(Api, "AICODEBOX_API_MODE_PORT", Text("8080"),
        "Port to listen on; 0 = any free one, which the log names.");
    API_TOKEN = Variable::secret(Api, "AICODEBOX_API_MODE_TOKEN",
        "Bearer token that callers must send.");
    API_ALLOW_UNAUTHENTICATED = Variable::new(Api, "AICODEBOX_API_MODE_ALLOW_UNAUTHENTICATED", Text("0"),
        "Allow an address other than loopback without a token: whoever reaches the port can run commands.");
    API_MAX_BODY = Variable::new(Api, "AICODEBOX_API_MODE_MAX_BODY", Text("64MiB"),
        "Largest request body.");
    API_STRICT_MODELS = Variable::new(Api, "AICODEBOX_API_MODE_STRICT_MODELS", Text("0"),
        "Answer 404 to chats that name a model which is not offered.");
    API_CHAT_WORKSPACE = Variable::new(Api, "AICODEBOX_API_MODE_CHAT_WORKSPACE", Text("root"),
        "Workspace of a chat that names none: `root` or `ephemeral`.");
    API_CHAT_ASIDES = Variable::new(Api, "AICODEBOX_API_MODE_CHAT_ASIDES", Text("known"),
        "Chats that ask for a title or tags: `known` by `metadata.task` or their words, `named` by the former, `always` or `never`.");
    API_CORS_ORIGINS = Variable::new(Api, "AICODEBOX_API_MODE_CORS_ORIGINS", Nothing,
        "Origins of web pages that may call the API, comma separated, or `*`.");
    API_METRICS_PUBLIC = Variable::new(Api, "AICODEBOX_API_MODE_METRICS_PUBLIC", Text("0"),
        "Serve `/metrics` without a token.");

    TELEGRAM_MODE = Variable::new(Telegram, "AICODEBOX_TELEGRAM_MODE", Text("0"),
        "Run the Telegram bot; the HTTP API wins over it.");
    TELEGRAM_TOKEN = Variable::secret(Telegram, "AICODEBOX_TELEGRAM_MODE_TOKEN",
        "Token of the bot.");
    TELEGRAM_CONFIG = Variable::new(Telegram, "AICODEBOX_TELEGRAM_MODE_CONFIG", Derived("`<state>/telegram.yml`"),
        "Chats, users and their settings.");
    TELEGRAM_OVERRIDES = Variable::new(Telegram, "AICODEBOX_TELEGRAM_MODE_OVERRIDES", Derived("`<state>/telegram_overrides.json`"),
        "Where settings made in a chat are kept.");
    TELEGRAM_API_URL = Variable::new(Telegram, "AICODEBOX_TELEGRAM_MODE_API_URL", Derived("Telegram's"),
        "Base URL of the Bot API.");
    TELEGRAM_CHAT_ID = Variable::new(Telegram, "TELEGRAM_CHAT_ID", Nothing,
        "The one allowed chat when there is no `telegram.yml`.");

    CRON_MODE = Variable::new(Cron, "AICODEBOX_CRON_MODE", Text("0"),
        "Run the scheduler, alone or beside the API or the bot.");
    CRON_FILE = Variable::new(Cron, "AICODEBOX_CRON_MODE_FILE", Nothing,
        "The jobs.");
    CRON_HISTORY_DIR = Variable::new(Cron, "AICODEBOX_CRON_MODE_HISTORY_DIR", Derived("`<state>/cron`"),
        "Root of everything that the scheduler keeps.");

    MCP_MODE = Variable::new(Mcp, "AICODEBOX_MCP_MODE", Text("0"),
        "Serve MCP: at `/mcp` of the HTTP API, or alone on its own port.");
    MCP_HOST = Variable::new(Mcp, "AICODEBOX_MCP_MODE_HOST", Text("0.0.0.0"),
        "Address of the port of its own.");
    MCP_PORT = Variable::new(Mcp, "AICODEBOX_MCP_MODE_PORT", Text("8081"),
        "Port of its own.");
    MCP_TOKEN = Variable::secret(Mcp, "AICODEBOX_MCP_MODE_TOKEN",
        "Bearer token that MCP clients must send.");
    MCP_ALLOWED_HOSTS = Variable::new(Mcp, "AICODEBOX_MCP_MODE_ALLOWED_HOSTS", Derived("loopback"),
        "`Host` headers that are accepted, comma separated.");
    MCP_ALLOWED_ORIGINS = Variable::new(Mcp, "AICODEBOX_MCP_MODE_ALLOWED_ORIGINS", Derived("loopback"),
        "`Origin` headers that are accepted, comma separated.");
    MCP_SESSION_IDLE = Variable::new(Mcp, "AICODEBOX_MCP_MODE_SESSION_IDLE", Text("1h"),
        "How long a session stays that has no open call or stream.");
    MCP_ALLOW_UNAUTHENTICATED = Variable::new(Mcp, "AICODEBOX_MCP_MODE_ALLOW_UNAUTHENTICATED", Text("0"),
        "Allow an address other than loopback without a token.");

    LOG_FORMAT = Variable::new(Common, "LOG_FORMAT", Text("text"),
        "`text` or `json`; the log goes to standard error.");
    RUST_LOG = Variable::new(Common, "RUST_LOG", Derived("`info` when serving, else `warn`"),
        "What is logged, e.g. `info,aicodebox_engine=debug`.");
    DEBUG = Variable::new(Common, "DEBUG", Nothing,
        "`1` logs more, unless `RUST_LOG` says what.");
    HOME = Variable::new(Common, "HOME", Derived("the user's"),
        "Home directory of the agents.");
    TZ = Variable::new(Common, "TZ", Derived("the system's"),
        "Time zone.");
    NO_COLOR = Variable::new(Common, "NO_COLOR", Nothing,
        "No colours, whatever the terminal can do.");
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_name_is_declared_once() {
        let mut seen = HashSet::new();
        for name in VARIABLES.iter().flat_map(|variable| [Some(variable.name), variable.alias]).flatten() {
            assert!(seen.insert(name), "{name} is declared twice");
        }
    }

    #[test]
    fn whatever_is_called_a_token_or_a_secret_is_marked_secret() {
        for variable in VARIABLES {
            let named = variable.name.contains("TOKEN") || variable.name.contains("SECRET");
            assert_eq!(variable.secret, named, "{}", variable.name);
        }
    }
}
