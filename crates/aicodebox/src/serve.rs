//! `aicodebox serve` and `aicodebox mcp`: build the engine, start surfaces, and end all in order.

use std::{io, net::SocketAddr, process::ExitCode, sync::Arc};

use aicodebox_engine::{
    engine::Engine,
    store::SqliteStore,
    workspace::{Scratch, Workspaces},
};
use rmcp::service::ServerInitializeError;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    callback::{SCHEDULE, Sender},
    config::{ApiConfig, CallbackConfig, Config, Environment, Foreground, McpConfig, Modes},
    fetch::Fetcher,
    rest,
    setup::{self, SetupError},
    surface::{
        cron::{CronControl, CronFileError, CronSetup, History, Scheduler},
        http::{self, Api},
        mcp,
        openai::{self, Chats, Models},
        outbox::{Client, Outbox, TelegramError},
        telegram::{self, TelegramFile, TelegramFileError, TelegramSetup},
    },
};

/// Why there is nothing served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The API offers models, so there must be some.
    #[error(
        "AICODEBOX_AVAILABLE_MODELS: the adapter {0} lists no models, so the API would have none to offer; \
         name them, separated by commas"
    )]
    NoModels(String),
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("signals cannot be taken: {0}")]
    Signals(io::Error),
    #[error("no MCP client is at the other end: {0}")]
    Stdio(Box<ServerInitializeError>),
    /// The scheduler has no jobs to begin with.
    #[error("AICODEBOX_CRON_MODE_FILE: {0}")]
    Jobs(#[from] CronFileError),
    #[error("AICODEBOX_TELEGRAM_MODE_CONFIG: {0}")]
    TelegramFile(#[from] TelegramFileError),
    #[error(transparent)]
    Telegram(#[from] TelegramError),
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot begin, and when the bot's token is refused.
pub(crate) async fn serve(
    config: Config,
    modes: Modes,
    environment: Environment,
) -> Result<ExitCode, ServeError> {
    let mut signals = Signals::new().map_err(ServeError::Signals)?;
    for warning in environment.warnings() {
        warn!("{warning}");
    }
    if !config.adapter_chosen {
        warn!("AICODEBOX_ADAPTER is not set: the demo agent answers, which asks no model");
    }
    if modes.bot_gives_way {
        warn!("AICODEBOX_TELEGRAM_MODE: the bot does not run beside the HTTP API");
    }
    let workspaces = Arc::new(setup::workspaces(&config.workspace)?);
    let store = setup::run_store(&config).await?;
    let listener = match &modes.http {
        Some(wanted) => Some(listen(wanted.listen()).await?),
        None => None,
    };
    let (engine, scratch) = setup::engine(&config, &environment, store.clone()).await?;
    let offers_models = matches!(modes.http, Some(Foreground::Api(..)));
    if offers_models && engine.adapter().models.is_empty() && config.models.is_empty() {
        return Err(ServeError::NoModels(engine.adapter().name.clone()));
    }
    // What the environment holds of secrets is in its place now.
    drop(environment);
    if let Err(error) = engine.program() {
        warn!("no run can start yet: {error}");
    }
    let outbox = match &modes.access {
        Some(access) => Some(Outbox::new(Client::new(&access.token, access.api.as_ref())?)),
        None => None,
    };
    // `going` ends what takes new work; `stop` what answers to the last.
    let (going, stop) = (CancellationToken::new(), CancellationToken::new());
    let bot = bot(&config, &modes, &engine, workspaces.clone(), store.clone(), outbox.clone())?;
    let jobs = jobs(&modes, &engine, workspaces.clone(), store.clone(), outbox).await?;
    let (scheduler, control) = jobs.unzip();
    let serving = serve_http(
        &config,
        (modes.http, modes.callbacks),
        listener,
        (&engine, workspaces, scratch, control, store),
        stop.clone(),
    );
    let hangup = signal(SignalKind::hangup()).map_err(ServeError::Signals)?;
    let scheduling = async {
        if let Some(scheduler) = scheduler {
            scheduler.run(going.clone(), stop.clone(), hangup).await;
        }
    };
    let talking = async {
        let Some(bot) = bot else { return Ok(()) };
        telegram::serve(bot, going.clone()).await.inspect_err(|_error| going.cancel())
    };
    let ending = async {
        tokio::select! {
            name = signals.next() => info!(signal = name, active = engine.active().len(), "going down"),
            () = going.cancelled() => {}
        }
        going.cancel();
        // Probes are answered to the last: they say that nothing more is taken.
        tokio::select! {
            () = engine.shutdown() => {}
            name = signals.next() => {
                warn!(signal = name, "going down at once");
                engine.shutdown().await;
            }
        }
        stop.cancel();
    };
    // Last: the others have started when it is polled for the first time.
    let resting = rest::give_back(&engine, going.clone());
    let ((), (), talked, (), ()) = tokio::join!(serving, scheduling, talking, ending, resting);
    info!("stopped");
    talked?;
    Ok(ExitCode::SUCCESS)
}

/// What listens, where anything does.
async fn serve_http(
    config: &Config,
    (wanted, callbacks): (Option<Foreground>, Option<CallbackConfig>),
    listener: Option<TcpListener>,
    (engine, workspaces, scratch, cron, store): (
        &Engine,
        Arc<Workspaces>,
        Scratch,
        Option<CronControl>,
        Arc<SqliteStore>,
    ),
    stop: CancellationToken,
) {
    let (Some(wanted), Some(listener)) = (wanted, listener) else { return };
    // The real address, also when any port was asked for.
    let address = listener.local_addr().unwrap_or(wanted.listen());
    if wanted.open() && !address.ip().is_loopback() {
        warn!(%address, "whoever reaches this address can run commands: there is no token");
    }
    let handler = mcp::Handler::new(engine.clone(), workspaces.clone());
    let mcp = |config: &McpConfig, paths: &[&str]| mcp::router(handler, config, paths, stop.clone());
    let max_body = match &wanted {
        Foreground::Api(api, _) => api.max_body,
        Foreground::Mcp(_, mcp) => mcp.max_body,
    };
    let callbacks = callbacks.map(|config| (Fetcher::new(config.hosts), config.secret));
    let fetcher = callbacks.as_ref().map(|(fetcher, _secret)| fetcher.clone());
    let api = Api::new(engine.clone(), workspaces, scratch, config, max_body, fetcher, cron);
    let chat = |api: Api, wanted: &ApiConfig| {
        let models = Models::new(engine.adapter(), &config.models, wanted.strict_models);
        let chats = Chats::new(api, models, Fetcher::new(Vec::new()), wanted);
        openai::routes(chats, wanted)
    };
    let app = match &wanted {
        Foreground::Api(config, beside) => {
            let mcp = beside.as_ref().map(|beside| mcp(beside, &["/mcp", "/mcp/"]));
            http::router(api.clone(), config, chat(api, config), mcp)
        }
        Foreground::Mcp(_, config) => http::alone(api, mcp(config, &["/", "/mcp", "/mcp/"])),
    };
    let sender = callbacks.map(|(fetcher, secret)| Sender {
        store,
        fetcher,
        secret,
        schedule: SCHEDULE,
        backend: engine.adapter().name.clone(),
    });
    let calling = async {
        if let Some(sender) = sender {
            sender.serve(engine, stop.clone()).await;
        }
    };
    info!(adapter = engine.adapter().name, %address, "listening");
    tokio::join!(http::serve(listener, app, stop.clone()), calling);
}

/// The bot, where it is on.
fn bot(
    config: &Config,
    modes: &Modes,
    engine: &Engine,
    workspaces: Arc<Workspaces>,
    ledger: Arc<SqliteStore>,
    outbox: Option<Outbox>,
) -> Result<Option<TelegramSetup>, ServeError> {
    let (Some(wanted), Some(outbox)) = (&modes.telegram, outbox) else { return Ok(None) };
    let only = wanted.access.only_chat;
    let offered =
        |own: &[String], adapters: &[String]| if own.is_empty() { adapters.to_vec() } else { own.to_vec() };
    Ok(Some(TelegramSetup {
        engine: engine.clone(),
        workspaces,
        ledger,
        outbox,
        file: TelegramFile::read(&wanted.file, only)?,
        path: wanted.file.clone(),
        only,
        overrides: wanted.overrides.clone(),
        models: offered(&config.models, &engine.adapter().models),
        efforts: offered(&config.efforts, &engine.adapter().efforts),
        history: History::new(modes.cron_history.clone()),
    }))
}

/// The scheduler, where it is on.
async fn jobs(
    modes: &Modes,
    engine: &Engine,
    workspaces: Arc<Workspaces>,
    ledger: Arc<SqliteStore>,
    outbox: Option<Outbox>,
) -> Result<Option<(Scheduler, CronControl)>, ServeError> {
    let Some(wanted) = &modes.cron else { return Ok(None) };
    let setup = CronSetup {
        engine: engine.clone(),
        workspaces,
        ledger,
        file: wanted.file.clone(),
        history: wanted.history.clone(),
        outbox,
        default_chat: modes.access.as_ref().and_then(|access| access.only_chat),
    };
    Ok(Some(Scheduler::open(setup).await?))
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })
}

/// Serves the client at the other end of standard input and output until that leaves, or SIGTERM or SIGINT. Runs are
/// kept in memory.
///
/// # Errors
/// When it cannot begin.
pub(crate) async fn serve_stdio(config: &Config, environment: &Environment) -> Result<ExitCode, ServeError> {
    let mut signals = Signals::new().map_err(ServeError::Signals)?;
    let workspaces = Arc::new(setup::workspaces(&config.workspace)?);
    let (engine, _scratch) = setup::engine(config, environment, setup::memory_store(config)).await?;
    let stop = CancellationToken::new();
    let serving = mcp::serve_stdio(mcp::Handler::new(engine.clone(), workspaces), stop.clone());
    let mut serving = std::pin::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => served,
        _ = signals.next() => {
            stop.cancel();
            serving.await
        }
    };
    engine.shutdown().await;
    served.map(|()| ExitCode::SUCCESS).map_err(ServeError::Stdio)
}

/// The signals that end a server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The name of the next one. Cancel-safe.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
