//! `aicodebox serve` and `aicodebox mcp`: build the engine, start a surface, and end both in order.

use std::{io, net::SocketAddr, process::ExitCode, sync::Arc};

use rmcp::service::ServerInitializeError;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    callback::{SCHEDULE, Sender},
    config::{ApiConfig, Config, Environment, Foreground, McpConfig},
    fetch::Fetcher,
    setup::{self, SetupError},
    surface::{
        http::{self, Api},
        mcp,
        openai::{self, Chats, Models},
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
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot begin.
pub(crate) async fn serve(
    config: Config,
    foreground: Foreground,
    environment: Environment,
) -> Result<ExitCode, ServeError> {
    let mut signals = Signals::new().map_err(ServeError::Signals)?;
    for warning in environment.warnings() {
        warn!("{warning}");
    }
    if !config.adapter_chosen {
        warn!("AICODEBOX_ADAPTER is not set: the demo agent answers, which asks no model");
    }
    let address = foreground.listen();
    if foreground.open() && !address.ip().is_loopback() {
        warn!(%address, "whoever reaches this address can run commands: there is no token");
    }
    let workspaces = Arc::new(setup::workspaces(&config.workspace)?);
    let store = setup::run_store(&config).await?;
    let listener = listen(address).await?;
    let (engine, scratch) = setup::engine(&config, &environment, store.clone()).await?;
    let offers_models = matches!(foreground, Foreground::Api(..));
    if offers_models && engine.adapter().models.is_empty() && config.models.is_empty() {
        return Err(ServeError::NoModels(engine.adapter().name.clone()));
    }
    // What the environment holds of secrets is in its place now.
    drop(environment);
    if let Err(error) = engine.program() {
        warn!("no run can start yet: {error}");
    }
    let stop = CancellationToken::new();
    let handler = mcp::Handler::new(engine.clone(), workspaces.clone());
    let mcp = |config: &McpConfig, paths: &[&str]| mcp::router(handler, config, paths, stop.clone());
    let max_body = match &foreground {
        Foreground::Api(api, _) => api.max_body,
        Foreground::Mcp(_, mcp) => mcp.max_body,
    };
    let fetcher = config.callback_secret.is_some().then(|| Fetcher::new(config.callback_hosts.clone()));
    let api = Api::new(engine.clone(), workspaces, scratch, &config, max_body, fetcher.clone());
    let chat = |api: Api, wanted: &ApiConfig| {
        let models = Models::new(engine.adapter(), &config.models, wanted.strict_models);
        let chats = Chats::new(api, models, Fetcher::new(Vec::new()), wanted.chat_workspace);
        openai::routes(chats, &wanted.access)
    };
    let app = match &foreground {
        Foreground::Api(config, beside) => {
            let mcp = beside.as_ref().map(|beside| mcp(beside, &["/mcp", "/mcp/"]));
            http::router(api.clone(), config, chat(api, config), mcp)
        }
        Foreground::Mcp(_, config) => http::alone(api, mcp(config, &["/", "/mcp", "/mcp/"])),
    };
    let sender = fetcher.zip(config.callback_secret).map(|(fetcher, secret)| Sender {
        store,
        fetcher,
        secret,
        schedule: SCHEDULE,
        backend: engine.adapter().name.clone(),
    });
    let calling = async {
        if let Some(sender) = sender {
            sender.serve(&engine, stop.clone()).await;
        }
    };
    // The real address, also when any port was asked for.
    let address = listener.local_addr().unwrap_or(address);
    info!(adapter = engine.adapter().name, %address, "listening");

    let serving = http::serve(listener, app, stop.clone());
    let ending = async {
        let name = signals.next().await;
        info!(signal = name, active = engine.active().len(), "going down");
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
    tokio::join!(serving, calling, ending);
    info!("stopped");
    Ok(ExitCode::SUCCESS)
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
