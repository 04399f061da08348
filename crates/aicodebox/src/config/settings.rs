use std::{path::PathBuf, time::Duration};

use tracing_subscriber::EnvFilter;

use super::{ConfigError, Environment, Reader, environment::is_prefix, variable::*};

/// What the engine and every command need to know.
#[derive(Debug)]
pub(crate) struct Config {
    /// Built-in name, path, or Python class.
    pub(crate) adapter: String,
    /// Whether the user chose it; else it is the demo agent.
    pub(crate) adapter_chosen: bool,
    /// Program of an adapter file that names none.
    pub(crate) agent_binary: Option<PathBuf>,
    /// Program that wins over the adapter's.
    pub(crate) adapter_binary: Option<PathBuf>,
    /// Whether the metered keys are taken from the agent.
    pub(crate) subscription: bool,
    /// Root of all workspaces.
    pub(crate) workspace: PathBuf,
    /// Whether the user chose it.
    pub(crate) workspace_chosen: bool,
    /// Everything that is kept.
    pub(crate) state_dir: PathBuf,
    /// Display name, and part of the auth file's.
    pub(crate) container_name: String,
    /// The agents' home.
    pub(crate) home: PathBuf,
    /// Models to offer; empty = the adapter's.
    pub(crate) models: Vec<String>,
    /// Efforts to offer; empty = the adapter's.
    pub(crate) efforts: Vec<String>,
    default_model: Option<String>,
    anthropic_model: Option<String>,
    /// Agents at the same time.
    pub(crate) max_runs: usize,
    /// Runs that wait.
    pub(crate) max_queued: usize,
    /// Wall clock limit of a run that names none.
    pub(crate) run_timeout: Duration,
    /// No-output limit of a run that names none.
    pub(crate) idle_timeout: Option<Duration>,
    /// How long finished runs are kept.
    pub(crate) run_ttl: Duration,
    /// How many bytes the run store may have.
    pub(crate) store_max_bytes: u64,
    /// Whether callers may add words to the command line.
    pub(crate) allow_extra_args: bool,
    /// `no_new_privs` for agents.
    pub(crate) no_new_privs: bool,
    /// The log.
    pub(crate) logging: Logging,
}

/// How to log.
#[derive(Debug)]
pub(crate) struct Logging {
    pub(crate) format: LogFormat,
    /// What; `None` = the command's own default.
    pub(crate) filter: Option<String>,
    pub(crate) colour: bool,
}

/// The shape of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Config {
    /// Reads it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn from_env(environment: &Environment) -> Result<Self, ConfigError> {
        let mut reader = Reader::new(environment);
        let config = Self::read(&mut reader);
        reader.finish(Some(config))
    }

    /// Reads it; what is wrong stays in the reader.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Self {
        let home = reader.path(&HOME);
        let state_dir = state_dir(reader.environment());
        if state_dir.is_none() {
            reader.fault(&STATE_DIR, "expected a directory, because HOME is not set either");
        }
        if let Some(prefix) = reader.text(&PREFIX).filter(|prefix| !is_prefix(prefix)) {
            reader.fault(
                &PREFIX,
                format_args!("expected a word such as MYBOX, and not ours, found {prefix:?}"),
            );
        }
        let auth = [("auto", false), ("subscription", true)];
        Self {
            adapter: reader.text(&ADAPTER).unwrap_or_default(),
            adapter_chosen: reader.is_set(&ADAPTER),
            agent_binary: reader.path(&AGENT_BINARY),
            adapter_binary: reader.path(&ADAPTER_BINARY),
            subscription: reader.word(&AGENT_AUTH, &auth).unwrap_or_default(),
            workspace: reader.path(&WORKSPACE).unwrap_or_default(),
            workspace_chosen: reader.is_set(&WORKSPACE),
            state_dir: state_dir.unwrap_or_default(),
            container_name: reader.text(&CONTAINER_NAME).unwrap_or_default(),
            home: home.unwrap_or_else(|| "/".into()),
            models: reader.list(&AVAILABLE_MODELS),
            efforts: reader.list(&AVAILABLE_EFFORTS),
            default_model: default_model(reader),
            anthropic_model: reader.text(&ANTHROPIC_MODEL),
            max_runs: reader.count(&MAX_CONCURRENT_RUNS),
            max_queued: reader.number(&MAX_QUEUED_RUNS),
            run_timeout: reader.duration(&RUN_TIMEOUT),
            idle_timeout: reader.limit(&IDLE_TIMEOUT),
            run_ttl: reader.duration(&RUN_TTL),
            store_max_bytes: reader.size(&STORE_MAX_BYTES),
            allow_extra_args: reader.boolean(&ALLOW_EXTRA_ARGS),
            no_new_privs: reader.boolean(&NO_NEW_PRIVS),
            logging: Logging::read(reader),
        }
    }

    /// Whether the adapter is a Python class: `package.module:Class`.
    pub(crate) fn has_python_adapter(&self) -> bool {
        self.adapter.contains(':')
    }

    /// Model of a run that names none, if the configuration has one for this adapter.
    pub(crate) fn default_model(&self, adapter: &str) -> Option<&str> {
        // Elsewhere ANTHROPIC_MODEL is some other program's business: codex cannot run a Claude model.
        let anthropic = adapter == "claude" || self.has_python_adapter();
        self.default_model.as_deref().or(self.anthropic_model.as_deref().filter(|_| anthropic))
    }
}

/// The state directory in a home.
pub(crate) const STATE: &str = ".aicodebox";

/// The state directory, if it is named, absolute: hooks and agents, whose `PATH` it is on, run in other directories than
/// we do.
pub(crate) fn named_state_dir(environment: &Environment) -> Option<PathBuf> {
    environment.value(&STATE_DIR).map(absolute)
}

/// The state directory, absolute. `None` = neither it nor a home is named.
pub(super) fn state_dir(environment: &Environment) -> Option<PathBuf> {
    let of_home = || Some(absolute(PathBuf::from(environment.value(&HOME)?).join(STATE)));
    named_state_dir(environment).or_else(of_home)
}

fn absolute(path: impl Into<PathBuf>) -> PathBuf {
    let path = path.into();
    std::path::absolute(&path).unwrap_or(path)
}

fn default_model(reader: &mut Reader<'_>) -> Option<String> {
    let model = reader.text(&DEFAULT_MODEL);
    // On its way to the agent it would be an option.
    if let Some(model) = model.as_ref().filter(|model| model.starts_with('-')) {
        reader.fault(&DEFAULT_MODEL, format_args!("expected a model, found {model:?}, which begins with -"));
    }
    model
}

impl Logging {
    fn read(reader: &mut Reader<'_>) -> Self {
        let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        let mut filter = reader.text(&RUST_LOG);
        if let Some(Err(error)) = filter.as_ref().map(EnvFilter::try_new) {
            reader.fault(&RUST_LOG, error);
        }
        // DEBUG is not ours alone: other programs expect words there that mean nothing to us.
        let debug = reader.text(&DEBUG).and_then(|text| super::parse::boolean(&text)).unwrap_or_default();
        if debug && filter.is_none() {
            filter = Some("info,aicodebox=debug,aicodebox_engine=debug".to_owned());
        }
        Self {
            format: reader.word(&LOG_FORMAT, &formats).unwrap_or(LogFormat::Text),
            filter,
            colour: !reader.is_set(&NO_COLOR),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let home = [("HOME", "/home/me")];
        Config::from_env(&home.iter().chain(variables).copied().collect())
    }

    #[test]
    fn an_empty_environment_gives_the_defaults() {
        let config = read(&[]).unwrap();
        assert_eq!((config.adapter.as_str(), config.adapter_chosen), ("demo", false));
        assert_eq!(config.workspace, PathBuf::from("/workspace"));
        assert_eq!(config.state_dir, PathBuf::from("/home/me/.aicodebox"));
        assert_eq!((config.max_runs, config.max_queued), (64, 1024));
        assert_eq!(config.run_timeout, Duration::from_secs(7_200));
        assert_eq!(config.idle_timeout, None);
        assert_eq!(config.run_ttl, Duration::from_secs(7 * 86_400));
        assert!(config.allow_extra_args && !config.no_new_privs && !config.subscription);
    }

    #[test]
    fn all_faults_are_told_at_once_with_name_and_expectation() {
        let error = read(&[
            ("AICODEBOX_MAX_CONCURRENT_RUNS", "0"),
            ("AICODEBOX_RUN_TIMEOUT", "soon"),
            ("AICODEBOX_NO_NEW_PRIVS", "maybe"),
            ("AICODEBOX_AGENT_AUTH", "key"),
            ("LOG_FORMAT", "xml"),
        ])
        .unwrap_err();
        assert_eq!(
            error.0,
            [
                "AICODEBOX_AGENT_AUTH: expected auto or subscription, found \"key\"",
                "AICODEBOX_MAX_CONCURRENT_RUNS: expected a whole number from 1, found \"0\"",
                "AICODEBOX_RUN_TIMEOUT: expected a duration such as 30s, 5m, 2h or 7d, found \"soon\"",
                "AICODEBOX_NO_NEW_PRIVS: expected 1, true, yes or on, or 0, false, no or off, found \"maybe\"",
                "LOG_FORMAT: expected text or json, found \"xml\"",
            ]
        );
    }

    #[test]
    fn what_could_only_fail_later_is_refused() {
        for (name, wrong) in [("AICODEBOX_DEFAULT_MODEL", "-x"), ("AICODEBOX_PREFIX", "AICODEBOX")] {
            let ConfigError(faults) = read(&[(name, wrong)]).unwrap_err();
            assert!(faults.len() == 1 && faults[0].starts_with(&format!("{name}: expected")), "{faults:?}");
        }
        assert!(read(&[("AICODEBOX_DEFAULT_MODEL", "x-1")]).is_ok());
    }

    #[test]
    fn a_relative_state_directory_becomes_absolute() {
        let config = read(&[("AICODEBOX_STATE_DIR", "kept")]).unwrap();
        assert_eq!(config.state_dir, std::env::current_dir().unwrap().join("kept"));
    }

    #[test]
    fn the_workspace_has_an_older_name_that_gives_way() {
        let old = read(&[("AICODE_WORKSPACE", "/old")]).unwrap();
        assert_eq!((old.workspace, old.workspace_chosen), ("/old".into(), true));
        let both = read(&[("AICODE_WORKSPACE", "/old"), ("AICODEBOX_WORKSPACE", "/new")]).unwrap();
        assert_eq!(both.workspace, PathBuf::from("/new"));
    }

    #[test]
    fn anthropic_model_is_for_claude_and_python_adapters() {
        let config = read(&[("ANTHROPIC_MODEL", "opus")]).unwrap();
        assert_eq!(config.default_model("claude"), Some("opus"));
        assert_eq!(config.default_model("codex"), None);
        let python = read(&[("ANTHROPIC_MODEL", "opus"), ("AICODEBOX_ADAPTER", "pkg.mod:Class")]).unwrap();
        assert_eq!(python.default_model("mine"), Some("opus"));
        let both = read(&[("ANTHROPIC_MODEL", "opus"), ("AICODEBOX_DEFAULT_MODEL", "haiku")]).unwrap();
        assert_eq!(both.default_model("claude"), Some("haiku"));
    }

    #[test]
    fn debug_is_shared_with_other_programs() {
        assert!(read(&[("DEBUG", "express:*")]).unwrap().logging.filter.is_none());
        assert!(read(&[("DEBUG", "1")]).unwrap().logging.filter.is_some());
        let both = read(&[("DEBUG", "1"), ("RUST_LOG", "warn")]).unwrap();
        assert_eq!(both.logging.filter.as_deref(), Some("warn"));
        assert!(read(&[("RUST_LOG", "a=b=c")]).is_err());
    }

    #[test]
    fn without_a_home_the_state_directory_must_be_named() {
        let error = Config::from_env(&Environment::default()).unwrap_err();
        assert_eq!(error.0.len(), 1, "{error}");
        assert!(error.0[0].starts_with("AICODEBOX_STATE_DIR: "), "{error}");
    }
}
