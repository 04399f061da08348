use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::{Instant, timeout},
};
use tokio_util::task::TaskTracker;

use super::{
    Launch, Limits, Output, Running, SpawnError, Stdin, Stop,
    error::length,
    link::{LauncherCommand, Link, Wish},
    message::{self, Order, Report, Start, Text},
    pipes::Pipes,
    socket::Socket,
    supervise::unstarted,
    times,
};
use crate::run::{EndedBy, Exit};

/// How many new keepers are tried for one start.
const ATTEMPTS: usize = 3;

/// Starts at the same time, per processor. More would only make each other, and every surface, wait: 200 starts at once
/// kept a health probe waiting for 0.1 s.
const STARTS: usize = 4;

/// Wishes that may wait for the launcher.
const WISHES: usize = 64;

/// Starts processes: the launcher and the keepers, reused in the order last in, first out. Clones share them.
/// When the last clone is dropped, or after [`Pool::close`], launcher, keepers and all that they run end.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    idle: Mutex<Idle>,
    /// One permit per keeper.
    permits: Arc<Semaphore>,
    /// One permit per start that is under way.
    starts: Semaphore,
    ids: AtomicU64,
    null: OwnedFd,
    link: TaskTracker,
}

#[derive(Debug)]
struct Idle {
    keepers: Vec<Keeper>,
    /// `None` after [`Pool::close`].
    launcher: Option<mpsc::Sender<Wish>>,
}

/// The server's side of a keeper. Dropped, it makes the keeper kill all that it runs, and end.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) id: u64,
    pub(super) socket: Socket,
    /// Told, after its death, what could not be killed.
    pub(super) gone: oneshot::Receiver<Vec<i32>>,
}

impl Pool {
    /// Starts the launcher, and starts it again when it dies. At most `max_keepers` processes run at once;
    /// further ones wait.
    pub async fn start(command: LauncherCommand, max_keepers: usize) -> io::Result<Self> {
        let link = Link::start(&command).await?;
        let (launcher, wishes) = mpsc::channel(WISHES);
        let null = std::fs::File::open("/dev/null")?.into();
        let shared = Shared {
            idle: Mutex::new(Idle { keepers: Vec::new(), launcher: Some(launcher) }),
            permits: Arc::new(Semaphore::new(max_keepers.min(Semaphore::MAX_PERMITS))),
            starts: Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from) * STARTS),
            ids: AtomicU64::new(0),
            null,
            link: TaskTracker::new(),
        };
        shared.link.spawn(link.serve(command, wishes));
        shared.link.close();
        Ok(Self(Arc::new(shared)))
    }

    /// Runs a process to its end: waits for a keeper, starts it, feeds and drains its pipes, and stops it and
    /// everything that it started by limit, request, or the reader's word. Returns after the last process is gone.
    ///
    /// Dropping the future kills the run without grace.
    pub async fn supervise(
        &self,
        launch: Launch,
        limits: Limits,
        stop: &Stop,
        output: &mut dyn Output,
    ) -> Result<Exit, SpawnError> {
        let begin = Instant::now();
        let mut requests = stop.watch();
        let permit = tokio::select! {
            biased;
            Ok(asked) = requests.wait_for(|requests| requests.reason.is_some()) => {
                let reason = asked.reason.unwrap_or(EndedBy::Cancelled);
                return Ok(unstarted(reason, begin.elapsed()));
            }
            permit = self.permit() => permit?,
        };
        let running = self.spawn_with(permit, launch).await?;
        Ok(running.drive(limits, stop, output).await)
    }

    /// Starts a process and leaves its pipes to the caller. Waits while `max_keepers` processes run.
    pub async fn spawn(&self, launch: Launch) -> Result<Running, SpawnError> {
        let permit = self.permit().await?;
        self.spawn_with(permit, launch).await
    }

    /// No more processes: launcher and keepers kill what they run and end. Returns when they are gone.
    pub async fn close(&self) {
        self.0.permits.close();
        let closed = {
            let mut idle = self.idle();
            idle.launcher = None;
            std::mem::take(&mut idle.keepers)
        };
        drop(closed);
        self.0.link.wait().await;
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, SpawnError> {
        Arc::clone(&self.0.permits).acquire_owned().await.map_err(|_| closed())
    }

    async fn spawn_with(
        &self,
        permit: OwnedSemaphorePermit,
        mut launch: Launch,
    ) -> Result<Running, SpawnError> {
        let frame = frame(&launch)?;
        let _turn = self.0.starts.acquire().await.map_err(|_| closed())?;
        let (pipes, ends) = Pipes::open(std::mem::replace(&mut launch.stdin, Stdin::Null))?;
        let stdin = ends.stdin.as_ref().map_or(self.0.null.as_fd(), AsFd::as_fd);
        let fds = [stdin, ends.stdout.as_fd(), ends.stderr.as_fd()];
        let started = Instant::now();
        let mut attempts = 0;
        while attempts < ATTEMPTS {
            let idle = self.idle().keepers.pop();
            let mut keeper = match idle {
                Some(keeper) => keeper,
                None => {
                    attempts += 1;
                    self.new_keeper().await?
                }
            };
            match timeout(times::START, start(&mut keeper, &frame, &fds)).await {
                Ok(Ok(Report::Started { pid })) => {
                    return Ok(Running {
                        pid,
                        pipes,
                        keeper,
                        lost: None,
                        started,
                        plan: launch.stop,
                        pool: self.clone(),
                        _permit: permit,
                    });
                }
                Ok(Ok(Report::NotStarted { stage, errno })) => {
                    self.put_back(keeper);
                    return Err(SpawnError::from_report(&launch, stage, errno));
                }
                Ok(Ok(Report::Ended(_))) => return Err(SpawnError::Lost("a report out of turn".to_owned())),
                // It died before it had read the order, so nothing was started.
                Ok(Err(error)) if unread(&error) => {}
                Ok(Err(error)) => return Err(SpawnError::Lost(error.to_string())),
                Err(_) => return Err(SpawnError::Lost(format!("no answer in {:?}", times::START))),
            }
        }
        Err(SpawnError::Lost("its keepers die before they start anything".to_owned()))
    }

    async fn new_keeper(&self) -> Result<Keeper, SpawnError> {
        let launcher = self.idle().launcher.clone().ok_or_else(closed)?;
        let id = self.0.ids.fetch_add(1, Ordering::Relaxed);
        let (socket, theirs) = Socket::pair()?;
        let (sender, gone) = oneshot::channel();
        let wish = Wish::Keeper { id, socket: theirs, gone: sender };
        launcher.send(wish).await.map_err(|_| closed())?;
        Ok(Keeper { id, socket, gone })
    }

    /// Takes back a keeper that has no descendant left.
    pub(super) fn put_back(&self, keeper: Keeper) {
        let mut idle = self.idle();
        if idle.launcher.is_some() {
            idle.keepers.push(keeper);
        }
    }

    /// Has the launcher kill a keeper that does not answer.
    pub(super) fn kill(&self, id: u64) {
        let launcher = self.idle().launcher.clone();
        if launcher.is_some_and(|launcher| launcher.try_send(Wish::Kill { id }).is_err()) {
            tracing::error!(keeper = id, "the launcher takes no orders; a wedged keeper stays");
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Idle> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> SpawnError {
    SpawnError::Lost("no more processes are started".to_owned())
}

fn frame(launch: &Launch) -> Result<Vec<u8>, SpawnError> {
    let text = message::text_of(launch).ok_or(SpawnError::Nul)?;
    let start = Start {
        text: Text(&text),
        args: launch.args.len(),
        rlimits: launch.rlimits.clone(),
        no_new_privs: launch.no_new_privs,
    };
    message::encode(&Order::Start(start)).ok_or_else(|| SpawnError::TooBig { bytes: length(launch) })
}

async fn start(keeper: &mut Keeper, frame: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<Report> {
    keeper.socket.send(frame, fds).await?;
    keeper.socket.receive().await
}

fn unread(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}
