use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;

use super::incoming::Upload;
use crate::surface::outbox::Address;

/// Messages that wait in one chat or topic.
const WAITING: usize = 20;

/// A message that the agent is to answer.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) place: Address,
    /// The message that is answered.
    pub(super) message: i32,
    /// The updates that it came in; an album has several.
    pub(super) updates: Vec<u32>,
    /// What the agent is told, but for the files.
    pub(super) prompt: String,
    /// Files to be saved first.
    pub(super) uploads: Vec<Upload>,
    /// Whether it begins a conversation.
    pub(super) fresh: bool,
    /// Whether the answer has to say which message it is for.
    pub(super) quote: bool,
}

/// One turn after the other in each chat and topic. Whoever gets [`Pushed::Begin`] works, and asks for the next turn
/// until there is none.
#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<HashMap<Address, Lane>>);

#[derive(Debug)]
struct Lane {
    waiting: VecDeque<Turn>,
    stop: Arc<Notify>,
    since: Instant,
}

/// What became of a turn that was pushed.
#[derive(Debug)]
pub(super) enum Pushed {
    /// It is to be worked on now; the other is told when people want it stopped.
    Begin(Turn, Arc<Notify>),
    /// It waits, as number so and so.
    Waits(usize),
    /// There is no room.
    Full,
}

/// What a lane is doing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Busy {
    pub(super) since: Instant,
    pub(super) waiting: usize,
}

impl Lanes {
    pub(super) fn push(&self, mut turn: Turn) -> Pushed {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.get_mut(&turn.place) {
            if lane.waiting.len() >= WAITING {
                return Pushed::Full;
            }
            turn.quote = true;
            lane.waiting.push_back(turn);
            return Pushed::Waits(lane.waiting.len());
        }
        let stop = Arc::new(Notify::new());
        let lane = Lane { waiting: VecDeque::new(), stop: stop.clone(), since: Instant::now() };
        lanes.insert(turn.place, lane);
        Pushed::Begin(turn, stop)
    }

    /// The next turn there; when there is none, the lane is free.
    pub(super) fn next(&self, place: Address) -> Option<(Turn, Arc<Notify>)> {
        let mut lanes = self.lanes();
        let lane = lanes.get_mut(&place)?;
        let Some(turn) = lane.waiting.pop_front() else {
            lanes.remove(&place);
            return None;
        };
        // A stop was meant for the turn that is over.
        lane.stop = Arc::new(Notify::new());
        lane.since = Instant::now();
        Some((turn, lane.stop.clone()))
    }

    /// Asks the running turn to stop, the second time at once; `all` = what waits is dropped as well and given back.
    /// `None` = nothing runs.
    pub(super) fn cancel(&self, place: Address, all: bool) -> Option<Vec<Turn>> {
        let mut lanes = self.lanes();
        let lane = lanes.get_mut(&place)?;
        lane.stop.notify_one();
        Some(if all { lane.waiting.drain(..).collect() } else { Vec::new() })
    }

    pub(super) fn busy(&self, place: Address) -> Option<Busy> {
        self.lanes().get(&place).map(|lane| Busy { since: lane.since, waiting: lane.waiting.len() })
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<Address, Lane>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(chat: i64, message: i32) -> Turn {
        Turn {
            place: Address { chat, topic: None },
            message,
            updates: Vec::new(),
            prompt: String::new(),
            uploads: Vec::new(),
            fresh: false,
            quote: false,
        }
    }

    #[test]
    fn t12_a_chat_has_one_turn_at_a_time_in_order_and_a_bound() {
        let lanes = Lanes::default();
        let place = turn(1, 0).place;
        assert!(matches!(lanes.push(turn(1, 0)), Pushed::Begin(..)));
        for number in 1..=WAITING {
            assert!(matches!(lanes.push(turn(1, 1)), Pushed::Waits(at) if at == number));
        }
        assert!(matches!(lanes.push(turn(1, 2)), Pushed::Full));
        assert!(matches!(lanes.push(turn(2, 0)), Pushed::Begin(..)), "another chat is not held up");
        assert_eq!(lanes.cancel(place, true).unwrap().len(), WAITING);
        assert!(lanes.next(place).is_none() && lanes.busy(place).is_none());
        assert!(lanes.cancel(place, false).is_none());
    }
}
