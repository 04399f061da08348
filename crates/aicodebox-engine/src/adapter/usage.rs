use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::Value;

use super::{
    json::Json,
    pointer::{At, Pointer, Step},
    source::{Source, join},
};
use crate::run::{SessionTotals, Tokens, Usage, add_numbers, subtract_numbers};

/// Ids of `once_per` that are remembered; those after them count each time.
const MAX_IDS: usize = 100_000;

/// At most so many bytes of the provider's own object are kept, as JSON.
const MAX_NATIVE: usize = 16 << 10;

/// `[usage]`.
#[derive(Clone, Debug, Default)]
pub(super) struct UsageSpec {
    pub(super) numbers: Vec<(Counter, Source, UsageScope)>,
    /// Of the provider's own object.
    pub(super) scope: UsageScope,
    pub(super) once_per: Option<Pointer>,
    pub(super) input_includes_cache: bool,
    /// Where the provider's own object is: what all token counts have above them.
    pub(super) native: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    Input,
    Output,
    CacheRead,
    CacheWrite,
    Reasoning,
    Total,
    Cost,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum UsageScope {
    /// The last one counts.
    #[default]
    Run,
    /// They add up.
    Sum,
    /// A counter of the whole session.
    Session,
}

impl Counter {
    pub(super) const ALL: [(&'static str, Self); 7] = [
        ("input", Self::Input),
        ("output", Self::Output),
        ("cache_read", Self::CacheRead),
        ("cache_write", Self::CacheWrite),
        ("reasoning", Self::Reasoning),
        ("total", Self::Total),
        ("cost", Self::Cost),
    ];
}

impl UsageSpec {
    /// The numbers of `format = "events"`.
    pub(super) fn events() -> Self {
        let number = |(name, counter)| (counter, Source::pointer(&format!("/{name}")), UsageScope::Sum);
        let numbers = Counter::ALL.into_iter().map(number).collect();
        Self { numbers, scope: UsageScope::Sum, input_includes_cache: true, ..Self::default() }
    }

    /// What the pointers of all token counts begin with, without their last step.
    pub(super) fn common_steps(numbers: &[(Counter, Source, UsageScope)]) -> Vec<Step> {
        let tokens = numbers.iter().filter(|(counter, ..)| *counter != Counter::Cost);
        let mut parents = tokens.flat_map(|(_, source, _)| source.pointers()).map(|pointer| {
            let (_, parents) = pointer.steps.split_last().unwrap_or((&Step::Any, &[]));
            parents.iter().take_while(|step| **step != Step::Any)
        });
        let mut common: Vec<Step> = parents.next().into_iter().flatten().cloned().collect();
        for other in parents {
            let same = common.iter().zip(other).take_while(|(a, b)| a == b).count();
            common.truncate(same);
        }
        common
    }
}

/// Counts what an attempt consumes.
#[derive(Debug, Default)]
pub(super) struct UsageCount {
    /// By [`Counter`] as index. An `f64` holds every whole number up to 2^53.
    numbers: [Option<f64>; 7],
    native: Option<Value>,
    /// It was too large.
    native_left_out: bool,
    ids: HashSet<u64>,
}

/// What is remembered of an id, which may have megabytes.
pub(super) fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// What was consumed so far.
#[derive(Debug, Default)]
pub(super) struct UsageSoFar {
    pub(super) usage: Option<Usage>,
    /// The session's counters, if it has any.
    pub(super) totals: Option<SessionTotals>,
    /// A number was left out, since the session's counters before this run are not known.
    pub(super) left_out: bool,
}

impl UsageCount {
    /// Takes the object of a `usage` action. Returns whether the provider's own had to be left out from now on.
    pub(super) fn take(&mut self, spec: &UsageSpec, object: &Json<'_>) -> bool {
        let at = At { line: object, item: None };
        if let Some(pointer) = &spec.once_per {
            let mut ids = Vec::new();
            pointer.any(at, &mut |id| {
                ids.push(id);
                false
            });
            if !ids.is_empty() && !self.is_new(&join(&ids)) {
                return false;
            }
        }
        for (counter, source, scope) in &spec.numbers {
            let found: Vec<f64> =
                source.find(at).into_iter().filter_map(|value| value.as_number()?.as_f64()).collect();
            if found.is_empty() {
                continue;
            }
            let number = &mut self.numbers[*counter as usize];
            let before = if *scope == UsageScope::Sum { number.unwrap_or_default() } else { 0.0 };
            *number = Some(before + found.iter().sum::<f64>());
        }
        let native = Pointer { item: false, steps: spec.native.clone() };
        let left_out_before = self.native_left_out;
        native.any(at, &mut |object| {
            // What is told with each line and kept for the next run has a bound: half a million keys, written out
            // again for each of 3,000 lines, held up everybody for half a minute.
            self.native_left_out |= !object.is_within(MAX_NATIVE);
            if !self.native_left_out {
                match (&mut self.native, spec.scope) {
                    (Some(sum), UsageScope::Sum) => add_numbers(sum, &object.to_value()),
                    (native, _) => *native = Some(object.to_value()),
                }
                self.native_left_out =
                    self.native.as_ref().is_some_and(|sum| sum.to_string().len() > MAX_NATIVE);
            }
            true
        });
        if self.native_left_out {
            self.native = None;
        }
        self.native_left_out && !left_out_before
    }

    fn is_new(&mut self, id: &str) -> bool {
        let hash = hash(id);
        if self.ids.len() < MAX_IDS { self.ids.insert(hash) } else { !self.ids.contains(&hash) }
    }

    /// The usage of this attempt: counters of a session that it `resumes` lose what they were before.
    pub(super) fn so_far(
        &self,
        spec: &UsageSpec,
        resumes: bool,
        baseline: Option<&SessionTotals>,
    ) -> UsageSoFar {
        if self.numbers.iter().all(Option::is_none) {
            return UsageSoFar::default();
        }
        let scope = |counter: Counter| {
            spec.numbers.iter().find(|(known, ..)| *known == counter).map(|(_, _, scope)| *scope)
        };
        let is_session = |counter: Counter| scope(counter) == Some(UsageScope::Session);
        let mut native = self.native.clone().unwrap_or_default();
        let mut numbers = self.numbers;
        let mut so_far = UsageSoFar::default();
        if Counter::ALL.iter().any(|(_, counter)| is_session(*counter)) {
            let of_session = |counter: Counter| numbers[counter as usize].filter(|_| is_session(counter));
            let totals = tokens(of_session);
            let native = if spec.scope == UsageScope::Session { native.clone() } else { Value::Null };
            so_far.totals = Some(SessionTotals { native, tokens: totals });
        }
        if resumes && so_far.totals.is_some() {
            // A counter that fell is not the one that was remembered.
            let before = |counter| baseline.map(|baseline| number(&baseline.tokens, counter));
            let fell = |counter: Counter| {
                let both = numbers[counter as usize].zip(before(counter).flatten());
                is_session(counter) && both.is_some_and(|(now, before)| now < before)
            };
            let known = baseline.is_some() && !Counter::ALL.iter().any(|(_, counter)| fell(*counter));
            for (_, counter) in Counter::ALL.into_iter().filter(|(_, counter)| is_session(*counter)) {
                let value = &mut numbers[counter as usize];
                so_far.left_out |= value.is_some() && !known;
                *value = value
                    .filter(|_| known)
                    .map(|total| total - before(counter).flatten().unwrap_or_default());
            }
            if spec.scope == UsageScope::Session {
                match baseline.map(|baseline| &baseline.native).filter(|native| known && native.is_object()) {
                    Some(before) => subtract_numbers(&mut native, before),
                    None => native = Value::Null,
                }
            }
        }
        if numbers.iter().any(Option::is_some) {
            if !spec.input_includes_cache {
                let cache = [Counter::CacheRead, Counter::CacheWrite, Counter::Input];
                let all: f64 = cache.iter().filter_map(|counter| numbers[*counter as usize]).sum();
                numbers[Counter::Input as usize] = Some(all);
            }
            so_far.usage = Some(Usage { native, tokens: tokens(|counter| numbers[counter as usize]) });
        }
        so_far
    }
}

fn tokens(number: impl Fn(Counter) -> Option<f64>) -> Tokens {
    // Clamped first: the cast takes whole numbers from 0 on, and saturates.
    let count = |counter| number(counter).map(|n| n.round().max(0.0) as u64);
    Tokens {
        input: count(Counter::Input),
        output: count(Counter::Output),
        cache_read: count(Counter::CacheRead),
        cache_write: count(Counter::CacheWrite),
        reasoning: count(Counter::Reasoning),
        total: count(Counter::Total),
        cost_usd: number(Counter::Cost),
    }
}

fn number(tokens: &Tokens, counter: Counter) -> Option<f64> {
    let count = match counter {
        Counter::Input => tokens.input,
        Counter::Output => tokens.output,
        Counter::CacheRead => tokens.cache_read,
        Counter::CacheWrite => tokens.cache_write,
        Counter::Reasoning => tokens.reasoning,
        Counter::Total => tokens.total,
        Counter::Cost => return tokens.cost_usd,
    };
    count.map(|n| n as f64)
}
