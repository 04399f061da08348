use std::io;

use tokio::{
    net::unix::pipe,
    time::{Instant, timeout_at},
};

use super::{
    Pool, StopPlan,
    message::{Ended, Order, Report},
    pipes::Pipes,
    pool::Keeper,
    times,
};
use crate::run::ExitStatus;

/// A started process. Dropped, it and everything that it started are killed.
///
/// [`Pool::supervise`] drives one to its end. Whoever talks with a process instead takes its pipes, and must read
/// both of them to the end: a full pipe stops the process.
#[derive(Debug)]
pub struct Running {
    pub(super) pid: i32,
    pub(super) pipes: Pipes,
    pub(super) keeper: Keeper,
    /// Since when the keeper is dead.
    pub(super) lost: Option<Instant>,
    pub(super) started: Instant,
    pub(super) plan: StopPlan,
    pub(super) pool: Pool,
    pub(super) _permit: tokio::sync::OwnedSemaphorePermit,
}

impl Running {
    /// The process, which leads a group of its own.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Standard input, once; only of [`Stdin::Piped`](super::Stdin::Piped). Dropping it is the end of file.
    pub fn take_stdin(&mut self) -> Option<pipe::Sender> {
        self.pipes.stdin.take().map(|feed| feed.pipe)
    }

    /// Standard output, once. An error when the system cannot watch it.
    pub fn take_stdout(&mut self) -> Option<io::Result<pipe::Receiver>> {
        self.pipes.stdout.take().map(pipe::Receiver::from_file_unchecked)
    }

    /// Standard error, once. An error when the system cannot watch it.
    pub fn take_stderr(&mut self) -> Option<io::Result<pipe::Receiver>> {
        self.pipes.stderr.take().map(pipe::Receiver::from_file_unchecked)
    }

    /// Asks the process to end; when the plan's grace is over, everything is killed. Asked again: at once.
    pub fn stop(&self) -> io::Result<()> {
        self.keeper.socket.send_now(&Order::Stop(self.plan))
    }

    /// Waits until the process and all that it started are gone, and returns how it ended: `None` when its keeper
    /// died. Does not stop it.
    pub async fn wait(mut self) -> Option<ExitStatus> {
        let ended = self.ended().await;
        self.over(&ended);
        status(&ended)
    }

    /// The keeper's report, or what there is to say when it died. Nothing is lost when the future is dropped.
    pub(super) async fn ended(&mut self) -> Ended {
        loop {
            match self.keeper.socket.receive().await {
                Ok(Report::Ended(ended)) => return ended,
                Ok(Report::Started { .. } | Report::NotStarted { .. }) => {}
                Err(_) => break,
            }
        }
        // The launcher kills what the keeper left. When it is dead too, there is nobody to wait for.
        let lost = *self.lost.get_or_insert_with(Instant::now);
        let stuck = match timeout_at(lost + times::ADOPTION, &mut self.keeper.gone).await {
            Ok(stuck) => stuck.unwrap_or_default(),
            Err(_) => vec![self.pid],
        };
        Ended { stuck, abandoned: true, ..Ended::default() }
    }

    /// Gives the keeper back if it can serve another run.
    pub(super) fn over(self, ended: &Ended) {
        if ended.stuck.is_empty() && !ended.abandoned {
            self.pool.put_back(self.keeper);
        }
    }
}

pub(super) fn status(ended: &Ended) -> Option<ExitStatus> {
    let status = ended.status?;
    let signal = status & 0x7f;
    Some(if signal == 0 { ExitStatus::Code(status >> 8 & 0xff) } else { ExitStatus::Signal(signal) })
}
