use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use super::wire::{Answer, Hello, HookError, Ready};
use crate::process::Lines;

/// The longest answer; the bridge sends none longer.
const MAX_ANSWER: usize = 96 << 20;
/// The longest line of standard error that is logged whole.
const MAX_LOG_LINE: usize = 4 << 10;
/// Lines of standard error that are kept for the message when the bridge does not start.
const KEPT_LOG_LINES: usize = 20;
/// Calls that wait to be written.
const CALL_QUEUE: usize = 64;
/// A call that takes longer than this asks whether the interpreter still turns, which has as long to say so.
const PATIENCE: Duration = if cfg!(test) { Duration::from_millis(500) } else { Duration::from_secs(4) };

/// The ends of a started bridge process. Dropping `process` kills it with everything that it started.
pub(super) struct Wires {
    pub(super) stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub(super) stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) stderr: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) process: Box<dyn Send>,
}

/// Why a call got no answer from this process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinkError {
    /// The process is gone, or its interpreter hangs and it was killed.
    Died,
    /// No answer in time.
    Late,
    /// The hook's own doing.
    Hook(HookError),
}

/// One bridge process.
pub(super) struct Link {
    calls: mpsc::Sender<Bytes>,
    shared: Arc<Shared>,
    /// Counts down from the end, where the bridge's own count of calls never comes.
    next_ping: AtomicU64,
    /// Writer and readers; they end with the link.
    _tasks: JoinSet<()>,
}

struct Shared {
    /// Who waits for which answer; `None` once the process is gone.
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<Answer>>>>,
    process: Mutex<Option<Box<dyn Send>>>,
    log: Mutex<VecDeque<String>>,
}

impl Link {
    /// Takes over a started process and waits for its first line, at most for `limit`.
    ///
    /// # Errors
    /// Its own words or the end of its standard error when it did not get ready.
    pub(super) async fn start(wires: Wires, limit: Duration) -> Result<(Self, Ready), NotReady> {
        let shared = Arc::new(Shared {
            waiting: Mutex::new(Some(HashMap::new())),
            process: Mutex::new(Some(wires.process)),
            log: Mutex::default(),
        });
        let (calls, queue) = mpsc::channel(CALL_QUEUE);
        let (hello, first) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(write_calls(wires.stdin, queue));
        tasks.spawn(read_answers(wires.stdout, shared.clone(), hello));
        tasks.spawn(read_log(wires.stderr, shared.clone()));
        match timeout(limit, first).await {
            Ok(Ok(Hello::Ready(ready))) => {
                Ok((Self { calls, shared, next_ping: AtomicU64::new(u64::MAX), _tasks: tasks }, ready))
            }
            Ok(Ok(Hello::Failed(message))) => Err(NotReady::Failed(message)),
            Ok(Err(_)) => {
                // What it said last may still be in the pipe; a process that it left behind may hold it open.
                drop(calls);
                let all_read = async { while tasks.join_next().await.is_some() {} };
                let _held_open = timeout(Duration::from_secs(1), all_read).await;
                let lines: Vec<String> = lock(&shared.log).drain(..).collect();
                Err(NotReady::Ended(lines.join("\n")))
            }
            Err(_) => Err(NotReady::Silent),
        }
    }

    /// Whether calls can still be made.
    pub(super) fn is_alive(&self) -> bool {
        lock(&self.shared.waiting).is_some()
    }

    /// Sends one call, a line with its newline, and waits for the answer with the same `id`, at most for `limit`.
    ///
    /// # Errors
    /// [`LinkError`].
    pub(super) async fn call(
        &self,
        id: u64,
        line: Bytes,
        limit: Duration,
    ) -> Result<Box<RawValue>, LinkError> {
        let deadline = Instant::now() + limit;
        let mut answer = self.send(id, line, deadline).await?;
        if limit > PATIENCE {
            match timeout(PATIENCE, &mut answer.receiver).await {
                Ok(received) => return read(received),
                Err(_) => self.check().await?,
            }
        }
        match timeout_at(deadline, &mut answer.receiver).await {
            Ok(received) => read(received),
            Err(_) => Err(LinkError::Late),
        }
    }

    /// Sends a line that has no answer, if there is room for it.
    pub(super) fn tell(&self, line: Bytes) {
        // Only `close` is told; without it the bridge forgets the run when it has kept too many.
        let _lost = self.calls.try_send(line).is_err();
    }

    async fn send(&self, id: u64, line: Bytes, deadline: Instant) -> Result<Waiting<'_>, LinkError> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.shared.waiting).as_mut().ok_or(LinkError::Died)?.insert(id, sender);
        let waiting = Waiting { id, receiver, shared: &self.shared };
        match timeout_at(deadline, self.calls.send(line)).await {
            Ok(Ok(())) => Ok(waiting),
            Ok(Err(_)) => Err(LinkError::Died),
            Err(_) => Err(LinkError::Late),
        }
    }

    /// Kills a process whose interpreter hangs, as a bad regular expression makes it: threads do not help there,
    /// and every run would wait for its deadline.
    async fn check(&self) -> Result<(), LinkError> {
        let id = self.next_ping.fetch_sub(1, Ordering::Relaxed);
        let line = Bytes::from(format!("{{\"id\":{id},\"do\":\"ping\"}}\n"));
        let ping = self.send(id, line, Instant::now() + PATIENCE);
        let turns = async { (&mut ping.await.ok()?.receiver).await.ok() };
        if timeout(PATIENCE, turns).await.ok().flatten().is_some() || !self.is_alive() {
            return Ok(());
        }
        tracing::warn!("the Python adapter's interpreter hangs and is replaced");
        self.shared.close();
        Err(LinkError::Died)
    }
}

/// Why a bridge did not get ready.
#[derive(Debug)]
pub(super) enum NotReady {
    /// It says why.
    Failed(String),
    /// It ended; the end of its standard error.
    Ended(String),
    /// It said nothing in time.
    Silent,
}

impl Shared {
    /// The process is no use any more: kills it and tells everybody who waits.
    fn close(&self) {
        drop(lock(&self.waiting).take());
        drop(lock(&self.process).take());
    }
}

/// An answer that is waited for; forgotten when nobody waits any more.
struct Waiting<'a> {
    id: u64,
    receiver: oneshot::Receiver<Answer>,
    shared: &'a Shared,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = lock(&self.shared.waiting).as_mut() {
            waiting.remove(&self.id);
        }
    }
}

fn read(received: Result<Answer, oneshot::error::RecvError>) -> Result<Box<RawValue>, LinkError> {
    match received {
        Ok(Answer { error: Some(error), .. }) => Err(LinkError::Hook(error)),
        Ok(Answer { ok: Some(ok), .. }) => Ok(ok),
        Ok(Answer { ok: None, error: None, .. }) | Err(_) => Err(LinkError::Died),
    }
}

async fn write_calls(mut stdin: Box<dyn AsyncWrite + Send + Unpin>, mut queue: mpsc::Receiver<Bytes>) {
    while let Some(line) = queue.recv().await {
        if stdin.write_all(&line).await.is_err() {
            // The reader of the answers sees the end, too, and tells those who wait.
            return;
        }
    }
}

async fn read_answers(
    mut stdout: Box<dyn AsyncRead + Send + Unpin>,
    shared: Arc<Shared>,
    hello: oneshot::Sender<Hello>,
) {
    let mut hello = Some(hello);
    let mut lines = Lines::new(MAX_ANSWER);
    let mut chunk = vec![0; 64 << 10];
    let mut sane = true;
    while let Ok(read @ 1..) = stdout.read(&mut chunk).await {
        lines.feed(chunk.get(..read).unwrap_or_default(), |line| {
            sane = sane
                && !line.truncated
                && match hello.take() {
                    Some(hello) => {
                        serde_json::from_slice(line.bytes).is_ok_and(|first| hello.send(first).is_ok())
                    }
                    None => serde_json::from_slice(line.bytes).is_ok_and(|answer| shared.deliver(answer)),
                };
        });
        if !sane {
            tracing::error!("the Python bridge sent a line that is no answer; it is replaced");
            break;
        }
    }
    shared.close();
}

impl Shared {
    /// Gives an answer to the one who waits, who may have given up. An answer to no call is not sane.
    fn deliver(&self, answer: Answer) -> bool {
        let Some(id) = answer.id else { return false };
        let waiting = lock(&self.waiting).as_mut().and_then(|waiting| waiting.remove(&id));
        let _given_up = waiting.map(|waiting| waiting.send(answer));
        true
    }
}

/// What the adapter prints and logs goes to our log, a line each.
async fn read_log(mut stderr: Box<dyn AsyncRead + Send + Unpin>, shared: Arc<Shared>) {
    let mut lines = Lines::new(MAX_LOG_LINE);
    let mut chunk = vec![0; 8 << 10];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        lines.feed(chunk.get(..read).unwrap_or_default(), |line| {
            let line = String::from_utf8_lossy(line.bytes).into_owned();
            tracing::info!(target: "aicodebox::python", "{line}");
            let mut log = lock(&shared.log);
            if log.len() == KEPT_LOG_LINES {
                log.pop_front();
            }
            log.push_back(line);
        });
    }
}

/// Nothing panics while one of these is held, and no half-done change could be seen if it did.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
