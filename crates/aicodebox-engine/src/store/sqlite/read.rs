//! The statements that only read.

use std::{fmt::Write, sync::Arc, time::SystemTime};

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::{
    block,
    convert::{
        damaged, from_integer, from_json, from_millis, path_bytes, place, to_id, to_integer, to_millis,
        to_path,
    },
    outcome,
};
use crate::{
    run::{Origin, RunId, RunStatus, SessionId, SessionTotals},
    store::{Callback, LoggedEvent, RunFilter, RunPage, RunRecord, RunSummary, SessionPlace},
};

pub(super) fn run(connection: &Connection, id: RunId) -> rusqlite::Result<Option<RunRecord>> {
    let found = connection
        .prepare_cached("SELECT * FROM run WHERE id = ?1")?
        .query_row([id.bytes()], |row| Ok((row.get("number")?, record(id, row)?)))
        .optional()?;
    let Some((number, mut record)) = found else { return Ok(None) };
    record.outcome = outcome::read(connection, number)?.map(Arc::new);
    Ok(Some(record))
}

fn record(id: RunId, row: &Row<'_>) -> rusqlite::Result<RunRecord> {
    let json = |column| match row.get_ref(column)?.as_str_or_null()? {
        Some(text) => from_json(text),
        None => Ok(Value::Null),
    };
    Ok(RunRecord {
        id,
        workspace: to_path(row.get("workspace")?),
        origin: from_json(row.get_ref("origin")?.as_str()?)?,
        created: from_millis(row.get("created")?),
        finished: row.get::<_, Option<i64>>("finished")?.map(from_millis),
        outcome: None,
        outcome_sequence: from_integer(row.get("outcome_sequence")?),
        note: json("note")?,
        delivery: json("delivery")?,
    })
}

pub(super) fn runs(connection: &Connection, filter: &RunFilter) -> rusqlite::Result<RunPage> {
    let limit = i64::try_from(filter.limit.max(1)).unwrap_or(i64::MAX - 1);
    let before = filter.before.unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(&list(filter))?;
    // One more than asked for tells whether there is another page.
    let rows = statement
        .query_map(params![before, limit.saturating_add(1)], |row| Ok((row.get("number")?, summary(row)?)))?;
    let mut rows: Vec<(i64, RunSummary)> = rows.collect::<Result<_, _>>()?;
    let more = rows.len() > filter.limit.max(1);
    rows.truncate(filter.limit.max(1));
    let next = rows.last().filter(|_| more).map(|(number, _run)| *number);
    Ok(RunPage { runs: rows.into_iter().map(|(_number, run)| run).collect(), next })
}

/// The query of a list. With a filter it takes the newest of every status and surface that pass from the index and
/// merges them: however rare they are, no other row is looked at.
fn list(filter: &RunFilter) -> String {
    let columns = "SELECT number, id, status, created, finished, workspace, origin FROM run";
    let end = "ORDER BY number DESC LIMIT ?2";
    if filter.status.is_none() && filter.surface.is_none() {
        return format!("{columns} WHERE number < ?1 {end}");
    }
    let statuses =
        RunStatus::ALL.into_iter().filter(|status| filter.status.is_none_or(|only| only == *status));
    let mut newest = String::new();
    for status in statuses {
        for surface in
            Origin::SURFACES.into_iter().filter(|name| filter.surface.is_none_or(|only| only == *name))
        {
            let union = if newest.is_empty() { "" } else { " UNION ALL " };
            // Our own words, never a caller's. Writing to a string cannot fail.
            let _written = write!(
                newest,
                "{union}SELECT * FROM (SELECT number FROM run WHERE status = '{}' AND surface = '{surface}' \
                 AND number < ?1 {end})",
                status.name()
            );
        }
    }
    if newest.is_empty() {
        newest.push_str("SELECT 0");
    }
    format!("{columns} WHERE number IN ({newest}) {end}")
}

fn summary(row: &Row<'_>) -> rusqlite::Result<RunSummary> {
    let status = row.get_ref("status")?.as_str()?;
    Ok(RunSummary {
        id: to_id(row.get("id")?),
        workspace: to_path(row.get("workspace")?),
        origin: from_json(row.get_ref("origin")?.as_str()?)?,
        status: RunStatus::from_name(status).ok_or_else(|| damaged(format!("status {status}")))?,
        created: from_millis(row.get("created")?),
        finished: row.get::<_, Option<i64>>("finished")?.map(from_millis),
    })
}

pub(super) fn events(
    connection: &Connection,
    id: RunId,
    after: u64,
) -> rusqlite::Result<Vec<Arc<LoggedEvent>>> {
    let number = connection
        .prepare_cached("SELECT number FROM run WHERE id = ?1")?
        .query_row([id.bytes()], |row| row.get(0))
        .optional()?;
    let Some(number) = number else { return Ok(Vec::new()) };
    let block = connection
        .prepare_cached(
            "SELECT block FROM events WHERE place BETWEEN ?1 AND ?2 AND last > ?3 ORDER BY place LIMIT 1",
        )?
        .query_row(params![place(number, 0), place(number, u64::MAX), to_integer(after)], |row| {
            block::decode(row.get_ref(0)?.as_blob()?).map_err(damaged)
        });
    let mut events = block.optional()?.unwrap_or_default();
    events.retain(|event| event.sequence > after);
    Ok(events)
}

pub(super) fn claimed(
    connection: &Connection,
    scope: &[u8; 32],
    key: &str,
) -> rusqlite::Result<Option<(RunId, [u8; 32])>> {
    connection
        .prepare_cached("SELECT id, body FROM claim JOIN run ON run = number WHERE scope = ?1 AND key = ?2")?
        .query_row(params![scope, key], |row| Ok((to_id(row.get(0)?), row.get(1)?)))
        .optional()
}

pub(super) fn session(connection: &Connection, place: &SessionPlace) -> rusqlite::Result<Option<SessionId>> {
    connection
        .prepare_cached("SELECT id FROM session WHERE adapter = ?1 AND workspace = ?2 AND key = ?3")?
        .query_row(params![place.adapter, path_bytes(&place.workspace), place.key.0], |row| row.get(0))
        .optional()
        .map(|id| id.map(SessionId))
}

pub(super) fn totals(connection: &Connection, id: &SessionId) -> rusqlite::Result<Option<SessionTotals>> {
    connection
        .prepare_cached("SELECT totals FROM session_usage WHERE id = ?1")?
        .query_row([&id.0], |row| from_json(row.get_ref(0)?.as_str()?))
        .optional()
}

pub(super) fn callbacks(
    connection: &Connection,
    now: SystemTime,
) -> rusqlite::Result<(Vec<Callback>, Option<SystemTime>)> {
    let now = to_millis(now);
    let mut statement = connection.prepare_cached(
        "SELECT id, url, tries FROM run JOIN (
             SELECT run, url, tries, due, row_number() OVER (PARTITION BY receiver ORDER BY due) AS place
             FROM callback WHERE due <= ?1
         ) ON run = number
         WHERE place <= ?2 ORDER BY due LIMIT ?3",
    )?;
    let rows = statement.query_map(params![now, Callback::OF_ONE_RECEIVER, Callback::AT_ONCE], |row| {
        Ok(Callback { id: to_id(row.get(0)?), url: row.get(1)?, tries: row.get(2)? })
    })?;
    let due = rows.collect::<Result<_, _>>()?;
    let mut next = connection.prepare_cached("SELECT min(due) FROM callback WHERE due > ?1")?;
    let next: Option<i64> = next.query_row([now], |row| row.get(0))?;
    Ok((due, next.map(from_millis)))
}
