use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::run::{EndedBy, Exit, ExitStatus, Origin, RunOutcome};

/// Upper bounds of the classes of durations, in seconds.
pub const SECONDS: [f64; 14] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1_800.0, 7_200.0];

/// What runs have done since the start, in numbers.
#[derive(Debug, Default)]
pub(super) struct Stats(Mutex<Counted>);

/// The numbers. Every name in them is one of ours, so there are never more than a few hundred.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Runs that ended, by surface and by [`RunOutcome::reason`].
    pub runs: BTreeMap<(&'static str, &'static str), u64>,
    /// How many of them took at most so long: one class for each of [`SECONDS`], not cumulated.
    pub durations: [u64; SECONDS.len()],
    /// All of them, in seconds.
    pub seconds: f64,
    /// Tokens by kind.
    pub tokens: BTreeMap<&'static str, u64>,
    /// Agents that we stopped, by reason and whether they had to be killed.
    pub stops: BTreeMap<(&'static str, bool), u64>,
    /// Processes that agents left behind and that were killed.
    pub swept: u64,
}

impl Stats {
    /// An agent's process has ended.
    pub(super) fn exited(&self, exit: &Exit) {
        let mut counted = self.counted();
        counted.swept += u64::from(exit.swept);
        let ended_by = exit.ended_by;
        if ended_by.stopped() || matches!(ended_by, EndedBy::Finished | EndedBy::Abort) {
            let killed = exit.status == Some(ExitStatus::Signal(9));
            *counted.stops.entry((ended_by.name(), killed)).or_default() += 1;
        }
    }

    /// A run has ended.
    pub(super) fn ended(&self, origin: &Origin, outcome: &RunOutcome) {
        let mut counted = self.counted();
        *counted.runs.entry((origin.surface(), outcome.reason())).or_default() += 1;
        let seconds = outcome.took.as_secs_f64();
        counted.seconds += seconds;
        if let Some(class) = SECONDS.iter().position(|bound| seconds <= *bound) {
            counted.durations[class] += 1;
        }
        let Some(usage) = &outcome.usage else { return };
        let tokens = &usage.tokens;
        let kinds = [
            ("input", tokens.input),
            ("output", tokens.output),
            ("cache_read", tokens.cache_read),
            ("cache_write", tokens.cache_write),
            ("reasoning", tokens.reasoning),
        ];
        for (kind, count) in kinds {
            let sum = counted.tokens.entry(kind).or_default();
            *sum = sum.saturating_add(count.unwrap_or_default());
        }
    }

    /// The numbers as they are now.
    pub(super) fn read(&self) -> Counted {
        self.counted().clone()
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
