use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

use super::history::{read_json, write_json};
use crate::surface::outbox::Delivery;

/// How many are remembered.
const LATEST: usize = 200;

/// Which messages in Telegram tell of which run, so that people can answer to them: the latest 200, in a file. All methods
/// block on the disk.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    file: PathBuf,
    /// Held while they are read, added to and written: several jobs may end at the same time.
    adding: Arc<Mutex<()>>,
}

/// A message in Telegram that tells of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CronMessage {
    pub(crate) chat_id: i64,
    pub(crate) message_id: i32,
    pub(crate) job: String,
    pub(crate) history_dir: PathBuf,
}

impl Messages {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, adding: Arc::default() }
    }

    /// Remembers what was delivered about the run of this directory.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn add(&self, directory: &Path, job: &str, delivery: &Delivery) -> io::Result<()> {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.all();
        all.extend(delivery.messages.iter().map(|message_id| CronMessage {
            chat_id: delivery.chat,
            message_id: *message_id,
            job: job.to_owned(),
            history_dir: directory.to_owned(),
        }));
        all.drain(..all.len().saturating_sub(LATEST));
        write_json(&self.file, &serde_json::to_value(all)?)
    }

    /// What a message tells of.
    pub(super) fn find(&self, chat: i64, message: i32) -> Option<CronMessage> {
        self.all().into_iter().rev().find(|told| told.chat_id == chat && told.message_id == message)
    }

    fn all(&self) -> Vec<CronMessage> {
        read_json(&self.file).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let messages = Messages::new(folder.path().join("messages.json"));
        for id in 0..150 {
            let delivery = Delivery { chat: 5, messages: vec![2 * id, 2 * id + 1], failure: None };
            messages.add(folder.path(), "a", &delivery).unwrap();
        }
        assert_eq!(messages.all().len(), LATEST);
        assert_eq!(messages.find(5, 299).unwrap().job, "a");
        assert!(messages.find(5, 0).is_none() && messages.find(6, 299).is_none());
    }

    #[test]
    fn jobs_that_end_at_the_same_time_lose_no_message() {
        let folder = tempfile::tempdir().unwrap();
        let messages = Messages::new(folder.path().join("messages.json"));
        std::thread::scope(|jobs| {
            for job in 0..8 {
                let (messages, directory) = (messages.clone(), folder.path().join(job.to_string()));
                jobs.spawn(move || {
                    for id in 0..20 {
                        let delivery = Delivery { chat: job, messages: vec![id], failure: None };
                        messages.add(&directory, &job.to_string(), &delivery).unwrap();
                    }
                });
            }
        });
        assert_eq!(messages.all().len(), 8 * 20);
    }
}
