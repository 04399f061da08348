//! Forgets what is too old or too much, a little at a time.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, params};

use super::{convert::to_millis, write::SESSIONS_KEPT};

/// At most so many runs, or blocks of events, go in one step: the writer is held up for a few milliseconds.
const STEP: i64 = 64;
/// So many at once, when what is left is weighed in between.
const BITE: i64 = 8;
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

    /// The oldest finished runs lose their events first, then they go themselves.
    fn shrink(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let mut events = connection.prepare_cached(
            "DELETE FROM events WHERE place IN (SELECT place FROM events
             JOIN run ON number = place >> 16 WHERE status <> 'running' ORDER BY place LIMIT ?1)",
        )?;
        let mut runs = connection.prepare_cached(
            "DELETE FROM run WHERE number IN
             (SELECT number FROM run WHERE status <> 'running' ORDER BY number LIMIT ?1)",
        )?;
        for _ in 0..STEP / BITE {
            if Space::of(connection)?.used_bytes() <= self.max_bytes {
                return Ok(false);
            }
            if events.execute([BITE])? == 0 && runs.execute([BITE])? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

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
