use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use super::{
    Callback, EventLog, LoggedEvent, NewRun, RunFilter, RunPage, RunRecord, RunSummary, SessionPlace, Store,
    Stored,
};
use crate::run::{RunId, RunOutcome, SessionId, SessionTotals};

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
    runs: HashMap<RunId, Kept>,
    last_number: i64,
    claims: HashMap<([u8; 32], String), (RunId, [u8; 32])>,
    finished: VecDeque<Finished>,
    bytes: usize,
    sessions: Recent<SessionPlace, SessionId>,
    totals: Recent<SessionId, SessionTotals>,
}

#[derive(Debug)]
struct Kept {
    number: i64,
    record: RunRecord,
    log: Arc<EventLog>,
    callback: Option<(Callback, Option<SystemTime>)>,
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
            let id = oldest.id;
            self.forget(id);
        }
    }

    fn forget(&mut self, id: RunId) {
        let Some(index) = self.finished.iter().position(|finished| finished.id == id) else { return };
        if let Some(finished) = self.finished.remove(index) {
            self.bytes -= finished.bytes;
        }
        self.runs.remove(&id);
        self.claims.retain(|_key, (claimed, _body)| *claimed != id);
    }
}

/// About what a finished run holds in memory.
fn size(outcome: &RunOutcome, log_bytes: usize) -> usize {
    let captured = outcome.exit.as_ref().map_or(0, |exit| {
        exit.stdout.head.len() + exit.stdout.tail.len() + exit.stderr.head.len() + exit.stderr.tail.len()
    });
    size_of::<RunRecord>() + size_of::<RunOutcome>() + outcome.text.len() + captured + log_bytes
}

/// An answer that is there already.
fn ready<'a, T: Send + 'a>(answer: T) -> Stored<'a, T> {
    Box::pin(async { Ok(answer) })
}

impl Store for MemoryStore {
    fn log(&self) -> Arc<EventLog> {
        EventLog::in_memory()
    }

    fn create(&self, run: NewRun) -> Stored<'_, ()> {
        let NewRun { id, workspace, origin, created, log, note, claim, callback } = run;
        let mut inner = self.inner();
        inner.evict(self.ttl, self.max_bytes);
        inner.last_number += 1;
        let number = inner.last_number;
        if let Some(claim) = claim {
            inner.claims.insert((claim.scope, claim.key), (id, claim.body));
        }
        let record = RunRecord {
            id,
            workspace,
            origin,
            created,
            finished: None,
            outcome: None,
            outcome_sequence: 0,
            note,
            delivery: serde_json::Value::Null,
        };
        let callback = callback.map(|url| (Callback { id, url, tries: 0 }, None));
        inner.runs.insert(id, Kept { number, record, log, callback });
        ready(())
    }

    fn finish(&self, id: RunId, outcome: Arc<RunOutcome>) -> Stored<'_, ()> {
        let mut inner = self.inner();
        if let Some(Kept { record, log, callback, .. }) = inner.runs.get_mut(&id) {
            let now = SystemTime::now();
            let bytes = size(&outcome, log.bytes());
            record.outcome_sequence = log.seal();
            record.outcome = Some(outcome);
            record.finished = Some(now);
            if let Some((_callback, due)) = callback {
                *due = Some(now);
            }
            inner.bytes += bytes;
            inner.finished.push_back(Finished { id, at: Instant::now(), bytes });
            inner.evict(self.ttl, self.max_bytes);
        }
        ready(())
    }

    fn run(&self, id: RunId) -> Stored<'_, Option<RunRecord>> {
        let mut inner = self.inner();
        inner.evict(self.ttl, self.max_bytes);
        ready(inner.runs.get(&id).map(|kept| kept.record.clone()))
    }

    fn runs(&self, filter: RunFilter) -> Stored<'_, RunPage> {
        let inner = self.inner();
        let mut runs: Vec<_> = inner
            .runs
            .values()
            .filter(|Kept { number, record, .. }| {
                filter.before.is_none_or(|before| *number < before)
                    && filter.status.is_none_or(|status| record.status() == status)
                    && filter.surface.is_none_or(|surface| record.origin.surface() == surface)
            })
            .collect();
        runs.sort_by_key(|kept| std::cmp::Reverse(kept.number));
        let next =
            runs.get(filter.limit).and(runs.get(filter.limit.saturating_sub(1))).map(|kept| kept.number);
        let summary = |kept: &Kept| {
            let RunRecord { id, workspace, origin, created, finished, .. } = kept.record.clone();
            RunSummary { id, workspace, origin, status: kept.record.status(), created, finished }
        };
        ready(RunPage { runs: runs.into_iter().take(filter.limit).map(summary).collect(), next })
    }

    fn events(&self, id: RunId, after: u64) -> Stored<'_, Vec<Arc<LoggedEvent>>> {
        ready(self.inner().runs.get(&id).map(|kept| kept.log.kept_after(after)).unwrap_or_default())
    }

    fn purge(&self, id: RunId) -> Stored<'_, ()> {
        self.inner().forget(id);
        ready(())
    }

    fn claimed<'a>(&'a self, scope: &'a [u8; 32], key: &'a str) -> Stored<'a, Option<(RunId, [u8; 32])>> {
        ready(self.inner().claims.get(&(*scope, key.to_owned())).copied())
    }

    fn session<'a>(&'a self, place: &'a SessionPlace) -> Stored<'a, Option<SessionId>> {
        ready(self.inner().sessions.map.get(place).cloned())
    }

    fn keep_session(&self, place: SessionPlace, id: Option<SessionId>) -> Stored<'_, ()> {
        let mut inner = self.inner();
        match id {
            Some(id) => inner.sessions.insert(place, id),
            None => inner.sessions.remove(&place),
        }
        ready(())
    }

    fn totals<'a>(&'a self, id: &'a SessionId) -> Stored<'a, Option<SessionTotals>> {
        ready(self.inner().totals.map.get(id).cloned())
    }

    fn keep_totals(&self, id: SessionId, totals: Option<SessionTotals>) -> Stored<'_, ()> {
        match totals {
            Some(totals) => self.inner().totals.insert(id, totals),
            None => self.inner().totals.remove(&id),
        }
        ready(())
    }

    fn callbacks(&self, now: SystemTime) -> Stored<'_, (Vec<Callback>, Option<SystemTime>)> {
        let inner = self.inner();
        let waiting = inner.runs.values().filter_map(|kept| kept.callback.as_ref());
        let waiting = waiting.filter_map(|(callback, due)| Some((callback, (*due)?)));
        let (mut due, later): (Vec<_>, Vec<_>) = waiting.partition(|(_callback, due)| *due <= now);
        let next = later.iter().map(|(_callback, due)| *due).min();
        due.sort_by_key(|(_callback, due)| *due);
        let mut places = HashMap::new();
        due.retain(|(callback, _due)| {
            let place = places.entry(Callback::receiver(&callback.url)).or_insert(0);
            *place += 1;
            *place <= Callback::OF_ONE_RECEIVER
        });
        let due = due.into_iter().map(|(callback, _due)| callback.clone());
        ready((due.take(Callback::AT_ONCE.into()).collect(), next))
    }

    fn callback_tried(&self, id: RunId, next: Option<SystemTime>) -> Stored<'_, ()> {
        if let Some(kept) = self.inner().runs.get_mut(&id)
            && let Some((callback, due)) = &mut kept.callback
        {
            callback.tries += 1;
            *due = next;
        }
        ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Origin, RunStatus, SessionKey, Verdict};

    fn record(id: RunId) -> NewRun {
        NewRun::new(id, "/w".into(), Origin::Api, EventLog::in_memory())
    }

    fn outcome(id: RunId, text: &str) -> Arc<RunOutcome> {
        Arc::new(RunOutcome { text: text.into(), ..RunOutcome::bare(id, Verdict::Ok) })
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
