//! What a server does while it has nothing to do.

use std::time::Duration;

use aicodebox_engine::{engine::Engine, process::give_memory_back};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// When the start counts as over, the first requests of whoever waited for it included.
const STARTED: Duration = Duration::from_secs(1);
/// After so long without a run, and at the latest after twice that, it counts as having nothing to do.
const QUIET: Duration = Duration::from_secs(30);

/// Gives memory back: after the start, and whenever there were runs and then none for [`QUIET`].
pub(crate) async fn give_back(engine: &Engine, going: CancellationToken) {
    let mut rest = Rest::default();
    let mut wait = STARTED;
    while going.run_until_cancelled(sleep(wait)).await.is_some() {
        if rest.begins(engine.active().len(), engine.counted().runs.values().sum()) {
            give_memory_back();
        }
        wait = QUIET;
    }
}

/// Sees from one look to the next whether anything happens.
#[derive(Default)]
struct Rest {
    /// How many runs had ended when it looked last.
    ended: u64,
    /// There was nothing to do since, and that has been noticed.
    noticed: bool,
}

impl Rest {
    /// Whether nothing was done since the last look, for the first time since something was.
    fn begins(&mut self, alive: usize, ended: u64) -> bool {
        let quiet = alive == 0 && ended == self.ended;
        let noticed = std::mem::replace(&mut self.noticed, quiet);
        self.ended = ended;
        quiet && !noticed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rest_begins_once() {
        let mut rest = Rest::default();
        let looks = [(0, 0), (0, 0), (1, 0), (0, 1), (0, 1), (0, 1), (0, 9), (2, 9), (0, 9), (0, 9)];
        let begins = looks.map(|(alive, ended)| rest.begins(alive, ended));
        assert_eq!(begins, [true, false, false, false, true, false, false, false, true, false]);
    }
}
