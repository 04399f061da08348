//! The statements that change something. Each may be run again after a transaction that did not commit.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rusqlite::{Connection, params};

use super::{
    block,
    convert::{damaged, path_bytes, place, to_integer, to_json, to_millis},
    ledger, outcome,
    queue::Command,
};
use crate::{
    run::{RunId, RunOutcome, RunStatus},
    store::{Callback, EventLog, NewRun},
};

/// Sessions and their counters are kept this long after their last run.
pub(super) const SESSIONS_KEPT: Duration = Duration::from_secs(90 * 24 * 3600);

/// Runs that have no outcome yet, and what they are in the database.
pub(super) type Open = HashMap<RunId, OpenRun>;

#[derive(Clone)]
pub(super) struct OpenRun {
    pub(super) number: i64,
    pub(super) log: Arc<EventLog>,
    calls_back: bool,
    /// Its row was written with its end in it.
    row_is_final: bool,
}

/// The outcomes that a transaction will write, by run: a run that is not on record yet is recorded as it ended.
pub(super) type Ends<'a> = HashMap<RunId, &'a RunOutcome>;

/// How a run ended, as its row says it.
struct End {
    status: RunStatus,
    sequence: u64,
}

/// What a transaction will have done once it is committed.
#[derive(Default)]
pub(super) struct Done {
    /// How far logs are written.
    pub(super) written: Vec<(Arc<EventLog>, u64)>,
    /// Runs that have their outcome.
    pub(super) finished: Vec<RunId>,
}

/// Does one command.
pub(super) fn command(
    connection: &Connection,
    open: &mut Open,
    command: &Command,
    ends: &Ends<'_>,
    done: &mut Done,
) -> rusqlite::Result<()> {
    match command {
        Command::Create(run) => {
            let end =
                ends.get(&run.id).map(|outcome| End { status: outcome.status(), sequence: run.log.seal() });
            let number = create(connection, run, end.as_ref())?;
            let (calls_back, row_is_final) = (run.callback.is_some(), end.is_some());
            open.insert(run.id, OpenRun { number, log: run.log.clone(), calls_back, row_is_final });
        }
        Command::Finish(id, outcome) => {
            let run = open.get(id).cloned().ok_or_else(|| damaged("the run was never written".into()))?;
            finish(connection, &run, outcome, done)?;
            done.finished.push(*id);
        }
        Command::Purge(id) => {
            connection
                .prepare_cached("DELETE FROM run WHERE id = ?1 AND status <> 'running'")?
                .execute([id.bytes()])?;
        }
        Command::KeepSession(place, Some(id)) => {
            connection
                .prepare_cached("INSERT OR REPLACE INTO session VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute(params![place.adapter, path_bytes(&place.workspace), place.key.0, id.0, now()])?;
        }
        Command::KeepSession(place, None) => {
            connection
                .prepare_cached("DELETE FROM session WHERE adapter = ?1 AND workspace = ?2 AND key = ?3")?
                .execute(params![place.adapter, path_bytes(&place.workspace), place.key.0])?;
        }
        Command::KeepTotals(id, Some(totals)) => {
            connection
                .prepare_cached("INSERT OR REPLACE INTO session_usage VALUES (?1, ?2, ?3)")?
                .execute(params![id.0, to_json(totals)?, now()])?;
        }
        Command::KeepTotals(id, None) => {
            connection.prepare_cached("DELETE FROM session_usage WHERE id = ?1")?.execute([&id.0])?;
        }
        Command::CallbackTried(id, Some(next)) => {
            connection
                .prepare_cached(
                    "UPDATE callback SET tries = tries + 1, due = ?2
                     WHERE run = (SELECT number FROM run WHERE id = ?1)",
                )?
                .execute(params![id.bytes(), to_millis(*next)])?;
        }
        Command::CallbackTried(id, None) => {
            connection
                .prepare_cached("DELETE FROM callback WHERE run = (SELECT number FROM run WHERE id = ?1)")?
                .execute([id.bytes()])?;
        }
        Command::Keep(what) => ledger::keep(connection, what)?,
    }
    Ok(())
}

/// Writes what a log has that is not written yet.
pub(super) fn events(
    connection: &Connection,
    run: &OpenRun,
    written: &mut Vec<(Arc<EventLog>, u64)>,
) -> rusqlite::Result<()> {
    let events = run.log.unwritten();
    let Some(last) = events.last() else { return Ok(()) };
    let mut insert = connection.prepare_cached("INSERT INTO events VALUES (?1, ?2, ?3)")?;
    for block in block::encode(&events) {
        let block = block.map_err(|error| damaged(error.to_string()))?;
        insert.execute(params![place(run.number, block.first), to_integer(block.last), block.bytes])?;
    }
    written.push((run.log.clone(), last.sequence));
    Ok(())
}

fn create(connection: &Connection, run: &NewRun, end: Option<&End>) -> rusqlite::Result<i64> {
    let note = if run.note.is_null() { None } else { Some(to_json(&run.note)?) };
    connection
        .prepare_cached(
            "INSERT INTO run (id, status, surface, created, workspace, origin, note, finished, outcome_sequence)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            run.id.bytes(),
            end.map_or(RunStatus::Running, |end| end.status).name(),
            run.origin.surface(),
            to_millis(run.created),
            path_bytes(&run.workspace),
            to_json(&run.origin)?,
            note,
            end.map(|_over| now()),
            end.map_or(0, |end| to_integer(end.sequence)),
        ])?;
    let number = connection.last_insert_rowid();
    if let Some(claim) = &run.claim {
        connection
            .prepare_cached("INSERT OR REPLACE INTO claim VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![claim.scope, claim.key, claim.body, number])?;
    }
    if let Some(url) = &run.callback {
        connection
            .prepare_cached("INSERT INTO callback (run, url, receiver) VALUES (?1, ?2, ?3)")?
            .execute(params![number, url, Callback::receiver(url)])?;
    }
    Ok(number)
}

fn finish(
    connection: &Connection,
    run: &OpenRun,
    outcome: &RunOutcome,
    done: &mut Done,
) -> rusqlite::Result<()> {
    let sequence = run.log.seal();
    events(connection, run, &mut done.written)?;
    if run.row_is_final {
        outcome::write(connection, run.number, outcome)?;
    } else {
        finished(connection, run.number, outcome, sequence)?;
    }
    if run.calls_back {
        connection
            .prepare_cached("UPDATE callback SET due = ?2 WHERE run = ?1")?
            .execute(params![run.number, now()])?;
    }
    Ok(())
}

/// Writes an outcome and the run's new status.
pub(super) fn finished(
    connection: &Connection,
    run: i64,
    outcome: &RunOutcome,
    sequence: u64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE run SET status = ?2, finished = ?3, outcome_sequence = ?4 WHERE number = ?1")?
        .execute(params![run, outcome.status().name(), now(), to_integer(sequence)])?;
    outcome::write(connection, run, outcome)
}

fn now() -> i64 {
    to_millis(SystemTime::now())
}
