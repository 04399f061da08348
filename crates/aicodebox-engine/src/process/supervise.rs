use std::{io, ops::ControlFlow, time::Duration};

use tokio::{
    task::yield_now,
    time::{Instant, sleep_until},
};

use super::{
    Flow, Limits, Output, Requests, Running, Stop, StopPlan, Stream,
    message::{Ended, Order},
    pump::{Pump, Ready, any},
    running::status,
    times,
};
use crate::run::{EndedBy, Exit, Failure, FailureKind, Room};

/// The end of a run that was stopped before there was a process.
pub(super) fn unstarted(ended_by: EndedBy, took: Duration) -> Exit {
    Exit { took, ..Exit::bare(None, ended_by) }
}

impl Running {
    /// The one loop that owns a run: drains both pipes from the first instant to the last, writes standard input
    /// beside that, watches the limits and the requests, and ends when the keeper has reported that nothing is
    /// left and both pipes are at their end (or nobody of the run can hold them any more).
    ///
    /// Nothing is awaited outside the `select!`, and the branches that can stop a run come first: an agent that
    /// prints without end cannot put them off. The pipes come in no order, so that none keeps another waiting.
    pub async fn drive(mut self, limits: Limits, stop: &Stop, output: &mut dyn Output) -> Exit {
        output.started(self.pid);
        let mut requests = stop.watch();
        let mut watch = Watch::new(limits, self.started, self.plan);
        let asked = *requests.borrow_and_update();
        watch.request(&self, asked);
        let mut stdin = self.pipes.stdin.take().filter(|feed| feed.written < feed.bytes.len());
        let mut stdout = Pump::new(Stream::Stdout, self.pipes.stdout.take());
        let mut stderr = Pump::new(Stream::Stderr, self.pipes.stderr.take());
        let mut room: Option<Room> = None;
        let mut alarm = std::pin::pin!(sleep_until(self.started));
        for pump in [&mut stdout, &mut stderr] {
            // What an agent said that has ended already, and the end.
            for _ in 0..2 {
                let said = pump.drain(output, &mut watch.last_byte);
                watch.flow(&self, said);
            }
            if let Err(error) = pump.watch() {
                watch.flow(&self, Flow::Abort(unreadable(&error)));
            }
        }
        loop {
            // Who is not read says nothing.
            let unread = room.is_some();
            let limit = watch.next_limit(unread);
            if let Some(limit) = limit.filter(|limit| alarm.deadline() != *limit) {
                alarm.as_mut().reset(limit);
            }
            let flow = tokio::select! {
                biased;
                Ok(()) = requests.changed() => {
                    let asked = *requests.borrow_and_update();
                    watch.request(&self, asked);
                    Flow::Go
                }
                () = &mut alarm, if limit.is_some() => {
                    if watch.alarm(&self, unread).is_break() {
                        break;
                    }
                    Flow::Go
                }
                ended = self.ended(), if watch.ended.is_none() => {
                    watch.ended(ended);
                    Flow::Go
                }
                () = async { if let Some(room) = &mut room { room.await } }, if room.is_some() => {
                    room = None;
                    watch.last_byte = Instant::now();
                    Flow::Go
                }
                pipe = any(&stdout, &stderr, &mut stdin, !unread) => match pipe {
                    Ready::Stdout => stdout.drain(output, &mut watch.last_byte),
                    Ready::Stderr => stderr.drain(output, &mut watch.last_byte),
                    Ready::Stdin => Flow::Go,
                },
            };
            watch.flow(&self, flow);
            // What has ended says no more than its pipes hold, and reading that has a limit of its own.
            room = room.or_else(|| output.full()).filter(|_| watch.ended.is_none());
            if stdout.full || stderr.full {
                // A pipe that is always full would keep this worker: with one worker nobody else had a turn for 0.2 s.
                yield_now().await;
            }
            if watch.ended.is_some() && stdout.pipe.is_none() && stderr.pipe.is_none() {
                break;
            }
        }
        let took = self.started.elapsed();
        let ended = watch.ended.take().unwrap_or_else(|| Ended { stuck: vec![self.pid], ..Ended::default() });
        let exit = Exit {
            status: status(&ended),
            ended_by: watch.ended_by(&ended),
            swept: ended.swept,
            stuck: ended.stuck.clone(),
            took,
            stdout: stdout.kept.finish(),
            stderr: stderr.kept.finish(),
            abort: watch.abort,
        };
        self.over(&ended);
        exit
    }
}

/// Why and when a run is to end. Knows the limits; the loop knows the pipes.
struct Watch {
    limits: Limits,
    started: Instant,
    plan: StopPlan,
    last_byte: Instant,
    /// The final event was read then.
    done: Option<Instant>,
    /// The first reason for which a stop was sent.
    reason: Option<EndedBy>,
    abort: Option<Failure>,
    /// When a keeper that was told to stop must have reported; moved on when the launcher was told to kill it.
    overdue: Option<Instant>,
    killed: bool,
    ended: Option<Ended>,
    /// When reading ends after the report.
    drained: Option<Instant>,
}

impl Watch {
    fn new(limits: Limits, started: Instant, plan: StopPlan) -> Self {
        Self {
            limits,
            started,
            plan,
            last_byte: started,
            done: None,
            reason: None,
            abort: None,
            overdue: None,
            killed: false,
            ended: None,
            drained: None,
        }
    }

    /// The next instant at which something is to be decided; `unread` = nothing is read of the run just now.
    fn next_limit(&self, unread: bool) -> Option<Instant> {
        if self.ended.is_some() {
            return self.drained;
        }
        if self.reason.is_some() {
            return self.overdue;
        }
        let idle = self.idle().filter(|_| !unread);
        [self.deadline(), idle, self.lingering()].into_iter().flatten().min()
    }

    fn deadline(&self) -> Option<Instant> {
        self.limits.deadline.and_then(|limit| self.started.checked_add(limit))
    }

    fn idle(&self) -> Option<Instant> {
        self.limits.idle.and_then(|limit| self.last_byte.checked_add(limit))
    }

    fn lingering(&self) -> Option<Instant> {
        self.done.map(|done| done + times::FINISHED_GRACE)
    }

    /// The next limit is reached. Break: the loop has waited long enough.
    fn alarm(&mut self, running: &Running, unread: bool) -> ControlFlow<()> {
        let now = Instant::now();
        let past = |limit: Option<Instant>| limit.is_some_and(|limit| limit <= now);
        if self.ended.is_some() {
            return ControlFlow::Break(());
        }
        if self.reason.is_some() {
            return self.overdue(running, now);
        }
        if past(self.deadline()) {
            self.stop(running, EndedBy::Deadline);
        } else if past(self.idle()) && !unread {
            self.stop(running, EndedBy::Idle);
        } else if past(self.lingering()) {
            self.stop(running, EndedBy::Finished);
        }
        ControlFlow::Continue(())
    }

    /// The keeper did not report although it was told to stop.
    fn overdue(&mut self, running: &Running, now: Instant) -> ControlFlow<()> {
        if self.overdue.is_none_or(|limit| limit > now) {
            return ControlFlow::Continue(());
        }
        if self.killed {
            return ControlFlow::Break(());
        }
        tracing::error!(pid = running.pid, "a keeper does not report the end of its run; it is killed");
        self.killed = true;
        self.overdue = Some(now + times::ADOPTION + times::WEDGED);
        running.pool.kill(running.keeper.id);
        ControlFlow::Continue(())
    }

    /// Somebody wants the run to end: politely first, at once when a stop is already on its way. Called once for
    /// each change of the requests.
    fn request(&mut self, running: &Running, requests: Requests) {
        let Some(reason) = requests.reason else { return };
        let stopping = self.reason.is_some();
        if !stopping {
            self.stop(running, reason);
        }
        if stopping || requests.now {
            self.order(running, &Order::Kill, Duration::ZERO);
        }
    }

    /// What the reader says to the last chunk.
    fn flow(&mut self, running: &Running, flow: Flow) {
        match flow {
            Flow::Go => {}
            Flow::Done => {
                if self.reason.is_none() {
                    self.done.get_or_insert_with(Instant::now);
                }
            }
            Flow::Abort(failure) => {
                if self.reason.is_none() && self.done.is_none() {
                    self.abort = Some(failure);
                    self.stop(running, EndedBy::Abort);
                }
            }
        }
    }

    /// Sends the stop of the plan. The first reason stays.
    fn stop(&mut self, running: &Running, reason: EndedBy) {
        // A run that has its answer is not spoiled by whoever stops it now.
        let reason = if self.done.is_some() { EndedBy::Finished } else { reason };
        self.reason = Some(reason);
        let grace = if reason == EndedBy::Shutdown { times::SHUTDOWN_GRACE } else { self.plan.grace };
        self.order(running, &Order::Stop(StopPlan { grace, ..self.plan }), grace);
    }

    fn order(&mut self, running: &Running, order: &Order<'_>, grace: Duration) {
        if self.ended.is_none() {
            // It fails when the keeper is dead, which its socket tells as well.
            running.keeper.socket.send_now(order).ok();
            self.overdue = Some(Instant::now() + grace + times::SWEEP + times::WEDGED);
        }
    }

    fn ended(&mut self, ended: Ended) {
        self.ended = Some(ended);
        self.drained = Some(Instant::now() + times::DRAIN);
    }

    fn ended_by(&self, ended: &Ended) -> EndedBy {
        match self.reason {
            Some(EndedBy::Abort) => EndedBy::Abort,
            Some(reason) if ended.stopped || ended.status.is_none() => reason,
            None if ended.abandoned => EndedBy::Lost,
            // A stop that came too late stopped nothing.
            Some(_) | None => EndedBy::Itself,
        }
    }
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::new(FailureKind::Spawn { code: 126 }, format!("the agent's output cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_read_is_not_silent() {
        let (second, now) = (Duration::from_secs(1), Instant::now());
        let plan = StopPlan { signal: 15, grace: second };
        let limits = Limits { deadline: Some(5 * second), idle: Some(second) };
        let watch = Watch::new(limits, now, plan);
        assert_eq!(watch.next_limit(false), Some(now + second));
        assert_eq!(watch.next_limit(true), Some(now + 5 * second));
    }
}
