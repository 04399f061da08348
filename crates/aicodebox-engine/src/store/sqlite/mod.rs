//! Runs in an SQLite database: one thread writes, a few connections read, and nothing waits for the disk in between.

mod block;
mod convert;
mod fault;
mod ledger;
mod open;
mod outcome;
mod queue;
mod read;
mod reads;
mod retention;
mod schema;
mod write;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, SystemTime},
};

use nix::fcntl::Flock;
use tokio::{sync::oneshot::error::RecvError, time::timeout};

pub use self::open::OpenError;
use self::{
    queue::{BEGIN_WAIT, Command, Queue},
    reads::Reads,
    retention::Retention,
    writer::{Unwritten, Writer},
};
use super::{
    Callback, EventLog, LoggedEvent, NewRun, RunFilter, RunPage, RunRecord, SessionPlace, Store, StoreError,
    Stored,
};
use crate::run::{RunId, RunOutcome, SessionId, SessionTotals};

/// A disk that has not answered for so long is taken for one that will not.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where and how much.
#[derive(Clone, Debug)]
pub struct SqliteConfig {
    /// The directory of the database, made if it is missing; nobody else may look into it.
    pub dir: PathBuf,
    /// How long a finished run is kept.
    pub ttl: Duration,
    /// How many bytes the database may have. Beyond that the events of the oldest finished runs go, then the runs.
    pub max_bytes: u64,
}

/// Keeps everything in a database. Only one process can have it open.
///
/// Written is what a killed server leaves behind (`synchronous=NORMAL`: a crash of the machine may cost the last
/// moments, never the database).
pub struct SqliteStore {
    queue: Arc<Queue>,
    reads: Reads,
    unwritten: Arc<Unwritten>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    _lock: Flock<fs::File>,
}

impl SqliteStore {
    /// Opens it, and turns what was running into interrupted. Blocks on the disk.
    ///
    /// # Errors
    /// When another process has it, when a newer version has written it, or when its files cannot be used. One that is
    /// damaged is no error: it is renamed, and the log says so.
    pub fn open(config: SqliteConfig) -> Result<Self, OpenError> {
        let SqliteConfig { dir, ttl, max_bytes } = config;
        let opened = open::open(&dir)?;
        let queue = Arc::new(Queue::default());
        let unwritten = Arc::new(Unwritten::default());
        let threads = Writer::start(
            opened.connection,
            opened.path.clone(),
            queue.clone(),
            unwritten.clone(),
            Retention { ttl, max_bytes },
        )
        .map_err(|source| OpenError::Io { path: opened.path.clone(), source })?;
        Ok(Self {
            queue,
            reads: Reads::new(opened.path),
            unwritten,
            threads: Mutex::new(threads.into()),
            _lock: opened.lock,
        })
    }

    fn write(&self, command: Command) -> Stored<'_, ()> {
        let answered = self.queue.push(command);
        Box::pin(patiently(answered))
    }
}

/// The writer's answer, if it comes in time.
async fn patiently(
    answered: impl Future<Output = Result<Result<(), StoreError>, RecvError>>,
) -> Result<(), StoreError> {
    match timeout(PATIENCE, answered).await {
        Ok(answer) => said(answer),
        Err(_elapsed) => Err(StoreError("the disk of the run store does not answer".into())),
    }
}

fn said(answer: Result<Result<(), StoreError>, RecvError>) -> Result<(), StoreError> {
    answer.unwrap_or_else(|_gone| Err(StoreError("the store was closed".into())))
}

impl Drop for SqliteStore {
    /// Writes what waits.
    fn drop(&mut self) {
        self.queue.close();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the run store has panicked");
            }
        }
    }
}

impl Store for SqliteStore {
    fn log(&self) -> Arc<EventLog> {
        EventLog::stored(self.queue.clone())
    }

    fn create(&self, run: NewRun) -> Stored<'_, ()> {
        let hurry = self.queue.hurry();
        let mut answered = self.queue.push(Command::Create(Box::new(run)));
        Box::pin(async move {
            if let Ok(answer) = timeout(BEGIN_WAIT, &mut answered).await {
                hurry.needless();
                return said(answer);
            }
            drop(hurry);
            patiently(answered).await
        })
    }

    fn finish(&self, id: RunId, outcome: Arc<RunOutcome>) -> Stored<'_, ()> {
        self.write(Command::Finish(id, outcome))
    }

    fn run(&self, id: RunId) -> Stored<'_, Option<RunRecord>> {
        Box::pin(async move {
            let mut record = self.reads.read(move |connection| read::run(connection, id)).await?;
            if let Some(record) = record.as_mut().filter(|record| record.outcome.is_none()) {
                record.outcome = self.unwritten.get(id);
            }
            Ok(record)
        })
    }

    fn runs(&self, filter: RunFilter) -> Stored<'_, RunPage> {
        Box::pin(self.reads.read(move |connection| read::runs(connection, &filter)))
    }

    fn events(&self, id: RunId, after: u64) -> Stored<'_, Vec<Arc<LoggedEvent>>> {
        Box::pin(self.reads.read(move |connection| read::events(connection, id, after)))
    }

    fn purge(&self, id: RunId) -> Stored<'_, ()> {
        self.write(Command::Purge(id))
    }

    fn claimed<'a>(&'a self, scope: &'a [u8; 32], key: &'a str) -> Stored<'a, Option<(RunId, [u8; 32])>> {
        let (scope, key) = (*scope, key.to_owned());
        Box::pin(self.reads.read(move |connection| read::claimed(connection, &scope, &key)))
    }

    fn session<'a>(&'a self, place: &'a SessionPlace) -> Stored<'a, Option<SessionId>> {
        let place = place.clone();
        Box::pin(self.reads.read(move |connection| read::session(connection, &place)))
    }

    fn keep_session(&self, place: SessionPlace, id: Option<SessionId>) -> Stored<'_, ()> {
        self.write(Command::KeepSession(place, id))
    }

    fn totals<'a>(&'a self, id: &'a SessionId) -> Stored<'a, Option<SessionTotals>> {
        let id = id.clone();
        Box::pin(self.reads.read(move |connection| read::totals(connection, &id)))
    }

    fn keep_totals(&self, id: SessionId, totals: Option<SessionTotals>) -> Stored<'_, ()> {
        self.write(Command::KeepTotals(id, totals))
    }

    fn callbacks(&self, now: SystemTime) -> Stored<'_, (Vec<Callback>, Option<SystemTime>)> {
        Box::pin(self.reads.read(move |connection| read::callbacks(connection, now)))
    }

    fn callback_tried(&self, id: RunId, next: Option<SystemTime>) -> Stored<'_, ()> {
        self.write(Command::CallbackTried(id, next))
    }
}
