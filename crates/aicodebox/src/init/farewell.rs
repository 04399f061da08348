//! The end of a box: nothing that ran in it is left.

use std::time::{Duration, Instant};

use aicodebox_engine::process;
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, getpid},
};

use super::{
    child::Child,
    reaper::{Found, reap},
    signals::Signals,
};

/// How long the server may take when the agent's own interface has ended: its whole shutdown.
const SERVER: Duration = Duration::from_millis(7_000);
/// How long whatever else is left may take to end by itself.
const GRACE: Duration = Duration::from_millis(1_500);
/// How long it is killed, when we are not PID 1, whose end kills everything.
const KILL: Duration = Duration::from_secs(2);
/// Between two rounds: the children of what has ended become ours only now.
const ROUND: Duration = Duration::from_millis(20);

/// Stops the server, if there is one, and then everything that is left.
pub(super) fn end(signals: &Signals, server: Option<Child>) {
    if let Some(server) = server {
        server.signal(Signal::SIGTERM);
        wait(
            signals,
            SERVER,
            |found| matches!(found, Found::Ended { pid, .. } if pid == server.pid()),
            || (),
        );
    }
    if getpid().as_raw() == 1 {
        // Everybody in this PID namespace but ourselves. As any other process this would be the whole machine.
        kill(Pid::from_raw(-1), Signal::SIGTERM).ok();
        wait(signals, GRACE, |_| false, || ());
    } else {
        wait(signals, GRACE, |_| false, || signal_children(Signal::SIGTERM));
        wait(signals, KILL, |_| false, || signal_children(Signal::SIGKILL));
    }
}

/// Reaps until there are no children, `enough` was found, or the time is over; calls `press` in each round.
fn wait(signals: &Signals, limit: Duration, enough: impl Fn(Found) -> bool, press: impl Fn()) {
    let end = Instant::now() + limit;
    loop {
        press();
        loop {
            match reap() {
                Found::None => return,
                Found::Alive => break,
                found if enough(found) => return,
                Found::Ended { .. } | Found::Stopped { .. } => {}
            }
        }
        let now = Instant::now();
        // An error of the system must not make this endless.
        if now >= end || signals.next(Some(end.min(now + ROUND))).is_err() {
            return;
        }
    }
}

/// To our direct children, which are all that is left of what they or others started.
fn signal_children(signal: Signal) {
    for pid in process::children().into_iter().filter(|pid| *pid > 1) {
        kill(Pid::from_raw(pid), signal).ok();
    }
}
