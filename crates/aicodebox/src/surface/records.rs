use std::sync::Arc;

use aicodebox_engine::{
    engine::Events,
    run::RunEvent,
    store::{LoggedEvent, StoreError},
};

/// The provider's records of a run that is over.
#[derive(Default)]
pub(crate) struct Records {
    pub(crate) events: Vec<Arc<LoggedEvent>>,
    /// Some did not fit.
    pub(crate) truncated: bool,
}

/// Where nobody asked for them.
pub(crate) static NO_RECORDS: Records = Records { events: Vec::new(), truncated: false };

impl Records {
    /// Reads them all.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn read(events: Events) -> Result<Self, StoreError> {
        let mut records = Self::default();
        let mut stored = events.stored(0);
        loop {
            let batch = stored.next().await?;
            if batch.is_empty() {
                return Ok(records);
            }
            for logged in batch {
                match logged.event {
                    RunEvent::Native(_) => records.events.push(logged),
                    RunEvent::Truncated(_) => records.truncated = true,
                    RunEvent::Session(_)
                    | RunEvent::Delta(_)
                    | RunEvent::Message { .. }
                    | RunEvent::Thinking(_)
                    | RunEvent::Tool(_)
                    | RunEvent::Usage(_)
                    | RunEvent::Notice(_)
                    | RunEvent::Status(_) => {}
                }
            }
        }
    }
}
