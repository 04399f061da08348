use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags},
    sys::{
        prctl,
        signal::{Signal, kill},
    },
    unistd::Pid,
};

use super::{
    StopPlan,
    leader::Spawner,
    message::{Ended, Order, Report, Start},
    sweep::sweep,
    sys::{self, Waited},
    times,
    wire::Wire,
};

/// Starts one leader at a time and owns its whole tree: the subreaper of all that the leader starts. A keeper
/// whose sweep reached `ECHILD` has no descendant left and serves the next run; any other ends.
pub(super) struct Keeper<'a> {
    server: Wire,
    server_pidfd: BorrowedFd<'a>,
    /// At its end when the launcher is dead or says farewell.
    launcher: BorrowedFd<'a>,
    spawner: Spawner,
}

/// Who is still there.
#[derive(Clone, Copy, Debug, Default)]
struct Signs {
    /// The server sent something, or closed its end.
    server: bool,
    /// Server or launcher are gone: stop everything.
    abandoned: bool,
}

/// Why the watch over a leader is over.
enum Watched {
    /// It ended with this wait status.
    Over(i32),
    /// Everything is to be killed.
    Kill { abandoned: bool },
}

impl<'a> Keeper<'a> {
    pub(super) fn new(
        socket: OwnedFd,
        server_pidfd: BorrowedFd<'a>,
        launcher: BorrowedFd<'a>,
    ) -> io::Result<Self> {
        prctl::set_child_subreaper(true)?;
        prctl::set_name(c"aicodebox-keep")?;
        Ok(Self { server: Wire::new(socket), server_pidfd, launcher, spawner: Spawner::new() })
    }

    /// Serves runs until the server closes the socket, or server or launcher are gone.
    pub(super) fn serve(&mut self) -> io::Result<()> {
        loop {
            let signs = self.poll(None)?;
            if signs.abandoned {
                return Ok(());
            }
            if !signs.server {
                continue;
            }
            let Some(bytes) = self.server.receive()? else { return Ok(()) };
            match postcard::from_bytes(&bytes).map_err(io::Error::other)? {
                Order::Start(start) => {
                    if !self.run(&start)? {
                        return Ok(());
                    }
                }
                // It crossed the report of the end.
                Order::Stop(_) | Order::Kill => {}
            }
        }
    }

    /// One run. Returns whether the keeper may serve another.
    fn run(&mut self, start: &Start<'_>) -> io::Result<bool> {
        let stdio = [self.server.take_fd()?, self.server.take_fd()?, self.server.take_fd()?];
        let started = self.spawner.start(start, &stdio)?;
        // Only the run may hold its pipes: their end of file is the server's sign that it is over.
        drop(stdio);
        let leader = match started {
            Ok(leader) => leader,
            Err(refused) => {
                let report = Report::NotStarted { stage: refused.stage, errno: refused.errno };
                return self.server.send(&report).map(|()| true);
            }
        };
        self.server.hold(&Report::Started { pid: leader })?;
        let mut ended = Ended::default();
        match self.watch(leader, &mut ended)? {
            Watched::Over(status) => ended.status = Some(status),
            Watched::Kill { abandoned } => (ended.stopped, ended.abandoned) = (true, abandoned),
        }
        let swept = sweep(leader, &mut self.spawner)?;
        ended.status = ended.status.or(swept.leader);
        ended.swept = swept.killed;
        ended.stuck = swept.stuck;
        let reusable = ended.stuck.is_empty() && !ended.abandoned;
        // Nobody may be there to hear it.
        let told = self.server.send(&Report::Ended(ended));
        Ok(reusable && told.is_ok())
    }

    /// Waits for the end of the leader, passes signals on to it, and reaps orphans meanwhile.
    fn watch(&mut self, leader: i32, ended: &mut Ended) -> io::Result<Watched> {
        let mut announce = Some(Instant::now() + times::HELD);
        let mut deadline: Option<Instant> = None;
        // A quick one has ended before we come to wait for it.
        if let Some(status) = reap_until(leader) {
            return Ok(Watched::Over(status));
        }
        loop {
            let next = [announce, deadline].into_iter().flatten().min();
            let signs = self.poll(next.map(|next| next.saturating_duration_since(Instant::now())))?;
            let now = Instant::now();
            // Reaped first: what follows signals the leader only while its pid is its own.
            if let Some(status) = reap_until(leader) {
                return Ok(Watched::Over(status));
            }
            if signs.abandoned {
                return Ok(Watched::Kill { abandoned: true });
            }
            // The server may be gone, and the leader must be watched all the same.
            if announce.is_some_and(|announce| announce <= now) {
                announce = None;
                if self.server.flush().is_err() {
                    return Ok(Watched::Kill { abandoned: true });
                }
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(Watched::Kill { abandoned: false });
            }
            if !signs.server {
                continue;
            }
            let Some(bytes) = self.server.receive()? else { return Ok(Watched::Kill { abandoned: true }) };
            match postcard::from_bytes(&bytes).map_err(io::Error::other)? {
                Order::Stop(StopPlan { signal, grace }) if deadline.is_none() => {
                    ended.stopped = true;
                    deadline = Some(Instant::now() + grace);
                    ask(leader, signal);
                }
                Order::Stop(_) | Order::Kill => return Ok(Watched::Kill { abandoned: false }),
                Order::Start(_) => return Err(io::Error::other("a second launch during a run")),
            }
        }
    }

    fn poll(&self, limit: Option<Duration>) -> io::Result<Signs> {
        let mut fds = [self.server.as_fd(), self.server_pidfd, self.launcher]
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        sys::poll(&mut fds, limit)?;
        let [server, rest @ ..] = fds.map(|fd| fd.any().unwrap_or_default());
        Ok(Signs { server, abandoned: rest.contains(&true) })
    }
}

/// Reaps orphans, and the leader if it has ended: then this is its wait status.
fn reap_until(leader: i32) -> Option<i32> {
    while let Waited::Child { pid, status } = sys::wait(None) {
        if pid == leader {
            return Some(status);
        }
    }
    None
}

/// The polite signal, to the leader alone. A stopped leader could not hear it.
fn ask(leader: i32, signal: i32) {
    let leader = Pid::from_raw(leader);
    // It can only fail for an unknown signal, or a leader of another user: the grace ends both.
    if let Ok(signal) = Signal::try_from(signal) {
        kill(leader, signal).ok();
    }
    kill(leader, Signal::SIGCONT).ok();
}
