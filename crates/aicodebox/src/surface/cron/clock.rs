use std::time::Duration;

use jiff::Timestamp;
use tokio::time::sleep;

/// The longest sleep without a look at the clock: it may be set, and a machine may be suspended.
const LONGEST_NAP: Duration = Duration::from_secs(20);

/// What time it is. Tests have clocks of their own.
pub(super) trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// The system's clock.
#[derive(Debug)]
pub(super) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Waits until the clock shows `at`, for ever when there is nothing to wait for. Cancel-safe.
pub(super) async fn sleep_until(clock: &dyn Clock, at: Option<Timestamp>) {
    let Some(at) = at else { return std::future::pending().await };
    loop {
        let left = Duration::try_from(at.duration_since(clock.now())).unwrap_or_default();
        if left.is_zero() {
            return;
        }
        sleep(left.min(LONGEST_NAP)).await;
    }
}
