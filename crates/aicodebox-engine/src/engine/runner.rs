use std::{
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::watch;

use super::{
    Active, Inner,
    attempt::{Attempted, Prepared},
    gate::Ticket,
    schema_run::Checked,
    storage,
};
use crate::{
    adapter::PlanError,
    process::Stop,
    run::{
        AgentFault, AnswerCheck, Attempt, EndedBy, EventSink, Failure, FailureKind, Finish, Notice, RunEvent,
        RunId, RunOutcome, RunRequest, SessionChoice, SessionId, Stage, Tokens, Usage, Verdict,
    },
    store::{EventLog, SessionPlace},
};

/// One run, from its acceptance to its outcome.
pub(super) struct Runner {
    pub(super) engine: Arc<Inner>,
    pub(super) id: RunId,
    pub(super) request: RunRequest,
    pub(super) log: Arc<EventLog>,
    pub(super) stop: Stop,
    /// When it was accepted.
    accepted: Instant,
    /// When its first process was asked for; the deadline counts from here.
    pub(super) begun: Option<Instant>,
    /// Whether a process has been started; tells those who wait for that.
    pub(super) begins: watch::Sender<bool>,
    /// The request said "continue", before that was resolved to a session.
    pub(super) continues: bool,
    pub(super) check: Option<Arc<dyn AnswerCheck>>,
    /// How often an answer was not accepted and the agent was asked again.
    pub(super) retries: usize,
    /// The prompt for an agent that knows the conversation, once the other one may have taken its place.
    next_prompt: Option<(String, Vec<PathBuf>)>,
    /// The task as a whole, once the prompt has been rewritten.
    pub(super) task: Option<String>,
    /// The conversation of the first attempt: the one that callers may go on with.
    pub(super) first_session: Option<SessionId>,
    pub(super) parsed: Option<Value>,
    attempts: Vec<Attempt>,
    usage: Sum,
}

/// What all attempts consumed together.
#[derive(Default)]
struct Sum {
    known: Option<Usage>,
    /// One attempt did not say: the sum would be too small.
    incomplete: bool,
}

impl Runner {
    pub(super) fn new(
        engine: Arc<Inner>,
        id: RunId,
        request: RunRequest,
        log: Arc<EventLog>,
        check: Option<Arc<dyn AnswerCheck>>,
    ) -> Self {
        let continues = request.session == SessionChoice::Continue;
        Self {
            engine,
            id,
            request,
            log,
            stop: Stop::default(),
            accepted: Instant::now(),
            begun: None,
            begins: watch::Sender::new(false),
            continues,
            check,
            retries: 0,
            next_prompt: None,
            task: None,
            first_session: None,
            parsed: None,
            attempts: Vec::new(),
            usage: Sum::default(),
        }
    }

    /// How many attempts have ended.
    pub(super) fn attempts(&self) -> u32 {
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Resolves the session and makes the plan of the next attempt.
    pub(super) async fn prepare(&mut self) -> Result<Prepared, Failure> {
        if self.continues {
            self.request.session = if self.engine.config.adapter.info().capabilities.sessions {
                let last = self.last_session().await?;
                last.map_or(SessionChoice::Fresh { keep: true }, SessionChoice::Resume)
            } else {
                // An agent that reports no id continues its newest conversation by itself, if its file says so.
                SessionChoice::Continue
            };
            self.choose_prompt();
        }
        // A conversation that a check may need again has to be kept for as long as its temporary workspace.
        if self.check.is_some()
            && self.request.workspace.ephemeral()
            && self.request.session == (SessionChoice::Fresh { keep: false })
        {
            self.request.session = SessionChoice::Fresh { keep: true };
        }
        self.plan().await
    }

    /// An agent that does not know the conversation is told all of it.
    fn choose_prompt(&mut self) {
        let Some(whole) = &self.request.whole_prompt else { return };
        let next = self
            .next_prompt
            .get_or_insert_with(|| (self.request.prompt.clone(), self.request.images.clone()));
        let known = match self.request.session {
            SessionChoice::Resume(_) => true,
            SessionChoice::Fresh { .. } => false,
            SessionChoice::Continue => self.engine.config.adapter.info().has_sessions,
        };
        (self.request.prompt, self.request.images) =
            if known { next.clone() } else { (whole.clone(), self.request.whole_images.clone()) };
    }

    /// Waits for its place, runs, and tells everybody. The workspace is free before anybody can know that the run
    /// is over: who asks again at once must not find it busy.
    pub(super) async fn run(
        mut self,
        mut ticket: Ticket,
        prepared: Result<Prepared, Failure>,
        active: Arc<Active>,
        publish: watch::Sender<Option<Arc<RunOutcome>>>,
    ) {
        let work = async {
            let waited = ticket.waits();
            if waited {
                self.log.push(RunEvent::Status(Stage::Queued));
            }
            let mut stopped = self.stop.watch();
            tokio::select! {
                () = ticket.called() => {
                    active.queued.store(false, Ordering::Relaxed);
                    self.log.push(RunEvent::Status(Stage::Running));
                }
                _ = stopped.wait_for(|requests| requests.reason.is_some()) => {}
            }
            self.attempts_until_done(prepared, waited).await
        };
        let outcome = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_panic| {
            let failure = Failure::new(
                FailureKind::Agent(AgentFault::Internal),
                "a fault in the gateway ended this run; its log says where",
            );
            self.outcome(Verdict::Failed(failure), None)
        });
        let outcome = Arc::new(outcome);
        self.engine.config.store.finish(self.id, outcome.clone()).await.unwrap_or_else(|error| {
            tracing::error!(run = %self.id, %error, "the outcome of a run could not be stored");
        });
        self.log_summary(&outcome);
        self.engine.stats.ended(&self.request.origin, &outcome);
        if self.request.callback.is_some() {
            self.engine.callback.notify_one();
        }
        drop(ticket);
        self.engine.active().remove(&self.id);
        self.log.close();
        publish.send_replace(Some(outcome));
        if self.request.workspace.ephemeral() {
            // Removing a tree may take long.
            let workspace = self.request.workspace;
            self.engine.tracker.spawn_blocking(move || drop(workspace));
        }
    }

    async fn attempts_until_done(&mut self, prepared: Result<Prepared, Failure>, waited: bool) -> RunOutcome {
        if let Some(reason) = self.stop.requested().reason {
            return self.outcome(Verdict::Failed(stopped(reason)), None);
        }
        // While this run waited, another may have moved the conversation on.
        let prepared = if waited && self.continues { self.prepare().await } else { prepared };
        let mut prepared = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return self.outcome(Verdict::Failed(failure), None),
        };
        loop {
            let mut attempted = self.attempt(prepared).await;
            let again = self.forgotten(&attempted).await || {
                self.remember(&attempted).await;
                matches!(self.check_answer(&mut attempted).await, Checked::Again)
            };
            self.count(&attempted);
            if !again {
                return self.outcome(attempted.verdict.clone(), Some(attempted));
            }
            prepared = match self.prepare().await {
                Ok(prepared) => prepared,
                Err(failure) => return self.outcome(Verdict::Failed(failure), Some(attempted)),
            };
        }
    }

    /// Whether the agent no longer knows a conversation that nobody asked for by its id: its state was not kept, or
    /// the conversation never got so far. Then a new one is begun, rather than failing for ever.
    async fn forgotten(&self, attempted: &Attempted) -> bool {
        let resumed = matches!(self.request.session, SessionChoice::Resume(_));
        if !(resumed && self.continues && attempted.fault() == Some(AgentFault::SessionNotFound)) {
            return false;
        }
        self.engine.config.store.keep_session(self.place(), None).await.unwrap_or_else(not_remembered);
        self.log.push(RunEvent::Notice(Notice {
            code: "session".into(),
            message: "the last conversation of this workspace is gone; a new one was begun".into(),
        }));
        true
    }

    fn count(&mut self, attempted: &Attempted) {
        if let Some(exit) = &attempted.exit {
            self.engine.stats.exited(exit);
        }
        match (&mut self.usage.known, &attempted.usage) {
            (Some(sum), Some(usage)) => sum.add(usage),
            (None, Some(usage)) => self.usage.known = Some(usage.clone()),
            // It never got to the model.
            (_, None) if attempted.fault() == Some(AgentFault::SessionNotFound) => {}
            (_, None) => self.usage.incomplete = true,
        }
        self.attempts.push(Attempt {
            usage: attempted.usage.clone(),
            exit_code: attempted.exit_code(),
            parse_error: attempted.parse_error.clone(),
        });
    }

    fn outcome(&mut self, verdict: Verdict, last: Option<Attempted>) -> RunOutcome {
        let exit_code = match &last {
            Some(attempted) => attempted.exit_code(),
            None => super::attempt::exit_code(&verdict, None),
        };
        let (text, session, finish, exit) = match last {
            Some(last) => (last.text, self.first_session.take().or(last.session), last.finish, last.exit),
            None => (String::new(), None, Finish::Stop, None),
        };
        RunOutcome {
            id: self.id,
            verdict,
            text,
            parsed: self.parsed.take(),
            finish,
            session,
            usage: self.usage.known.take().filter(|_| !self.usage.incomplete),
            attempts: std::mem::take(&mut self.attempts),
            exit_code,
            exit,
            took: self.accepted.elapsed(),
        }
    }

    fn place(&self) -> SessionPlace {
        self.engine.place(&self.request.workspace, &self.request.origin)
    }

    async fn last_session(&self) -> Result<Option<SessionId>, Failure> {
        let last = self.engine.config.store.session(&self.place()).await.map_err(storage)?;
        Ok(last.filter(SessionId::is_usable))
    }

    /// Keeps what the next run needs, also after a failure: a conversation that ran into its limit goes on.
    async fn remember(&mut self, attempted: &Attempted) {
        let Some(session) = &attempted.session else { return };
        if !session.is_usable() {
            self.log.push(RunEvent::Notice(Notice {
                code: "session".into(),
                message:
                    "the agent reported a session id that it could not be given again; the next run begins \
                          a new conversation"
                        .into(),
            }));
            return;
        }
        self.first_session.get_or_insert_with(|| session.clone());
        let store = &self.engine.config.store;
        let totals = async {
            if let Some(totals) = attempted.totals.as_ref().filter(|_| attempted.ended_by_itself()) {
                let totals = Some(totals.clone());
                store.keep_totals(session.clone(), totals).await.unwrap_or_else(not_remembered);
            }
        };
        let conversation = async {
            let kept = self.request.session != (SessionChoice::Fresh { keep: false });
            if kept && !self.request.workspace.ephemeral() {
                store.keep_session(self.place(), Some(session.clone())).await.unwrap_or_else(not_remembered);
                // Asked afterwards: it may have been forgotten while it was being written.
                if self.engine.active().get(&self.id).is_some_and(|run| run.forgotten.load(Ordering::SeqCst))
                {
                    store.keep_session(self.place(), None).await.unwrap_or_else(not_remembered);
                }
            }
        };
        // Asked for together, they are written in one transaction.
        tokio::join!(totals, conversation);
    }

    fn log_summary(&self, outcome: &RunOutcome) {
        let (verdict, exit) = (outcome.status().name(), outcome.exit.as_ref());
        let tokens = outcome.usage.as_ref().map_or(Tokens::default(), |usage| usage.tokens);
        tracing::info!(
            run = %self.id,
            origin = self.request.origin.surface(),
            verdict,
            took_ms = u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX),
            exit = outcome.exit_code,
            ended_by = exit.map(|exit| tracing::field::debug(exit.ended_by)),
            swept = exit.map(|exit| exit.swept),
            input = tokens.input,
            output = tokens.output,
            "run ended"
        );
    }
}

/// The failure of a run that was stopped for that reason.
pub(super) fn stopped(reason: EndedBy) -> Failure {
    let (kind, message) = match reason {
        EndedBy::Deadline => (FailureKind::Deadline, "timed out"),
        EndedBy::Idle => (FailureKind::Idle, "printed nothing for too long"),
        EndedBy::Shutdown => (FailureKind::Shutdown, "interrupted: the server was shut down"),
        EndedBy::Lost => (FailureKind::Signal(9), "the supervisor of this run was killed"),
        EndedBy::Cancelled | EndedBy::Itself | EndedBy::Finished | EndedBy::Abort => {
            (FailureKind::Cancelled, "cancelled")
        }
    };
    Failure::new(kind, message)
}

/// What a failed plan means for the run.
pub(super) fn unplannable(error: PlanError) -> Failure {
    let message = error.to_string();
    let kind = match error {
        PlanError::Refused { field, .. } => FailureKind::Invalid { field: field.into() },
        PlanError::TooLong { field, .. } => FailureKind::TooLong { field: field.into() },
        PlanError::Program { code, .. } => FailureKind::Spawn { code },
        PlanError::Adapter(_) => FailureKind::Agent(AgentFault::Internal),
    };
    Failure::new(kind, message)
}

/// The next run begins a new conversation, or reports no usage: not worth losing the answer.
pub(super) fn not_remembered(error: crate::store::StoreError) {
    tracing::error!(%error, "a session could not be remembered");
}
