use std::{collections::BTreeMap, sync::Arc, time::Duration};

use aicodebox_engine::store::CronState;
use jiff::Timestamp;

use super::{Job, Missed};

/// A time that is further back than this was missed: nothing ran that could have fired.
const GRACE: Duration = Duration::from_secs(30);
/// Missed times are counted up to this number.
const COUNTED: u64 = 10_000;

/// Which jobs there are, and when each is due. Decides, and does nothing: what it decides is in [`CronState`], which is
/// to be stored before a job is started. Then no time fires twice, whenever the process dies.
#[derive(Debug, Default)]
pub(super) struct Timetable {
    entries: BTreeMap<String, Entry>,
}

/// A job and what is remembered of it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) job: Arc<Job>,
    pub(super) state: CronState,
    /// `None` = never, or not while it is off.
    pub(super) next: Option<Timestamp>,
}

/// What is decided about a job whose time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) job: String,
    /// The time that fires; `None` = all were missed.
    pub(super) slot: Option<Timestamp>,
}

impl Timetable {
    /// The jobs of a file, with what is remembered of them. Times that came while nothing ran are decided by the next
    /// [`Timetable::due`]; a job that is new, or has another schedule than it had, begins now.
    pub(super) fn load(&mut self, jobs: Vec<Job>, mut states: BTreeMap<String, CronState>, now: Timestamp) {
        let mut old = std::mem::take(&mut self.entries);
        for job in jobs {
            let state = old.remove(&job.name).map(|entry| entry.state).or_else(|| states.remove(&job.name));
            let same =
                state.as_ref().is_some_and(|state| state.schedule == schedule_id(&job) && state.enabled);
            let mut state = state.unwrap_or_default();
            if !same || !job.enabled {
                state.decided = millis(now);
            }
            state.schedule = schedule_id(&job);
            state.enabled = job.enabled;
            let mut entry = Entry { job: Arc::new(job), state, next: None };
            entry.plan();
            self.entries.insert(entry.job.name.clone(), entry);
        }
    }

    /// When there is something to decide.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        self.entries.values().filter_map(|entry| entry.next).min()
    }

    /// Decides all times up to `now`.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Due> {
        self.entries.values_mut().filter_map(|entry| entry.due(now)).collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    pub(super) fn state(&mut self, name: &str) -> Option<&mut CronState> {
        self.entries.get_mut(name).map(|entry| &mut entry.state)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Stops a job's times, or lets them come again from now on. `false` = there is no such job.
    pub(super) fn pause(&mut self, name: &str, paused: bool, now: Timestamp) -> bool {
        let Some(entry) = self.entries.get_mut(name) else { return false };
        entry.state.paused = paused;
        entry.state.decided = entry.state.decided.max(millis(now));
        entry.plan();
        true
    }
}

impl Entry {
    fn plan(&mut self) {
        let on = self.job.enabled && !self.state.paused;
        let decided = Timestamp::from_millisecond(self.state.decided).unwrap_or(Timestamp::UNIX_EPOCH);
        self.next = if on { self.job.schedule.after(decided) } else { None };
    }

    fn due(&mut self, now: Timestamp) -> Option<Due> {
        let first = self.next.filter(|next| *next <= now)?;
        let (mut last, mut count) = (first, 1);
        while let Some(next) = self.job.schedule.after(last).filter(|next| *next <= now)
            && count < COUNTED
        {
            (last, count) = (next, count + 1);
        }
        let in_time = Duration::try_from(now.duration_since(last)).unwrap_or_default() <= GRACE;
        let fires = in_time || self.job.missed == Missed::RunOnce;
        self.state.missed += if fires { count - 1 } else { count };
        // Everything up to now is decided, also when counting gave up before.
        self.state.decided = millis(if count < COUNTED { last } else { now });
        self.plan();
        Some(Due { job: self.job.name.clone(), slot: fires.then_some(last) })
    }
}

/// Changes when the times of a job do.
fn schedule_id(job: &Job) -> String {
    format!("{} {}", job.schedule.zone().iana_name().unwrap_or("local"), job.schedule_text)
}

fn millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}

#[cfg(test)]
mod tests {
    use jiff::{ToSpan, tz::TimeZone};
    use proptest::prelude::*;

    use super::*;
    use crate::surface::cron::parse_jobs;

    fn jobs(text: &str) -> Vec<Job> {
        parse_jobs(text, &TimeZone::UTC).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        format!("2026-03-01T{text}Z").parse().unwrap()
    }

    const ONE: &str = "jobs: [{name: a, schedule: '0 9 * * *', instruction: x, missed: skip}]";

    fn fired(table: &mut Timetable, now: Timestamp) -> Vec<Option<Timestamp>> {
        table.due(now).into_iter().map(|due| due.slot).collect()
    }

    #[test]
    fn c3_a_time_that_was_missed_is_skipped_or_runs_once() {
        for (policy, expected) in [("skip", None), ("run_once", Some(at("09:00:00")))] {
            let text = ONE.replace("skip", policy);
            let mut table = Timetable::default();
            table.load(jobs(&text), BTreeMap::new(), at("08:00:00"));
            let states = table.entries().map(|entry| (entry.job.name.clone(), entry.state.clone())).collect();
            // It goes down at 8:59 and comes back at 9:05.
            let mut table = Timetable::default();
            table.load(jobs(&text), states, at("09:05:00"));
            assert_eq!(fired(&mut table, at("09:05:00")), [expected], "{policy}");
            assert_eq!(table.get("a").unwrap().state.missed, u64::from(expected.is_none()));
            assert_eq!(fired(&mut table, at("09:06:00")), []);
            assert_eq!(table.wake(), Some("2026-03-02T09:00:00Z".parse().unwrap()));
        }
    }

    #[test]
    fn c4_a_time_that_fired_does_not_fire_again_after_a_restart() {
        let mut table = Timetable::default();
        table.load(jobs(ONE), BTreeMap::new(), at("08:00:00"));
        assert_eq!(fired(&mut table, at("09:00:00")), [Some(at("09:00:00"))]);
        let states = table.entries().map(|entry| (entry.job.name.clone(), entry.state.clone())).collect();
        let mut table = Timetable::default();
        table.load(jobs(ONE), states, at("09:00:00"));
        assert_eq!(fired(&mut table, at("09:00:00")), []);
    }

    #[test]
    fn a_pause_another_schedule_and_a_clock_that_is_set_back_bring_nothing_back() {
        let mut table = Timetable::default();
        table.load(jobs(ONE), BTreeMap::new(), at("08:00:00"));
        assert!(table.pause("a", true, at("08:30:00")) && !table.pause("b", true, at("08:30:00")));
        assert_eq!(table.wake(), None);
        assert!(table.pause("a", false, at("10:00:00")));
        assert_eq!(fired(&mut table, at("10:00:01")), []);
        // At 10:00 the job is moved to 9:30: that is not a missed time.
        table.load(
            jobs(&ONE.replace("0 9", "30 9").replace("skip", "run_once")),
            BTreeMap::new(),
            at("10:01:00"),
        );
        assert_eq!(fired(&mut table, at("10:01:00")), []);
        let tomorrow = "2026-03-02T09:30:00Z".parse().unwrap();
        assert_eq!(fired(&mut table, tomorrow), [Some(tomorrow)]);
        assert_eq!(fired(&mut table, at("09:30:00")), []);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The process dies and comes back at random moments, also between the decision and its being stored, and
        /// between that and the start of the job.
        #[test]
        fn restarts_neither_repeat_nor_lose_a_time(
            run_once in any::<bool>(),
            steps in prop::collection::vec((1_i64..400, 0_u8..8), 20..200),
        ) {
            let policy = if run_once { "run_once" } else { "skip" };
            let text = format!("jobs: [{{name: a, schedule: '*/2 * * * *', instruction: x, missed: {policy}}}]");
            let schedule = jobs(&text).remove(0).schedule;
            let begin = at("00:00:00") + 1.second();
            let mut now = begin;
            let mut table = Timetable::default();
            table.load(jobs(&text), BTreeMap::new(), now);
            let states = |table: &Timetable| -> BTreeMap<_, _> {
                table.entries().map(|entry| (entry.job.name.clone(), entry.state.clone())).collect()
            };
            let mut stored = states(&table);
            let (mut started, mut lost_by_crash) = (Vec::new(), 0_u64);
            for (seconds, what) in steps {
                now += seconds.seconds();
                if what < 3 {
                    // It was down all the while.
                    table = Timetable::default();
                    table.load(jobs(&text), stored.clone(), now);
                }
                let dues = table.due(now);
                if what == 3 {
                    // It dies before anything is stored: as if nothing had been decided.
                    table = Timetable::default();
                    table.load(jobs(&text), stored.clone(), now);
                    continue;
                }
                stored = states(&table);
                if what == 4 {
                    // It dies between storing and starting: the record is lost with the process.
                    lost_by_crash += dues.iter().filter(|due| due.slot.is_some()).count() as u64;
                    table = Timetable::default();
                    table.load(jobs(&text), stored.clone(), now);
                    continue;
                }
                started.extend(dues.into_iter().filter_map(|due| due.slot));
            }
            prop_assert!(started.is_sorted_by(|a, b| a < b), "no time twice");
            let decided = Timestamp::from_millisecond(stored["a"].decided).unwrap();
            let mut all = 0;
            let mut slot = begin;
            while let Some(next) = schedule.after(slot).filter(|next| *next <= decided) {
                (slot, all) = (next, all + 1);
            }
            prop_assert_eq!(started.len() as u64 + stored["a"].missed + lost_by_crash, all, "every time is accounted for");
        }
    }
}
