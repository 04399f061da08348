use std::{
    ffi::OsString,
    fmt::Display,
    io::{self, Read, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use aicodebox_engine::{engine::Engine, run::Workspace};
use clap::{Parser, Subcommand};

use crate::{
    adapter_command::{AdapterCommand, AdapterCommandError},
    config::{self, Config, ConfigError, Environment},
    cron_command::{CronCommand, CronCommandError},
    health_check, init, logging, preflight,
    serve::{self, ServeError},
    setup::{self, SetupError},
    surface::{
        outbox::TelegramError,
        terminal::{self, Output, RunArgs},
    },
};

/// The configuration is wrong (EX_CONFIG of sysexits).
const EX_CONFIG: u8 = 78;
/// The command line is wrong, as clap has it.
const EX_USAGE: u8 = 2;

/// All secrets together may have this many bytes.
const SECRETS_LIMIT: u64 = 1 << 20;

/// Puts any AI coding agent CLI on the network.
#[derive(Parser)]
#[command(name = "aicodebox", version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve what the environment says, until SIGTERM
    Serve(ServeArgs),
    /// Run the agent once, here
    Run(Box<RunArgs>),
    /// Ask the agent for one word: is it there, is it signed in?
    Verify(VerifyArgs),
    /// Look at adapters, and try them on kept output
    #[command(subcommand)]
    Adapter(AdapterCommand),
    /// Look at a file of jobs: what is wrong with it, when are they due?
    #[command(subcommand)]
    Cron(CronCommand),
    /// Print the configuration in effect, secrets masked
    Config(ConfigArgs),
    /// Offer the agent as MCP tools on standard input and output
    Mcp,
    /// Ask the server of this box whether it is well
    Healthcheck,
    /// Be the first process of a box: serve the modes that are on, else run the agent's own command line
    Entrypoint {
        /// What the agent's command line gets
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
}

#[derive(clap::Args)]
struct ServeArgs {
    /// Read the secrets from standard input: how the entrypoint hands them over
    #[arg(long, hide = true)]
    secrets_on_stdin: bool,
}

#[derive(clap::Args)]
struct VerifyArgs {
    /// Adapter: a built-in one or a file, instead of AICODEBOX_ADAPTER
    #[arg(short, long)]
    adapter: Option<String>,
}

#[derive(clap::Args)]
struct ConfigArgs {
    /// Print the table of all variables, as the documents have it, instead
    #[arg(long)]
    markdown: bool,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Adapter(#[from] AdapterCommandError),
    #[error(transparent)]
    Cron(#[from] CronCommandError),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl CommandError {
    /// The exit code that says what was wrong.
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Config(_) => EX_CONFIG.into(),
            Self::Usage(_) => EX_USAGE.into(),
            Self::Setup(error) | Self::Serve(ServeError::Setup(error)) => match error {
                SetupError::Adapter(_)
                | SetupError::Python(_)
                | SetupError::NoProgram
                | SetupError::Workspace { .. }
                | SetupError::State { .. } => EX_CONFIG.into(),
                SetupError::Store(_) | SetupError::Launcher(_) => ExitCode::FAILURE,
            },
            Self::Serve(
                ServeError::NoModels(_)
                | ServeError::Jobs(_)
                | ServeError::TelegramFile(_)
                | ServeError::Telegram(TelegramError::Unauthorized),
            ) => EX_CONFIG.into(),
            Self::Serve(
                ServeError::Listen { .. }
                | ServeError::Signals(_)
                | ServeError::Stdio(_)
                | ServeError::Telegram(_),
            )
            | Self::Adapter(_)
            | Self::Cron(_)
            | Self::Io(_) => ExitCode::FAILURE,
        }
    }
}

impl Cli {
    /// Carries the command out.
    ///
    /// # Errors
    /// Whatever kept it from that.
    pub(crate) fn run(self) -> Result<ExitCode, CommandError> {
        // First of all: an agent of our user must not read our memory and environment through /proc.
        nix::sys::prctl::set_dumpable(false).map_err(io::Error::from)?;
        let environment = Environment::of_process();
        match self.command {
            Command::Serve(args) => serve(&args, environment),
            Command::Run(args) => run(&args, &environment),
            Command::Verify(args) => verify(&args, &environment),
            Command::Adapter(command) => Ok(command.run(&mut io::stdout())?),
            Command::Cron(command) => {
                config::known_zone(&environment)?;
                command.run(&mut io::stdout())?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Config(ConfigArgs { markdown: true }) => print(config::markdown()),
            Command::Config(ConfigArgs { markdown: false }) => show_config(&environment),
            Command::Mcp => mcp(&environment),
            Command::Healthcheck => health_check(&environment),
            Command::Entrypoint { arguments } => Ok(init::run(&arguments)),
        }
    }
}

fn serve(args: &ServeArgs, mut environment: Environment) -> Result<ExitCode, CommandError> {
    if args.secrets_on_stdin {
        let mut handed = Vec::new();
        io::stdin().take(SECRETS_LIMIT).read_to_end(&mut handed)?;
        init::decode_secrets(&handed).for_each(|(name, value)| environment.set(name, value));
    }
    let (config, modes) = preflight::for_serving(&environment)?;
    logging::start(&config.logging, "info");
    Ok(setup::block_on(serve::serve(config, modes, environment))??)
}

fn mcp(environment: &Environment) -> Result<ExitCode, CommandError> {
    let config = config_for(None, environment)?;
    Ok(setup::block_on(serve::serve_stdio(&config, environment))??)
}

fn run(args: &RunArgs, environment: &Environment) -> Result<ExitCode, CommandError> {
    let config = config_for(args.adapter.as_deref(), environment)?;
    setup::block_on(async {
        let (engine, scratch) = setup::engine(&config, environment, setup::memory_store(&config)).await?;
        let workspace = if args.ephemeral { scratch.workspace()? } else { workspace(args, &config)? };
        let request = args.request(workspace, engine.adapter()).map_err(CommandError::Usage)?;
        let output = match (args.json, args.events) {
            (true, _) => Output::Json,
            (false, true) => Output::Events,
            (false, false) => Output::Text,
        };
        let code = terminal::run(&engine, request, output, config.logging.colour).await;
        engine.shutdown().await;
        Ok(code?.into())
    })?
}

/// The directory that was named, else the configured root, else where we are.
fn workspace(args: &RunArgs, config: &Config) -> Result<Workspace, SetupError> {
    let path = match &args.workspace {
        Some(path) => path.clone(),
        None if config.workspace_chosen => config.workspace.clone(),
        None => PathBuf::from("."),
    };
    Ok(setup::workspaces(&path)?.root())
}

/// The configuration of a command at a terminal, perhaps for another adapter.
fn config_for(adapter: Option<&str>, environment: &Environment) -> Result<Config, ConfigError> {
    let mut config = Config::from_env(environment)?;
    logging::start(&config.logging, "warn");
    environment.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    config.adapter = adapter.map_or(config.adapter, str::to_owned);
    Ok(config)
}

fn verify(args: &VerifyArgs, environment: &Environment) -> Result<ExitCode, CommandError> {
    let config = config_for(args.adapter.as_deref(), environment)?;
    let (text, well) = setup::block_on(async {
        let (engine, scratch) = setup::engine(&config, environment, setup::memory_store(&config)).await?;
        let verified = ask_agent(&engine, scratch.workspace(), config.run_timeout).await;
        engine.shutdown().await;
        verified
    })??;
    print(text)?;
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn ask_agent(
    engine: &Engine,
    workspace: io::Result<Workspace>,
    limit: Duration,
) -> Result<(String, bool), CommandError> {
    Ok(terminal::verify(engine, workspace?, limit).await?)
}

fn show_config(environment: &Environment) -> Result<ExitCode, CommandError> {
    print(config::effective(environment))?;
    for warning in environment.warnings() {
        writeln!(io::stderr(), "aicodebox: {warning}")?;
    }
    preflight::check(environment)?;
    Ok(ExitCode::SUCCESS)
}

fn health_check(environment: &Environment) -> Result<ExitCode, CommandError> {
    if !config::listens(environment) {
        // The agent's own command line, the bot or the scheduler: when that ends, the box does.
        return print("no mode that listens is on, so there is nobody to ask");
    }
    let address = config::local_port(environment)?;
    match health_check::ask(address) {
        Ok((answer, well)) => {
            print(answer)?;
            Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Err(error) => {
            writeln!(io::stderr(), "aicodebox: nobody answers at {address}: {error}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Prints what a command was asked for.
fn print(text: impl Display) -> Result<ExitCode, CommandError> {
    let text = text.to_string();
    writeln!(io::stdout(), "{}", text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
