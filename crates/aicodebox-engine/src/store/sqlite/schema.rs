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
    // What belongs to a run by number lies in one tree, ordered by run and number: a short run touches a page less.
    "
    CREATE TABLE events (
        place INTEGER PRIMARY KEY,            -- 65536 * run + number of the first event
        last INTEGER NOT NULL,
        block BLOB NOT NULL
    ) STRICT;
    INSERT INTO events SELECT 65536 * run + first, last, events FROM event_block;
    DROP TABLE event_block;

    ALTER TABLE outcome ADD COLUMN answer TEXT; -- none: it is in the record
    CREATE TABLE answer_piece (
        place INTEGER PRIMARY KEY,            -- 65536 * run + number of the piece
        piece BLOB NOT NULL
    ) STRICT;

    CREATE TRIGGER run_gone AFTER DELETE ON run BEGIN
        DELETE FROM events WHERE place BETWEEN 65536 * old.number AND 65536 * old.number + 65535;
        DELETE FROM answer_piece WHERE place BETWEEN 65536 * old.number AND 65536 * old.number + 65535;
    END;
",
    // Not only of the answer: what the agent wrote may be as long.
    "
    ALTER TABLE answer_piece RENAME TO outcome_piece; -- place: 65536 * run + 4096 * part + number of the piece
",
    "
    ALTER TABLE callback ADD COLUMN receiver TEXT NOT NULL DEFAULT ''; -- host and port
    CREATE INDEX callback_by_receiver ON callback (receiver, due) WHERE due IS NOT NULL;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::{block, outcome, read};
    use crate::{
        run::{RunEvent, RunId},
        store::LoggedEvent,
    };

    #[test]
    fn what_an_older_version_kept_is_read() {
        let mut connection = Connection::open_in_memory().unwrap();
        for step in &STEPS[..2] {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "user_version", 2).unwrap();
        let id = RunId::random();
        connection
            .execute(
                "INSERT INTO run (number, id, status, surface, created, workspace, origin)
                 VALUES (7, ?1, 'completed', 'api', 1, x'2f77', '\"api\"')",
                [id.bytes()],
            )
            .unwrap();
        let event = LoggedEvent {
            sequence: 300,
            at: 1,
            attempt: 0,
            native_sequence: 0,
            event: RunEvent::Delta("hi".into()),
        };
        let block = block::encode(&[event.clone().into()]).next().unwrap().unwrap();
        connection.execute("INSERT INTO event_block VALUES (7, 300, 300, ?1)", [block.bytes]).unwrap();
        let record = serde_json::json!({
            "id": id, "verdict": "ok", "text": "the answer", "finish": "stop", "attempts": [],
            "exit_code": 0, "took": {"secs": 1, "nanos": 0},
        });
        connection
            .execute("INSERT INTO outcome VALUES (7, ?1, x'', x'', 0, x'', x'', 0)", [record.to_string()])
            .unwrap();

        migrate(&mut connection).unwrap();
        assert_eq!(found(&connection).unwrap(), version());
        assert_eq!(outcome::read(&connection, 7).unwrap().unwrap().text, "the answer");
        let events = read::events(&connection, id, 299).unwrap();
        assert_eq!(events, [event.into()]);
        assert!(read::events(&connection, id, 300).unwrap().is_empty());
    }
}
