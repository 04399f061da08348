use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{
    fault::explain,
    open::connect,
    queue::{Command, Job, Queue, Turn},
    retention::Retention,
    write::{self, Done, Ends, Open},
};
use crate::{
    run::{RunId, RunOutcome},
    store::StoreError,
};

/// From so many pages on, the write-ahead log is brought into the database, beside the writing.
const CHECKPOINT_PAGES: u32 = 1_000;
/// So often at most.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(250);
/// With so many pages (64 MiB) the writer waits for it: beside ever new pages it would never end.
const CHECKPOINT_NOW: u32 = 16_384;
/// How soon an outcome that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// At most so many outcomes wait for another try.
const MAX_UNWRITTEN: usize = 2_048;

/// Outcomes that could not be written yet: readers find them here.
#[derive(Default)]
pub(super) struct Unwritten(Mutex<HashMap<RunId, Arc<RunOutcome>>>);

impl Unwritten {
    pub(super) fn get(&self, id: RunId) -> Option<Arc<RunOutcome>> {
        self.all().get(&id).cloned()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<RunId, Arc<RunOutcome>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ends<'a>(commands: impl Iterator<Item = &'a Command>) -> Ends<'a> {
    let end = |command: &'a Command| match command {
        Command::Finish(id, outcome) => Some((*id, outcome.as_ref())),
        Command::Create(_)
        | Command::Purge(_)
        | Command::KeepSession(..)
        | Command::KeepTotals(..)
        | Command::CallbackTried(..)
        | Command::Keep(_) => None,
    };
    commands.filter_map(end).collect()
}

/// The one that writes: a thread that takes everything that waits into one transaction, and answers after the commit.
pub(super) struct Writer {
    connection: Connection,
    path: PathBuf,
    queue: Arc<Queue>,
    open: Open,
    unwritten: Arc<Unwritten>,
    retention: Retention,
    forget_at: Instant,
    retry_at: Instant,
    wal_pages: Arc<AtomicU32>,
}

impl Writer {
    /// # Errors
    /// When the second connection or a thread cannot be made.
    pub(super) fn start(
        mut connection: Connection,
        path: PathBuf,
        queue: Arc<Queue>,
        unwritten: Arc<Unwritten>,
        retention: Retention,
    ) -> std::io::Result<[thread::JoinHandle<()>; 2]> {
        let (call, called) = sync_channel(1);
        let wal_pages = Arc::new(AtomicU32::new(0));
        watch_wal(&mut connection, wal_pages.clone(), call).map_err(std::io::Error::other)?;
        let checkpoints = connect(&path).map_err(std::io::Error::other)?;
        let now = Instant::now();
        let mut writer = Self {
            connection,
            path,
            queue,
            open: Open::new(),
            unwritten,
            retention,
            forget_at: now + retention.interval(),
            retry_at: now,
            wal_pages,
        };
        let thread = |name: &str| thread::Builder::new().name(name.into());
        Ok([
            thread("store").spawn(move || writer.run())?,
            thread("checkpoints").spawn(move || checkpoint(&checkpoints, &called))?,
        ])
    }

    fn run(&mut self) {
        loop {
            let due = if self.unwritten.all().is_empty() {
                self.forget_at
            } else {
                self.retry_at.min(self.forget_at)
            };
            match self.queue.next(due.saturating_duration_since(Instant::now())) {
                Turn::Write { jobs, events } => self.write(jobs, events),
                Turn::Idle => {}
                Turn::Over => break,
            }
            self.retry();
            self.forget();
            if self.wal_pages.load(Ordering::Relaxed) >= CHECKPOINT_NOW {
                self.checkpoint_now();
            }
        }
        self.retry_at = Instant::now();
        self.retry();
    }

    /// One transaction for all; if it fails, one for each, so that only those fail that must.
    fn write(&mut self, jobs: Vec<Job>, events: bool) {
        // The events that were due have been written with the end of their run.
        if jobs.is_empty() && self.open.values().all(|run| run.log.unwritten().is_empty()) {
            return;
        }
        let together = self.transact(jobs.iter().map(|job| &job.command), events);
        let (alone, only_events) = (jobs.len() == 1 && !events, jobs.is_empty());
        for Job { command, answer } in jobs {
            let result = match &together {
                Err(_) if !alone => self.transact([&command], false),
                result => result.clone(),
            };
            if let Err(error) = &result {
                self.keep_for_later(command, error);
            }
            // Nobody waits any more: it is done all the same.
            let _gone = answer.send(result);
        }
        // Whoever has told of these events does not tell again.
        if together.is_err() && events && (only_events || self.transact([], true).is_err()) {
            self.queue.events_in(RETRY);
        }
    }

    fn transact<'a>(
        &mut self,
        commands: impl IntoIterator<Item = &'a Command, IntoIter: Clone>,
        events: bool,
    ) -> Result<(), StoreError> {
        let commands = commands.into_iter();
        let ends = ends(commands.clone());
        let mut done = Done::default();
        let (connection, open) = (&self.connection, &mut self.open);
        let result = in_transaction(connection, || {
            for command in commands {
                write::command(connection, open, command, &ends, &mut done)?;
            }
            if events {
                // Those that have just ended have written theirs.
                for run in open.iter().filter(|(id, _run)| !done.finished.contains(id)).map(|(_id, run)| run)
                {
                    write::events(connection, run, &mut done.written)?;
                }
            }
            Ok(())
        });
        if let Err(error) = result {
            let error = explain(&error, &self.path);
            tracing::error!(%error, "the store cannot be written");
            return Err(error);
        }
        for (log, last) in done.written {
            log.set_written(last);
        }
        for id in done.finished {
            self.open.remove(&id);
            self.unwritten.all().remove(&id);
        }
        Ok(())
    }

    /// An outcome that could not be written is not lost while the server lives. A run that could not begin is.
    fn keep_for_later(&mut self, command: Command, error: &StoreError) {
        match command {
            Command::Create(run) => {
                self.open.remove(&run.id);
            }
            Command::Finish(id, outcome) if self.open.contains_key(&id) => {
                let mut unwritten = self.unwritten.all();
                if unwritten.len() < MAX_UNWRITTEN {
                    unwritten.insert(id, outcome);
                    self.retry_at = Instant::now() + RETRY;
                } else {
                    self.open.remove(&id);
                    tracing::error!(run = %id, %error, "the outcome of a run is lost: too many cannot be stored");
                }
            }
            Command::Finish(..)
            | Command::Purge(_)
            | Command::KeepSession(..)
            | Command::KeepTotals(..)
            | Command::CallbackTried(..)
            | Command::Keep(_) => {}
        }
    }

    fn retry(&mut self) {
        if self.retry_at > Instant::now() {
            return;
        }
        let waiting: Vec<_> =
            self.unwritten.all().iter().map(|(&id, outcome)| Command::Finish(id, outcome.clone())).collect();
        if waiting.is_empty() {
            return;
        }
        match self.transact(&waiting, false) {
            Ok(()) => {
                tracing::info!(outcomes = waiting.len(), "outcomes that could not be stored are stored now")
            }
            Err(error) => tracing::warn!(outcomes = waiting.len(), %error, "outcomes still cannot be stored"),
        }
        self.retry_at = Instant::now() + RETRY;
    }

    fn forget(&mut self) {
        if self.forget_at > Instant::now() {
            return;
        }
        let step = in_transaction(&self.connection, || self.retention.step(&self.connection));
        let wait = match step {
            // Not at once: those who wait go first.
            Ok(true) => Duration::from_millis(20),
            Ok(false) => self.retention.interval(),
            Err(error) => {
                tracing::error!(error = %explain(&error, &self.path), "old runs cannot be removed");
                self.retention.interval()
            }
        };
        self.forget_at = Instant::now() + wait;
    }

    fn checkpoint_now(&mut self) {
        self.wal_pages.store(0, Ordering::Relaxed);
        let result = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_row| Ok(()));
        if let Err(error) = result {
            tracing::warn!(error = %explain(&error, &self.path), "the write-ahead log cannot be cut");
        }
    }
}

/// Does it as a whole or not at all. rusqlite has its own way, which compiles `BEGIN` and `COMMIT` anew each time: a tenth
/// of what a short run costs here.
fn in_transaction<T>(
    connection: &Connection,
    work: impl FnOnce() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let say = |words| connection.prepare_cached(words)?.execute([]).map(drop);
    // Not deferred: a transaction that has read cannot always be turned into one that writes.
    say("BEGIN IMMEDIATE")?;
    let done = work().and_then(|done| say("COMMIT").map(|()| done));
    // Some errors have ended it already.
    if done.is_err() && !connection.is_autocommit() {
        let _first_error_counts = say("ROLLBACK");
    }
    done
}

/// Counts the pages of the write-ahead log, and calls for a checkpoint when they are many.
fn watch_wal(
    connection: &mut Connection,
    pages: Arc<AtomicU32>,
    call: SyncSender<()>,
) -> rusqlite::Result<()> {
    connection.wal_hook(Some(move |_wal: &mut rusqlite::hooks::Wal, count: std::ffi::c_int| {
        let count = u32::try_from(count).unwrap_or(0);
        pages.store(count, Ordering::Relaxed);
        if count >= CHECKPOINT_PAGES {
            // Full: it has been called already.
            let _called = call.try_send(());
        }
        Ok(())
    }))
}

/// Brings the write-ahead log into the database without holding up the writer: that waits for the disk.
fn checkpoint(connection: &Connection, called: &Receiver<()>) {
    while called.recv().is_ok() {
        let again_at = Instant::now() + CHECKPOINT_PAUSE;
        let result = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_row| Ok(()));
        if let Err(error) = result {
            tracing::warn!(%error, "the write-ahead log could not be brought into the run store");
        }
        // Calls meanwhile need no answer: there will be others, as long as anything is written.
        loop {
            match called.recv_timeout(again_at.saturating_duration_since(Instant::now())) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use tokio::sync::oneshot;

    use super::*;
    use crate::{
        run::{EventSink, Origin, RunEvent},
        store::{EventLog, NewRun, sqlite::open},
    };

    #[test]
    fn events_that_could_not_be_written_are_not_forgotten() {
        let dir = TempDir::new().unwrap();
        let open::Opened { connection, path, .. } = open::open(dir.path()).unwrap();
        connection.busy_timeout(Duration::ZERO).unwrap();
        let (queue, now) = (Arc::new(Queue::default()), Instant::now());
        let mut writer = Writer {
            connection,
            path: path.clone(),
            queue: queue.clone(),
            open: Open::new(),
            unwritten: Arc::default(),
            retention: Retention { ttl: Duration::from_secs(60), max_bytes: 1 << 20 },
            forget_at: now,
            retry_at: now,
            wal_pages: Arc::default(),
        };
        let log = EventLog::stored(queue.clone());
        let run = NewRun::new(RunId::random(), "/w".into(), Origin::Api, log.clone());
        let (answer, _answered) = oneshot::channel();
        writer.write(vec![Job { command: Command::Create(Box::new(run)), answer }], false);
        log.push(RunEvent::Delta("a".into()));
        // As the writer does when their time has come.
        let take = || {
            let turn = queue.next(Duration::from_secs(20));
            assert!(matches!(&turn, Turn::Write { jobs, events: true } if jobs.is_empty()));
        };
        take();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        writer.write(Vec::new(), true);
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(log.written().borrow().last, 0);
        // Nobody tells of this one: the log thinks that the writer will come.
        log.push(RunEvent::Delta("b".into()));
        take();
        writer.write(Vec::new(), true);
        assert_eq!(log.written().borrow().last, 2);
    }
}
