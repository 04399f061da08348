use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::oneshot;

use super::ledger::Keep;
use crate::{
    run::{RunId, RunOutcome, SessionId, SessionTotals},
    store::{NewRun, SessionPlace, StoreError, log::Wake},
};

/// At most this many commands wait.
const MAX_WAITING: usize = 16_384;
/// At most this many share a transaction.
const MAX_TOGETHER: usize = 256;
/// Events wait this long for others to be written with.
const EVENTS_WAIT: Duration = Duration::from_millis(15);

/// What the writer has to do.
pub(super) enum Command {
    Create(Box<NewRun>),
    Finish(RunId, Arc<RunOutcome>),
    Purge(RunId),
    KeepSession(SessionPlace, Option<SessionId>),
    KeepTotals(SessionId, SessionTotals),
    CallbackTried(RunId, Option<SystemTime>),
    Keep(Keep),
}

/// A command, and who waits for it.
pub(super) struct Job {
    pub(super) command: Command,
    pub(super) answer: oneshot::Sender<Result<(), StoreError>>,
}

/// What waits for the writer.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// When events have to be written; none = there are none.
    events_due: Option<Instant>,
    closed: bool,
}

/// What the writer does next.
pub(super) enum Turn {
    /// These, in one transaction; `events` = and the events of all runs.
    Write { jobs: Vec<Job>, events: bool },
    /// Nothing had to be done for a while.
    Idle,
    /// Nothing more will come.
    Over,
}

impl Queue {
    /// Gives a command to the writer. The error of a full queue comes as the answer.
    pub(super) fn push(&self, command: Command) -> oneshot::Receiver<Result<(), StoreError>> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.state();
        if state.jobs.len() >= MAX_WAITING || state.closed {
            let text =
                if state.closed { "the store is closed" } else { "the store does not keep up with the runs" };
            drop(state);
            // The receiver is ours.
            let _ours = answer.send(Err(StoreError(text.into())));
        } else {
            state.jobs.push_back(Job { command, answer });
            drop(state);
            self.changed.notify_one();
        }
        answered
    }

    /// Waits for something to do, at most for `patience`.
    pub(super) fn next(&self, patience: Duration) -> Turn {
        let idle_at = Instant::now() + patience;
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let events = state.events_due.is_some_and(|due| due <= now);
            if events || !state.jobs.is_empty() {
                if events {
                    state.events_due = None;
                }
                let count = state.jobs.len().min(MAX_TOGETHER);
                return Turn::Write { jobs: state.jobs.drain(..count).collect(), events };
            }
            if state.closed {
                return Turn::Over;
            }
            if idle_at <= now {
                return Turn::Idle;
            }
            let wait = state.events_due.map_or(idle_at, |due| due.min(idle_at)) - now;
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Nothing more comes; what waits is still written.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        // Also what is not due yet.
        state.events_due = state.events_due.map(|_due| Instant::now());
        drop(state);
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Queue {
    fn soon(&self) {
        let mut state = self.state();
        if state.events_due.is_none() {
            state.events_due = Some(Instant::now() + EVENTS_WAIT);
            drop(state);
            self.changed.notify_one();
        }
    }

    fn now(&self) {
        self.state().events_due = Some(Instant::now());
        self.changed.notify_one();
    }
}
