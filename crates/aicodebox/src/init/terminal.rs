//! Ctrl-Z at the agent's own interface.

use std::io;

use nix::{
    sys::signal::{Signal, raise},
    unistd::{getpgrp, getpid, tcsetpgrp},
};

use super::child::Child;

/// The agent's interface stopped itself, or was stopped. Started from a shell, the box stops as well, so that the shell
/// is there again and `fg` continues both. As PID 1 there is no shell that could ever continue it, so it goes on.
pub(super) fn stopped(child: &Child) {
    if getpid().as_raw() != 1 {
        // Our own group is the shell's job.
        tcsetpgrp(io::stdin(), getpgrp()).ok();
        raise(Signal::SIGSTOP).ok();
        // Continued: the shell has given the terminal to us.
        child.take_terminal();
    }
    child.signal_group(Signal::SIGCONT);
}
