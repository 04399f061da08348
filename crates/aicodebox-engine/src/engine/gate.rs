use std::{
    collections::{HashSet, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// What to do when the workspace is taken by another exclusive run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBusy {
    /// Say so at once.
    Refuse,
    /// Wait in the queue.
    Wait,
}

/// Why there is no ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateClosed {
    Busy,
    QueueFull,
}

/// Decides who may run: at most `max_running` at once, everybody else in one bounded queue, first come first
/// served; and one exclusive run per directory. Who waits for a directory does not hold up those behind.
#[derive(Debug)]
pub(super) struct Gate {
    max_running: usize,
    max_queued: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    queue: VecDeque<Waiter>,
    /// Directories of running exclusive runs, and of queued ones that reserved theirs.
    taken: HashSet<PathBuf>,
    next: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    directory: Option<PathBuf>,
    reserved: bool,
    called: oneshot::Sender<()>,
}

/// A place in the queue, then a place to run. Dropping it gives up both, and the directory.
#[derive(Debug)]
pub(super) struct Ticket {
    gate: Arc<Gate>,
    number: u64,
    directory: Option<PathBuf>,
    called: oneshot::Receiver<()>,
}

impl Gate {
    pub(super) fn new(max_running: usize, max_queued: usize) -> Arc<Self> {
        Arc::new(Self { max_running: max_running.max(1), max_queued, state: Mutex::default() })
    }

    /// Takes a place in the queue; `directory` = the run wants it for itself. With [`WhenBusy::Refuse`] the
    /// directory is reserved from now on, also while the run waits for its place.
    pub(super) fn enter(
        self: &Arc<Self>,
        directory: Option<PathBuf>,
        when_busy: WhenBusy,
    ) -> Result<Ticket, GateClosed> {
        let mut state = self.state();
        let free = directory.as_ref().is_none_or(|path| {
            !state.taken.contains(path)
                && !state.queue.iter().any(|other| other.directory.as_ref() == Some(path))
        });
        if !free && when_busy == WhenBusy::Refuse {
            return Err(GateClosed::Busy);
        }
        let at_once =
            free && state.running < self.max_running && state.queue.iter().all(|other| !state.ready(other));
        if !at_once && state.queue.len() >= self.max_queued {
            return Err(GateClosed::QueueFull);
        }
        if free && let Some(path) = &directory {
            state.taken.insert(path.clone());
        }
        state.next += 1;
        let number = state.next;
        let (call, called) = oneshot::channel();
        state.queue.push_back(Waiter { number, directory: directory.clone(), reserved: free, called: call });
        state.advance(self.max_running);
        drop(state);
        Ok(Ticket { gate: self.clone(), number, directory, called })
    }

    /// The directories that are taken, sorted.
    pub(super) fn busy(&self) -> Vec<PathBuf> {
        let mut busy: Vec<_> = self.state().taken.iter().cloned().collect();
        busy.sort();
        busy
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether this waiter needs nothing but a place.
    fn ready(&self, waiter: &Waiter) -> bool {
        waiter.reserved || waiter.directory.as_ref().is_none_or(|path| !self.taken.contains(path))
    }

    fn advance(&mut self, max_running: usize) {
        let mut index = 0;
        while self.running < max_running && index < self.queue.len() {
            if !self.ready(&self.queue[index]) {
                index += 1;
                continue;
            }
            let Some(waiter) = self.queue.remove(index) else { break };
            self.taken.extend(waiter.directory);
            self.running += 1;
            // Nobody listens any more: the ticket is being dropped and gives the place back as soon as it gets
            // the lock.
            let _gone = waiter.called.send(());
        }
    }
}

impl Ticket {
    /// Whether the run still has to wait.
    pub(super) fn waits(&self) -> bool {
        self.gate.state().queue.iter().any(|waiter| waiter.number == self.number)
    }

    /// Waits for the place.
    pub(super) async fn called(&mut self) {
        // An error would mean that it had been called before.
        let _called = (&mut self.called).await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        let holds_directory = match state.queue.iter().position(|waiter| waiter.number == self.number) {
            Some(index) => state.queue.remove(index).is_some_and(|waiter| waiter.reserved),
            None => {
                state.running -= 1;
                true
            }
        };
        if holds_directory && let Some(path) = &self.directory {
            state.taken.remove(path);
        }
        state.advance(self.gate.max_running);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> Option<PathBuf> {
        Some(PathBuf::from(name))
    }

    #[test]
    fn places_are_given_in_order_and_the_queue_is_bounded() {
        let gate = Gate::new(1, 2);
        let first = gate.enter(None, WhenBusy::Wait).unwrap();
        let second = gate.enter(None, WhenBusy::Wait).unwrap();
        let third = gate.enter(None, WhenBusy::Wait).unwrap();
        assert!(!first.waits() && second.waits() && third.waits());
        assert_eq!(gate.enter(None, WhenBusy::Wait).unwrap_err(), GateClosed::QueueFull);
        drop(first);
        assert!(!second.waits() && third.waits());
        // One that leaves the queue makes room and lets nobody jump it.
        drop(third);
        let fourth = gate.enter(None, WhenBusy::Wait).unwrap();
        assert!(fourth.waits());
        drop(second);
        assert!(!fourth.waits());
    }

    #[test]
    fn a_directory_is_had_alone_and_its_waiters_hold_up_nobody() {
        let gate = Gate::new(2, 8);
        let first = gate.enter(path("/a"), WhenBusy::Refuse).unwrap();
        assert_eq!(gate.enter(path("/a"), WhenBusy::Refuse).unwrap_err(), GateClosed::Busy);
        let waiting = gate.enter(path("/a"), WhenBusy::Wait).unwrap();
        let other = gate.enter(path("/b"), WhenBusy::Refuse).unwrap();
        assert!(waiting.waits() && !other.waits());
        assert_eq!(gate.busy(), [PathBuf::from("/a"), PathBuf::from("/b")]);
        drop(other);
        let free = gate.enter(None, WhenBusy::Wait).unwrap();
        assert!(!free.waits(), "the one that waits for /a must not hold up this one");
        drop(first);
        assert!(!waiting.waits());
        drop((waiting, free));
        assert!(gate.busy().is_empty());
    }

    #[test]
    fn a_queued_run_has_reserved_its_directory() {
        let gate = Gate::new(1, 8);
        let running = gate.enter(None, WhenBusy::Wait).unwrap();
        let queued = gate.enter(path("/a"), WhenBusy::Refuse).unwrap();
        assert!(queued.waits());
        assert_eq!(gate.enter(path("/a"), WhenBusy::Refuse).unwrap_err(), GateClosed::Busy);
        drop(queued);
        drop(gate.enter(path("/a"), WhenBusy::Refuse).unwrap());
        drop(running);
    }

    #[test]
    fn waiters_of_one_directory_keep_their_order_and_cannot_be_overtaken() {
        let gate = Gate::new(4, 8);
        let first = gate.enter(path("/a"), WhenBusy::Wait).unwrap();
        let second = gate.enter(path("/a"), WhenBusy::Wait).unwrap();
        drop(first);
        assert!(!second.waits());
        let third = gate.enter(path("/a"), WhenBusy::Wait).unwrap();
        assert_eq!(gate.enter(path("/a"), WhenBusy::Refuse).unwrap_err(), GateClosed::Busy);
        drop(second);
        assert!(!third.waits());
    }

    #[tokio::test]
    async fn the_call_is_heard() {
        let gate = Gate::new(1, 1);
        let mut first = gate.enter(None, WhenBusy::Wait).unwrap();
        first.called().await;
        let mut second = gate.enter(None, WhenBusy::Wait).unwrap();
        let leave = async move { drop(first) };
        tokio::join!(second.called(), leave);
        assert!(!second.waits());
    }
}
