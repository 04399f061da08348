use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{
    SignedDuration, Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};

use super::normalise::{Normal, fault, normalise};

/// When a job is due: a pattern of wall clock times in a time zone.
///
/// On the nights when clocks change, a schedule of fixed times fires once for each of them: at its first occurrence,
/// or, where the wall clock leaves it out, at the next valid instant. One that has `*` in its seconds, minutes or hours
/// is an interval and follows real time: it fires whenever the wall clock shows a matching time, also the second time.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    cron: Cron,
    zone: TimeZone,
    interval: bool,
}

impl Schedule {
    /// Reads five fields, six with seconds first, or an alias such as `@daily`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str, zone: TimeZone) -> Result<Self, String> {
        let Normal { pattern, interval } = normalise(text)?;
        let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build();
        let cron = parser.parse(&pattern).map_err(|error| {
            let field = fault(&pattern, |alone| parser.parse(alone).is_err());
            format!("{field}: {error}")
        })?;
        let schedule = Self { cron, zone, interval };
        // The 30th of February is well written and never comes.
        let comes = schedule.after(Timestamp::UNIX_EPOCH).is_some();
        comes.then_some(schedule).ok_or_else(|| format!("{text:?} never comes"))
    }

    /// The time zone of its wall clock.
    pub(crate) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The first instant after `after`, in whole seconds; `None` when there will be none.
    pub(crate) fn after(&self, after: Timestamp) -> Option<Timestamp> {
        if self.interval { self.interval_after(after) } else { self.fixed_after(after) }
    }

    /// Between two changes of the clock wall and real time run alike; after each change the wall is read anew.
    fn interval_after(&self, after: Timestamp) -> Option<Timestamp> {
        let (mut from, mut inclusive) = (after, false);
        loop {
            let offset = self.zone.to_offset(from);
            let wall = self.next_wall(offset.to_datetime(from), inclusive)?;
            let instant = offset.to_timestamp(wall).ok()?;
            match self.zone.following(from).next() {
                Some(change) if change.timestamp() <= instant => {
                    (from, inclusive) = (change.timestamp(), true)
                }
                Some(_) | None => return Some(instant),
            }
        }
    }

    fn fixed_after(&self, after: Timestamp) -> Option<Timestamp> {
        let mut wall = self.zone.to_datetime(after);
        loop {
            wall = self.next_wall(wall, false)?;
            let instant = self.first_instant(wall)?;
            // In the second half of a repeated hour, its times are behind us although the wall shows them again.
            if instant > after {
                return Some(instant);
            }
        }
    }

    /// When the wall clock shows this for the first time; the end of the gap when it never does.
    fn first_instant(&self, wall: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(wall).ok()
            }
            AmbiguousOffset::Gap { before, .. } => {
                let inside =
                    before.to_timestamp(wall).ok()?.checked_add(SignedDuration::from_nanos(1)).ok()?;
                self.zone.preceding(inside).next().map(|change| change.timestamp())
            }
        }
    }

    /// The next matching time on the wall, as if clocks never changed.
    fn next_wall(&self, wall: DateTime, inclusive: bool) -> Option<DateTime> {
        let wall = wall.to_zoned(TimeZone::UTC).ok()?;
        self.cron.find_next_occurrence(&wall, inclusive).ok().map(|next| next.datetime())
    }
}

#[cfg(test)]
mod tests {
    use jiff::{ToSpan, civil::date};
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).unwrap()
    }

    fn wall_times(schedule: &Schedule, from: &str, count: usize) -> Vec<String> {
        let mut at: Timestamp = from.parse().unwrap();
        let mut times = Vec::new();
        for _ in 0..count {
            at = schedule.after(at).unwrap();
            times.push(at.to_zoned(schedule.zone.clone()).strftime("%m-%d %H:%M%:z").to_string());
        }
        times
    }

    #[derive(Deserialize)]
    struct Vector {
        kind: String,
        expr: String,
        start: String,
        /// What croniter says; a text where it refuses.
        croniter: serde_json::Value,
    }

    #[test]
    fn the_vectors_of_croniter_are_met_or_refused() {
        let vectors = include_str!("../../../tests/cron/vectors.jsonl");
        let (mut met, mut refused) = (0, std::collections::BTreeMap::<String, usize>::new());
        for line in vectors.lines() {
            let vector: Vector = serde_json::from_str(line).unwrap();
            let Ok(schedule) = Schedule::parse(&vector.expr, TimeZone::UTC) else {
                if vector.croniter.is_string() {
                    // So does croniter.
                    continue;
                }
                *refused.entry(vector.kind).or_default() += 1;
                continue;
            };
            let mut at = TimeZone::UTC.to_timestamp(vector.start.parse().unwrap()).unwrap();
            let Some(expected) = vector.croniter.as_array() else {
                // `5L`, as Quartz has it, and `LW` croniter does not know; we do.
                let more = ["L_dow_quartz", "W_dom"].contains(&vector.kind.as_str());
                assert!(more, "{:?} was taken: {}", vector.expr, vector.croniter);
                continue;
            };
            for expected in expected {
                at = schedule.after(at).unwrap();
                let wall = TimeZone::UTC.to_datetime(at).to_string();
                assert_eq!(wall, expected.as_str().unwrap(), "{}: {}", vector.kind, vector.expr);
            }
            met += 1;
        }
        // Ranges that wrap around, and years.
        eprintln!("{met} met, refused: {refused:?}");
        let known = ["edge_invalid", "seven_year_first", "wrap_range"];
        assert!(refused.keys().all(|kind| known.contains(&kind.as_str())), "{refused:?}");
        assert!(met >= 1900, "{met}");
    }

    #[test]
    fn a_fixed_time_fires_once_on_the_nights_of_new_york() {
        let half_past = |minute| Schedule::parse(minute, zone("America/New_York")).unwrap();
        // C1: twice on the wall, once for the job.
        assert_eq!(
            wall_times(&half_past("30 1 * * *"), "2026-10-31T12:00:00Z", 2),
            ["11-01 01:30-04:00", "11-02 01:30-05:00"]
        );
        // Never on the wall: the next valid instant.
        assert_eq!(
            wall_times(&half_past("30 2 * * *"), "2027-03-13T12:00:00Z", 2),
            ["03-14 03:00-04:00", "03-15 02:30-04:00"]
        );
        // Two in the gap are one.
        assert_eq!(
            wall_times(&half_past("0,30 2,3 * * *"), "2027-03-14T06:00:00Z", 3),
            ["03-14 03:00-04:00", "03-14 03:30-04:00", "03-15 02:00-04:00"]
        );
    }

    #[test]
    fn an_interval_follows_real_time() {
        let schedule = Schedule::parse("*/30 * * * *", zone("America/New_York")).unwrap();
        assert_eq!(
            wall_times(&schedule, "2026-11-01T04:45:00Z", 5),
            [
                "11-01 01:00-04:00",
                "11-01 01:30-04:00",
                "11-01 01:00-05:00",
                "11-01 01:30-05:00",
                "11-01 02:00-05:00"
            ]
        );
        assert_eq!(
            wall_times(&schedule, "2027-03-14T06:15:00Z", 2),
            ["03-14 01:30-05:00", "03-14 03:00-04:00"]
        );
    }

    #[test]
    fn what_would_be_misread_is_refused() {
        for (text, why) in [
            ("1,,2 * * * *", "empty"),
            ("* MON * * *", "MON"),
            ("* * * * +1", "'+'"),
            ("* * * * 5 2027 1", "fields"),
            ("0 22-2 * * *", ""),
            ("0 0 30 2 *", "never"),
            ("@fortnightly", "@fortnightly"),
        ] {
            let error = Schedule::parse(text, TimeZone::UTC).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    /// Every instant of `2027` at which the rule wants the job to fire, found by looking at every minute.
    fn by_the_minute(schedule: &Schedule, minutes: &[i8], hours: &[i8]) -> Vec<Timestamp> {
        let zone = &schedule.zone;
        let mut due = Vec::new();
        let mut at = date(2027, 1, 1).at(0, 0, 0, 0).to_zoned(zone.clone()).unwrap().timestamp();
        let end = date(2028, 1, 1).at(0, 0, 0, 0).to_zoned(zone.clone()).unwrap().timestamp();
        let matches = |wall: DateTime| minutes.contains(&wall.minute()) && hours.contains(&wall.hour());
        let mut latest = zone.to_datetime(at - 1.minute());
        while at < end {
            let wall = zone.to_datetime(at);
            // All that the wall has come to since it was furthest: more than one minute after a gap, none in a
            // repeated hour.
            let mut new = latest.checked_add(1.minute()).unwrap();
            let mut fires = schedule.interval && matches(wall);
            while !schedule.interval && new <= wall {
                fires |= matches(new);
                new = new.checked_add(1.minute()).unwrap();
            }
            latest = latest.max(wall);
            if fires {
                due.push(at);
            }
            at += 1.minute();
        }
        due
    }

    fn year(schedule: &Schedule) -> Vec<Timestamp> {
        let begin = date(2027, 1, 1).at(0, 0, 0, 0).to_zoned(schedule.zone.clone()).unwrap().timestamp();
        let end = date(2028, 1, 1).at(0, 0, 0, 0).to_zoned(schedule.zone.clone()).unwrap().timestamp();
        let mut at = begin - 1.second();
        std::iter::from_fn(|| {
            at = schedule.after(at)?;
            (at < end).then_some(at)
        })
        .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn a_year_in_four_zones_is_as_the_rule_says(
            zone_name in prop::sample::select(vec!["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo"]),
            minutes in prop::collection::btree_set(0_i8..60, 1..4),
            hours in prop::option::of(prop::collection::btree_set(0_i8..5, 1..4)),
        ) {
            let list = |values: &std::collections::BTreeSet<i8>| {
                values.iter().map(i8::to_string).collect::<Vec<_>>().join(",")
            };
            let hour_field = hours.as_ref().map_or("*".to_owned(), list);
            let schedule = Schedule::parse(&format!("{} {hour_field} * * *", list(&minutes)), zone(zone_name)).unwrap();
            let minutes: Vec<_> = minutes.into_iter().collect();
            let hours: Vec<_> = hours.map_or((0..24).collect(), |hours| hours.into_iter().collect());
            let got = year(&schedule);
            prop_assert!(got.is_sorted_by(|a, b| a < b), "strictly increasing");
            prop_assert_eq!(got, by_the_minute(&schedule, &minutes, &hours));
        }
    }
}
