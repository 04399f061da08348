//! What the bot and the scheduler remember.

use rusqlite::{Connection, params};
use serde_json::Value;

use super::{
    SqliteStore,
    convert::{from_json, to_json},
    queue::Command,
};
use crate::{
    run::RunId,
    store::{CronState, Ledger, PendingMessage, Stored, TelegramState},
};

/// Updates that are remembered beside those that are not answered yet.
const UPDATES: i64 = 1_000;

/// What is to be remembered.
pub(super) enum Keep {
    CronState(String, CronState),
    Update(u32, Option<PendingMessage>),
    Settled(u32),
    Moved(i64, i64),
    Delivery(RunId, Value),
}

impl Ledger for SqliteStore {
    fn cron_states(&self) -> Stored<'_, Vec<(String, CronState)>> {
        Box::pin(self.reads.read(cron_states))
    }

    fn keep_cron_state(&self, job: String, state: CronState) -> Stored<'_, ()> {
        self.write(Command::Keep(Keep::CronState(job, state)))
    }

    fn telegram(&self) -> Stored<'_, TelegramState> {
        Box::pin(self.reads.read(telegram))
    }

    fn keep_update(&self, update: u32, pending: Option<PendingMessage>) -> Stored<'_, ()> {
        self.write(Command::Keep(Keep::Update(update, pending)))
    }

    fn settle_update(&self, update: u32) -> Stored<'_, ()> {
        self.write(Command::Keep(Keep::Settled(update)))
    }

    fn keep_moved(&self, old: i64, new: i64) -> Stored<'_, ()> {
        self.write(Command::Keep(Keep::Moved(old, new)))
    }

    fn keep_delivery(&self, run: RunId, delivery: Value) -> Stored<'_, ()> {
        self.write(Command::Keep(Keep::Delivery(run, delivery)))
    }
}

/// Writes it.
pub(super) fn keep(connection: &Connection, keep: &Keep) -> rusqlite::Result<()> {
    match keep {
        Keep::CronState(job, state) => {
            connection
                .prepare_cached("INSERT OR REPLACE INTO cron_job VALUES (?1, ?2)")?
                .execute(params![job, to_json(state)?])?;
        }
        Keep::Update(update, pending) => {
            let pending = pending.as_ref().map(to_json).transpose()?;
            connection
                .prepare_cached("INSERT OR REPLACE INTO telegram_update (id, pending) VALUES (?1, ?2)")?
                .execute(params![update, pending])?;
            connection
                .prepare_cached("DELETE FROM telegram_update WHERE pending IS NULL AND number <= ?1")?
                .execute([connection.last_insert_rowid() - UPDATES])?;
        }
        Keep::Settled(update) => {
            connection
                .prepare_cached("UPDATE telegram_update SET pending = NULL WHERE id = ?1")?
                .execute([update])?;
        }
        Keep::Moved(old, new) => {
            connection
                .prepare_cached("INSERT OR REPLACE INTO telegram_moved VALUES (?1, ?2)")?
                .execute([old, new])?;
        }
        Keep::Delivery(run, delivery) => {
            connection
                .prepare_cached("UPDATE run SET delivery = ?2 WHERE id = ?1")?
                .execute(params![run.bytes(), to_json(delivery)?])?;
        }
    }
    Ok(())
}

fn cron_states(connection: &Connection) -> rusqlite::Result<Vec<(String, CronState)>> {
    let mut statement = connection.prepare_cached("SELECT name, state FROM cron_job")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, from_json(row.get_ref(1)?.as_str()?)?)))?;
    rows.collect()
}

fn telegram(connection: &Connection) -> rusqlite::Result<TelegramState> {
    let mut statement =
        connection.prepare_cached("SELECT id, pending FROM telegram_update ORDER BY number")?;
    let rows = statement.query_map([], |row| {
        let pending = row.get_ref(1)?.as_str_or_null()?.map(from_json::<PendingMessage>).transpose()?;
        Ok((row.get::<_, u32>(0)?, pending))
    })?;
    let mut state = TelegramState::default();
    for row in rows {
        let (update, pending) = row?;
        state.updates.push(update);
        state.pending.extend(pending);
    }
    let mut statement = connection.prepare_cached("SELECT old, new FROM telegram_moved")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    state.moved = rows.collect::<Result<_, _>>()?;
    Ok(state)
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::*;
    use crate::store::SqliteConfig;

    fn open(dir: &Path) -> SqliteStore {
        let ttl = Duration::from_secs(3_600);
        SqliteStore::open(SqliteConfig { dir: dir.to_owned(), ttl, max_bytes: 1 << 30 }).unwrap()
    }

    #[tokio::test]
    async fn what_is_kept_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let state = CronState { decided: 5, running: Some("/d".into()), ..CronState::default() };
        store.keep_cron_state("a".into(), CronState::default()).await.unwrap();
        store.keep_cron_state("a".into(), state.clone()).await.unwrap();
        let pending = |update| PendingMessage { update, chat: -1, topic: Some(3), message: 9 };
        for update in [7, 8, 9] {
            store.keep_update(update, Some(pending(update))).await.unwrap();
        }
        store.settle_update(8).await.unwrap();
        store.keep_update(10, None).await.unwrap();
        store.keep_moved(-1, -1001).await.unwrap();
        drop(store);
        let store = open(folder.path());
        assert_eq!(store.cron_states().await.unwrap(), [("a".to_owned(), state)]);
        let telegram = store.telegram().await.unwrap();
        assert_eq!(telegram.updates, [7, 8, 9, 10]);
        assert_eq!(telegram.pending, [pending(7), pending(9)]);
        assert_eq!(telegram.moved, [(-1, -1001)]);
    }

    #[tokio::test]
    async fn old_updates_are_forgotten_unless_they_wait() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let waits = PendingMessage { update: 1, chat: 1, topic: None, message: 1 };
        store.keep_update(1, Some(waits)).await.unwrap();
        for update in 2..=1_200 {
            store.keep_update(update, None).await.unwrap();
        }
        let telegram = store.telegram().await.unwrap();
        assert_eq!(telegram.updates.len(), 1_001);
        assert_eq!(telegram.pending, [waits]);
    }
}
