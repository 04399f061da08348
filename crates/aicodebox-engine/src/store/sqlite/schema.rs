//! The tables, and how older ones become them.

use rusqlite::Connection;

/// Each step makes the next version of the tables; `user_version` says how many were taken. A step that has been
/// released never changes.
const STEPS: &[&str] = &[
    "
    CREATE TABLE run (
        number INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        status TEXT NOT NULL,
        surface TEXT NOT NULL,
        created INTEGER NOT NULL,             -- milliseconds since 1970, as all times
        finished INTEGER,
        workspace BLOB NOT NULL,
        origin TEXT NOT NULL,                 -- JSON
        note TEXT,                            -- JSON
        outcome_sequence INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX run_by_state ON run (status, surface);

    -- Apart, because lists do not need it.
    CREATE TABLE outcome (
        run INTEGER PRIMARY KEY REFERENCES run ON DELETE CASCADE,
        record TEXT NOT NULL,                 -- JSON
        stdout_head BLOB NOT NULL, stdout_tail BLOB NOT NULL, stdout_dropped INTEGER NOT NULL,
        stderr_head BLOB NOT NULL, stderr_tail BLOB NOT NULL, stderr_dropped INTEGER NOT NULL
    ) STRICT;

    -- Not a row for each event: a fast run has thousands of them in a second.
    CREATE TABLE event_block (
        run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        events BLOB NOT NULL,
        PRIMARY KEY (run, first)
    ) STRICT;

    CREATE TABLE session (
        adapter TEXT NOT NULL,
        workspace BLOB NOT NULL,
        key TEXT NOT NULL,
        id TEXT NOT NULL,
        used INTEGER NOT NULL,
        PRIMARY KEY (adapter, workspace, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX session_by_use ON session (used);

    CREATE TABLE session_usage (
        id TEXT PRIMARY KEY,
        totals TEXT NOT NULL,                 -- JSON
        used INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX session_usage_by_use ON session_usage (used);

    CREATE TABLE claim (
        scope BLOB NOT NULL,
        key TEXT NOT NULL,
        body BLOB NOT NULL,
        run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
        PRIMARY KEY (scope, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX claim_by_run ON claim (run);

    CREATE TABLE callback (
        run INTEGER PRIMARY KEY REFERENCES run ON DELETE CASCADE,
        url TEXT NOT NULL,
        tries INTEGER NOT NULL DEFAULT 0,
        due INTEGER                           -- none: the run is not over
    ) STRICT;
    CREATE INDEX callback_by_due ON callback (due) WHERE due IS NOT NULL;
",
    "
    ALTER TABLE run ADD COLUMN delivery TEXT; -- JSON

    CREATE TABLE cron_job (
        name TEXT PRIMARY KEY,
        state TEXT NOT NULL                   -- JSON
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE telegram_update (
        number INTEGER PRIMARY KEY,           -- the order in which they were taken
        id INTEGER NOT NULL UNIQUE,
        pending TEXT                          -- JSON; none: there is nothing more to do
    ) STRICT;

    CREATE TABLE telegram_moved (
        old INTEGER NOT NULL,
        new INTEGER PRIMARY KEY
    ) STRICT;
",
];

/// The version of the tables that this program knows.
pub(super) fn version() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// The version of the tables that are there.
pub(super) fn found(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Takes the steps that are missing, all or none.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let found = usize::try_from(found(connection)?).unwrap_or(0);
    if found >= STEPS.len() {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for step in &STEPS[found..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", version())?;
    transaction.commit()
}
