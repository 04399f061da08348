//! Starts runs, knows which are alive, and ends them: request → plan → supervise → outcome.

mod attempt;
mod config;
mod events;
mod gate;
mod handle;
mod probe;
mod reader_output;
mod references;
mod runner;
mod schema_run;
mod start;
mod stats;
mod structured;
mod turns;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::task::TaskTracker;

pub use self::{
    config::EngineConfig,
    events::{Events, LiveEvents, StoredEvents},
    gate::WhenBusy,
    handle::RunHandle,
    stats::{Counted, SECONDS},
    structured::{SCHEMA_LIMIT, Schema, json_pieces},
};
use self::{gate::Gate, probe::Prober, stats::Stats, turns::Turns};
use crate::{
    adapter::{AdapterInfo, PlanError},
    process::Stop,
    run::{EndedBy, Failure, FailureKind, Origin, RunId, RunOutcome, RunStatus, Workspace},
    store::{EventLog, RunFilter, RunPage, RunRecord, SessionPlace, StoreError},
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
    /// Those who come with the same key: only the first of them starts a run.
    claims: Turns,
    stats: Stats,
    /// A run is over that calls back.
    callback: Notify,
    /// Attempts on the same session: only the first of them takes its counters.
    totals: Turns,
    /// Checks of answers that were given up, as long as they go on.
    strays: Mutex<Vec<Weak<()>>>,
    active: Mutex<HashMap<RunId, Arc<Active>>>,
    tracker: TaskTracker,
    draining: AtomicBool,
}

/// A run that has no outcome yet, as the engine knows it.
struct Active {
    workspace: PathBuf,
    origin: Origin,
    queued: AtomicBool,
    /// Whether it is on record: before that nobody may know of it.
    recorded: AtomicBool,
    /// The conversation was forgotten meanwhile: at its end the run must not bring it back.
    forgotten: AtomicBool,
    log: Arc<EventLog>,
    stop: Stop,
    begun: watch::Receiver<bool>,
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
            claims: Turns::default(),
            stats: Stats::default(),
            callback: Notify::new(),
            totals: Turns::default(),
            strays: Mutex::default(),
            active: Mutex::default(),
            tracker: TaskTracker::new(),
            draining: AtomicBool::new(false),
        }));
        let inner = engine.0.clone();
        engine.0.tracker.spawn(async move { inner.probe().await });
        engine
    }

    fn events_of(&self, id: RunId, log: Option<Arc<EventLog>>) -> Events {
        Events::new(self.0.config.store.clone(), id, log)
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

    /// The newest runs that `filter` lets through.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn runs(&self, filter: RunFilter) -> Result<RunPage, StoreError> {
        self.0.config.store.runs(filter).await
    }

    /// The events of a run, alive or kept, as far as they are stored. A run that is unknown has none.
    pub fn events(&self, id: RunId) -> Events {
        let log = self.0.active().get(&id).map(|active| active.log.clone());
        self.events_of(id, log)
    }

    /// Whether that run still waits for its place.
    pub fn queued(&self, id: RunId) -> bool {
        self.0.active().get(&id).is_some_and(|run| run.queued.load(Ordering::Relaxed))
    }

    /// Forgets a run that is over: its record, its events, its key.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn purge(&self, id: RunId) -> Result<(), StoreError> {
        self.0.config.store.purge(id).await
    }

    /// Forgets the conversation that this origin has in this workspace, also that of a run under way: whatever is
    /// asked next begins a new one.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn forget_session(&self, workspace: &Workspace, origin: &Origin) -> Result<(), StoreError> {
        let place = self.0.place(workspace, origin);
        for run in self.0.active().values() {
            if run.workspace == place.workspace && run.origin.session_key() == place.key {
                run.forgotten.store(true, Ordering::SeqCst);
            }
        }
        self.0.config.store.keep_session(place, None).await
    }

    /// What runs have done since the start, in numbers.
    pub fn counted(&self) -> Counted {
        self.0.stats.read()
    }

    /// Waits for the end of a run that calls back, if none has ended since it was asked last. Cancel-safe.
    pub async fn callback_due(&self) {
        self.0.callback.notified().await;
    }

    /// The runs that have no outcome yet, oldest first by nothing but their id.
    pub fn active(&self) -> Vec<ActiveRun> {
        let mut runs: Vec<_> = self
            .0
            .active()
            .iter()
            .filter(|(_id, run)| run.recorded.load(Ordering::Acquire))
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
}

impl Inner {
    fn active(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Active>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, workspace: &Workspace, origin: &Origin) -> SessionPlace {
        SessionPlace {
            adapter: self.config.adapter.info().name.clone(),
            workspace: workspace.path.clone(),
            key: origin.session_key(),
        }
    }

    fn stop_all(&self) {
        for run in self.active().values() {
            run.stop.request(EndedBy::Shutdown);
        }
    }
}

fn storage(error: StoreError) -> Failure {
    Failure::new(FailureKind::Storage, format!("the run cannot be stored: {error}"))
}
