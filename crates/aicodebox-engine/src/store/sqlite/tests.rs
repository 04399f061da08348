use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Instant};

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::{
    run::{
        Capture, Claim, EndedBy, EventSink, Exit, ExitStatus, Failure, FailureKind, Finish, Origin, RunEvent,
        RunStatus, SessionKey, Tokens, Usage, Verdict,
    },
    store::MAX_EVENTS,
};

const HOUR: Duration = Duration::from_secs(3600);

fn open(dir: &Path) -> SqliteStore {
    try_open(dir).unwrap()
}

fn try_open(dir: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(SqliteConfig { dir: dir.to_owned(), ttl: HOUR, max_bytes: 1 << 30 })
}

fn new_run(store: &SqliteStore) -> NewRun {
    let note = json!({"shape": 1});
    NewRun { note, ..NewRun::new(RunId::random(), "/w/é".into(), Origin::Api, store.log()) }
}

fn outcome(id: RunId, text: &str) -> Arc<RunOutcome> {
    Arc::new(RunOutcome {
        id,
        verdict: Verdict::Ok,
        text: text.into(),
        parsed: Some(json!({"a": [1, 2.5]})),
        finish: Finish::Stop,
        session: Some(SessionId("s".into())),
        usage: Some(Usage {
            native: json!({"in": 3}),
            tokens: Tokens { input: Some(3), ..Tokens::default() },
        }),
        attempts: Vec::new(),
        exit_code: 0,
        exit: Some(Exit {
            status: Some(ExitStatus::Signal(9)),
            ended_by: EndedBy::Finished,
            swept: 2,
            stuck: vec![7],
            took: Duration::from_millis(5),
            stdout: Capture { head: vec![0xFF, 0], tail: b"tail".to_vec(), dropped: 9 },
            stderr: Capture { head: b"err".to_vec(), ..Capture::default() },
            abort: Some(Failure::new(FailureKind::Invalid { field: "model".into() }, "no")),
        }),
        took: Duration::from_millis(7),
    })
}

fn delta(text: &str) -> RunEvent {
    RunEvent::Delta(text.into())
}

async fn all_events(store: &SqliteStore, id: RunId) -> Vec<Arc<LoggedEvent>> {
    let mut events: Vec<Arc<LoggedEvent>> = Vec::new();
    loop {
        let page = store.events(id, events.last().map_or(0, |event| event.sequence)).await.unwrap();
        if page.is_empty() {
            return events;
        }
        events.extend(page);
    }
}

async fn finished_run(store: &SqliteStore, text: &str, events: usize) -> RunId {
    let run = new_run(store);
    let (id, log) = (run.id, run.log.clone());
    store.create(run).await.unwrap();
    for _ in 0..events {
        log.push(delta(text));
    }
    store.finish(id, outcome(id, "done")).await.unwrap();
    id
}

/// Waits for what the store does by itself.
async fn eventually(mut check: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !check().await {
        assert!(begun.elapsed() < Duration::from_secs(20), "it did not happen");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_run_survives_the_process_as_it_was() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let run = new_run(&store);
    let (id, log) = (run.id, run.log.clone());
    store.create(run).await.unwrap();
    let record = store.run(id).await.unwrap().unwrap();
    assert_eq!((record.status(), record.outcome_sequence), (RunStatus::Running, 0));
    log.push(delta("a"));
    log.push(RunEvent::Session(SessionId("s".into())));
    let answered = outcome(id, "hi");
    store.finish(id, answered.clone()).await.unwrap();
    let long = new_run(&store);
    let mut long_answered = Arc::unwrap_or_clone(outcome(long.id, &"é€".repeat(200_001)));
    let exit = long_answered.exit.as_mut().unwrap();
    exit.stdout.head = b"head".repeat(200_000);
    exit.stderr = Capture { head: vec![0xFF; 300_000], tail: b"0123456".repeat(100_000), dropped: 3 };
    let long_answered = Arc::new(long_answered);
    store.create(long).await.unwrap();
    store.finish(long_answered.id, long_answered.clone()).await.unwrap();
    drop(store);

    let store = open(dir.path());
    let record = store.run(id).await.unwrap().unwrap();
    assert_eq!((record.status(), record.outcome_sequence), (RunStatus::Completed, 3));
    assert_eq!((record.workspace.as_path(), &record.origin), (Path::new("/w/é"), &Origin::Api));
    assert_eq!(record.note, json!({"shape": 1}));
    assert!(record.finished.unwrap() >= record.created);
    assert_eq!(format!("{:?}", record.outcome.unwrap()), format!("{answered:?}"));
    let events = all_events(&store, id).await;
    assert_eq!(events.iter().map(|event| event.sequence).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(events[0].event, delta("a"));
    assert!(store.run(RunId::random()).await.unwrap().is_none());
    let record = store.run(long_answered.id).await.unwrap().unwrap();
    let read = record.outcome.unwrap();
    assert!(read.text == long_answered.text);
    let captures = |outcome: &RunOutcome| outcome.exit.clone().map(|exit| (exit.stdout, exit.stderr));
    assert!(captures(&read) == captures(&long_answered), "in pieces or not, it is the same");
}

#[tokio::test]
async fn events_are_written_while_the_run_is_alive() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let run = new_run(&store);
    let (id, log) = (run.id, run.log.clone());
    store.create(run).await.unwrap();
    let mut written = log.written();
    let begun = Instant::now();
    log.push(delta("a"));
    written.wait_for(|written| written.last == 1).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(all_events(&store, id).await.len(), 1);
}

#[tokio::test]
async fn what_ran_when_the_server_died_is_interrupted_after_its_last_event() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let run = NewRun { callback: Some("http://x/".into()), ..new_run(&store) };
    let (id, log) = (run.id, run.log.clone());
    store.create(run).await.unwrap();
    let mut written = log.written();
    log.push(delta("a"));
    written.wait_for(|written| written.last == 1).await.unwrap();
    drop(store);
    let store = open(dir.path());
    let record = store.run(id).await.unwrap().unwrap();
    assert_eq!((record.status(), record.outcome_sequence), (RunStatus::Interrupted, 2));
    assert_eq!(record.outcome.unwrap().exit_code, 143);
    let (callbacks, _next) = store.callbacks(SystemTime::now()).await.unwrap();
    assert_eq!(callbacks, [Callback { id, url: "http://x/".into(), tries: 0 }]);
}

#[tokio::test]
async fn many_runs_at_once_are_all_there() {
    let dir = TempDir::new().unwrap();
    let store = Arc::new(open(dir.path()));
    let mut runs = Vec::new();
    for _ in 0..400 {
        let run = new_run(&store);
        let id = run.id;
        run.log.push(delta("a"));
        // In the order of the calls, although nobody waits in between.
        runs.push((id, store.create(run), store.finish(id, outcome(id, "x"))));
    }
    for (id, create, finish) in runs {
        create.await.unwrap();
        finish.await.unwrap();
        // Written with its end or before it, the record says the same.
        let record = store.run(id).await.unwrap().unwrap();
        assert_eq!((record.status(), record.outcome_sequence), (RunStatus::Completed, 2));
        assert!(record.finished.unwrap() >= record.created);
        assert_eq!(all_events(&store, id).await.len(), 1);
    }
    let completed =
        RunFilter { status: Some(RunStatus::Completed), surface: None, before: None, limit: 1_000 };
    assert_eq!(store.runs(completed).await.unwrap().runs.len(), 400);
}

#[tokio::test]
async fn an_overfull_run_keeps_its_outcome() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let run = new_run(&store);
    let (id, log) = (run.id, run.log.clone());
    store.create(run).await.unwrap();
    for count in 0..MAX_EVENTS + 5 {
        log.push(delta("abc"));
        if (count + 1) % 10_000 == 0 {
            log.written().wait_for(|written| written.last > count).await.unwrap();
        }
    }
    store.finish(id, outcome(id, "x")).await.unwrap();
    assert_eq!(store.run(id).await.unwrap().unwrap().outcome_sequence, MAX_EVENTS + 2);
    let events = all_events(&store, id).await;
    assert!((1..).zip(&events).all(|(number, event)| event.sequence == number));
    assert!(matches!(events.last().unwrap().event, RunEvent::Truncated(left_out) if left_out.events == 5));
}

#[tokio::test]
async fn only_one_process_has_it_and_nobody_else_may_look() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let error = try_open(dir.path()).err().unwrap();
    assert!(
        matches!(&error, OpenError::InUse { pid, .. } if *pid == std::process::id().to_string()),
        "{error}"
    );
    finished_run(&store, "a", 1).await;
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
    }
    assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_newer_database_is_refused_and_left_alone() {
    let dir = TempDir::new().unwrap();
    drop(open(dir.path()));
    let path = dir.path().join("runs.db");
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = try_open(dir.path()).err().unwrap();
    assert!(
        matches!(error, OpenError::Newer { found: 99, known, .. } if known == schema::version()),
        "{error}"
    );
    assert!(path.exists());
}

#[tokio::test]
async fn a_damaged_database_is_set_aside() {
    for (case, damage) in [
        (|bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2)) as fn(&mut Vec<u8>),
        |bytes| bytes.truncate(100),
        |bytes| *bytes = b"no database at all".repeat(100),
        |bytes| bytes[4096..].fill(0x55),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = TempDir::new().unwrap();
        let store = open(dir.path());
        finished_run(&store, "a", 1).await;
        drop(store);
        let path = dir.path().join("runs.db");
        // Two connections that close at once may leave it behind, and from it the database would be whole again.
        rusqlite::Connection::open(&path)
            .unwrap()
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
        let mut bytes = fs::read(&path).unwrap();
        damage(&mut bytes);
        fs::write(&path, bytes).unwrap();
        let store = open(dir.path());
        let id = finished_run(&store, "b", 1).await;
        assert!(store.run(id).await.unwrap().is_some());
        let aside = fs::read_dir(dir.path()).unwrap().filter(|entry| {
            entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("runs.db.damaged-")
        });
        assert_eq!(aside.count(), 1, "case {case}");
    }
}

#[tokio::test]
async fn lists_are_filtered_and_paged_newest_first() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let mut ids = Vec::new();
    for index in 0..7 {
        let origin = if index % 2 == 0 { Origin::Mcp } else { Origin::Telegram { chat: index, topic: None } };
        let run = NewRun { origin, ..new_run(&store) };
        ids.push(run.id);
        store.create(run).await.unwrap();
    }
    store.finish(ids[2], outcome(ids[2], "x")).await.unwrap();
    let list = async |status, surface, before, limit| {
        let page = store.runs(RunFilter { status, surface, before, limit }).await.unwrap();
        let places: Vec<_> =
            page.runs.iter().map(|run| ids.iter().position(|id| *id == run.id).unwrap()).collect();
        (places, page.next)
    };
    let (first, next) = list(None, None, None, 4).await;
    assert_eq!(first, [6, 5, 4, 3]);
    assert_eq!(list(None, None, next, 4).await, (vec![2, 1, 0], None));
    assert_eq!(list(Some(RunStatus::Completed), None, None, 9).await, (vec![2], None));
    assert_eq!(list(None, Some("telegram"), None, 9).await, (vec![5, 3, 1], None));
    let (first, next) = list(Some(RunStatus::Running), Some("mcp"), None, 2).await;
    assert_eq!(first, [6, 4]);
    assert_eq!(list(Some(RunStatus::Running), Some("mcp"), next, 2).await, (vec![0], None));
}

#[tokio::test]
async fn a_purged_run_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let claim = Claim { scope: [1; 32], key: "k".into(), body: [2; 32] };
    let run = NewRun { claim: Some(claim), callback: Some("http://x/".into()), ..new_run(&store) };
    let (id, log) = (run.id, run.log.clone());
    store.create(run).await.unwrap();
    log.push(delta("a"));
    store.purge(id).await.unwrap();
    assert!(store.run(id).await.unwrap().is_some(), "it still runs");
    assert_eq!(store.claimed(&[1; 32], "k").await.unwrap(), Some((id, [2; 32])));
    assert_eq!(store.claimed(&[9; 32], "k").await.unwrap(), None);
    store.finish(id, outcome(id, &"x".repeat(1 << 20))).await.unwrap();
    store.purge(id).await.unwrap();
    assert!(store.run(id).await.unwrap().is_none());
    assert!(store.events(id, 0).await.unwrap().is_empty());
    assert_eq!(store.claimed(&[1; 32], "k").await.unwrap(), None);
    assert!(store.callbacks(SystemTime::now()).await.unwrap().0.is_empty());
    let database = rusqlite::Connection::open(dir.path().join("runs.db")).unwrap();
    for table in ["run", "outcome", "events", "outcome_piece", "claim", "callback"] {
        let rows: i64 =
            database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

#[tokio::test]
async fn callbacks_wait_for_the_end_and_then_for_their_time() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let run = NewRun { callback: Some("http://x/".into()), ..new_run(&store) };
    let id = run.id;
    store.create(run).await.unwrap();
    assert_eq!(store.callbacks(SystemTime::now() + HOUR).await.unwrap(), (Vec::new(), None));
    store.finish(id, outcome(id, "x")).await.unwrap();
    assert_eq!(store.callbacks(SystemTime::now()).await.unwrap().0.len(), 1);
    let later = SystemTime::now() + HOUR;
    store.callback_tried(id, Some(later)).await.unwrap();
    let (due, next) = store.callbacks(SystemTime::now()).await.unwrap();
    assert!(due.is_empty() && next.unwrap() > SystemTime::now());
    assert_eq!(store.callbacks(later).await.unwrap().0[0].tries, 1);
    store.callback_tried(id, None).await.unwrap();
    assert_eq!(store.callbacks(later).await.unwrap(), (Vec::new(), None));
}

#[tokio::test]
async fn a_receiver_has_few_callbacks_due_at_a_time() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let mut runs = Vec::new();
    for url in ["http://a/1", "http://a/2", "http://a/3", "http://a/4", "http://a/5", "http://b"] {
        let run = NewRun { callback: Some(url.into()), ..new_run(&store) };
        let id = run.id;
        store.create(run).await.unwrap();
        store.finish(id, outcome(id, "x")).await.unwrap();
        runs.push(id);
    }
    let due = async || {
        let due = store.callbacks(SystemTime::now()).await.unwrap().0;
        let mut due: Vec<_> = due.into_iter().map(|callback| callback.url).collect();
        due.sort();
        due
    };
    let first = due().await;
    assert_eq!(first.len(), 5, "{first:?}");
    assert_eq!(first.last().unwrap(), "http://b");
    store.callback_tried(runs[0], None).await.unwrap();
    assert_eq!(due().await, ["http://a/2", "http://a/3", "http://a/4", "http://a/5", "http://b"]);
}

#[tokio::test]
async fn sessions_and_their_counters_outlive_runs() {
    let dir = TempDir::new().unwrap();
    let place = |key: &str| SessionPlace {
        adapter: "codex".into(),
        workspace: "/w".into(),
        key: SessionKey(key.into()),
    };
    let id = SessionId("s".into());
    let totals = Usage { native: json!({"in": 3}), tokens: Tokens::default() };
    let store = open(dir.path());
    store.keep_session(place("run"), Some(id.clone())).await.unwrap();
    store.keep_session(place("cron:x"), Some(id.clone())).await.unwrap();
    store.keep_totals(id.clone(), Some(totals.clone())).await.unwrap();
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.session(&place("run")).await.unwrap(), Some(id.clone()));
    assert_eq!(store.totals(&id).await.unwrap(), Some(totals));
    store.keep_totals(id.clone(), None).await.unwrap();
    assert_eq!(store.totals(&id).await.unwrap(), None);
    store.keep_session(place("run"), None).await.unwrap();
    assert_eq!(store.session(&place("run")).await.unwrap(), None);
    assert_eq!(store.session(&place("cron:x")).await.unwrap(), Some(id));
}

#[tokio::test]
async fn old_runs_go_when_their_time_is_over() {
    let dir = TempDir::new().unwrap();
    let store =
        SqliteStore::open(SqliteConfig { dir: dir.path().into(), ttl: Duration::ZERO, max_bytes: 1 << 30 })
            .unwrap();
    let running = new_run(&store);
    let alive = running.id;
    store.create(running).await.unwrap();
    let id = finished_run(&store, "a", 3).await;
    eventually(async || store.run(id).await.unwrap().is_none()).await;
    assert!(store.run(alive).await.unwrap().is_some());
}

#[tokio::test]
async fn too_much_costs_old_runs_their_events_first() {
    let dir = TempDir::new().unwrap();
    let store =
        SqliteStore::open(SqliteConfig { dir: dir.path().into(), ttl: HOUR, max_bytes: 4 << 20 }).unwrap();
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(finished_run(&store, &"x".repeat(100_000), 10).await);
    }
    eventually(async || store.events(ids[0], 0).await.unwrap().is_empty()).await;
    assert!(store.run(ids[0]).await.unwrap().is_some(), "the record is still there");
    assert_eq!(all_events(&store, ids[7]).await.len(), 10);
}

#[tokio::test]
async fn too_much_costs_no_more_runs_than_it_must_and_the_last_one_nothing() {
    let dir = TempDir::new().unwrap();
    // It ended last, although it began first.
    let store = open(dir.path());
    let slow = new_run(&store);
    let (slow_id, slow_log) = (slow.id, slow.log.clone());
    store.create(slow).await.unwrap();
    slow_log.push(delta("a"));
    // What they printed is not in events, so it goes only with the runs: 700 kB of each.
    let mut ids = Vec::new();
    for _ in 0..8 {
        let run = new_run(&store);
        let id = run.id;
        run.log.push(delta("a"));
        store.create(run).await.unwrap();
        let mut exit = outcome(id, "x").exit.clone().unwrap();
        exit.stdout.head = vec![b'q'; 700_000];
        let outcome = RunOutcome { exit: Some(exit), ..Arc::unwrap_or_clone(outcome(id, "x")) };
        store.finish(id, Arc::new(outcome)).await.unwrap();
        ids.push(id);
    }
    store.finish(slow_id, outcome(slow_id, "x")).await.unwrap();
    drop(store);

    let store =
        SqliteStore::open(SqliteConfig { dir: dir.path().into(), ttl: HOUR, max_bytes: 4 << 20 }).unwrap();
    let database = rusqlite::Connection::open(dir.path().join("runs.db")).unwrap();
    let number = |name| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    let used = || (number("page_count") - number("freelist_count")) * number("page_size");
    eventually(async || used() <= 4 << 20).await;
    assert!(used() > 3 << 20, "{}", used());
    let mut kept = Vec::new();
    for id in &ids {
        kept.push(store.run(*id).await.unwrap().is_some());
        assert!(store.events(*id, 0).await.unwrap().is_empty());
    }
    assert_eq!(kept, [false, false, false, true, true, true, true, true]);
    assert_eq!(store.events(slow_id, 0).await.unwrap().len(), 1);
}
