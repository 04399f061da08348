//! Forgets what is too old or too much, a little at a time.

use std::time::{Duration, Instant, SystemTime};

use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::{convert::to_millis, write::SESSIONS_KEPT};

/// At most so many runs, or blocks of events, go in one step: the writer is held up for a few milliseconds.
const STEP: i64 = 64;
/// For so long what is too much goes in one step, bite by bite. What is left is weighed after each.
const HELD: Duration = Duration::from_millis(10);
/// Blocks of events in a bite: with their 64 KiB they are half a mebibyte.
const BLOCKS: i64 = 8;
/// Runs end nearly in the order in which they began: the oldest to end is among so many.
const NEAR: i64 = 512;
/// Free pages that are given back to the file system in one step, and from how many on.
const FREED: i64 = 1_024;
const WORTH_FREEING: i64 = 4_096;

/// How long and how much is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    pub(super) ttl: Duration,
    pub(super) max_bytes: u64,
}

impl Retention {
    /// How often there may be something to forget.
    pub(super) fn interval(&self) -> Duration {
        (self.ttl / 10).clamp(Duration::from_secs(1), Duration::from_secs(5))
    }

    /// Forgets a little. Returns whether there is more.
    pub(super) fn step(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let now = SystemTime::now();
        let expired = connection
            .prepare_cached(
                "DELETE FROM run WHERE number IN (SELECT number FROM
                 (SELECT number, finished FROM run WHERE status <> 'running' ORDER BY number LIMIT ?2)
                 WHERE finished <= ?1 LIMIT ?3)",
            )?
            .execute(params![to_millis(before(now, self.ttl)), NEAR, STEP])?;
        let sessions = to_millis(before(now, SESSIONS_KEPT));
        for table in ["session", "session_usage"] {
            connection
                .prepare_cached(&format!("DELETE FROM {table} WHERE used < ?1"))?
                .execute([sessions])?;
        }
        let too_much = self.shrink(connection)?;
        let free = Space::of(connection)?.free;
        if free > WORTH_FREEING {
            // Each row is a page that was given back.
            let mut vacuum = connection.prepare_cached(&format!("PRAGMA incremental_vacuum({FREED})"))?;
            let mut pages = vacuum.query([])?;
            while pages.next()?.is_some() {}
        }
        Ok(expired > 0 || too_much || free > WORTH_FREEING)
    }

    /// Forgets runs until the rest fits: see [`bite`].
    fn shrink(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let end = Instant::now() + HELD;
        while Instant::now() < end {
            if Space::of(connection)?.used_bytes() <= self.max_bytes || !bite(connection)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Takes a little away: events of the run that ended first, then, when no events are left, the first run itself. The
/// run that ended last comes at last, its events too: somebody may be about to read them. Returns whether there was
/// anything.
fn bite(connection: &Connection) -> rusqlite::Result<bool> {
    let number = |query: &str, bound: &[i64]| {
        let mut statement = connection.prepare_cached(query)?;
        statement.query_row(params_from_iter(bound), |row| row.get::<_, i64>(0)).optional()
    };
    let last = number(LAST, &[NEAR])?.unwrap_or_default();
    let has_events = number(FIRST_WITH_EVENTS, &[NEAR])?;
    let first = number(FIRST, &[NEAR])?;
    let (statement, bound) = match (has_events.filter(|run| *run != last), first.filter(|run| *run != last)) {
        (Some(run), _) => (TAKE_EVENTS, vec![run, BLOCKS]),
        (None, Some(run)) => (TAKE_RUN, vec![run]),
        (None, None) if has_events.is_some() => (TAKE_EVENTS, vec![last, BLOCKS]),
        (None, None) => (TAKE_RUN, vec![last]),
    };
    Ok(connection.prepare_cached(statement)?.execute(params_from_iter(&bound))? > 0)
}

/// The finished run that ended last, among those that began last.
const LAST: &str = "SELECT number FROM (SELECT number, finished FROM run WHERE status <> 'running'
     ORDER BY number DESC LIMIT ?1) ORDER BY finished DESC, number DESC LIMIT 1";
/// The one that ended first, among those that began first.
const FIRST: &str = "SELECT number FROM (SELECT number, finished FROM run WHERE status <> 'running'
     ORDER BY number LIMIT ?1) ORDER BY finished, number LIMIT 1";
/// The same of those that have events: from one run's to the next one's, past all the blocks in between.
const FIRST_WITH_EVENTS: &str = "WITH RECURSIVE kept (run) AS (
         SELECT min(place) >> 16 FROM events
         UNION ALL
         SELECT (SELECT min(place) >> 16 FROM events WHERE place >= (kept.run + 1) << 16) FROM kept
         WHERE kept.run IS NOT NULL LIMIT ?1)
     SELECT number FROM kept JOIN run ON number = kept.run WHERE status <> 'running'
     ORDER BY finished, number LIMIT 1";
const TAKE_EVENTS: &str = "DELETE FROM events WHERE place IN (SELECT place FROM events
     WHERE place BETWEEN ?1 << 16 AND (?1 << 16) + 65535 ORDER BY place LIMIT ?2)";
const TAKE_RUN: &str = "DELETE FROM run WHERE number = ?1";

fn before(now: SystemTime, age: Duration) -> SystemTime {
    now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// How the file is used.
struct Space {
    page: i64,
    pages: i64,
    free: i64,
}

impl Space {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        Ok(Self { page: number("page_size")?, pages: number("page_count")?, free: number("freelist_count")? })
    }

    fn used_bytes(&self) -> u64 {
        u64::try_from((self.pages - self.free) * self.page).unwrap_or(0)
    }
}
