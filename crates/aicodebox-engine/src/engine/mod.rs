//! Starts runs, knows which are alive, and ends them: request → plan → supervise → outcome.

mod attempt;
mod config;
mod gate;
mod handle;
mod probe;
mod runner;
mod schema_run;
mod structured;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use serde_json::Value;
use tokio::{sync::watch, time::timeout};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

pub use self::{
    config::EngineConfig,
    gate::WhenBusy,
    handle::RunHandle,
    structured::{SCHEMA_LIMIT, Schema, json_values},
};
use self::{
    gate::{Gate, GateClosed},
    probe::Prober,
    runner::Runner,
};
use crate::{
    adapter::{AdapterInfo, PlanError},
    process::Stop,
    run::{
        AnswerCheck, EndedBy, Failure, FailureKind, Origin, RunId, RunOutcome, RunRequest, RunStatus,
        SessionChoice,
    },
    store::{EventLog, Keeps, RunRecord, StoreError},
};

/// How long running agents have to end by themselves when the server goes down; with the sweep (1 s) and the
/// store (1 s) it stays below the 10 s that Docker gives (architecture §6, rule 7).
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// How long the killed ones may take to be gone and written down.
const SHUTDOWN_REST: Duration = Duration::from_millis(1500);

/// Runs one agent CLI for all surfaces. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    config: EngineConfig,
    gate: Arc<Gate>,
    prober: Prober,
    active: Mutex<HashMap<RunId, Arc<Active>>>,
    tracker: TaskTracker,
    draining: AtomicBool,
}

/// A run that has no outcome yet, as the engine knows it.
struct Active {
    workspace: PathBuf,
    origin: Origin,
    queued: AtomicBool,
    stop: Stop,
    outcome: watch::Receiver<Option<Arc<RunOutcome>>>,
}

/// A run that has no outcome yet, as surfaces show it.
#[derive(Clone, Debug)]
pub struct ActiveRun {
    /// The run.
    pub id: RunId,
    /// Canonical path of its workspace.
    pub workspace: PathBuf,
    /// Who asked.
    pub origin: Origin,
    /// Whether it still waits for its place.
    pub queued: bool,
}

impl Engine {
    /// An engine with nothing to do. Begins to ask the agent what it knows, where the adapter wants that.
    pub fn new(config: EngineConfig) -> Self {
        let gate = Gate::new(config.max_runs, config.max_queued);
        let prober = Prober::default();
        let engine = Self(Arc::new(Inner {
            config,
            gate,
            prober,
            active: Mutex::default(),
            tracker: TaskTracker::new(),
            draining: AtomicBool::new(false),
        }));
        let inner = engine.0.clone();
        engine.0.tracker.spawn(async move { inner.probe().await });
        engine
    }

    /// Accepts a run: a place in the queue, a plan that works, a record. Then it runs by itself.
    ///
    /// # Errors
    /// `Busy`, `QueueFull`, `Shutdown`, `Storage`, and what makes the request impossible for this agent:
    /// `Invalid`, `TooLong`, `Agent` (a Python adapter that failed). A program that is missing is no error here
    /// but an outcome (`Spawn`).
    pub async fn start(&self, request: RunRequest, when_busy: WhenBusy) -> Result<RunHandle, Failure> {
        if self.draining() {
            return Err(Failure::new(FailureKind::Shutdown, "the server is shutting down"));
        }
        let wanted = self.wants_alone(&request).then(|| request.workspace.path.clone());
        let ticket = self.0.gate.enter(wanted, when_busy).map_err(|closed| match closed {
            GateClosed::Busy => Failure {
                retry_after: Some(Duration::from_secs(5)),
                ..Failure::new(
                    FailureKind::Busy,
                    format!("workspace busy: another run works in {}", request.workspace.path.display()),
                )
            },
            GateClosed::QueueFull => Failure {
                retry_after: Some(Duration::from_secs(10)),
                ..Failure::new(
                    FailureKind::QueueFull,
                    format!(
                        "{} runs are running and {} wait: try again later",
                        self.0.config.max_runs, self.0.config.max_queued
                    ),
                )
            },
        })?;
        let check = match (request.check.clone(), request.json_schema.clone()) {
            (Some(check), _) => Some(check),
            (None, Some(source)) => Some(Arc::new(compile(source).await?) as Arc<dyn AnswerCheck>),
            (None, None) => None,
        };
        let id = RunId::random();
        let workspace = request.workspace.path.clone();
        let log = EventLog::new(Keeps { deltas: request.stream, natives: request.natives });
        let (origin, note) = (request.origin.clone(), request.note.clone());
        let mut runner = Runner::new(self.0.clone(), id, request, log.clone(), check);
        let prepared = match runner.prepare().await {
            // A missing program is the deployment's fault, not the request's: the run is on record as failed.
            Err(failure) if !matches!(failure.kind, FailureKind::Spawn { .. }) => return Err(failure),
            prepared => prepared,
        };
        let ignored = prepared.as_ref().map(|prepared| prepared.ignored.clone()).unwrap_or_default();
        self.0
            .config
            .store
            .create(RunRecord {
                id,
                workspace: workspace.clone(),
                origin: origin.clone(),
                created: SystemTime::now(),
                outcome: None,
                log: log.clone(),
                note,
            })
            .await
            .map_err(storage)?;
        let (stop, begun) = (runner.stop(), runner.begins.subscribe());
        let (publish, outcome) = watch::channel(None);
        let active = Arc::new(Active {
            workspace: workspace.clone(),
            origin,
            queued: AtomicBool::new(ticket.waits()),
            stop: stop.clone(),
            outcome: outcome.clone(),
        });
        self.0.active().insert(id, active.clone());
        // The server may have begun to go down since it was asked; then nobody else would stop this run.
        if self.draining() {
            active.stop.request(EndedBy::Shutdown);
        }
        // In the caller's span, so that the run's log lines carry the id of the request that asked for it.
        self.0.tracker.spawn(runner.run(ticket, prepared, active, publish).in_current_span());
        Ok(RunHandle::new(id, workspace, ignored, log, stop, begun, outcome))
    }

    /// Stops a run, waits until nothing of it is left, and says how it ended. `None` = no run of that id is alive.
    /// Called again meanwhile, it kills at once.
    pub async fn cancel(&self, id: RunId) -> Option<RunStatus> {
        let active = self.0.active().get(&id).cloned()?;
        active.stop.request(EndedBy::Cancelled);
        let mut outcome = active.outcome.clone();
        let ended = outcome.wait_for(Option::is_some).await.ok()?;
        ended.as_ref().map(|outcome| outcome.status())
    }

    /// The record of a run, alive or kept.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn get(&self, id: RunId) -> Result<Option<RunRecord>, StoreError> {
        self.0.config.store.run(id).await
    }

    /// The runs that have no outcome yet, oldest first by nothing but their id.
    pub fn active(&self) -> Vec<ActiveRun> {
        let mut runs: Vec<_> = self
            .0
            .active()
            .iter()
            .map(|(&id, run)| ActiveRun {
                id,
                workspace: run.workspace.clone(),
                origin: run.origin.clone(),
                queued: run.queued.load(Ordering::Relaxed),
            })
            .collect();
        runs.sort_by_key(|run| run.id);
        runs
    }

    /// The workspaces that a run has for itself.
    pub fn busy_workspaces(&self) -> Vec<PathBuf> {
        self.0.gate.busy()
    }

    /// The agent that this engine runs.
    pub fn adapter(&self) -> &AdapterInfo {
        self.0.config.adapter.info()
    }

    /// Whether the agent's program is there (readiness).
    ///
    /// # Errors
    /// Where it was looked for, and what to do.
    pub fn program(&self) -> Result<PathBuf, PlanError> {
        self.0
            .config
            .adapter
            .program(&self.0.host(&self.0.config.scratch.path("none"), HashMap::new().into()))
    }

    /// Whether the server is going down.
    pub fn draining(&self) -> bool {
        self.0.draining.load(Ordering::SeqCst)
    }

    /// Accepts nothing more, gives running agents their grace, kills the rest, and returns when all outcomes are
    /// stored, at the latest after 6.5 s. Called again meanwhile, it skips the grace.
    pub async fn shutdown(&self) {
        self.0.draining.store(true, Ordering::SeqCst);
        self.0.tracker.close();
        self.0.stop_all();
        if timeout(SHUTDOWN_GRACE, self.0.tracker.wait()).await.is_err() {
            self.0.stop_all();
            if timeout(SHUTDOWN_REST, self.0.tracker.wait()).await.is_err() {
                tracing::error!(runs = self.0.active().len(), "some runs did not end in time");
            }
        }
        self.0.config.pool.close().await;
    }

    /// Contract §2, "Exclusive or not".
    fn wants_alone(&self, request: &RunRequest) -> bool {
        let sessions = self.0.config.adapter.info().has_sessions;
        let continues = match &request.session {
            SessionChoice::Fresh { .. } => false,
            SessionChoice::Continue => sessions,
            SessionChoice::Resume(_) => true,
        };
        !request.workspace.ephemeral() && (!request.workspace.root || continues)
    }
}

impl Inner {
    fn active(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Active>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop_all(&self) {
        for run in self.active().values() {
            run.stop.request(EndedBy::Shutdown);
        }
    }
}

/// Off the reactor: a schema may be large.
async fn compile(source: Value) -> Result<Schema, Failure> {
    let compiled = tokio::task::spawn_blocking(move || Schema::compile(source)).await;
    compiled.unwrap_or_else(|error| Err(error.to_string())).map_err(|wrong| {
        Failure::new(
            FailureKind::Invalid { field: "json_schema" },
            format!("the JSON Schema is not usable: {wrong}"),
        )
    })
}

fn storage(error: StoreError) -> Failure {
    Failure::new(FailureKind::Storage, format!("the run cannot be stored: {error}"))
}
