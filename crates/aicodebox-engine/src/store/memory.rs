use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{RunRecord, SessionPlace, Store, StoreError};
use crate::{
    BoxFuture,
    run::{RunId, RunOutcome, SessionId, SessionTotals},
};

/// At most this many sessions and session counters are remembered; the oldest go first.
const MAX_SESSIONS: usize = 10_000;

/// Keeps everything in memory, for as long as the process lives: finished runs until their time is over or
/// until all of them together are too big, the oldest first. Runs that are not finished always stay.
#[derive(Debug)]
pub struct MemoryStore {
    ttl: Duration,
    max_bytes: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    runs: HashMap<RunId, RunRecord>,
    finished: VecDeque<Finished>,
    bytes: usize,
    sessions: Recent<SessionPlace, SessionId>,
    totals: Recent<SessionId, SessionTotals>,
}

#[derive(Debug)]
struct Finished {
    id: RunId,
    at: Instant,
    bytes: usize,
}

/// A map that forgets its oldest entries.
#[derive(Debug)]
struct Recent<K, V> {
    map: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { map: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Clone + Eq + std::hash::Hash, V> Recent<K, V> {
    fn insert(&mut self, key: K, value: V) {
        if self.map.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > MAX_SESSIONS
            && let Some(oldest) = self.order.pop_front()
        {
            self.map.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &K) {
        if self.map.remove(key).is_some() {
            self.order.retain(|other| other != key);
        }
    }
}

impl MemoryStore {
    /// An empty store. Finished runs are kept for `ttl` and up to `max_bytes` in all.
    pub fn new(ttl: Duration, max_bytes: usize) -> Self {
        Self { ttl, max_bytes, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn evict(&mut self, ttl: Duration, max_bytes: usize) {
        while let Some(oldest) = self.finished.front()
            && (self.bytes > max_bytes || oldest.at.elapsed() >= ttl)
        {
            self.bytes -= oldest.bytes;
            self.runs.remove(&oldest.id);
            self.finished.pop_front();
        }
    }
}

/// About what a finished run holds in memory.
fn size(outcome: &RunOutcome, log_bytes: usize) -> usize {
    let captured = outcome.exit.as_ref().map_or(0, |exit| {
        exit.stdout.head.len() + exit.stdout.tail.len() + exit.stderr.head.len() + exit.stderr.tail.len()
    });
    size_of::<RunRecord>() + size_of::<RunOutcome>() + outcome.text.len() + captured + log_bytes
}

impl Store for MemoryStore {
    fn create(&self, record: RunRecord) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut inner = self.inner();
        inner.evict(self.ttl, self.max_bytes);
        inner.runs.insert(record.id, record);
        Box::pin(async { Ok(()) })
    }

    fn finish(&self, id: RunId, outcome: Arc<RunOutcome>) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut inner = self.inner();
        if let Some(record) = inner.runs.get_mut(&id) {
            let bytes = size(&outcome, record.log.bytes());
            record.outcome = Some(outcome);
            inner.bytes += bytes;
            inner.finished.push_back(Finished { id, at: Instant::now(), bytes });
            inner.evict(self.ttl, self.max_bytes);
        }
        Box::pin(async { Ok(()) })
    }

    fn run(&self, id: RunId) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        let mut inner = self.inner();
        inner.evict(self.ttl, self.max_bytes);
        let record = inner.runs.get(&id).cloned();
        Box::pin(async { Ok(record) })
    }

    fn session<'a>(
        &'a self,
        place: &'a SessionPlace,
    ) -> BoxFuture<'a, Result<Option<SessionId>, StoreError>> {
        let id = self.inner().sessions.map.get(place).cloned();
        Box::pin(async { Ok(id) })
    }

    fn keep_session(
        &self,
        place: SessionPlace,
        id: Option<SessionId>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut inner = self.inner();
        match id {
            Some(id) => inner.sessions.insert(place, id),
            None => inner.sessions.remove(&place),
        }
        Box::pin(async { Ok(()) })
    }

    fn totals<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<Option<SessionTotals>, StoreError>> {
        let totals = self.inner().totals.map.get(id).cloned();
        Box::pin(async { Ok(totals) })
    }

    fn keep_totals(&self, id: SessionId, totals: SessionTotals) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner().totals.insert(id, totals);
        Box::pin(async { Ok(()) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::{
        run::{Finish, Origin, RunStatus, SessionKey, Verdict},
        store::{EventLog, Keeps},
    };

    fn record(id: RunId) -> RunRecord {
        RunRecord {
            id,
            workspace: "/w".into(),
            origin: Origin::Api,
            created: SystemTime::now(),
            outcome: None,
            log: EventLog::new(Keeps { deltas: false, natives: false }),
            note: serde_json::Value::Null,
        }
    }

    fn outcome(id: RunId, text: &str) -> Arc<RunOutcome> {
        Arc::new(RunOutcome {
            id,
            verdict: Verdict::Ok,
            text: text.into(),
            parsed: None,
            finish: Finish::Stop,
            session: None,
            usage: None,
            attempts: Vec::new(),
            exit_code: 0,
            exit: None,
            took: Duration::ZERO,
        })
    }

    #[tokio::test]
    async fn a_run_can_be_read_any_number_of_times() {
        let store = MemoryStore::new(Duration::from_secs(60), 1 << 20);
        let id = RunId::random();
        store.create(record(id)).await.unwrap();
        assert_eq!(store.run(id).await.unwrap().unwrap().status(), RunStatus::Running);
        store.finish(id, outcome(id, "hi")).await.unwrap();
        for _ in 0..2 {
            assert_eq!(store.run(id).await.unwrap().unwrap().outcome.unwrap().text, "hi");
        }
        assert!(store.run(RunId::random()).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn the_oldest_finished_runs_go_first_and_running_ones_stay() {
        let store = MemoryStore::new(Duration::from_secs(60), 100_000);
        let running = RunId::random();
        store.create(record(running)).await.unwrap();
        let ids: Vec<_> = (0..4).map(|_| RunId::random()).collect();
        for &id in &ids {
            store.create(record(id)).await.unwrap();
            store.finish(id, outcome(id, &"x".repeat(40_000))).await.unwrap();
        }
        let mut left = Vec::new();
        for &id in &ids {
            left.push(store.run(id).await.unwrap().is_some());
        }
        assert_eq!(left, [false, false, true, true]);
        assert!(store.run(running).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn time_is_over_when_the_ttl_has_passed() {
        let store = MemoryStore::new(Duration::ZERO, 1 << 20);
        let id = RunId::random();
        store.create(record(id)).await.unwrap();
        store.finish(id, outcome(id, "hi")).await.unwrap();
        assert!(store.run(id).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn sessions_are_remembered_by_place_and_forgotten() {
        let store = MemoryStore::new(Duration::ZERO, 0);
        let place = |key: &str| SessionPlace {
            adapter: "codex".into(),
            workspace: "/w".into(),
            key: SessionKey(key.into()),
        };
        store.keep_session(place("run"), Some(SessionId("a".into()))).await.unwrap();
        store.keep_session(place("cron:x"), Some(SessionId("b".into()))).await.unwrap();
        assert_eq!(store.session(&place("run")).await.unwrap(), Some(SessionId("a".into())));
        store.keep_session(place("run"), None).await.unwrap();
        assert_eq!(store.session(&place("run")).await.unwrap(), None);
        assert_eq!(store.session(&place("cron:x")).await.unwrap(), Some(SessionId("b".into())));
    }
}
