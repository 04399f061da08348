//! The system calls that nix does not wrap, or not for every status: the only unsafe code of the launcher and
//! the keepers, together with the start of a leader. Both are single-threaded.
#![expect(unsafe_code, reason = "fork, pidfd_open, close_range, waitpid with __WALL")]

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
    time::Duration,
};

use nix::{
    libc,
    poll::PollFd,
    sys::{
        signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask},
        time::TimeSpec,
    },
};

/// What `waitpid` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// This child is reaped.
    Child { pid: i32, status: i32 },
    /// There are children, all alive.
    Alive,
    /// There are no children: `ECHILD`, the proof that the sweep is over.
    None,
}

/// Reaps one child, or this one, without waiting.
pub(super) fn wait(pid: Option<i32>) -> Waited {
    let mut status = 0;
    // `__WALL`: a child made by clone() with another exit signal than SIGCHLD counts as well. Not nix's waitpid:
    // it fails, after reaping, for a child that a real-time signal ended.
    // SAFETY: `status` outlives the call.
    match unsafe { libc::waitpid(pid.unwrap_or(-1), &raw mut status, libc::WNOHANG | libc::__WALL) } {
        0 => Waited::Alive,
        pid if pid > 0 => Waited::Child { pid, status },
        _ => Waited::None,
    }
}

/// A descriptor that becomes readable when this process ends.
pub(super) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes two integers; the result is checked.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just given us this descriptor, close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Closes every descriptor from `first` on.
pub(super) fn close_from(first: i32) {
    // SAFETY: the caller is at the start of its program and owns no descriptor from `first` on.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
}

/// Gives up the controlling terminal: a password prompt of an agent's tool fails instead of waiting for ever. Not by
/// a session of our own: the scheduler may group processes by session (autogroup), and then agents and server get
/// half of the machine each. It halved the rate of short runs.
pub(super) fn leave_terminal() -> io::Result<()> {
    let terminal = std::fs::File::options().read(true).write(true).open("/dev/tty")?;
    // SAFETY: takes integers.
    match unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCNOTTY) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Forks this single-threaded process. `None` in the child.
pub(super) fn fork() -> io::Result<Option<i32>> {
    // SAFETY: launcher and keepers have one thread, so the child may do whatever its parent may.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => Ok(Some(child.as_raw())),
        nix::unistd::ForkResult::Child => Ok(None),
    }
}

/// Ends a forked child without running what its parent registered for its own exit.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

/// Every signal back to its default action, then all blocked but those that report a fault of this program.
/// [`poll`] lets SIGCHLD through. A leader begins with default actions and thus only has to clear the mask.
pub(super) fn own_signals() -> io::Result<()> {
    extern "C" fn wake(_: libc::c_int) {}

    // Not sigaction: the C library hides two real-time signals, which a careless parent may have had ignored.
    let default = [0_u64; 8];
    for signal in (1..=64).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
        // SAFETY: the kernel reads its sigaction, which is shorter, from `default`: all zero is the default action.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), ptr::null::<u8>(), 8) };
    }
    let wake = SigAction::new(SigHandler::Handler(wake), SaFlags::SA_NOCLDSTOP, SigSet::empty());
    // SAFETY: the handler does nothing; it is there so that SIGCHLD interrupts ppoll.
    unsafe { sigaction(Signal::SIGCHLD, &wake) }?;
    Ok(sigprocmask(SigmaskHow::SIG_SETMASK, Some(&blocked()), None)?)
}

/// All signals but those that report a fault of this program: what may be blocked and waited for.
pub fn blocked() -> SigSet {
    let mut set = SigSet::all();
    for fault in [
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGFPE,
        Signal::SIGILL,
        Signal::SIGABRT,
        Signal::SIGTRAP,
        Signal::SIGSYS,
    ] {
        set.remove(fault);
    }
    set
}

/// Waits for a descriptor, a dead child or the time. Errors other than an interruption are a fault of ours and
/// end the caller.
pub(super) fn poll(fds: &mut [PollFd<'_>], limit: Option<Duration>) -> io::Result<()> {
    let mut mask = blocked();
    mask.remove(Signal::SIGCHLD);
    match nix::poll::ppoll(fds, limit.map(TimeSpec::from_duration), Some(mask)) {
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
