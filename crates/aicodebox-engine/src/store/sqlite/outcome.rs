//! An outcome as a row: JSON, and beside it the answer and what the agent wrote, byte for byte.

use rusqlite::{Connection, OptionalExtension, params};

use super::convert::{damaged, from_integer, from_json, place, to_integer, to_json};
use crate::run::{Capture, RunOutcome};

/// A longer answer lies in pieces of this size: SQLite copies what it is given, and then once more into its row.
const PIECE: usize = 256 << 10;

/// Writes it down. Once more is no harm.
pub(super) fn write(connection: &Connection, run: i64, outcome: &RunOutcome) -> rusqlite::Result<()> {
    let nothing = Capture::default();
    let exit = outcome.exit.as_ref();
    let stdout = exit.map_or(&nothing, |exit| &exit.stdout);
    let stderr = exit.map_or(&nothing, |exit| &exit.stderr);
    let (answer, pieces) =
        if outcome.text.len() <= PIECE { (outcome.text.as_str(), "") } else { ("", outcome.text.as_str()) };
    for (number, piece) in (0..).zip(pieces.as_bytes().chunks(PIECE)) {
        connection
            .prepare_cached("INSERT OR REPLACE INTO answer_piece VALUES (?1, ?2)")?
            .execute(params![place(run, number), piece])?;
    }
    connection
        .prepare_cached("INSERT OR REPLACE INTO outcome VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?
        .execute(params![
            run,
            to_json(outcome)?,
            stdout.head,
            stdout.tail,
            to_integer(stdout.dropped),
            stderr.head,
            stderr.tail,
            to_integer(stderr.dropped),
            answer,
        ])?;
    Ok(())
}

/// Reads it back.
pub(super) fn read(connection: &Connection, run: i64) -> rusqlite::Result<Option<RunOutcome>> {
    let outcome = connection
        .prepare_cached("SELECT * FROM outcome WHERE run = ?1")?
        .query_row([run], |row| {
            let mut outcome: RunOutcome = from_json(row.get_ref("record")?.as_str()?)?;
            if let Some(answer) = row.get("answer")? {
                outcome.text = answer;
            }
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
        .optional()?;
    let Some(mut outcome) = outcome else { return Ok(None) };
    if outcome.text.is_empty() {
        outcome.text = pieces(connection, run)?;
    }
    Ok(Some(outcome))
}

fn pieces(connection: &Connection, run: i64) -> rusqlite::Result<String> {
    let mut statement = connection
        .prepare_cached("SELECT piece FROM answer_piece WHERE place BETWEEN ?1 AND ?2 ORDER BY place")?;
    let mut rows = statement.query([place(run, 0), place(run, u64::MAX)])?;
    let mut text = Vec::new();
    while let Some(row) = rows.next()? {
        text.extend_from_slice(row.get_ref(0)?.as_blob()?);
    }
    String::from_utf8(text).map_err(|error| damaged(error.to_string()))
}
