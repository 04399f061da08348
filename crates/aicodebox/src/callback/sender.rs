use std::{
    collections::HashSet,
    future::pending,
    sync::Arc,
    time::{Duration, SystemTime},
};

use aicodebox_engine::{
    engine::Engine,
    run::RunId,
    store::{Callback, Store},
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use secrecy::SecretString;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::signature::sign;
use crate::{fetch::Fetcher, surface::RunRecordAnswer};

/// How long after a failed try the next one is made: six tries over an hour.
pub(crate) const SCHEDULE: &[Duration] = &[
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(14 * 60),
    Duration::from_secs(40 * 60),
];
/// So many are sent at the same time, each of another run, and [few](Callback::OF_ONE_RECEIVER) to one receiver. One takes
/// [30 s](Fetcher::post) at most.
const TOGETHER: usize = 16;
/// How often one looks without being told: a run whose end could not be stored at once tells nobody.
const LOOK: Duration = Duration::from_secs(60);
/// How soon a store that could not be used is asked again.
const PAUSE: Duration = Duration::from_secs(5);

/// What is being sent.
#[derive(Default)]
struct Sending<'a> {
    calls: FuturesUnordered<BoxFuture<'a, RunId>>,
    /// Their runs: a record that is on its way is not sent a second time.
    runs: HashSet<RunId>,
}

impl Sending<'_> {
    /// Waits until one is done; for ever, when there is none. Cancel-safe.
    async fn next_end(&mut self) {
        match self.calls.next().await {
            Some(run) => _ = self.runs.remove(&run),
            None => pending().await,
        }
    }
}

/// Sends the records that are due.
pub(crate) struct Sender {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fetcher: Fetcher,
    /// What signs them.
    pub(crate) secret: SecretString,
    /// How long to wait after each failed try; then it is given up.
    pub(crate) schedule: &'static [Duration],
    /// Name of the adapter.
    pub(crate) backend: String,
}

impl Sender {
    /// Sends until `stop`.
    pub(crate) async fn serve(self, engine: &Engine, stop: CancellationToken) {
        let work = async {
            let mut sending = Sending::default();
            loop {
                let wait = self.begin_due(&mut sending).await;
                // Whatever ends makes a place, so one that hangs holds up nobody else.
                tokio::select! {
                    () = sending.next_end() => {}
                    () = engine.callback_due() => {}
                    () = sleep(wait) => {}
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = stop.cancelled() => {}
        }
    }

    /// Begins to send what is due now, as far as there are places, and says how long nothing else will be due.
    async fn begin_due<'a>(&'a self, sending: &mut Sending<'a>) -> Duration {
        let now = SystemTime::now();
        match self.store.callbacks(now).await {
            Ok((due, next)) => {
                for callback in due {
                    if sending.runs.len() < TOGETHER && sending.runs.insert(callback.id) {
                        sending.calls.push(Box::pin(self.send(callback)));
                    }
                }
                let next = next.map_or(LOOK, |next| next.duration_since(now).unwrap_or_default());
                next.min(LOOK)
            }
            Err(error) => {
                warn!(%error, "callbacks cannot be read");
                PAUSE
            }
        }
    }

    async fn send(&self, callback: Callback) -> RunId {
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
        if let Err(error) = self.store.callback_tried(run, next).await {
            warn!(%run, %error, "a callback will be sent again: that it was sent cannot be stored");
            // Not at once, as long as the store is in this state.
            sleep(PAUSE).await;
        }
        run
    }

    async fn try_once(&self, callback: &Callback) -> Result<(), String> {
        let record = self.store.run(callback.id).await.map_err(|error| error.to_string())?;
        let record = record.ok_or("the run is no longer kept")?;
        let answer = RunRecordAnswer::new(&record, false, &self.backend);
        let body = serde_json::to_vec(&answer).map_err(|error| error.to_string())?;
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let signature =
            HeaderValue::try_from(sign(&self.secret, seconds, &body)).map_err(|error| error.to_string())?;
        let headers = HeaderMap::from_iter([
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (HeaderName::from_static("x-aicodebox-signature"), signature),
        ]);
        match self.fetcher.post(&callback.url, headers, Bytes::from(body)).await {
            Ok(status) if status.is_success() => Ok(()),
            Ok(status) => Err(format!("the receiver answered {status}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        net::TcpListener,
        sync::mpsc,
        thread,
    };

    use aicodebox_engine::{
        run::{Origin, RunOutcome, Verdict},
        store::{MemoryStore, NewRun},
    };

    use super::*;

    /// A receiver that gives these statuses, one per request, and tells what it got.
    fn receiver(statuses: &'static [u16]) -> (String, mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (told, got) = mpsc::channel();
        thread::spawn(move || {
            for status in statuses {
                let (stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    reader.read_line(&mut head).unwrap();
                }
                told.send(head).unwrap();
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
                reader.into_inner().write_all(answer.as_bytes()).unwrap();
            }
        });
        (url, got)
    }

    async fn finished(url: &str) -> (Arc<dyn Store>, RunId) {
        let store = MemoryStore::new(Duration::from_secs(60), 1 << 20);
        let id = finish(&store, url).await;
        (Arc::new(store), id)
    }

    /// A run that is over and calls back there.
    async fn finish(store: &MemoryStore, url: &str) -> RunId {
        let id = RunId::random();
        let run = NewRun {
            callback: Some(url.to_owned()),
            ..NewRun::new(id, "/w".into(), Origin::Api, store.log())
        };
        store.create(run).await.unwrap();
        let outcome = RunOutcome { text: "hi".into(), ..RunOutcome::bare(id, Verdict::Ok) };
        store.finish(id, Arc::new(outcome)).await.unwrap();
        id
    }

    fn sender(store: Arc<dyn Store>, schedule: &'static [Duration]) -> Sender {
        let fetcher = Fetcher::new(vec!["127.0.0.1".into()]);
        Sender { store, fetcher, secret: SecretString::from("key"), schedule, backend: "x".into() }
    }

    /// Sends all that is due, and says how long nothing will be.
    async fn send_due(sender: &Sender) -> Duration {
        let mut sending = Sending::default();
        loop {
            let wait = sender.begin_due(&mut sending).await;
            if sending.runs.is_empty() {
                return wait;
            }
            sending.next_end().await;
        }
    }

    const AT_ONCE: &[Duration] = &[Duration::ZERO; SCHEDULE.len()];

    #[tokio::test]
    async fn a_receiver_that_fails_five_times_gets_the_sixth() {
        let (url, got) = receiver(&[500, 404, 302, 503, 429, 204, 200]);
        let (store, _id) = finished(&url).await;
        let sender = sender(store.clone(), AT_ONCE);
        send_due(&sender).await;
        assert_eq!(got.try_iter().count(), 6, "and not one more");
        assert_eq!(store.callbacks(SystemTime::now()).await.unwrap(), (Vec::new(), None));
    }

    #[tokio::test]
    async fn after_the_sixth_it_is_given_up() {
        let (url, got) = receiver(&[500; 7]);
        let (store, _id) = finished(&url).await;
        send_due(&sender(store.clone(), AT_ONCE)).await;
        assert_eq!(got.try_iter().count(), 6);
        assert_eq!(store.callbacks(SystemTime::now()).await.unwrap(), (Vec::new(), None));
    }

    #[tokio::test]
    async fn the_next_try_waits_for_its_time() {
        let (url, _got) = receiver(&[500]);
        let (store, id) = finished(&url).await;
        let wait = send_due(&sender(store.clone(), SCHEDULE)).await;
        assert!(wait > Duration::from_secs(8) && wait <= SCHEDULE[0], "{wait:?}");
        let due = store.callbacks(SystemTime::now() + SCHEDULE[0]).await.unwrap().0;
        assert_eq!((due[0].id, due[0].tries), (id, 1));
        let hour: Duration = SCHEDULE.iter().sum();
        assert!(hour.as_secs().abs_diff(3_600) < 60, "{hour:?}");
    }

    #[tokio::test]
    async fn many_runs_of_one_that_hangs_leave_places_for_others() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let (url, got) = receiver(&[200]);
        let store = MemoryStore::new(Duration::from_secs(60), 1 << 20);
        for _ in 0..=TOGETHER {
            finish(&store, &format!("http://{}/hook", silent.local_addr().unwrap())).await;
        }
        let last = finish(&store, &url).await;
        let sender = sender(Arc::new(store), SCHEDULE);
        let mut sending = Sending::default();
        while sender.store.callbacks(SystemTime::now()).await.unwrap().0.iter().any(|due| due.id == last) {
            sender.begin_due(&mut sending).await;
            sending.next_end().await;
        }
        assert_eq!(got.try_iter().count(), 1);
        assert_eq!(sending.runs.len(), usize::from(Callback::OF_ONE_RECEIVER), "they are still waited for");
    }

    #[tokio::test]
    async fn addresses_that_are_not_public_get_nothing() {
        let (url, got) = receiver(&[200]);
        let (store, _id) = finished(&url).await;
        let fetcher = Fetcher::new(Vec::new());
        send_due(&Sender { fetcher, ..sender(store, AT_ONCE) }).await;
        assert_eq!(got.try_iter().count(), 0);
    }
}
