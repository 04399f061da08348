//! Starts runs, knows which are alive, and ends them: request → plan → supervise → outcome.

mod attempt;
mod config;
mod events;
mod gate;
mod handle;
mod probe;
mod runner;
mod schema_run;
mod stats;
mod structured;
mod turns;

use std::{
    collections::HashMap,
    future::pending,
    panic::resume_unwind,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

pub use self::{
    config::EngineConfig,
    events::{Events, LiveEvents, StoredEvents},
    gate::WhenBusy,
    handle::RunHandle,
    stats::{Counted, SECONDS},
    structured::{SCHEMA_LIMIT, Schema, json_pieces},
};
use self::{
    gate::{Gate, GateClosed},
    handle::Hold,
    probe::Prober,
    runner::Runner,
    stats::Stats,
    turns::Turns,
};
use crate::{
    adapter::{AdapterInfo, PlanError},
    process::Stop,
    run::{
        AnswerCheck, Claim, EndedBy, Failure, FailureKind, Origin, RunId, RunOutcome, RunRequest, RunStatus,
        SessionChoice, Workspace,
    },
    store::{EventLog, NewRun, RunFilter, RunPage, RunRecord, SessionPlace, StoreError},
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
            active: Mutex::default(),
            tracker: TaskTracker::new(),
            draining: AtomicBool::new(false),
        }));
        let inner = engine.0.clone();
        engine.0.tracker.spawn(async move { inner.probe().await });
        engine
    }

    /// Does what leads to a run: looks for its workspace, fetches what belongs to it, [starts](Self::start) it. `lasting` =
    /// to its end, also when the caller goes away meanwhile; then it is a task of the engine, in the caller's span.
    ///
    /// A run that was to go on alone was lost when its client left while a schema was compiled for it: what works for it
    /// must not belong to a connection.
    pub async fn accept<T: Send + 'static>(
        &self,
        lasting: bool,
        accepting: impl Future<Output = T> + Send + 'static,
    ) -> T {
        if !lasting {
            return accepting.await;
        }
        match self.0.tracker.spawn(accepting.in_current_span()).await {
            Ok(accepted) => accepted,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // Nobody ends the task but the end of the runtime, and with it of whoever waits here.
                Err(_ended) => pending().await,
            },
        }
    }

    /// Accepts a run: a place in the queue, a plan that works, a record. Then it runs by itself. With a
    /// [`RunRequest::claim`] that is known, the handle is that of the run that was started with it.
    ///
    /// # Errors
    /// `Busy`, `QueueFull`, `Shutdown`, `Storage`, and what makes the request impossible for this agent:
    /// `Invalid`, `TooLong`, `Agent` (a Python adapter that failed). A program that is missing is no error here
    /// but an outcome (`Spawn`).
    pub async fn start(&self, request: RunRequest, when_busy: WhenBusy) -> Result<RunHandle, Failure> {
        let mut turn = None;
        if let Some(claim) = &request.claim {
            turn = Some(self.0.claims.turn((claim.scope, &claim.key)).await);
            if let Some(handle) = self.claimed(claim).await? {
                return Ok(handle);
            }
        }
        // Boxed: it is large, and callers have enough of their own.
        let begun = Box::pin(self.begin(request, when_busy)).await;
        drop(turn);
        begun
    }

    async fn begin(&self, request: RunRequest, when_busy: WhenBusy) -> Result<RunHandle, Failure> {
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
        let log = self.0.config.store.log();
        let origin = request.origin.clone();
        // Whoever lost the connection asks again by the key.
        let detached = request.detach || request.claim.is_some();
        let (note, claim, callback) = (request.note.clone(), request.claim.clone(), request.callback.clone());
        let mut runner = Runner::new(self.0.clone(), id, request, log.clone(), check);
        let prepared = match runner.prepare().await {
            // A missing program is the deployment's fault, not the request's: the run is on record as failed.
            Err(failure) if !matches!(failure.kind, FailureKind::Spawn { .. }) => return Err(failure),
            prepared => prepared,
        };
        let ignored = prepared.as_ref().map(|prepared| prepared.ignored.clone()).unwrap_or_default();
        let run = NewRun::new(id, workspace.clone(), origin.clone(), log.clone());
        let created = self.0.config.store.create(NewRun { note, claim, callback, ..run });
        let (stop, begun) = (runner.stop(), runner.begins.subscribe());
        let (publish, outcome) = watch::channel(None);
        let hold = Hold { stop: stop.clone(), detached, outcome: outcome.clone() };
        let active = Arc::new(Active {
            workspace: workspace.clone(),
            origin,
            queued: AtomicBool::new(ticket.waits()),
            recorded: AtomicBool::new(false),
            log: log.clone(),
            stop,
            begun: begun.clone(),
            outcome: outcome.clone(),
        });
        self.0.active().insert(id, active.clone());
        // The server may have begun to go down since it was asked; then nobody else would stop this run.
        if self.draining() {
            active.stop.request(EndedBy::Shutdown);
        }
        // The agent starts while the record is being written: nobody knows of the run before both are done.
        // In the caller's span, so that the run's log lines carry the id of the request that asked for it.
        // Boxed before it is passed on: it is large, and on its way into a task it is moved several times.
        let run = Box::pin(runner.run(ticket, prepared, active.clone(), publish));
        self.0.tracker.spawn(run.in_current_span());
        let events = self.events_of(id, Some(log));
        let handle = RunHandle { id, workspace, ignored, events, hold, begun, outcome };
        if let Err(error) = created.await {
            // Without any grace: it has only begun.
            active.stop.request(EndedBy::Cancelled);
            active.stop.request(EndedBy::Cancelled);
            return Err(storage(error));
        }
        active.recorded.store(true, Ordering::Release);
        Ok(handle)
    }

    /// The run that was started with this key; none = there is none, or no more.
    async fn claimed(&self, claim: &Claim) -> Result<Option<RunHandle>, Failure> {
        let store = &self.0.config.store;
        let Some((id, body)) = store.claimed(&claim.scope, &claim.key).await.map_err(storage)? else {
            return Ok(None);
        };
        if body != claim.body {
            let message = "this Idempotency-Key was used for another request; give each request its own";
            return Err(Failure::new(FailureKind::Invalid { field: "Idempotency-Key".into() }, message));
        }
        let active = self.0.active().get(&id).cloned();
        if let Some(active) = active {
            let (stop, outcome) = (active.stop.clone(), active.outcome.clone());
            return Ok(Some(RunHandle {
                id,
                workspace: active.workspace.clone(),
                ignored: Vec::new(),
                events: self.events_of(id, Some(active.log.clone())),
                hold: Hold { stop, detached: true, outcome },
                begun: active.begun.clone(),
                outcome: active.outcome.clone(),
            }));
        }
        let Some(record) = store.run(id).await.map_err(storage)? else { return Ok(None) };
        let (_publish, outcome) = watch::channel(record.outcome);
        Ok(Some(RunHandle {
            id,
            workspace: record.workspace,
            ignored: Vec::new(),
            events: self.events_of(id, None),
            hold: Hold { stop: Stop::default(), detached: true, outcome: outcome.clone() },
            begun: watch::Sender::new(true).subscribe(),
            outcome,
        }))
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

    /// Forgets the conversation that this origin has in this workspace: its next run begins a new one.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn forget_session(&self, workspace: &Workspace, origin: &Origin) -> Result<(), StoreError> {
        self.0.config.store.keep_session(self.0.place(workspace, origin), None).await
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

/// Off the reactor: a schema may be large.
async fn compile(source: Value) -> Result<Schema, Failure> {
    let compiled = tokio::task::spawn_blocking(move || Schema::compile(source)).await;
    compiled.unwrap_or_else(|error| Err(error.to_string())).map_err(|wrong| {
        Failure::new(
            FailureKind::Invalid { field: "json_schema".into() },
            format!("the JSON Schema is not usable: {wrong}"),
        )
    })
}

fn storage(error: StoreError) -> Failure {
    Failure::new(FailureKind::Storage, format!("the run cannot be stored: {error}"))
}
