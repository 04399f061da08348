//! Everything that a run started dies with the run: after a normal end as well as after a stop. Survivors are
//! counted by a lock that every descendant inherits, never by the code under test.

use std::time::{Duration, Instant};

use aicodebox_engine::{
    process::{Flow, Limits, Stop},
    run::{EndedBy, ExitStatus},
};

use super::support::{Marker, Seen, agent, pool, run, status_of, supervise, until, within, works};

/// All ways to escape; the number is how many processes a sweep finds at least.
const ESCAPES: [(&str, u32); 8] = [
    ("group", 1),
    ("session", 1),
    ("nasty", 1),
    ("stopped", 1),
    ("parent", 1),
    ("thread", 1),
    ("bomb", 1),
    // It may be between two of its lives.
    ("comet", 0),
];

#[tokio::test]
async fn nothing_is_left_after_a_normal_end() {
    let pool = pool().await;
    for (mode, least) in ESCAPES {
        let marker = Marker::new();
        let begin = Instant::now();
        let (exit, stdout) = run(&pool, marker.agent(&format!("--fork {mode} --say done --exit 3"))).await;
        assert!(!marker.alive(), "{mode}: the run ended while a process of it lived");
        assert_eq!(
            (exit.status, stdout.as_slice()),
            (Some(ExitStatus::Code(3)), b"done\n".as_slice()),
            "{mode}"
        );
        assert_eq!(exit.ended_by, EndedBy::Itself);
        assert!(exit.swept >= least && exit.stuck.is_empty(), "{mode}: {exit:?}");
        assert!(begin.elapsed() < Duration::from_secs(1), "{mode}: {:?}", begin.elapsed());
    }
    works(&pool).await;
}

#[tokio::test]
async fn heavy_nothing_is_left_after_a_stop_and_another_run_is_untouched() {
    let pool = pool().await;
    let other = Marker::new();
    let done = other.path("done");
    let steps = format!("--fork nasty --fork session --say up --wait-file {} --say unharmed", done.display());
    let stop = Stop::default();
    let mut seen = Seen::default();
    let beside = async {
        for (mode, _) in ESCAPES {
            let marker = Marker::new();
            let stop = Stop::default();
            let mut seen = Seen::when("up", || {
                stop.request(EndedBy::Cancelled);
                Flow::Go
            });
            // A bomb has the time to grow.
            let pause = if mode == "bomb" { "--sleep 500" } else { "" };
            let launch = marker.agent(&format!("--ignore 15 --fork {mode} {pause} --say up --hang"));
            let exit = within(15, pool.supervise(launch, Limits::default(), &stop, &mut seen)).await.unwrap();
            assert!(!marker.alive(), "{mode}: the run ended while a process of it lived");
            assert_eq!((exit.ended_by, exit.stuck), (EndedBy::Cancelled, vec![]), "{mode}");
            // How fast a bomb is killed depends on how much of the machine it leaves.
            let limit = Duration::from_secs(if mode == "bomb" { 9 } else { 2 });
            assert!(exit.took < limit, "{mode}: {:?}", exit.took);
        }
        assert!(other.alive());
        std::fs::write(&done, "").unwrap();
    };
    let untouched = pool.supervise(other.agent(&steps), Limits::default(), &stop, &mut seen);
    let (exit, ()) = tokio::join!(untouched, beside);
    assert_eq!((seen.text(), exit.unwrap().swept), ("up\nunharmed\n", 2));
    assert!(!other.alive());
}

#[tokio::test]
async fn programs_that_hide_are_found() {
    let pool = pool().await;
    let marker = Marker::new();
    let (exit, _) = run(&pool, marker.agent("--nondumpable --fork nasty --fork session --say done")).await;
    assert_eq!((exit.swept, marker.alive()), (2, false));
    // Another program, with no environment, in a session of its own, left behind by a shell.
    let script = "setsid sleep 97 & setsid setsid env -i sleep 97 & exit 0";
    let mut launch = marker.agent("--exec /bin/sh -c");
    launch.args.push(script.into());
    let (exit, _) = run(&pool, launch).await;
    assert_eq!((exit.status, exit.swept, marker.alive()), (Some(ExitStatus::Code(0)), 2, false));
}

#[tokio::test]
async fn a_sleeper_that_holds_the_pipe_does_not_hold_the_run() {
    let pool = pool().await;
    for mode in ["group", "session", "nasty"] {
        let begin = Instant::now();
        let (exit, stdout) = run(&pool, agent(&format!("--fork {mode} --say answer"))).await;
        assert_eq!((stdout.as_slice(), exit.swept), (b"answer\n".as_slice(), 1));
        assert!(begin.elapsed() < Duration::from_millis(500), "{mode}: {:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn a_pipe_held_outside_the_tree_is_read_for_two_seconds() {
    let pool = pool().await;
    let mut holder = None;
    let mut pid = None;
    let (send, receive) = std::sync::mpsc::channel();
    // As a daemon that the agent talks to would: we, who are no descendant, open its stdout.
    let mut seen = Seen::when("up", || {
        send.send(()).unwrap();
        Flow::Go
    });
    let release = Marker::new();
    let file = release.path("go");
    let steps = format!("--say up --wait-file {} --say answer --exit 2", file.display());
    let launch = agent(&steps);
    let begin = Instant::now();
    let run = async { pool.supervise(launch, Limits::default(), &Stop::default(), &mut seen).await.unwrap() };
    let hold = async {
        loop {
            if receive.try_recv().is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        pid = child_with_stdout();
        holder = std::fs::File::options().append(true).open(format!("/proc/{}/fd/1", pid.unwrap())).ok();
        std::fs::write(&file, "").unwrap();
    };
    let (exit, ()) = within(10, async { tokio::join!(run, hold) }).await;
    assert!(holder.is_some());
    assert_eq!((exit.status, exit.ended_by), (Some(ExitStatus::Code(2)), EndedBy::Itself));
    assert!(exit.stdout.head.ends_with(b"answer\n"));
    assert!(begin.elapsed() >= Duration::from_secs(2) && begin.elapsed() < Duration::from_secs(3));
    works(&pool).await;
}

/// The one leader that this test's keeper runs.
fn child_with_stdout() -> Option<i32> {
    let launcher = only_child(std::process::id().try_into().ok()?)?;
    only_child(only_child(launcher)?)
}

fn only_child(pid: i32) -> Option<i32> {
    let children = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.filter_map(|task| {
        let text = std::fs::read_to_string(task.ok()?.path().join("children")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    });
    children.into_iter().next()
}

#[tokio::test]
async fn what_an_escaped_writer_planned_does_not_happen() {
    let pool = pool().await;
    let marker = Marker::new();
    let file = marker.path("late");
    let stop = Stop::default();
    let mut seen = Seen::when("up", || {
        stop.request(EndedBy::Cancelled);
        Flow::Go
    });
    let launch = marker.agent(&format!("--later 1500 {} --say up --hang", file.display()));
    within(5, pool.supervise(launch, Limits::default(), &stop, &mut seen)).await.unwrap();
    // Nobody is left who could write it.
    assert!(!marker.alive() && !file.exists());
}

#[tokio::test]
async fn fifty_dead_orphans_are_reaped() {
    let pool = pool().await;
    let marker = Marker::new();
    let (up, go) = (marker.path("up"), marker.path("go"));
    let mut seen = Seen::when("up", || {
        std::fs::write(&up, "").unwrap();
        Flow::Go
    });
    let launch = marker.agent(&format!("--orphans 50 --say up --wait-file {} --say end", go.display()));
    let run = supervise(&pool, launch, &mut seen);
    let look = async {
        until("the agent is up", Duration::from_secs(5), || up.exists()).await;
        let keeper = only_child(only_child(std::process::id().try_into().unwrap()).unwrap()).unwrap();
        until("the keeper has one child, dead or alive", Duration::from_secs(5), || children_of(keeper) == 1)
            .await;
        std::fs::write(&go, "").unwrap();
    };
    let (exit, ()) = within(10, Box::pin(async { tokio::join!(run, look) })).await;
    // They ended by themselves: nobody was swept.
    assert_eq!(exit.unwrap().swept, 0);
}

fn children_of(parent: i32) -> usize {
    let all = std::fs::read_dir("/proc").unwrap();
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| status_of(*pid, "PPid").is_some_and(|ppid| ppid == parent.to_string())).count()
}

#[tokio::test]
async fn a_dropped_run_is_killed() {
    let pool = pool().await;
    let marker = Marker::new();
    let stop = Stop::default();
    let (send, receive) = tokio::sync::oneshot::channel();
    let mut seen = Seen::when("up", || {
        send.send(()).unwrap();
        Flow::Go
    });
    let launch = marker.agent("--ignore 15 --fork nasty --say up --hang");
    tokio::select! {
        _ = pool.supervise(launch, Limits::default(), &stop, &mut seen) => panic!("it does not end"),
        up = receive => up.unwrap(),
    }
    marker.gone_within(Duration::from_secs(1)).await;
    works(&pool).await;
}
