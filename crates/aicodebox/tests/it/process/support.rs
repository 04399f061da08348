use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use aicodebox_engine::{
    process::{
        Flow, LAUNCHER, Launch, LauncherCommand, Limits, Output, Pool, SpawnError, Stdin, Stop, StopPlan,
        Stream, variables,
    },
    run::{Exit, ExitStatus},
};
use nix::fcntl::{Flock, FlockArg};

/// The agent that misbehaves.
pub(super) const AGENT: &str = env!("CARGO_BIN_EXE_fake-agent");

pub(super) fn launcher() -> LauncherCommand {
    LauncherCommand { program: env!("CARGO_BIN_EXE_aicodebox").into(), arg0: LAUNCHER.into() }
}

pub(super) async fn pool() -> Pool {
    Pool::start(launcher(), 64).await.unwrap()
}

/// The agent with these steps (split at white space), a clean environment, and a short grace.
pub(super) fn agent(steps: &str) -> Launch {
    agent_with(steps.split_whitespace())
}

pub(super) fn agent_with(steps: impl IntoIterator<Item = impl Into<OsString>>) -> Launch {
    let mut args = vec![OsString::from("fake-agent")];
    args.extend(steps.into_iter().map(Into::into));
    Launch {
        program: AGENT.into(),
        args,
        env: variables([("PATH", "/usr/bin:/bin")]),
        cwd: std::env::temp_dir(),
        stdin: Stdin::Null,
        stop: StopPlan { grace: Duration::from_millis(500), ..StopPlan::default() },
        rlimits: Vec::new(),
        no_new_privs: false,
    }
}

type OnStdout<'a> = dyn FnMut(&[u8]) -> Flow + Send + 'a;

/// What a run prints, and what to do when it has printed something.
#[derive(Default)]
pub(super) struct Seen<'a> {
    pub(super) pid: i32,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// Called with all of stdout after each chunk of it.
    on_stdout: Option<Box<OnStdout<'a>>>,
}

impl<'a> Seen<'a> {
    pub(super) fn with(on_stdout: impl FnMut(&[u8]) -> Flow + Send + 'a) -> Self {
        Self { on_stdout: Some(Box::new(on_stdout)), ..Self::default() }
    }

    /// Calls `then` once, when stdout contains the word.
    pub(super) fn when(word: &'static str, then: impl FnOnce() -> Flow + Send + 'a) -> Self {
        let mut then = Some(then);
        Self::with(move |stdout| match stdout.windows(word.len()).any(|part| part == word.as_bytes()) {
            true => then.take().map_or(Flow::Go, |then| then()),
            false => Flow::Go,
        })
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }
}

impl Output for Seen<'_> {
    fn started(&mut self, pid: i32) {
        assert_eq!(self.pid, 0, "started twice");
        self.pid = pid;
    }

    fn feed(&mut self, stream: Stream, bytes: &[u8]) -> Flow {
        match stream {
            Stream::Stdout => {
                self.stdout.extend_from_slice(bytes);
                self.on_stdout.as_mut().map_or(Flow::Go, |then| then(&self.stdout))
            }
            Stream::Stderr => {
                self.stderr.extend_from_slice(bytes);
                Flow::Go
            }
        }
    }
}

/// A run with no limits and nobody who stops it.
pub(super) async fn run(pool: &Pool, launch: Launch) -> (Exit, Vec<u8>) {
    let mut seen = Seen::default();
    let exit = supervise(pool, launch, &mut seen).await.unwrap();
    (exit, seen.stdout)
}

pub(super) async fn supervise(pool: &Pool, launch: Launch, seen: &mut Seen<'_>) -> Result<Exit, SpawnError> {
    within(30, pool.supervise(launch, Limits::default(), &Stop::default(), seen)).await
}

/// The pool still works.
pub(super) async fn works(pool: &Pool) {
    let (exit, stdout) = run(pool, agent("--say well")).await;
    assert_eq!((exit.status, stdout.as_slice()), (Some(ExitStatus::Code(0)), b"well\n".as_slice()));
}

pub(super) async fn within<T>(seconds: u64, what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), what).await.expect("in time")
}

/// Waits, up to a limit, for something that nobody reports.
pub(super) async fn until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A lock that all processes of a run inherit (`--lock`): taken again only when the last of them is gone, whatever
/// they did to their parents, groups, sessions and environments. It does not depend on the code under test.
pub(super) struct Marker {
    directory: tempfile::TempDir,
}

impl Marker {
    pub(super) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The agent with these steps, marked.
    pub(super) fn agent(&self, steps: &str) -> Launch {
        let lock = self.path("lock").into_os_string().into_string().unwrap();
        agent_with(["--lock", &lock].into_iter().chain(steps.split_whitespace()))
    }

    /// Whether a process of the run lives.
    pub(super) fn alive(&self) -> bool {
        let Ok(file) = fs::File::open(self.path("lock")) else { return false };
        Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err()
    }

    pub(super) async fn gone_within(&self, limit: Duration) {
        until("every process of the run is gone", limit, || !self.alive()).await;
    }
}

/// The field of `/proc/<pid>/status`, if there is such a process.
pub(super) fn status_of(pid: i32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

pub(super) fn parent_of(pid: i32) -> i32 {
    status_of(pid, "PPid").unwrap().parse().unwrap()
}
