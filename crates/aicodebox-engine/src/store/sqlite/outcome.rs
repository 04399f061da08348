//! An outcome as a row: JSON, and beside it what the agent wrote, byte for byte.

use rusqlite::{Connection, OptionalExtension, params};

use super::convert::{from_integer, from_json, to_integer, to_json};
use crate::run::{Capture, RunOutcome};

/// Writes it down. Once more is no harm.
pub(super) fn write(connection: &Connection, run: i64, outcome: &RunOutcome) -> rusqlite::Result<()> {
    let nothing = Capture::default();
    let exit = outcome.exit.as_ref();
    let stdout = exit.map_or(&nothing, |exit| &exit.stdout);
    let stderr = exit.map_or(&nothing, |exit| &exit.stderr);
    connection
        .prepare_cached("INSERT OR REPLACE INTO outcome VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
        .execute(params![
            run,
            to_json(outcome)?,
            stdout.head,
            stdout.tail,
            to_integer(stdout.dropped),
            stderr.head,
            stderr.tail,
            to_integer(stderr.dropped),
        ])?;
    Ok(())
}

/// Reads it back.
pub(super) fn read(connection: &Connection, run: i64) -> rusqlite::Result<Option<RunOutcome>> {
    connection
        .prepare_cached("SELECT * FROM outcome WHERE run = ?1")?
        .query_row([run], |row| {
            let mut outcome: RunOutcome = from_json(row.get_ref("record")?.as_str()?)?;
            if let Some(exit) = &mut outcome.exit {
                let capture = |head: &str, tail: &str, dropped: &str| -> rusqlite::Result<_> {
                    Ok(Capture {
                        head: row.get(head)?,
                        tail: row.get(tail)?,
                        dropped: from_integer(row.get(dropped)?),
                    })
                };
                exit.stdout = capture("stdout_head", "stdout_tail", "stdout_dropped")?;
                exit.stderr = capture("stderr_head", "stderr_tail", "stderr_dropped")?;
            }
            Ok(outcome)
        })
        .optional()
}
