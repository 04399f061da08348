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
/// The record of a run that begins waits this long for others to be written with: for its own end, if the run is short.
pub(super) const BEGIN_WAIT: Duration = Duration::from_millis(3);
/// Events wait this long for others to be written with.
const EVENTS_WAIT: Duration = Duration::from_millis(15);

/// What the writer has to do.
pub(super) enum Command {
    Create(Box<NewRun>),
    Finish(RunId, Arc<RunOutcome>),
    Purge(RunId),
    KeepSession(SessionPlace, Option<SessionId>),
    KeepTotals(SessionId, Option<SessionTotals>),
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
    /// When the jobs have to be written; none = there are none.
    jobs_due: Option<Instant>,
    /// When events have to be written; none = there are none.
    events_due: Option<Instant>,
    /// When the writer, which sleeps, looks again by itself; none = it is awake, and will look before it sleeps.
    looks_at: Option<Instant>,
    closed: bool,
}

/// Sees to it that a run that begins is written in time, also when nobody waits for that any more: when it is dropped,
/// it wakes the writer for what waits.
pub(super) struct Hurry(Option<Arc<Queue>>);

impl Hurry {
    /// It is written.
    pub(super) fn needless(mut self) {
        self.0 = None;
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        let Some(queue) = self.0.take() else { return };
        let state = queue.state();
        if let Some(due) = state.jobs_due {
            queue.rouse(state, due);
        }
    }
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
    /// Gives a command to the writer. The error of a full queue comes as the answer. For a run that begins the writer
    /// is not woken, which costs more than to write it: its end does that, or [`Hurry`].
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
            let begins = matches!(command, Command::Create(_));
            let due = Instant::now() + if begins { BEGIN_WAIT } else { Duration::ZERO };
            state.jobs.push_back(Job { command, answer });
            state.jobs_due = Some(state.jobs_due.map_or(due, |at| at.min(due)));
            if !begins {
                self.rouse(state, due);
            }
        }
        answered
    }

    pub(super) fn hurry(self: &Arc<Self>) -> Hurry {
        Hurry(Some(self.clone()))
    }

    /// Waits for something to do, at most for `patience`.
    pub(super) fn next(&self, patience: Duration) -> Turn {
        let idle_at = Instant::now() + patience;
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let events = state.events_due.take_if(|due| *due <= now).is_some();
            if events || state.jobs_due.is_some_and(|due| due <= now) {
                let count = state.jobs.len().min(MAX_TOGETHER);
                let jobs = state.jobs.drain(..count).collect();
                state.jobs_due = state.jobs_due.filter(|_| !state.jobs.is_empty());
                return Turn::Write { jobs, events };
            }
            if state.closed {
                return Turn::Over;
            }
            if idle_at <= now {
                return Turn::Idle;
            }
            let until = [state.jobs_due, state.events_due].into_iter().flatten().fold(idle_at, Instant::min);
            state.looks_at = Some(until);
            state = self.changed.wait_timeout(state, until - now).unwrap_or_else(PoisonError::into_inner).0;
            state.looks_at = None;
        }
    }

    /// Events have to be written then: for the writer itself, when it could not write them.
    pub(super) fn events_in(&self, time: Duration) {
        self.state().events_due.get_or_insert(Instant::now() + time);
    }

    /// Nothing more comes; what waits is still written.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        // Also what is not due yet.
        let now = Instant::now();
        state.jobs_due = state.jobs_due.map(|_due| now);
        state.events_due = state.events_due.map(|_due| now);
        self.rouse(state, now);
    }

    /// Wakes the writer if it would sleep beyond that.
    fn rouse(&self, mut state: MutexGuard<'_, State>, due: Instant) {
        if state.looks_at.take_if(|at| due < *at).is_some() {
            drop(state);
            self.changed.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Queue {
    fn soon(&self) {
        let mut state = self.state();
        if state.events_due.is_none() {
            let due = Instant::now() + EVENTS_WAIT;
            state.events_due = Some(due);
            // Before a job that waits the writer looks anyway.
            if state.jobs_due.is_none() {
                self.rouse(state, due);
            }
        }
    }

    fn now(&self) {
        let mut state = self.state();
        let now = Instant::now();
        state.events_due = Some(now);
        self.rouse(state, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{run::Origin, store::EventLog};

    fn begin(queue: &Queue) {
        let run = NewRun::new(RunId::random(), "/w".into(), Origin::Api, EventLog::in_memory());
        drop(queue.push(Command::Create(Box::new(run))));
    }

    fn written(queue: &Queue) -> usize {
        match queue.next(Duration::from_secs(20)) {
            Turn::Write { jobs, events: false } => jobs.len(),
            Turn::Write { .. } | Turn::Idle | Turn::Over => panic!("there was something else to do"),
        }
    }

    #[test]
    fn a_short_run_is_written_at_once_with_its_end() {
        let queue = Queue::default();
        begin(&queue);
        drop(queue.push(Command::Purge(RunId::random())));
        assert_eq!(written(&queue), 2);
        begin(&queue);
        let begun = Instant::now();
        assert_eq!(written(&queue), 1, "its end did not come");
        assert!(begun.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn the_events_of_a_run_that_begins_are_no_reason_to_wake_the_writer() {
        let queue = Arc::new(Queue::default());
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| written(&queue));
            while queue.state().looks_at.is_none() {
                std::thread::yield_now();
            }
            begin(&queue);
            queue.soon();
            assert!(queue.state().looks_at.is_some(), "it was woken");
            drop(queue.push(Command::Purge(RunId::random())));
            assert_eq!(writer.join().unwrap(), 2);
            // And they are not forgotten.
            assert!(matches!(queue.next(Duration::from_secs(20)), Turn::Write { events: true, .. }));
        });
    }

    #[test]
    fn a_sleeping_writer_is_woken_for_what_is_due_before_it_looks() {
        let queue = Arc::new(Queue::default());
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| written(&queue));
            while queue.state().looks_at.is_none() {
                std::thread::yield_now();
            }
            let hurry = queue.hurry();
            begin(&queue);
            drop(hurry);
            assert_eq!(writer.join().unwrap(), 1);
        });
    }
}
