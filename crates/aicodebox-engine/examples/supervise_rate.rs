//! What a run costs without HTTP and store, to be compared with `bench/spawn_floor.c`: same arguments
//! (`AGENT N PARALLEL`), same work (a prompt of two bytes, both streams read, all reaped), same line of JSON.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use aicodebox_engine::process::{
    Flow, LAUNCHER, Launch, LauncherCommand, Limits, Output, Pool, Stdin, Stop, StopPlan, Stream,
    run_launcher, variables,
};
use tokio::task::JoinSet;

struct Discard;

impl Output for Discard {
    fn started(&mut self, _pid: i32) {}

    fn feed(&mut self, _stream: Stream, _bytes: &[u8]) -> Flow {
        Flow::Go
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args();
    if args.next().is_some_and(|name| name == LAUNCHER) {
        return run_launcher();
    }
    let (Some(agent), Some(count)) = (args.next(), args.next().and_then(|count| count.parse().ok())) else {
        eprintln!("usage: supervise_rate AGENT N [PARALLEL]");
        return ExitCode::FAILURE;
    };
    let parallel = args.next().and_then(|parallel| parallel.parse().ok()).unwrap_or(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime.map(|runtime| runtime.block_on(measure(&agent, count, parallel))) {
        Ok(line) => {
            eprintln!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(agent: &str, count: usize, parallel: usize) -> String {
    let pool = match Pool::start(LauncherCommand::default(), parallel).await {
        Ok(pool) => pool,
        Err(error) => return error.to_string(),
    };
    let launch = Launch {
        program: agent.into(),
        args: vec![agent.into()],
        env: variables([("PATH", "/usr/bin:/bin")]),
        cwd: "/".into(),
        stdin: Stdin::Bytes(b"hi".to_vec()),
        stop: StopPlan::default(),
        rlimits: Vec::new(),
        no_new_privs: false,
    };
    many(&pool, &launch, 20, parallel).await;
    let begin = Instant::now();
    let mut took = many(&pool, &launch, count, parallel).await;
    let rate = took.len() as f64 / begin.elapsed().as_secs_f64();
    // Then the CPU time of launcher, keepers and agents is counted as our children's.
    pool.close().await;
    took.sort_unstable();
    let at =
        |part: f64| took.get((took.len() as f64 * part) as usize).copied().unwrap_or_default().as_micros();
    format!(
        "{{\"n\":{},\"par\":{parallel},\"p50_us\":{},\"p95_us\":{},\"p99_us\":{},\"per_s\":{rate:.0}}}",
        took.len(),
        at(0.5),
        at(0.95),
        at(0.99),
    )
}

async fn many(pool: &Pool, launch: &Launch, count: usize, parallel: usize) -> Vec<Duration> {
    let mut workers = JoinSet::new();
    for _ in 0..parallel {
        let (pool, launch) = (pool.clone(), launch.clone());
        workers.spawn(async move {
            let mut took = Vec::with_capacity(count);
            for _ in 0..count {
                let begin = Instant::now();
                let stop = Stop::default();
                let limits =
                    Limits { deadline: Some(Duration::from_secs(600)), idle: Some(Duration::from_secs(300)) };
                if pool.supervise(launch.clone(), limits, &stop, &mut Discard).await.is_ok() {
                    took.push(begin.elapsed());
                }
            }
            took
        });
    }
    workers.join_all().await.concat()
}
