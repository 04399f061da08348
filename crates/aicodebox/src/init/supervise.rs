use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{
    child::Child,
    reaper::{Found, reap},
    say,
    signals::Signals,
    terminal,
};

/// How long after SIGTERM the main process may live. With the [farewell](super::farewell) it stays below the 10 s after
/// which a container engine kills; the server is done in 6.5 s.
const DEAF: Duration = Duration::from_secs(7);

/// The process whose end is the end of the box, and the server beside an agent's own interface.
pub(super) struct Supervision {
    main: Child,
    companion: Option<Child>,
    /// When the main process is killed.
    deadline: Option<Instant>,
}

impl Supervision {
    pub(super) fn new(main: Child, companion: Option<Child>) -> Self {
        Self { main, companion, deadline: None }
    }

    /// Forwards signals and reaps everything until the main process has ended; gives its exit code, and what goes on
    /// beside it.
    pub(super) fn run(mut self, signals: &Signals) -> (u8, Option<Child>) {
        loop {
            if let Some(code) = self.reap() {
                return (code, self.companion);
            }
            match signals.next(self.deadline) {
                Ok(Some(signal)) => self.forward(signal),
                Ok(None) => {
                    say("the main process does not end: it is killed");
                    self.main.signal(Signal::SIGKILL);
                    self.deadline = None;
                }
                Err(error) => {
                    // Cannot happen with a descriptor of our own; spinning would be worse than ending.
                    say(format_args!("signals cannot be read any more: {error}"));
                    return (1, self.companion);
                }
            }
        }
    }

    /// Reaps what is dead; the exit code of the main process when it is among them.
    fn reap(&mut self) -> Option<u8> {
        loop {
            match reap() {
                Found::Ended { pid, code } if pid == self.main.pid() => return Some(code),
                Found::Ended { pid, code } => {
                    if self.companion.take_if(|child| child.pid() == pid).is_some() {
                        say(format_args!("the server ended with {code}; the agent's interface goes on"));
                    }
                }
                Found::Stopped { pid } if pid == self.main.pid() => terminal::stopped(&self.main),
                Found::Stopped { .. } => {}
                // The main process is a child until it is reaped above.
                Found::Alive | Found::None => return None,
            }
        }
    }

    /// To the main process alone; a stop to both, so that they end at the same time.
    fn forward(&mut self, signal: Signal) {
        match signal {
            // The reason why we were woken, and what the kernel says to background groups.
            Signal::SIGCHLD | Signal::SIGTTIN | Signal::SIGTTOU => {}
            Signal::SIGTERM => {
                self.main.signal(signal);
                if let Some(server) = &self.companion {
                    server.signal(signal);
                }
                self.deadline.get_or_insert_with(|| Instant::now() + DEAF);
            }
            other => self.main.signal(other),
        }
    }
}
