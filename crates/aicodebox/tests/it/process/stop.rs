//! Polite signal, grace, sweep; the first reason wins, the second request skips the grace.

use std::time::{Duration, Instant};

use aicodebox_engine::{
    process::{Flow, Launch, Limits, Pool, Stop, StopPlan},
    run::{AgentFault, EndedBy, Exit, ExitStatus, Failure, FailureKind},
};

use super::support::{Marker, Seen, agent, pool, run, supervise, within, works};

const TERM: Option<ExitStatus> = Some(ExitStatus::Signal(15));
const KILL: Option<ExitStatus> = Some(ExitStatus::Signal(9));

/// Runs the agent and asks it to stop when it has printed `up`.
async fn stopped(pool: &Pool, launch: Launch, reason: EndedBy) -> Exit {
    let stop = Stop::default();
    let mut seen = Seen::when("up", || {
        stop.request(reason);
        Flow::Go
    });
    within(20, pool.supervise(launch, Limits::default(), &stop, &mut seen)).await.unwrap()
}

fn with_grace(mut launch: Launch, grace: Duration) -> Launch {
    launch.stop.grace = grace;
    launch
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_polite_agent_ends_before_its_grace() {
    let pool = pool().await;
    let marker = Marker::new();
    let file = marker.path("flushed");
    let launch = marker.agent(&format!("--on-term {} --say up --hang", file.display()));
    let exit = stopped(&pool, with_grace(launch, LONG), EndedBy::Cancelled).await;
    assert_eq!((exit.status, exit.ended_by), (Some(ExitStatus::Code(0)), EndedBy::Cancelled));
    assert!(file.exists() && !marker.alive());
    let exit = stopped(&pool, with_grace(agent("--say up --hang"), LONG), EndedBy::Cancelled).await;
    assert_eq!((exit.status, exit.ended_by), (TERM, EndedBy::Cancelled));
}

#[tokio::test]
async fn a_deaf_agent_dies_at_its_grace() {
    let pool = pool().await;
    let marker = Marker::new();
    let grace = Duration::from_millis(300);
    let launch = with_grace(marker.agent("--ignore 15 --fork group --say up --hang"), grace);
    let exit = stopped(&pool, launch, EndedBy::Cancelled).await;
    assert_eq!((exit.status, exit.ended_by), (KILL, EndedBy::Cancelled));
    assert!(exit.took >= grace && exit.took < grace + Duration::from_secs(1), "{:?}", exit.took);
    assert!(!marker.alive());
}

#[tokio::test]
async fn the_plan_says_which_signal() {
    let pool = pool().await;
    let mut launch = agent("--ignore 15 --say up --hang");
    launch.stop = StopPlan { signal: 2, grace: LONG };
    let exit = stopped(&pool, launch, EndedBy::Cancelled).await;
    assert_eq!(exit.status, Some(ExitStatus::Signal(2)));
}

#[tokio::test]
async fn a_stopped_agent_hears_the_signal() {
    let pool = pool().await;
    let launch = with_grace(agent("--say up --signal 19"), LONG);
    assert_eq!(stopped(&pool, launch, EndedBy::Cancelled).await.status, TERM);
}

#[tokio::test]
async fn an_agent_that_forks_when_it_is_told_to_stop_leaves_nothing() {
    let pool = pool().await;
    let marker = Marker::new();
    let launch = with_grace(marker.agent("--fork on-term --say up --hang"), Duration::from_millis(200));
    let exit = stopped(&pool, launch, EndedBy::Cancelled).await;
    assert_eq!((exit.status, exit.swept), (KILL, 1));
    assert!(!marker.alive());
}

#[tokio::test]
async fn the_second_request_skips_the_grace_and_the_first_reason_stays() {
    let pool = pool().await;
    let stop = Stop::default();
    let mut seen = Seen::when("up", || {
        assert!(stop.request(EndedBy::Cancelled));
        assert!(!stop.request(EndedBy::Shutdown));
        Flow::Go
    });
    let launch = with_grace(agent("--ignore 15 --say up --hang"), LONG);
    let exit = within(5, pool.supervise(launch, Limits::default(), &stop, &mut seen)).await.unwrap();
    assert_eq!((exit.status, exit.ended_by), (KILL, EndedBy::Cancelled));
}

#[tokio::test]
async fn a_request_during_the_grace_of_a_limit_skips_it() {
    let pool = pool().await;
    let stop = Stop::default();
    let mut seen = Seen::when("heard", || {
        stop.request(EndedBy::Cancelled);
        Flow::Go
    });
    let mut launch = with_grace(agent("--exec /bin/sh -c"), LONG);
    launch.args.push("trap 'echo heard' TERM; while :; do sleep 0.01; done".into());
    let limits = Limits { deadline: Some(Duration::from_millis(500)), idle: None };
    let exit = within(5, pool.supervise(launch, limits, &stop, &mut seen)).await.unwrap();
    assert_eq!((exit.status, exit.ended_by), (KILL, EndedBy::Deadline));
}

#[tokio::test]
async fn a_stop_that_came_first_starts_nothing() {
    let pool = pool().await;
    let stop = Stop::default();
    stop.request(EndedBy::Shutdown);
    let exit = pool.supervise(agent("--hang"), Limits::default(), &stop, &mut Seen::default()).await.unwrap();
    assert_eq!((exit.status, exit.ended_by), (None, EndedBy::Shutdown));
}

#[tokio::test]
async fn a_stop_after_the_end_changes_nothing() {
    let pool = pool().await;
    let stop = Stop::default();
    let exit =
        pool.supervise(agent("--exit 5"), Limits::default(), &stop, &mut Seen::default()).await.unwrap();
    stop.request(EndedBy::Cancelled);
    assert_eq!((exit.status, exit.ended_by), (Some(ExitStatus::Code(5)), EndedBy::Itself));
    works(&pool).await;
}

#[tokio::test]
async fn the_deadline_keeps_what_was_said() {
    let pool = pool().await;
    let limits = Limits { deadline: Some(Duration::from_millis(200)), idle: None };
    let mut seen = Seen::default();
    let marker = Marker::new();
    let launch = marker.agent("--say partial --fork session --ignore 15 --hang");
    let exit = within(5, pool.supervise(launch, limits, &Stop::default(), &mut seen)).await.unwrap();
    assert_eq!((exit.ended_by, seen.text()), (EndedBy::Deadline, "partial\n"));
    assert!(
        exit.took >= Duration::from_millis(200) && exit.took < Duration::from_millis(1700),
        "{:?}",
        exit.took
    );
    assert!(!marker.alive());
}

#[tokio::test]
async fn the_deadline_is_kept_while_the_agent_prints_without_end() {
    let pool = pool().await;
    let limits = Limits { deadline: Some(Duration::from_millis(100)), idle: None };
    let mut seen = Seen::default();
    let exit = within(10, pool.supervise(agent("--stdout 1000g"), limits, &Stop::default(), &mut seen))
        .await
        .unwrap();
    assert_eq!((exit.status, exit.ended_by), (TERM, EndedBy::Deadline));
    assert!(exit.took < Duration::from_secs(3), "{:?}", exit.took);
}

#[tokio::test]
async fn silence_has_a_limit_of_its_own() {
    let pool = pool().await;
    let limits = Limits { deadline: Some(LONG), idle: Some(Duration::from_millis(150)) };
    // Speaks, on either stream, more often than that, for longer than that; then no more.
    let steps =
        "--say a --sleep 60 --stderr 1 --sleep 60 --say b --sleep 60 --stderr 1 --sleep 60 --say c --hang";
    let mut seen = Seen::default();
    let exit = within(10, pool.supervise(agent(steps), limits, &Stop::default(), &mut seen)).await.unwrap();
    assert_eq!((exit.status, exit.ended_by, seen.text()), (TERM, EndedBy::Idle, "a\nb\nc\n"));
}

#[tokio::test]
async fn a_finished_agent_that_lingers_is_stopped_and_stays_finished() {
    let pool = pool().await;
    let begin = Instant::now();
    let mut seen = Seen::when("answer", || Flow::Done);
    let launch = agent("--say answer --hang");
    let exit =
        within(10, pool.supervise(launch, Limits::default(), &Stop::default(), &mut seen)).await.unwrap();
    assert_eq!((exit.ended_by, exit.status), (EndedBy::Finished, TERM));
    assert!(begin.elapsed() >= Duration::from_secs(2) && begin.elapsed() < Duration::from_secs(3));

    // Whoever stops it now does not spoil the answer.
    let stop = Stop::default();
    let mut seen = Seen::when("answer", || {
        stop.request(EndedBy::Cancelled);
        Flow::Done
    });
    let exit =
        within(10, pool.supervise(agent("--say answer --hang"), Limits::default(), &stop, &mut seen)).await;
    assert_eq!(exit.unwrap().ended_by, EndedBy::Finished);
}

#[tokio::test]
async fn a_finished_agent_that_ends_is_left_alone() {
    let pool = pool().await;
    let mut seen = Seen::when("answer", || Flow::Done);
    let launch = agent("--say answer --sleep 100 --say epilogue --exit 6");
    let exit =
        within(10, pool.supervise(launch, Limits::default(), &Stop::default(), &mut seen)).await.unwrap();
    assert_eq!((exit.ended_by, exit.status), (EndedBy::Itself, Some(ExitStatus::Code(6))));
    assert_eq!(seen.text(), "answer\nepilogue\n");
}

#[tokio::test]
async fn a_fault_that_no_waiting_heals_ends_the_run_at_once() {
    let pool = pool().await;
    let fault = Failure::new(FailureKind::Agent(AgentFault::Auth), "not signed in");
    for steps in ["--say fault --hang", "--say fault --exit 1"] {
        let said = fault.clone();
        let mut seen = Seen::when("fault", move || Flow::Abort(said));
        let exit = within(5, supervise(&pool, agent(steps), &mut seen)).await.unwrap();
        assert_eq!((exit.ended_by, exit.abort.as_ref()), (EndedBy::Abort, Some(&fault)));
        assert!(exit.took < Duration::from_secs(1));
    }
}

#[tokio::test]
async fn codes_and_signals_come_back_as_they_are() {
    let pool = pool().await;
    for code in [0, 1, 3, 75, 124, 255] {
        let (exit, _) = run(&pool, agent(&format!("--exit {code}"))).await;
        assert_eq!(exit.status, Some(ExitStatus::Code(code)));
    }
    // 34 is the first real-time signal.
    for signal in [1, 6, 9, 11, 15, 34] {
        let (exit, _) = run(&pool, agent(&format!("--signal {signal}"))).await;
        assert_eq!((exit.status, exit.ended_by), (Some(ExitStatus::Signal(signal)), EndedBy::Itself));
    }
}

#[tokio::test]
async fn an_agent_that_signals_its_group_hits_nobody_else() {
    let pool = pool().await;
    let (other, _) = tokio::join!(run(&pool, agent("--sleep 300 --say alive")), async {
        for signal in [15, 9, 1, 2] {
            let (exit, _) = run(&pool, agent(&format!("--kill-group {signal} --hang"))).await;
            assert_eq!(exit.status, Some(ExitStatus::Signal(signal)));
        }
    });
    assert_eq!(other.1, b"alive\n");
}

#[tokio::test]
async fn shutdown_has_its_own_grace() {
    let pool = pool().await;
    // Its plan would kill it at once.
    let marker = Marker::new();
    let file = marker.path("flushed");
    let steps = format!("--on-term {} --say up --hang", file.display());
    let exit = stopped(&pool, with_grace(agent(&steps), Duration::ZERO), EndedBy::Shutdown).await;
    assert_eq!((exit.status, exit.ended_by), (Some(ExitStatus::Code(0)), EndedBy::Shutdown));
    assert!(file.exists());
}
