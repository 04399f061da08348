//! The bridge with real Python processes, whose hooks hang, die and block the interpreter.

use std::{
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::value::RawValue;
use tokio::process::Command;

use super::{
    bridge::{Ask, Bridge, CallError, StartError},
    link::{NotReady, Wires},
    wire::{Parsed, Planned, What},
};

const LONG: Duration = Duration::from_secs(20);

struct Fixture {
    bridge: Arc<Bridge>,
    /// Processes started.
    started: Arc<AtomicUsize>,
}

async fn load(class: &'static str, started: Arc<AtomicUsize>) -> Result<Bridge, StartError> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docker/python");
    let paths = format!("{}:{}", python.display(), python.join("tests").display());
    let (bridge, _) = Bridge::start(Box::new(move || {
        started.fetch_add(1, Ordering::SeqCst);
        let paths = paths.clone();
        Box::pin(async move {
            let mut child = Command::new("python3")
                .args(["-m", "aicodebox.bridge", class])
                .env("PYTHONPATH", paths)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .map_err(|error| error.to_string())?;
            Ok(Wires {
                stdin: Box::new(child.stdin.take().unwrap()),
                stdout: Box::new(child.stdout.take().unwrap()),
                stderr: Box::new(child.stderr.take().unwrap()),
                process: Box::new(child),
            })
        })
    }))
    .await?;
    Ok(bridge)
}

impl Fixture {
    async fn odd() -> Self {
        let started = Arc::new(AtomicUsize::new(0));
        let bridge = Arc::new(load("samples:Odd", started.clone()).await.unwrap());
        Self { bridge, started }
    }

    async fn plan(&self, prompt: &str, limit: Duration) -> Result<Vec<String>, CallError> {
        plan(&self.bridge, prompt, limit).await
    }

    /// Plans in a task of its own; only waits until the call is under way.
    async fn begin(
        &self,
        prompt: &'static str,
        limit: Duration,
    ) -> tokio::task::JoinHandle<Result<Vec<String>, CallError>> {
        let bridge = self.bridge.clone();
        let (begun, under_way) = tokio::sync::oneshot::channel();
        let handle = tokio_util::task::TaskTracker::new().spawn(async move {
            let call = plan(&bridge, prompt, limit);
            let _nobody = begun.send(());
            call.await
        });
        under_way.await.unwrap();
        handle
    }

    fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }
}

async fn plan(bridge: &Bridge, prompt: &str, limit: Duration) -> Result<Vec<String>, CallError> {
    let request = serde_json::value::to_raw_value(&serde_json::json!({"prompt": prompt})).unwrap();
    let run = bridge.new_run();
    let ask = Ask { what: What::Plan, run, request: &request, lines: None, stdout: None, limit };
    bridge.ask::<Planned>(ask).await.map(|planned| planned.argv)
}

fn failed(result: Result<Vec<String>, CallError>) -> String {
    match result {
        Err(CallError::Failed(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn odd() -> Result<Vec<String>, CallError> {
    Ok(vec!["odd".to_owned()])
}

#[tokio::test]
async fn exceptions_are_the_calls_own() {
    let fixture = Fixture::odd().await;
    assert_eq!(fixture.plan("refuse", LONG).await, Err(CallError::Refused("not with me: ü".to_owned())));
    assert_eq!(failed(fixture.plan("exit", LONG).await), "build_argv raised SystemExit: 3");
    assert_eq!(fixture.plan("ok", LONG).await, odd());
    assert_eq!(fixture.started(), 1);
}

#[tokio::test]
async fn a_process_that_a_hook_ends_is_replaced_and_only_that_call_fails() {
    let fixture = Fixture::odd().await;
    let why = failed(fixture.plan("die", LONG).await);
    assert_eq!(why, "the adapter's Python process ended or hung in validate, build_argv or build_env");
    assert_eq!(fixture.plan("ok", LONG).await, odd());
    assert_eq!(fixture.started(), 3, "the call that died was tried once more");
}

#[tokio::test]
async fn calls_that_a_dying_process_took_along_are_made_again() {
    let fixture = Fixture::odd().await;
    let mut bystanders = Vec::new();
    for _ in 0..10 {
        bystanders.push(fixture.begin("slow", LONG).await);
    }
    failed(fixture.plan("die", LONG).await);
    for bystander in bystanders {
        assert_eq!(bystander.await.unwrap(), odd());
    }
}

#[tokio::test]
async fn a_hook_that_hangs_has_its_deadline_and_a_new_process_serves_the_others() {
    let fixture = Fixture::odd().await;
    let hanging = fixture.begin("hang", Duration::from_secs(2)).await;
    assert_eq!(fixture.plan("ok", LONG).await, odd());
    assert_eq!(fixture.started(), 1);
    assert_eq!(failed(hanging.await.unwrap()), "validate, build_argv or build_env took longer than 2 s");
    assert_eq!(fixture.plan("ok", LONG).await, odd());
    assert_eq!(fixture.started(), 2);
}

#[tokio::test]
async fn a_hook_that_blocks_the_interpreter_keeps_nobody_waiting_for_its_deadline() {
    let fixture = Fixture::odd().await;
    let wedged = fixture.begin("wedge", Duration::from_secs(600)).await;
    let others: Vec<_> = (0..5).map(|_| fixture.plan("ok", Duration::from_secs(600))).collect();
    for other in others {
        assert_eq!(tokio::time::timeout(LONG, other).await.unwrap(), odd());
    }
    failed(tokio::time::timeout(LONG, wedged).await.unwrap().unwrap());
}

#[tokio::test]
async fn a_replaced_process_is_told_the_request_again() {
    let fixture = Fixture::odd().await;
    let request = serde_json::value::to_raw_value(&serde_json::json!({"prompt": "ok"})).unwrap();
    let parse = |run, request: &RawValue| {
        let request = request.to_owned();
        let bridge = fixture.bridge.clone();
        async move {
            let ask = Ask {
                what: What::Parse,
                run,
                request: &request,
                lines: None,
                stdout: Some("x"),
                limit: LONG,
            };
            bridge.ask::<Parsed>(ask).await.unwrap().text
        }
    };
    assert_eq!(parse(77, &request).await, "'x'");
    failed(fixture.plan("die", LONG).await);
    assert_eq!(parse(77, &request).await, "'x'");
}

#[tokio::test]
async fn a_class_that_cannot_be_loaded_says_why() {
    for (class, expected) in [
        ("no.such:Class", "ModuleNotFoundError: No module named 'no'"),
        ("samples:Broken", "OSError: no such thing"),
    ] {
        match load(class, Arc::default()).await.err() {
            Some(StartError::NotReady(NotReady::Failed(message))) => assert_eq!(message, expected),
            other => panic!("{other:?}"),
        }
    }
}
