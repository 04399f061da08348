//! An outcome as a row: JSON, and beside it the answer and what the agent wrote, byte for byte.

use rusqlite::{Connection, OptionalExtension, params};

use super::convert::{damaged, from_integer, from_json, place, to_integer, to_json};
use crate::run::{Capture, RunOutcome};

/// What is longer lies in pieces of this size: SQLite copies what it is given, and then once more into its row.
const PIECE: usize = 256 << 10;
/// At most so many pieces of one part: 1 GiB.
const MOST: u64 = 1 << 12;

/// Writes it down. Once more is no harm.
pub(super) fn write(connection: &Connection, run: i64, outcome: &RunOutcome) -> rusqlite::Result<()> {
    let nothing = Capture::EMPTY;
    let [stdout, stderr] = outcome.exit.as_ref().map_or([&nothing; 2], |exit| [&exit.stdout, &exit.stderr]);
    let mut row = [outcome.text.as_bytes(), &stdout.head, &stdout.tail, &stderr.head, &stderr.tail];
    for (part, bytes) in (0..).zip(&mut row).filter(|(_part, bytes)| bytes.len() > PIECE) {
        for (number, piece) in (0..MOST).zip(std::mem::take(bytes).chunks(PIECE)) {
            connection
                .prepare_cached("INSERT OR REPLACE INTO outcome_piece VALUES (?1, ?2)")?
                .execute(params![place(run, part * MOST + number), piece])?;
        }
    }
    let [answer, stdout_head, stdout_tail, stderr_head, stderr_tail] = row;
    let answer = if answer.is_empty() { "" } else { &outcome.text };
    connection
        .prepare_cached("INSERT OR REPLACE INTO outcome VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?
        .execute(params![
            run,
            to_json(outcome)?,
            stdout_head,
            stdout_tail,
            to_integer(stdout.dropped),
            stderr_head,
            stderr_tail,
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
    outcome.map(|outcome| with_pieces(connection, run, outcome)).transpose()
}

/// Adds what lies in pieces.
fn with_pieces(connection: &Connection, run: i64, mut outcome: RunOutcome) -> rusqlite::Result<RunOutcome> {
    let mut text = std::mem::take(&mut outcome.text).into_bytes();
    let mut nothing = [Capture::EMPTY, Capture::EMPTY];
    let [stdout, stderr] = match &mut outcome.exit {
        Some(exit) => [&mut exit.stdout, &mut exit.stderr],
        None => nothing.each_mut(),
    };
    let mut parts = [&mut text, &mut stdout.head, &mut stdout.tail, &mut stderr.head, &mut stderr.tail];
    let mut statement = connection.prepare_cached(
        "SELECT (place & 65535) / ?3, piece FROM outcome_piece WHERE place BETWEEN ?1 AND ?2 ORDER BY place",
    )?;
    let mut rows = statement.query(params![place(run, 0), place(run, u64::MAX), to_integer(MOST)])?;
    while let Some(row) = rows.next()? {
        if let Some(part) = parts.get_mut(usize::from(row.get::<_, u8>(0)?)) {
            part.extend_from_slice(row.get_ref(1)?.as_blob()?);
        }
    }
    outcome.text = String::from_utf8(text).map_err(|error| damaged(error.to_string()))?;
    Ok(outcome)
}
