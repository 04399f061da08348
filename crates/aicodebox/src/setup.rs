use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use aicodebox_engine::{
    adapter::{
        Adapter, AdapterError, AdapterInfo, load_adapter,
        python::{PythonError, load_python},
    },
    engine::{Engine, EngineConfig},
    process::{LauncherCommand, Pool, Variables, variables},
    store::{MemoryStore, OpenError, SqliteConfig, SqliteStore, Store},
    workspace::{Scratch, Workspaces},
};
use tokio::{
    runtime::{Builder, Runtime},
    task::spawn_blocking,
};

use crate::config::{Config, Environment};

/// See [`block_on`].
const REST: Duration = Duration::from_millis(200);
/// Finished runs in memory may take this many bytes.
const MEMORY_STORE_BYTES: usize = 64 << 20;

/// Processes beside the runs: that of a Python adapter, and its successor while it is replaced.
const PYTHON_PLACES: usize = 2;

/// Why the box cannot be put together.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    /// The adapter cannot be used.
    #[error("AICODEBOX_ADAPTER: {0}")]
    Adapter(#[from] AdapterError),
    /// The Python adapter cannot be used.
    #[error("AICODEBOX_ADAPTER: {0}")]
    Python(#[from] PythonError),
    /// Nobody says which program the agent is.
    #[error("AICODEBOX_AGENT_BINARY: expected the agent's program, because the adapter names none")]
    NoProgram,
    /// The workspace root cannot be opened.
    #[error(
        "the workspace {path} cannot be used: {source}; make it, or name another directory (AICODEBOX_WORKSPACE, `run --workspace`)"
    )]
    Workspace { path: PathBuf, source: io::Error },
    /// The state directory cannot be written.
    #[error("AICODEBOX_STATE_DIR: the state directory {path} cannot be used: {source}")]
    State { path: PathBuf, source: io::Error },
    /// The run store cannot be opened.
    #[error("the run store: {0}")]
    Store(#[from] OpenError),
    /// No processes can be started.
    #[error("the launcher of agents cannot be started: {0}")]
    Launcher(io::Error),
}

/// Where a server keeps its runs. Nobody else can have it open meanwhile.
///
/// # Errors
/// When it cannot be opened.
pub(crate) async fn run_store(config: &Config) -> Result<Arc<SqliteStore>, SetupError> {
    let (ttl, max_bytes) = (config.run_ttl, config.store_max_bytes);
    let dir = config.state_dir.join("private");
    let opening = spawn_blocking(move || SqliteStore::open(SqliteConfig { dir, ttl, max_bytes }));
    let opened = opening.await.map_err(|error| OpenError::Database(error.to_string()))?;
    Ok(Arc::new(opened?))
}

/// Where a single run is kept: as long as the process lives.
pub(crate) fn memory_store(config: &Config) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(config.run_ttl, MEMORY_STORE_BYTES))
}

/// An engine with the configured adapter, and the directory of its temporary files.
///
/// # Errors
/// When the adapter, the state directory or the launcher cannot be used.
pub(crate) async fn engine(
    config: &Config,
    environment: &Environment,
    store: Arc<dyn Store>,
) -> Result<(Engine, Scratch), SetupError> {
    let state = |source| SetupError::State { path: config.state_dir.clone(), source };
    DirBuilder::new().mode(0o700).recursive(true).create(&config.state_dir).map_err(state)?;
    let scratch = Scratch::open(&config.state_dir.join("tmp")).map_err(state)?;
    let places = config.max_runs + PYTHON_PLACES;
    let pool = Pool::start(LauncherCommand::default(), places).await.map_err(SetupError::Launcher)?;
    let (agent_env, warnings) = config.agent_environment(environment);
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let agent_env = Arc::new(variables(agent_env));
    let adapter = adapter(config, environment, &pool, &agent_env).await?;
    // Only a file that names no program takes the one that the passthrough mode would run. A class always names one,
    // in its command line.
    let unnamed = config
        .agent_binary
        .clone()
        .filter(|_| !config.has_python_adapter() && adapter.info().binary.is_none());
    let engine = Engine::new(EngineConfig {
        default_model: config.default_model(&adapter.info().name).map(str::to_owned),
        models: config.models.clone().into(),
        adapter,
        pool,
        store,
        scratch: scratch.clone(),
        home: config.home.clone(),
        agent_env,
        subscription: config.subscription,
        binary: config.adapter_binary.clone().or(unnamed),
        max_runs: config.max_runs,
        max_queued: config.max_queued,
        run_timeout: config.run_timeout,
        idle_timeout: config.idle_timeout,
        no_new_privs: config.no_new_privs,
    });
    Ok((engine, scratch))
}

/// Half of the processors: the other half is the agents'. With one worker for each of two processors, every event woke
/// both, and a short run cost a tenth more.
fn runtime() -> io::Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread().worker_threads((processors / 2).max(1)).enable_all().build()
}

/// Does this work to its end. Threads that are busy even then get [`REST`] and are left: one may wait for input that
/// does not come, one may check an answer against a schema that takes for ever.
///
/// # Errors
/// When there cannot be a runtime.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = runtime()?;
    let done = runtime.block_on(work);
    runtime.shutdown_timeout(REST);
    Ok(done)
}

async fn adapter(
    config: &Config,
    environment: &Environment,
    pool: &Pool,
    agent_env: &Arc<Variables>,
) -> Result<Arc<dyn Adapter>, SetupError> {
    if config.has_python_adapter() {
        // Not on the agents' PATH, which begins with a directory that they may write to.
        let path = environment.get("PATH");
        return Ok(Arc::new(load_python(&config.adapter, pool.clone(), agent_env.clone(), path).await?));
    }
    Ok(Arc::new(load_adapter(&config.adapter)?))
}

/// What is to be known of the configured adapter without an engine: for a command line that somebody uses.
///
/// # Errors
/// When the adapter cannot be used.
pub(crate) fn adapter_info(config: &Config, environment: &Environment) -> Result<AdapterInfo, SetupError> {
    if !config.has_python_adapter() {
        return Ok(load_adapter(&config.adapter)?.info().clone());
    }
    // A class is asked, which takes a process of its own that is gone afterwards.
    runtime().map_err(SetupError::Launcher)?.block_on(async {
        let pool = Pool::start(LauncherCommand::default(), PYTHON_PLACES).await;
        let pool = pool.map_err(SetupError::Launcher)?;
        let agent_env = Arc::new(variables(config.agent_environment(environment).0));
        let adapter = adapter(config, environment, &pool, &agent_env).await;
        let info = adapter.map(|adapter| adapter.info().clone());
        pool.close().await;
        info
    })
}

/// The root of workspaces at `path`. One that cannot be written is a warning: an agent may only want to read.
///
/// # Errors
/// When it is no directory that can be opened.
pub(crate) fn workspaces(path: &Path) -> Result<Workspaces, SetupError> {
    let found =
        Workspaces::open(path).map_err(|source| SetupError::Workspace { path: path.to_owned(), source })?;
    if !found.writable() {
        tracing::warn!(
            "the user {} cannot write to the workspace {}: chown it, or start the container with --user and the number \
             of its owner",
            nix::unistd::geteuid(),
            path.display()
        );
    }
    Ok(found)
}
