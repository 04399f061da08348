//! How a run is accepted.

use std::{
    future::pending,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;
use tracing::Instrument;

use super::{
    Active, Engine, Schema, WhenBusy,
    gate::GateClosed,
    handle::{Hold, RunHandle},
    runner::Runner,
    storage,
};
use crate::{
    process::Stop,
    run::{AnswerCheck, Claim, EndedBy, Failure, FailureKind, RunId, RunRequest, SessionChoice},
    store::NewRun,
};

impl Engine {
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
            (None, Some(source)) => {
                let schema = Schema::compile_aside(source).await.map_err(|wrong| {
                    Failure::new(FailureKind::Invalid { field: "json_schema".into() }, wrong)
                })?;
                Some(Arc::new(schema) as Arc<dyn AnswerCheck>)
            }
            (None, None) => None,
        };
        if check.is_some() && !self.0.can_check() {
            return Err(Failure {
                retry_after: Some(Duration::from_secs(60)),
                ..Failure::new(
                    FailureKind::QueueFull,
                    "checks of earlier answers were given up and have not ended: no more are begun before one has",
                )
            });
        }
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
            forgotten: AtomicBool::new(false),
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
