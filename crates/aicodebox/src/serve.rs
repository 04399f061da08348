//! `aicodebox serve`: builds the engine, starts the surface of the environment, and ends both in order.

use std::{io, net::SocketAddr, process::ExitCode};

use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    callback::{SCHEDULE, Sender},
    config::{Access, ApiConfig, Config, Environment, Foreground},
    fetch::Fetcher,
    setup::{self, SetupError},
    surface::{
        http::{self, Api},
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
    let Foreground::Api(api_config) = foreground;
    for warning in environment.warnings() {
        warn!("{warning}");
    }
    if !config.adapter_chosen {
        warn!("AICODEBOX_ADAPTER is not set: the demo agent answers, which asks no model");
    }
    if matches!(api_config.access, Access::Open) && !api_config.listen.ip().is_loopback() {
        warn!(address = %api_config.listen, "whoever reaches this address can run commands: there is no token");
    }
    let workspaces = setup::workspaces(&config.workspace)?;
    let store = setup::run_store(&config).await?;
    let listener = listen(api_config.listen).await?;
    let (engine, scratch) = setup::engine(&config, &environment, store.clone()).await?;
    if engine.adapter().models.is_empty() && config.models.is_empty() {
        return Err(ServeError::NoModels(engine.adapter().name.clone()));
    }
    // What the environment holds of secrets is in its place now.
    drop(environment);
    if let Err(error) = engine.program() {
        warn!("no run can start yet: {error}");
    }
    let fetcher = config.callback_secret.is_some().then(|| Fetcher::new(config.callback_hosts.clone()));
    let api = Api::new(engine.clone(), workspaces, scratch, &config, api_config.max_body, fetcher.clone());
    let stop = CancellationToken::new();
    let models = Models::new(engine.adapter(), &config.models, api_config.strict_models);
    let chats = Chats::new(api.clone(), models, Fetcher::new(Vec::new()), api_config.chat_workspace);
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
    let app = http::router(api, &api_config, openai::routes(chats, &api_config.access));
    info!(adapter = engine.adapter().name, address = %address(&listener, &api_config), "listening");

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

/// The real address, also when any port was asked for.
fn address(listener: &TcpListener, config: &ApiConfig) -> SocketAddr {
    listener.local_addr().unwrap_or(config.listen)
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
