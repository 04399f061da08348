use nix::libc;

/// What `waitpid` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// This child is gone, with this exit code: its own, or 128 + n after a signal.
    Ended { pid: i32, code: u8 },
    /// This child was stopped, by Ctrl-Z for example.
    Stopped { pid: i32 },
    /// There are children, all of them alive.
    Alive,
    /// There are no children.
    None,
}

/// Reaps one child, whoever started it, without waiting. Call it until there is nothing more: one SIGCHLD may stand
/// for many children.
#[expect(
    unsafe_code,
    reason = "nix's waitpid fails, after reaping, for a child that a real-time signal ended"
)]
pub(super) fn reap() -> Found {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::WUNTRACED | libc::__WALL) };
    match pid {
        0 => Found::Alive,
        pid if pid < 0 => Found::None,
        pid if libc::WIFSTOPPED(status) => Found::Stopped { pid },
        pid => Found::Ended { pid, code: code(status) },
    }
}

fn code(status: i32) -> u8 {
    let code =
        if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) };
    // Both are below 256 by definition.
    u8::try_from(code).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn a_signal_is_128_more() {
        // As the kernel writes them: the code in the second byte, the signal in the first.
        assert_eq!([0, 7 << 8, 137 << 8, 9, 15].map(code), [0, 7, 137, 137, 143]);
    }
}
