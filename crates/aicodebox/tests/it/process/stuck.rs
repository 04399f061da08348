//! Keepers and processes that do not do what they should: root's, and stopped ones.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use aicodebox_engine::{
    process::{Flow, LAUNCHER, Launch, LauncherCommand, Limits, Pool, Stop},
    run::{EndedBy, Exit},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::support::{AGENT, Marker, Seen, agent, parent_of, within, works};

/// A launcher that runs as nobody, and a set-user-id agent of root's beside it.
struct Unprivileged {
    files: Marker,
    agent: PathBuf,
}

impl Unprivileged {
    /// `None` where only root could make one, or where files cannot be set-user-id.
    fn new() -> Option<Self> {
        let files = Marker::new();
        if !nix::unistd::geteuid().is_root() {
            eprintln!("SKIP stuck: needs root");
            return None;
        }
        fs::set_permissions(files.directory(), fs::Permissions::from_mode(0o777)).unwrap();
        let agent = copy(AGENT.as_ref(), files.path("agent"), 0o4755);
        copy(env!("CARGO_BIN_EXE_aicodebox").as_ref(), files.path("box"), 0o755);
        let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
        let script = format!(
            "#!/bin/bash\nexec {nobody} bash -c 'exec -a {LAUNCHER} \"$0\"' {}\n",
            files.path("box").display()
        );
        fs::write(files.path("launcher"), script).unwrap();
        fs::set_permissions(files.path("launcher"), fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { files, agent })
    }

    async fn pool(&self) -> Pool {
        let command = LauncherCommand { program: self.files.path("launcher"), arg0: "launcher".into() };
        Pool::start(command, 4).await.unwrap()
    }

    fn launch(&self, steps: &str) -> Launch {
        let mut launch = agent(steps);
        launch.program.clone_from(&self.agent);
        launch
    }
}

fn copy(from: &Path, to: PathBuf, mode: u32) -> PathBuf {
    fs::copy(from, &to).unwrap();
    fs::set_permissions(&to, fs::Permissions::from_mode(mode)).unwrap();
    to
}

/// Cancels the run when it has printed `up`.
async fn cancelled(pool: &Pool, launch: Launch, seconds: u64) -> Exit {
    let stop = Stop::default();
    let mut seen = Seen::when("up", || {
        stop.request(EndedBy::Cancelled);
        Flow::Go
    });
    within(seconds, pool.supervise(launch, Limits::default(), &stop, &mut seen)).await.unwrap()
}

#[tokio::test]
async fn a_process_of_root_is_reported_and_its_keeper_is_not_used_again() {
    let Some(unprivileged) = Unprivileged::new() else { return };
    let pool = unprivileged.pool().await;
    let exit = cancelled(&pool, unprivileged.launch("--become-root --say up --hang"), 20).await;
    let &[pid] = exit.stuck.as_slice() else { panic!("{exit:?}") };
    assert_eq!((exit.status, exit.ended_by), (None, EndedBy::Cancelled));
    assert!(exit.took > Duration::from_secs(10) && exit.took < Duration::from_secs(15), "{:?}", exit.took);
    works_as_nobody(&pool, &unprivileged).await;
    // The launcher inherited it, and reaps it when it dies at last.
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    super::support::until("it is reaped", Duration::from_secs(5), || {
        kill(Pid::from_raw(pid), None) == Err(nix::Error::ESRCH)
    })
    .await;
}

#[tokio::test]
async fn without_new_privileges_there_is_no_process_of_root() {
    let Some(unprivileged) = Unprivileged::new() else { return };
    let pool = unprivileged.pool().await;
    let mut launch = unprivileged.launch("--become-root --say up --hang");
    launch.no_new_privs = true;
    let exit = cancelled(&pool, launch, 5).await;
    assert_eq!(exit.status.map(|status| status.code()), Some(99), "it could become root");
    works_as_nobody(&pool, &unprivileged).await;
}

#[tokio::test]
async fn memory_and_environment_of_launcher_and_keepers_are_not_the_agents_business() {
    let Some(unprivileged) = Unprivileged::new() else { return };
    let pool = unprivileged.pool().await;
    let program = unprivileged.files.path("plain");
    let mut launch = agent("--hang");
    launch.program = copy(AGENT.as_ref(), program, 0o755);
    let running = pool.spawn(launch).await.unwrap();
    // The files of a process that is not dumpable are root's.
    let owner = |pid: i32| fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid();
    let keeper = parent_of(running.pid());
    assert_eq!([owner(running.pid()), owner(keeper), owner(parent_of(keeper))], [65_534, 0, 0]);
}

async fn works_as_nobody(pool: &Pool, unprivileged: &Unprivileged) {
    let (exit, stdout) = super::support::run(pool, unprivileged.launch("--say well")).await;
    assert_eq!((exit.stuck, stdout.as_slice()), (vec![], b"well\n".as_slice()));
}

#[tokio::test]
async fn a_wedged_keeper_is_killed_with_all_that_it_runs() {
    let pool = super::support::pool().await;
    let marker = Marker::new();
    let stop = Stop::default();
    let running = pool.spawn(marker.agent("--fork nasty --say up --hang")).await.unwrap();
    kill(Pid::from_raw(parent_of(running.pid())), Signal::SIGSTOP).unwrap();
    stop.request(EndedBy::Cancelled);
    let exit = within(20, running.drive(Limits::default(), &stop, &mut Seen::default())).await;
    assert_eq!((exit.ended_by, exit.stuck), (EndedBy::Cancelled, vec![]));
    assert!(!marker.alive());
    works(&pool).await;
}
