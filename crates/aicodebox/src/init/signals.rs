use std::{
    io,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use aicodebox_engine::process;
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigmaskHow, Signal, sigprocmask},
        signalfd::{SfdFlags, SignalFd},
    },
};

/// Every signal of this process, read one after the other: none is lost, and no handler runs.
pub(super) struct Signals(SignalFd);

/// A signal that means the end of the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StopSignal(pub(super) Signal);

impl StopSignal {
    /// Whether this is one.
    pub(super) fn of(signal: Signal) -> Option<Self> {
        [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP]
            .contains(&signal)
            .then_some(Self(signal))
    }

    /// The exit code of whoever ends by it.
    pub(super) fn code(self) -> u8 {
        // At most 15.
        128 + self.0 as u8
    }
}

impl Signals {
    /// Blocks all signals but those that report a fault of this program. Must come before anything is started.
    pub(super) fn block() -> io::Result<Self> {
        let set = process::blocked();
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&set), None)?;
        Ok(Self(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// The next signal; `None` when `until` has passed without one.
    pub(super) fn next(&self, until: Option<Instant>) -> io::Result<Option<Signal>> {
        loop {
            if let Some(signal) = self.pending()? {
                return Ok(Some(signal));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            // Rounded up, or the last millisecond would be a busy loop.
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            });
            match poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], timeout) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A stop that came while nobody waited for signals.
    pub(super) fn pending_stop(&self) -> io::Result<Option<StopSignal>> {
        while let Some(signal) = self.pending()? {
            if let Some(stop) = StopSignal::of(signal) {
                return Ok(Some(stop));
            }
        }
        Ok(None)
    }

    /// One that has come already. Real-time signals mean nothing here and are dropped.
    fn pending(&self) -> io::Result<Option<Signal>> {
        while let Some(info) = self.0.read_signal()? {
            let number = i32::try_from(info.ssi_signo).unwrap_or_default();
            if let Ok(signal) = Signal::try_from(number) {
                return Ok(Some(signal));
            }
        }
        Ok(None)
    }
}
