use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use aicodebox_engine::{engine::Engine, store::Callback};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::signature::sign;
use crate::{fetch::Fetcher, surface::RunRecordAnswer};

/// When a try that failed is followed by the next: six tries over an hour.
pub(crate) const SCHEDULE: &[Duration] = &[
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(14 * 60),
    Duration::from_secs(40 * 60),
];
/// So many are sent at the same time.
const TOGETHER: usize = 8;
/// How often one looks without being told: a run whose end could not be stored at once tells nobody.
const LOOK: Duration = Duration::from_secs(60);
/// How soon a store that could not be read is asked again.
const PAUSE: Duration = Duration::from_secs(5);

/// Sends what is due.
pub(crate) struct Callbacks {
    engine: Engine,
    fetcher: Fetcher,
    secret: Arc<SecretString>,
    schedule: &'static [Duration],
}

impl Callbacks {
    pub(crate) fn new(
        engine: Engine,
        fetcher: Fetcher,
        secret: SecretString,
        schedule: &'static [Duration],
    ) -> Self {
        Self { engine, fetcher, secret: Arc::new(secret), schedule }
    }

    /// Sends until `stop`.
    pub(crate) async fn serve(self, stop: CancellationToken) {
        let work = async {
            loop {
                let finished = self.engine.callback_due();
                let wait = self.round().await;
                tokio::select! {
                    () = finished => {}
                    () = tokio::time::sleep(wait) => {}
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = stop.cancelled() => {}
        }
    }

    /// Sends all that is due now, and says how long nothing will be.
    async fn round(&self) -> Duration {
        loop {
            let now = SystemTime::now();
            match self.engine.callbacks(now).await {
                Ok((due, next)) if due.is_empty() => {
                    let next = next.map_or(LOOK, |next| next.duration_since(now).unwrap_or_default());
                    return next.min(LOOK);
                }
                Ok((due, _next)) => {
                    stream::iter(due).for_each_concurrent(TOGETHER, |due| self.send(due)).await
                }
                Err(error) => {
                    warn!(%error, "callbacks cannot be read");
                    return PAUSE;
                }
            }
        }
    }

    async fn send(&self, callback: Callback) {
        let (run, tries) = (callback.id, callback.tries + 1);
        let next = match self.try_once(&callback).await {
            Ok(()) => {
                debug!(%run, tries, "callback taken");
                None
            }
            Err(reason) => match self.schedule.get(callback.tries as usize) {
                Some(wait) => {
                    debug!(%run, tries, reason, "callback not taken");
                    Some(SystemTime::now() + *wait)
                }
                None => {
                    warn!(%run, tries, reason, "callback given up");
                    None
                }
            },
        };
        if let Err(error) = self.engine.callback_tried(run, next).await {
            warn!(%run, %error, "a callback may be sent again: that it was sent cannot be stored");
            // Not at once again, as long as the store is in this state.
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_once(&self, callback: &Callback) -> Result<(), String> {
        let record = self.engine.get(callback.id).await.map_err(|error| error.to_string())?;
        let record = record.ok_or("the run is no longer kept")?;
        let answer = RunRecordAnswer::new(&record, false, &self.engine.adapter().name);
        let body = serde_json::to_vec(&answer).map_err(|error| error.to_string())?;
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let signature = sign(&self.secret, seconds, &body);
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let signature = HeaderValue::try_from(signature).map_err(|error| error.to_string())?;
        headers.insert(HeaderName::from_static("x-aicodebox-signature"), signature);
        let answered = self.fetcher.post(&callback.url, headers, Bytes::from(body)).await;
        match answered {
            Ok(status) if status.is_success() => Ok(()),
            Ok(status) => Err(format!("the receiver answered {status}")),
            Err(error) => Err(error.to_string()),
        }
    }
}
