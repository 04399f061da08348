use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use aicodebox_engine::{
    adapter::{
        Adapter, AdapterError, AdapterInfo, FileAdapter, Recording, builtin_names, load_adapter, rehearse,
        replay,
    },
    run::{SessionTotals, Tokens},
};
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::Value;

/// `aicodebox adapter …`: for people who write adapter files.
#[derive(Subcommand)]
pub(crate) enum AdapterCommand {
    /// Name the built-in adapters
    List,
    /// Print what an adapter can do
    Show {
        /// A built-in adapter, or a file that ends in .toml
        adapter: String,
    },
    /// Say everything that is wrong with a file, or what it can do
    Check {
        /// The file
        adapter: String,
    },
    /// Print argv, environment, files and stdin for a request
    Plan {
        /// A built-in adapter, or a file that ends in .toml
        adapter: String,
        /// A JSON file: {"request": {"prompt": …, …}, "host": {…}}
        request: PathBuf,
    },
    /// Print the outcome of a run whose output was kept
    Replay(ReplayArgs),
}

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// A built-in adapter, or a file that ends in .toml
    adapter: String,
    /// What the agent printed to standard output
    stdout: PathBuf,
    /// What it printed to standard error
    #[arg(long, value_name = "FILE")]
    stderr: Option<PathBuf>,
    /// Its exit code; −n for signal n
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    exit: i32,
    /// We stopped it
    #[arg(long)]
    stopped: bool,
    /// The JSON Schema that the request had
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// It resumed a session whose counters before were these: {"input": 1, "output": 2}, or null when they were not known
    #[arg(long, value_name = "JSON")]
    baseline: Option<String>,
}

/// Why a command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdapterCommandError {
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    #[error(
        "{0} is a Python class, and `aicodebox adapter` reads files only: try the class with \
         `aicodebox run --adapter {0} PROMPT`, or with AICODEBOX_ADAPTER={0} and `aicodebox verify`"
    )]
    Class(String),
    #[error("{path}: {error}")]
    Read { path: String, error: io::Error },
    #[error("{place}: {error}")]
    Json { place: String, error: serde_json::Error },
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Counters of a session, in the words of `[usage]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Baseline {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    reasoning: Option<u64>,
    total: Option<u64>,
    cost: Option<f64>,
}

impl AdapterCommand {
    /// Carries the command out and prints the answer.
    ///
    /// # Errors
    /// Whatever kept it from that; everything that is wrong with an adapter file, at once.
    pub(crate) fn run(&self, out: &mut dyn io::Write) -> Result<ExitCode, AdapterCommandError> {
        let text = match self {
            Self::List => builtin_names().collect::<Vec<_>>().join("\n"),
            Self::Show { adapter } => describe(load(adapter)?.info()),
            Self::Check { adapter } => {
                format!("{adapter}: ok\n\n{}", describe(load(adapter)?.info()))
            }
            Self::Plan { adapter, request } => plan(adapter, request)?,
            Self::Replay(args) => args.replay()?,
        };
        match writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()) {
            // `… | head` has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
            written => Ok(written.map(|()| ExitCode::SUCCESS)?),
        }
    }
}

fn load(adapter: &str) -> Result<FileAdapter, AdapterCommandError> {
    if adapter.contains(':') && !Path::new(adapter).exists() {
        return Err(AdapterCommandError::Class(adapter.to_owned()));
    }
    Ok(load_adapter(adapter)?)
}

fn plan(adapter: &str, request: &Path) -> Result<String, AdapterCommandError> {
    let text = String::from_utf8_lossy(&read(request)?).into_owned();
    let place = request.display().to_string();
    let plan =
        rehearse(&load(adapter)?, &text).map_err(|error| AdapterCommandError::Json { place, error })?;
    Ok(format!("{plan:#}"))
}

impl ReplayArgs {
    fn replay(&self) -> Result<String, AdapterCommandError> {
        let stdout = read(&self.stdout)?;
        let stderr = self.stderr.as_deref().map(read).transpose()?.unwrap_or_default();
        let schema = self.schema.as_deref().map(read_json).transpose()?;
        let baseline = self.baseline.as_deref().map(baseline).transpose()?;
        let recording = Recording {
            stdout: &[&stdout],
            stderr: &[&stderr],
            exit: self.exit,
            stopped: self.stopped,
            json_schema: schema,
            resumes: baseline.is_some(),
            baseline: baseline.flatten(),
        };
        Ok(format!("{:#}", replay(&load(&self.adapter)?, &recording)))
    }
}

fn baseline(text: &str) -> Result<Option<SessionTotals>, AdapterCommandError> {
    let words: Option<Baseline> = serde_json::from_str(text)
        .map_err(|error| AdapterCommandError::Json { place: "--baseline".to_owned(), error })?;
    Ok(words.map(|words| {
        let Baseline { input, output, cache_read, cache_write, reasoning, total, cost } = words;
        let tokens = Tokens { input, output, cache_read, cache_write, reasoning, total, cost_usd: cost };
        SessionTotals { native: Value::Null, tokens }
    }))
}

fn read(path: &Path) -> Result<Vec<u8>, AdapterCommandError> {
    fs::read(path).map_err(|error| AdapterCommandError::Read { path: path.display().to_string(), error })
}

fn read_json(path: &Path) -> Result<Value, AdapterCommandError> {
    let place = path.display().to_string();
    serde_json::from_slice(&read(path)?).map_err(|error| AdapterCommandError::Json { place, error })
}

/// What an adapter can do, a line each.
fn describe(info: &AdapterInfo) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        _ = writeln!(text, "{name:<22}{value}");
    };
    let list =
        |items: &[String], none: &str| if items.is_empty() { none.to_owned() } else { items.join(", ") };
    line("name", &info.name);
    line("program", info.binary.as_deref().unwrap_or("(AICODEBOX_AGENT_BINARY)"));
    line("tested with", info.tested.as_deref().unwrap_or("-"));
    line("models", &list(&info.models, "-"));
    line("default model", info.default_model.as_deref().unwrap_or("-"));
    line("efforts", &list(&info.efforts, "(not checked)"));
    for (field, capability) in &info.capabilities.fields {
        line(field, capability.name());
    }
    let capabilities = &info.capabilities;
    for (name, has) in [
        ("streaming", capabilities.streaming),
        ("sessions", capabilities.sessions),
        ("tool_events", capabilities.tool_events),
        ("usage", capabilities.usage),
        ("structured", capabilities.structured),
    ] {
        line(name, if has { "yes" } else { "no" });
    }
    text
}
