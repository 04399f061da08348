use std::{
    collections::HashMap,
    fs,
    io::{self, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    process::ExitCode,
    time::Instant,
};

use nix::{
    fcntl::OFlag,
    poll::{PollFd, PollFlags},
    sys::{
        prctl,
        resource::{Resource, setrlimit},
        stat::{Mode, umask},
    },
    unistd::{chdir, dup2_stdin, getppid, pipe2},
};

use super::{
    keeper::Keeper,
    message::{LauncherOrder, LauncherReport},
    sweep::{children, kill_child},
    sys::{self, Waited},
    times,
    wire::Wire,
};

/// `argv[0]` under which this program is a launcher.
pub const LAUNCHER: &str = "aicodebox-launcher";

/// Under memory pressure an agent dies before the server.
const OOM_SCORE: i32 = 200;

/// What `main` calls first when `argv[0]` is [`LAUNCHER`]: before any runtime, thread, logger or secret exists.
/// The socket to the server is standard input. Returns when the server is gone and nothing is left.
pub fn run_launcher() -> ExitCode {
    let ended = Launcher::set_up().and_then(|mut launcher| {
        // The server may also be gone while we speak to it: whatever ends the service, nothing stays behind.
        let served = launcher.serve();
        launcher.farewell().and(served)
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(LAUNCHER, &error);
            ExitCode::FAILURE
        }
    }
}

/// Forks keepers on demand, and takes care of what a dead one leaves: the subreaper above all of them.
struct Launcher {
    server: Wire,
    server_pidfd: OwnedFd,
    /// A pipe that nobody writes to. The keepers have the end that is read: it is at its end when we are dead or
    /// want them to stop.
    sign: OwnedFd,
    alive: Option<OwnedFd>,
    /// Pid to id.
    keepers: HashMap<i32, u64>,
    /// Dead keepers whose processes are being killed.
    lost: Vec<u64>,
    /// Since when.
    lost_since: Instant,
    /// What cannot be killed: it is reaped when it dies.
    stuck: Vec<i32>,
}

impl Launcher {
    fn set_up() -> io::Result<Self> {
        // First this, for /proc/self is root's as soon as we are not dumpable. It fails without harm where /proc
        // is missing.
        raise_oom_score().ok();
        // An agent of the same user must not read our memory or environment.
        prctl::set_dumpable(false)?;
        prctl::set_child_subreaper(true)?;
        prctl::set_name(c"aicodebox-launch")?;
        // Without a terminal there is none.
        sys::leave_terminal().ok();
        sys::own_signals()?;
        let server = io::stdin().as_fd().try_clone_to_owned()?;
        dup2_stdin(fs::File::open("/dev/null")?)?;
        // What the server inherited without close-on-exec would otherwise live in every keeper.
        sys::close_from(server.as_raw_fd() + 1);
        let parent = getppid();
        let server_pidfd = sys::pidfd_open(parent.as_raw())?;
        if getppid() != parent {
            return Err(io::Error::other("the server ended while this was starting"));
        }
        setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
        umask(Mode::S_IWGRP | Mode::S_IWOTH);
        chdir("/")?;
        let (sign, alive) = pipe2(OFlag::O_CLOEXEC)?;
        Ok(Self {
            server: Wire::new(server),
            server_pidfd,
            sign,
            alive: Some(alive),
            keepers: HashMap::new(),
            lost: Vec::new(),
            lost_since: Instant::now(),
            stuck: Vec::new(),
        })
    }

    /// Until the server is gone.
    fn serve(&mut self) -> io::Result<()> {
        self.server.send(&LauncherReport::Ready)?;
        loop {
            let round = (!self.lost.is_empty()).then_some(times::SWEEP_ROUND);
            let mut fds =
                [self.server.as_fd(), self.server_pidfd.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            sys::poll(&mut fds, round)?;
            let [order, gone] = fds.map(|fd| fd.any().unwrap_or_default());
            self.reap();
            if !self.lost.is_empty() && self.adopt() {
                self.report_gone();
            }
            if gone || (order && !self.obey()?) {
                return Ok(());
            }
        }
    }

    /// Takes one order. `false`: the server has closed its end.
    fn obey(&mut self) -> io::Result<bool> {
        let Some(bytes) = self.server.receive()? else { return Ok(false) };
        match postcard::from_bytes(&bytes).map_err(io::Error::other)? {
            LauncherOrder::Keep { id } => {
                let socket = self.server.take_fd()?;
                match sys::fork() {
                    Ok(Some(pid)) => drop(self.keepers.insert(pid, id)),
                    Ok(None) => self.become_keeper(socket),
                    // Out of processes or memory: the closed socket tells the server.
                    Err(error) => complain("no keeper can be forked", &error),
                }
            }
            LauncherOrder::Kill { id } => {
                self.keepers.iter().filter(|(_, known)| **known == id).for_each(|(pid, _)| {
                    kill_child(*pid);
                });
            }
        }
        Ok(true)
    }

    fn become_keeper(&self, socket: OwnedFd) -> ! {
        // Kept open here, these would hide the launcher's death. This process never returns, so nobody uses the
        // numbers again.
        for ours in [Some(self.server.as_fd()), self.alive.as_ref().map(AsFd::as_fd)].into_iter().flatten() {
            nix::unistd::close(ours.as_raw_fd()).ok();
        }
        let keeper = Keeper::new(socket, self.server_pidfd.as_fd(), self.sign.as_fd());
        let served = keeper.and_then(|mut keeper| keeper.serve());
        if let Err(error) = &served {
            complain("aicodebox-keeper", error);
        }
        sys::exit_now(i32::from(served.is_err()))
    }

    /// Reaps whatever is dead, keepers and orphans alike.
    fn reap(&mut self) {
        while let Waited::Child { pid, .. } = sys::wait(None) {
            self.stuck.retain(|stuck| *stuck != pid);
            if let Some(id) = self.keepers.remove(&pid) {
                if self.lost.is_empty() {
                    self.lost_since = Instant::now();
                }
                self.lost.push(id);
            }
        }
    }

    /// Kills every child that is not a keeper: the descendants of a dead one. Returns whether none is left, or
    /// only such that cannot be killed.
    fn adopt(&mut self) -> bool {
        let mut orphans = children();
        orphans.retain(|pid| !self.keepers.contains_key(pid) && !self.stuck.contains(pid));
        for pid in &orphans {
            kill_child(*pid);
        }
        if self.lost_since.elapsed() > times::SWEEP {
            self.stuck.append(&mut orphans);
        }
        orphans.is_empty()
    }

    fn report_gone(&mut self) {
        for id in self.lost.drain(..) {
            // That nobody hears it shows at the next poll.
            self.server.send(&LauncherReport::Gone { id, stuck: self.stuck.clone() }).ok();
        }
    }

    /// The server is gone, or wants everything to end: the keepers kill what they run and end. What they leave is
    /// killed here.
    fn farewell(&mut self) -> io::Result<()> {
        self.alive = None;
        let begin = Instant::now();
        loop {
            self.reap();
            self.adopt();
            let left = children();
            let past = begin.elapsed();
            if left.is_empty() || past > times::FAREWELL + times::SWEEP {
                return Ok(());
            }
            if past > times::FAREWELL {
                self.keepers.keys().for_each(|pid| {
                    kill_child(*pid);
                });
            }
            sys::poll(&mut [], Some(times::SWEEP_ROUND * 5))?;
        }
    }
}

/// Not `eprintln!`, which panics when nobody reads standard error any more.
fn complain(what: &str, error: &io::Error) {
    writeln!(io::stderr(), "{what}: {error}").ok();
}

fn raise_oom_score() -> io::Result<()> {
    let file = "/proc/self/oom_score_adj";
    let own: i32 = fs::read_to_string(file)?.trim().parse().map_err(io::Error::other)?;
    fs::write(file, (own + OOM_SCORE).min(1000).to_string())
}
