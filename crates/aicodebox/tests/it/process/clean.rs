//! What a leader begins with.

use std::os::fd::AsRawFd;

use aicodebox_engine::process::{Rlimit, variables};
use nix::{
    libc,
    sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask},
};

use super::support::{agent, agent_with, pool, run};

#[tokio::test]
async fn signals_are_as_at_login_also_when_the_server_blocks_and_ignores_them() {
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGTERM);
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&blocked), None).unwrap();
    ignore_hangup();
    let pool = pool().await;
    let (_, status) = run(&pool, agent("--status")).await;
    let status = String::from_utf8(status).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    assert_eq!(field("SigBlk:"), "0000000000000000");
    assert_eq!(field("SigPnd:"), "0000000000000000");
    assert_eq!(field("ShdPnd:"), "0000000000000000");
    // Rust's runtime ignores SIGPIPE in the agent itself, before its main.
    assert_eq!(field("SigIgn:"), "0000000000001000");
    assert_eq!(field("NoNewPrivs:"), "0");
    let (_, plain) = run(&pool, shell("grep SigIgn /proc/self/status")).await;
    assert_eq!(plain, b"SigIgn:\t0000000000000000\n");
}

#[expect(unsafe_code, reason = "what a careless parent does")]
fn ignore_hangup() {
    // SAFETY: no handler of ours.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

fn shell(script: &str) -> aicodebox_engine::process::Launch {
    let mut launch = agent_with(["-c", script]);
    launch.program = "/bin/sh".into();
    launch
}

#[tokio::test]
async fn no_descriptor_comes_along() {
    // One without close-on-exec, as a careless parent leaves it.
    let stray = std::fs::File::open("/dev/null").unwrap();
    nix::fcntl::fcntl(&stray, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
    assert!(stray.as_raw_fd() > 2);
    let pool = pool().await;
    let (first, second) =
        tokio::join!(run(&pool, agent("--fds --sleep 20")), run(&pool, agent("--fds --sleep 20")));
    assert_eq!(
        (first.1.as_slice(), second.1.as_slice()),
        (b"[0, 1, 2]\n".as_slice(), b"[0, 1, 2]\n".as_slice())
    );
}

#[tokio::test]
async fn words_arrive_as_they_are() {
    let pool = pool().await;
    let mut launch = agent("--env");
    launch.env = variables([("EMPTY", ""), ("B", "a=b c\n")]);
    assert_eq!(run(&pool, launch).await.1, b"B=a=b c\n\0EMPTY=\0");
    let launch = agent_with(["--args", "--say", "", "--say", "--model x"]);
    let (_, stdout) = run(&pool, launch).await;
    assert_eq!(stdout, b"fake-agent\0--args\0--say\0\0--say\0--model x\0\n--model x\n");
}

#[tokio::test]
async fn directory_limits_and_memory_score_are_those_of_the_launch() {
    let pool = pool().await;
    let directory = tempfile::tempdir().unwrap();
    let mut launch = agent("--cwd");
    launch.cwd = directory.path().into();
    assert_eq!(run(&pool, launch).await.1, directory.path().as_os_str().as_encoded_bytes());

    let mut launch = agent("--limits");
    launch.rlimits = vec![Rlimit { resource: libc::RLIMIT_NOFILE, value: 123 }];
    let (_, stdout) = run(&pool, launch).await;
    let own: i32 = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse().unwrap();
    let expected = format!("core 0 files 123 oom {}\n", (own + 200).min(1000));
    assert_eq!(String::from_utf8(stdout).unwrap(), expected);
    // They stick to the leader alone.
    let (_, stdout) = run(&pool, agent("--limits")).await;
    assert!(!String::from_utf8(stdout).unwrap().contains("files 123 "));
}

#[tokio::test]
async fn new_privileges_can_be_ruled_out() {
    let pool = pool().await;
    let mut launch = agent("--status");
    launch.no_new_privs = true;
    let (_, status) = run(&pool, launch).await;
    assert!(String::from_utf8(status).unwrap().contains("NoNewPrivs:\t1"));
    let (_, status) = run(&pool, agent("--status")).await;
    assert!(String::from_utf8(status).unwrap().contains("NoNewPrivs:\t0"));
}
