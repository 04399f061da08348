//! Many runs leave the server as it was.

use std::time::Duration;

use aicodebox_engine::{
    process::{Flow, Limits, Pool, Stop},
    run::EndedBy,
};

use super::support::{Marker, Seen, agent, pool, run, status_of, until, within, works};

/// What may not grow.
#[derive(Debug, PartialEq)]
struct State {
    descriptors: usize,
    processes: usize,
}

fn state() -> State {
    State { descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(), processes: family().len() }
}

/// This process's descendants, dead ones too.
fn family() -> Vec<i32> {
    let mut family = vec![i32::try_from(std::process::id()).unwrap()];
    let mut at = 0;
    let processes: Vec<(i32, i32)> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            Some((pid, status_of(pid, "PPid")?.parse().ok()?))
        })
        .collect();
    while let Some(parent) = family.get(at).copied() {
        family.extend(processes.iter().filter(|(_, ppid)| *ppid == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    family
}

fn memory() -> u64 {
    let all = family().into_iter().filter_map(|pid| status_of(pid, "VmRSS"));
    all.map(|size| size.split_once(' ').unwrap().0.parse::<u64>().unwrap()).sum()
}

async fn many(pool: &Pool, runs: usize) {
    for at in 0..runs {
        let steps = if at % 10 == 0 { "--fork session --say x" } else { "--say x" };
        let (exit, stdout) = run(pool, agent(steps)).await;
        assert_eq!((stdout.as_slice(), exit.swept), (b"x\n".as_slice(), u32::from(at % 10 == 0)));
    }
}

/// `AICODEBOX_TEST_RUNS=10000` for the long one.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test's own switch")]
async fn heavy_a_thousand_runs_leave_no_trace() {
    let runs = std::env::var("AICODEBOX_TEST_RUNS").map_or(1000, |runs| runs.parse().unwrap());
    let pool = pool().await;
    many(&pool, 100).await;
    let (before, used) = (state(), memory());
    assert_eq!(before.processes, 3, "server, launcher, and one keeper that served all of them");
    many(&pool, runs).await;
    assert_eq!(state(), before);
    let grown = memory().saturating_sub(used);
    assert!(grown < 2 << 10, "grew by {grown} kB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_fifty_runs_at_once_start_and_stop() {
    let pool = pool().await;
    works(&pool).await;
    for _ in 0..4 {
        let marker = Marker::new();
        let mut runs = tokio::task::JoinSet::new();
        for at in 0..50 {
            let (pool, file) = (pool.clone(), marker.path(&at.to_string()));
            runs.spawn(async move {
                let stop = Stop::default();
                let mut seen = Seen::when("up", || {
                    stop.request(EndedBy::Cancelled);
                    Flow::Go
                });
                let steps = format!("--lock {} --fork nasty --say up --hang", file.display());
                pool.supervise(agent(&steps), Limits::default(), &stop, &mut seen).await.unwrap()
            });
        }
        for exit in within(20, runs.join_all()).await {
            assert_eq!((exit.ended_by, exit.swept), (EndedBy::Cancelled, 1));
        }
    }
    assert!(family().len() <= 2 + 50);
    assert!(!family().iter().any(|pid| status_of(*pid, "State").is_some_and(|state| state.starts_with('Z'))));
    within(5, pool.close()).await;
    assert_eq!(family().len(), 1);
}

#[tokio::test]
async fn failed_and_dropped_runs_leave_no_trace() {
    let pool = pool().await;
    works(&pool).await;
    let before = state();
    for _ in 0..20 {
        let mut launch = agent("");
        launch.program = "/no/such/agent".into();
        let failed = pool.supervise(launch, Limits::default(), &Stop::default(), &mut Seen::default()).await;
        assert!(failed.is_err());
        drop(pool.spawn(agent("--fork nasty --hang")).await.unwrap());
    }
    works(&pool).await;
    until("as before", Duration::from_secs(5), || state() == before).await;
}
