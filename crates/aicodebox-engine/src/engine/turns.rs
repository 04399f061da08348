use std::hash::{BuildHasher, Hash, RandomState};

use tokio::sync::{Mutex, MutexGuard};

/// How many keys can be looked at side by side.
const LANES: usize = 64;

/// Lets those who come with the same key in one after another. Different keys rarely wait for each other.
pub(super) struct Turns {
    hash: RandomState,
    lanes: [Mutex<()>; LANES],
}

impl Default for Turns {
    fn default() -> Self {
        Self { hash: RandomState::new(), lanes: [const { Mutex::const_new(()) }; LANES] }
    }
}

impl Turns {
    pub(super) async fn turn(&self, key: impl Hash) -> MutexGuard<'_, ()> {
        let hash = self.hash.hash_one(key);
        // As many as there are lanes, so it fits.
        let lane = usize::try_from(hash % LANES as u64).unwrap_or(0);
        self.lanes[lane].lock().await
    }
}
