use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Stored;
use crate::run::RunId;

/// What the bot and the scheduler must not forget when the process ends: which updates and which times they have dealt
/// with. Written before they act, so that nothing is done twice. Every method may fail with a
/// [`super::StoreError`] when the store cannot be read or written.
pub trait Ledger: Send + Sync {
    /// What is remembered of each job, by its name.
    fn cron_states(&self) -> Stored<'_, Vec<(String, CronState)>>;

    /// Remembers it.
    fn keep_cron_state(&self, job: String, state: CronState) -> Stored<'_, ()>;

    /// What the bot remembers.
    fn telegram(&self) -> Stored<'_, TelegramState>;

    /// This update has been taken; `pending` = the message that has to be answered yet.
    fn keep_update(&self, update: u32, pending: Option<PendingMessage>) -> Stored<'_, ()>;

    /// The message of this update is answered.
    fn settle_update(&self, update: u32) -> Stored<'_, ()>;

    /// The group `old` has the id `new` now.
    fn keep_moved(&self, old: i64, new: i64) -> Stored<'_, ()>;

    /// What became of the answer of a run; it is part of its record then.
    fn keep_delivery(&self, run: RunId, delivery: Value) -> Stored<'_, ()>;
}

/// What is remembered of a scheduled job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CronState {
    /// All its times up to here have been dealt with; in milliseconds since 1970.
    pub decided: i64,
    /// The schedule that they belong to.
    pub schedule: String,
    /// Whether the job was enabled.
    pub enabled: bool,
    /// Whether somebody has paused it.
    pub paused: bool,
    /// Times at which it still ran.
    pub skipped: u64,
    /// Times at which nothing ran that could have started it.
    pub missed: u64,
    /// The directory of the run that is under way.
    pub running: Option<PathBuf>,
}

/// A message that was taken and is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingMessage {
    /// The update that it came in.
    pub update: u32,
    /// Its chat.
    pub chat: i64,
    /// Its topic.
    pub topic: Option<i32>,
    /// Its id in the chat.
    pub message: i32,
}

/// What the bot remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelegramState {
    /// The latest updates that were taken, oldest first; at most 1,000.
    pub updates: Vec<u32>,
    /// Messages that are not answered yet.
    pub pending: Vec<PendingMessage>,
    /// Groups that have another id now: old, new.
    pub moved: Vec<(i64, i64)>,
}
