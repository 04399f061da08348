use std::{
    io::{self, IsTerminal, Write},
    os::unix::process::CommandExt,
    process::{ChildStdin, Command},
};

use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{SigSet, SigmaskHow, Signal, kill, killpg, sigprocmask},
    },
    unistd::{Pid, getpid, getppid, setpgid, tcsetpgrp},
};

use super::{identity::Identity, say, secrets::Secrets};

/// A process that init started, and the group that it leads.
pub(super) struct Child {
    pid: Pid,
    stdin: Option<ChildStdin>,
}

impl Child {
    /// Starts `command` as the agents' user, in a group of its own, which gets the terminal where it is to be in the
    /// `foreground`. It gets SIGTERM when init is killed.
    ///
    /// # Errors
    /// Of the system.
    pub(super) fn spawn(mut command: Command, identity: &Identity, foreground: bool) -> io::Result<Self> {
        let user = identity.user().cloned();
        let init = getpid();
        let prepare = move || {
            setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
            if foreground {
                // SIGTTOU is still blocked here, so the terminal does not stop us for asking. It may be one that is
                // not ours: then its keys go elsewhere anyway.
                tcsetpgrp(io::stdin(), getpid()).ok();
            }
            if let Some(user) = &user {
                user.become_them()?;
            }
            // As PID 1 init takes everything with it when it is killed; anywhere else the server would go on, and
            // hold its port, with nobody to stop it. After the change of the user, which takes this back.
            prctl::set_pdeathsig(Signal::SIGTERM)?;
            if getppid() != init {
                return Err(Errno::ESRCH.into());
            }
            // Inherited, the mask would make the server and every agent deaf to SIGTERM.
            sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
            Ok(())
        };
        #[expect(unsafe_code, reason = "a child must change its user and group before it executes")]
        // SAFETY: init has one thread, and the closure makes system calls only.
        unsafe {
            command.pre_exec(prepare);
        }
        let mut child = command.spawn()?;
        let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
        // Not waited for through this handle: init reaps everything itself.
        Ok(Self { pid, stdin: child.stdin.take() })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Gives the server its secrets, and closes the pipe.
    pub(super) fn hand_over(&mut self, secrets: &Secrets) {
        if let Some(mut stdin) = self.stdin.take()
            && let Err(error) = stdin.write_all(&secrets.encode())
        {
            say(format_args!("the server did not take its secrets: {error}"));
        }
    }

    /// To this process alone: what it has started, it stops in its own order.
    pub(super) fn signal(&self, signal: Signal) {
        // It may have ended by itself.
        kill(self.pid, signal).ok();
    }

    /// To it and everything in its group.
    pub(super) fn signal_group(&self, signal: Signal) {
        killpg(self.pid, signal).ok();
    }

    /// Gives it the terminal again.
    pub(super) fn take_terminal(&self) {
        if io::stdin().is_terminal() {
            tcsetpgrp(io::stdin(), self.pid).ok();
        }
    }
}
