use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

use super::{Bot, incoming::Incoming};
use crate::surface::outbox::Address;

/// An album is complete when nothing more of it has come for this long.
const COMPLETE: Duration = Duration::from_millis(1_200);

type Key = (Address, String);

/// Albums whose parts are still coming in: Telegram sends each file as a message of its own.
#[derive(Debug, Default)]
pub(super) struct Albums(Mutex<HashMap<Key, Album>>);

#[derive(Debug)]
struct Album {
    parts: Vec<(u32, Incoming)>,
    complete: Instant,
}

impl Albums {
    /// Adds a part. The first one starts a task that waits for the others.
    pub(super) fn add(&self, bot: &Bot, update: u32, part: Incoming) {
        let key = (part.place, part.album.clone().unwrap_or_default());
        let complete = Instant::now() + COMPLETE;
        let mut albums = self.albums();
        let album = albums.entry(key.clone()).or_insert_with(|| {
            bot.tracker().spawn(bot.clone().finish_album(key));
            Album { parts: Vec::new(), complete }
        });
        album.parts.push((update, part));
        album.complete = complete;
    }

    /// Waits until it is complete, and takes it.
    pub(super) async fn complete(&self, key: &Key) -> Vec<(u32, Incoming)> {
        loop {
            let Some(at) = self.albums().get(key).map(|album| album.complete) else { return Vec::new() };
            if at <= Instant::now() {
                return self.albums().remove(key).map(|album| album.parts).unwrap_or_default();
            }
            sleep_until(at).await;
        }
    }

    fn albums(&self) -> MutexGuard<'_, HashMap<Key, Album>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
