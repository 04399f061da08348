use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};

use crate::run::Claim;

/// How many keys can be looked at side by side.
const LANES: usize = 64;

/// Lets those who come with the same key in one after another, so that only the first of them starts a run. Different
/// keys rarely wait for each other.
pub(super) struct Claims {
    hash: RandomState,
    lanes: [Mutex<()>; LANES],
}

impl Default for Claims {
    fn default() -> Self {
        Self { hash: RandomState::new(), lanes: [const { Mutex::const_new(()) }; LANES] }
    }
}

impl Claims {
    pub(super) async fn turn(&self, claim: &Claim) -> MutexGuard<'_, ()> {
        let hash = self.hash.hash_one((claim.scope, &claim.key));
        // As many as there are lanes, so it fits.
        let lane = usize::try_from(hash % LANES as u64).unwrap_or(0);
        self.lanes[lane].lock().await
    }
}
