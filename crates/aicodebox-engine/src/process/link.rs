use std::{
    collections::HashMap,
    ffi::OsString,
    io,
    os::{fd::AsFd, unix::net::UnixStream},
    path::PathBuf,
    process::Stdio,
    time::Duration,
};

use tokio::{
    process::{Child, Command},
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout},
};

use super::{
    launcher::LAUNCHER,
    message::{LauncherOrder, LauncherReport, encode},
    socket::Socket,
    times,
};

/// How the launcher is started.
#[derive(Clone, Debug)]
pub struct LauncherCommand {
    /// A program whose `main` begins with [`run_launcher`](super::run_launcher).
    pub program: PathBuf,
    /// The `argv[0]` that makes it do so.
    pub arg0: OsString,
}

impl Default for LauncherCommand {
    /// This very program, also when its file was replaced meanwhile.
    fn default() -> Self {
        Self { program: "/proc/self/exe".into(), arg0: LAUNCHER.into() }
    }
}

/// What the pool wants from the launcher.
#[derive(Debug)]
pub(super) enum Wish {
    /// A keeper on this socket. `gone` is told what could not be killed after the keeper has died; it is dropped
    /// when the launcher dies too.
    Keeper { id: u64, socket: UnixStream, gone: oneshot::Sender<Vec<i32>> },
    /// The end of a keeper that does not answer.
    Kill { id: u64 },
}

/// The server's side of one launcher, and the task that owns it.
pub(super) struct Link {
    child: Child,
    socket: Socket,
    waiting: HashMap<u64, oneshot::Sender<Vec<i32>>>,
}

impl Link {
    /// Starts a launcher and waits until it is set up.
    pub(super) async fn start(command: &LauncherCommand) -> io::Result<Self> {
        let (mut socket, theirs) = Socket::pair()?;
        let child = Command::new(&command.program)
            .arg0(&command.arg0)
            .env_clear()
            // The launcher expects its socket here.
            .stdin(std::os::fd::OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        let LauncherReport::Ready = timeout(times::START, socket.receive()).await?? else {
            return Err(io::Error::other("the launcher does not speak our language"));
        };
        Ok(Self { child, socket, waiting: HashMap::new() })
    }

    /// Serves wishes until the pool is gone, and starts a new launcher when one dies. Whatever that one's keepers
    /// ran is stopped by the keepers themselves.
    pub(super) async fn serve(mut self, command: LauncherCommand, mut wishes: mpsc::Receiver<Wish>) {
        let mut pause = times::RESTART;
        loop {
            let begin = Instant::now();
            match self.relay(&mut wishes).await {
                Ok(()) => return self.end().await,
                Err(error) => tracing::error!(%error, "the launcher of agents died; its runs are lost"),
            }
            self.child.start_kill().ok();
            self.child.wait().await.ok();
            if begin.elapsed() > times::RESTART_MAX {
                pause = times::RESTART;
            }
            self = loop {
                sleep(pause).await;
                pause = (pause * 2).min(times::RESTART_MAX);
                match Self::start(&command).await {
                    Ok(link) => break link,
                    Err(error) => tracing::error!(%error, "no launcher of agents can be started"),
                }
                // Those that wait for a keeper get an error instead.
                while wishes.try_recv().is_ok() {}
                if wishes.is_closed() {
                    return;
                }
            };
        }
    }

    /// `Ok` when there are no more wishes, an error when the launcher is gone.
    async fn relay(&mut self, wishes: &mut mpsc::Receiver<Wish>) -> io::Result<()> {
        loop {
            tokio::select! {
                wish = wishes.recv() => match wish {
                    Some(Wish::Keeper { id, socket, gone }) => {
                        self.waiting.insert(id, gone);
                        self.order(LauncherOrder::Keep { id }, &[socket.as_fd()]).await?;
                    }
                    Some(Wish::Kill { id }) => self.order(LauncherOrder::Kill { id }, &[]).await?,
                    None => return Ok(()),
                },
                report = self.socket.receive() => match report? {
                    LauncherReport::Ready => {}
                    LauncherReport::Gone { id, stuck } => {
                        // The run may not care any more.
                        self.waiting.remove(&id).map(|gone| gone.send(stuck));
                    }
                },
            }
        }
    }

    async fn order(&self, order: LauncherOrder, fds: &[std::os::fd::BorrowedFd<'_>]) -> io::Result<()> {
        let frame = encode(&order).ok_or(io::ErrorKind::InvalidData)?;
        self.socket.send(&frame, fds).await
    }

    /// The launcher ends by itself when its socket is closed, after everything that it started.
    async fn end(self) {
        let Self { mut child, socket, waiting } = self;
        drop((socket, waiting));
        if timeout(times::FAREWELL + times::SWEEP + Duration::from_secs(1), child.wait()).await.is_err() {
            child.start_kill().ok();
            child.wait().await.ok();
        }
    }
}
