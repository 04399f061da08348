//! Launcher, keeper or server are killed in the middle of a run: the run is gone within a second, whoever is left
//! knows it, and the next run works.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use aicodebox_engine::{
    process::{Flow, Limits, Pool, Stop},
    run::{EndedBy, Exit},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::support::{Marker, Seen, agent, parent_of, pool, run, status_of, until, within, works};

const SECOND: Duration = Duration::from_secs(1);

/// Which process above the leader is killed.
#[derive(Clone, Copy, PartialEq)]
enum Victim {
    Keeper,
    Launcher,
}

fn shoot(pid: i32, signal: Signal) {
    assert!(pid > 1);
    kill(Pid::from_raw(pid), signal).unwrap();
}

/// Runs an agent with escaped children, and sends the signal when it is up.
async fn shot(pool: &Pool, marker: &Marker, victim: Victim) -> Exit {
    let leader = std::sync::atomic::AtomicI32::new(0);
    let mut seen = Seen::when("up", || {
        let keeper = parent_of(leader.load(std::sync::atomic::Ordering::Relaxed));
        shoot(if victim == Victim::Keeper { keeper } else { parent_of(keeper) }, Signal::SIGKILL);
        Flow::Go
    });
    let stop = Stop::default();
    let launch = marker.agent("--ignore 15 --fork nasty --fork session --fork comet --say up --hang");
    let mut output = Started { leader: &leader, seen: &mut seen };
    within(10, pool.supervise(launch, Limits::default(), &stop, &mut output)).await.unwrap()
}

struct Started<'a, 'b> {
    leader: &'a std::sync::atomic::AtomicI32,
    seen: &'a mut Seen<'b>,
}

impl aicodebox_engine::process::Output for Started<'_, '_> {
    fn started(&mut self, pid: i32) {
        self.leader.store(pid, std::sync::atomic::Ordering::Relaxed);
    }

    fn feed(&mut self, stream: aicodebox_engine::process::Stream, bytes: &[u8]) -> Flow {
        self.seen.feed(stream, bytes)
    }
}

#[tokio::test]
async fn of_a_keeper() {
    let pool = pool().await;
    let other = Marker::new();
    let file = other.path("go");
    let launch = other.agent(&format!("--fork nasty --wait-file {} --say unharmed", file.display()));
    let (beside, ()) = tokio::join!(run(&pool, launch), async {
        until("the other run is up", SECOND * 5, || other.alive()).await;
        for _ in 0..3 {
            let marker = Marker::new();
            let exit = shot(&pool, &marker, Victim::Keeper).await;
            assert!(!marker.alive(), "the launcher did not kill what the keeper left");
            assert_eq!((exit.status, exit.ended_by, exit.stuck), (None, EndedBy::Lost, vec![]));
            assert!(exit.took < SECOND, "{:?}", exit.took);
            works(&pool).await;
        }
        std::fs::write(&file, "").unwrap();
    });
    assert_eq!(beside.1, b"unharmed\n");
}

#[tokio::test]
async fn of_the_launcher() {
    let pool = pool().await;
    for _ in 0..3 {
        // Idle ones too: they are lost with it.
        tokio::join!(works(&pool), works(&pool), works(&pool), works(&pool), works(&pool), works(&pool));
        let marker = Marker::new();
        let exit = shot(&pool, &marker, Victim::Launcher).await;
        assert!(!marker.alive());
        assert_eq!((exit.ended_by, exit.stuck), (EndedBy::Lost, vec![]));
        assert!(exit.took < SECOND, "{:?}", exit.took);
        works(&pool).await;
    }
}

#[tokio::test]
async fn of_an_idle_keeper() {
    let pool = pool().await;
    let running = pool.spawn(agent("--exit 0")).await.unwrap();
    let keeper = keeper_of(&running);
    running.wait().await;
    shoot(keeper, Signal::SIGKILL);
    works(&pool).await;
}

fn keeper_of(running: &aicodebox_engine::process::Running) -> i32 {
    // The leader may be dead, but it is not reaped as long as nobody has waited: take the launcher's child.
    let me = std::process::id().to_string();
    let launcher = processes().find(|pid| parent(*pid) == Some(me.clone())).unwrap().to_string();
    let keeper = processes().find(|pid| parent(*pid) == Some(launcher.clone())).unwrap();
    assert_ne!(keeper, running.pid());
    keeper
}

fn processes() -> impl Iterator<Item = i32> {
    std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn parent(pid: i32) -> Option<String> {
    status_of(pid, "PPid")
}

#[tokio::test]
async fn of_the_server() {
    let marker = Marker::new();
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::death::a_server", "--nocapture"])
        .env("TEST_LOCK", marker.path("lock"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let up = marker.path("up");
    until("the run is up", SECOND * 10, || up.exists()).await;
    let begin = Instant::now();
    server.kill().unwrap();
    server.wait().unwrap();
    marker.gone_within(SECOND).await;
    until("launcher and keepers are gone", SECOND, || launchers_of(marker.directory()) == 0).await;
    assert!(begin.elapsed() < SECOND);
}

/// Launcher and keepers of that server: the keepers are in the launcher's process group.
fn launchers_of(directory: &Path) -> usize {
    let launcher = std::fs::read_to_string(directory.join("launcher")).unwrap();
    // Whoever inherits a dead launcher may take its time to reap it.
    let lives = |pid| status_of(pid, "State").is_some_and(|state| !state.starts_with('Z'));
    processes().filter(|pid| status_of(*pid, "NSpgid").as_ref() == Some(&launcher) && lives(*pid)).count()
}

/// A server for the test above, which starts it as a process of its own and kills it. Nothing by itself.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "how the test tells it where to write")]
async fn a_server() {
    let Some(lock) = std::env::var_os("TEST_LOCK") else { return };
    let directory = Path::new(&lock).parent().unwrap();
    let pool = pool().await;
    let steps = format!("--lock {} --fork nasty --fork comet --say up --hang", lock.display());
    let mut seen = Seen::when("up", || {
        let me = std::process::id().to_string();
        let launcher = processes().find(|pid| parent(*pid) == Some(me.clone())).unwrap();
        std::fs::write(directory.join("launcher"), launcher.to_string()).unwrap();
        assert!(launchers_of(directory) >= 2);
        std::fs::write(directory.join("up"), "").unwrap();
        Flow::Go
    });
    tokio::join!(works(&pool), works(&pool));
    pool.supervise(agent(&steps), Limits::default(), &Stop::default(), &mut seen).await.unwrap();
}

#[tokio::test]
async fn signals_to_launcher_and_keepers_are_not_theirs() {
    let pool = pool().await;
    let running = pool.spawn(agent("--hang")).await.unwrap();
    let keeper = parent_of(running.pid());
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1] {
        shoot(keeper, signal);
        shoot(parent_of(keeper), signal);
    }
    shoot(running.pid(), Signal::SIGUSR2);
    assert_eq!(running.wait().await, Some(aicodebox_engine::run::ExitStatus::Signal(12)));
    works(&pool).await;
}
