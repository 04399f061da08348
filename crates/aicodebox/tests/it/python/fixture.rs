use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use aicodebox_engine::{
    adapter::python::{PythonAdapter, PythonError, load_python},
    engine::{Engine, EngineConfig, WhenBusy},
    process::{LAUNCHER, LauncherCommand, Pool, Variables, variables},
    run::{Failure, FailureKind, Origin, RunEvent, RunOutcome, RunRequest, Verdict},
    store::MemoryStore,
    workspace::{Scratch, Workspaces},
};

/// An engine with a Python adapter, in directories of its own.
pub(super) struct Box_ {
    pub(super) engine: Engine,
    pub(super) workspaces: Workspaces,
    directory: tempfile::TempDir,
}

/// The directories in which Python finds the interface package and the tests' adapters.
pub(crate) fn python_path() -> String {
    let crate_ = Path::new(env!("CARGO_MANIFEST_DIR"));
    format!("{}:{}", crate_.join("../../docker/python").display(), crate_.join("tests/python").display())
}

pub(super) fn environment(python_path: &str) -> Variables {
    let path = path_of_this_test();
    let ours = [("PYTHONPATH", python_path), ("OURS", "key"), ("GONE", "not yet")]
        .map(|(name, value)| (name, value.into()));
    variables(ours.into_iter().chain([("PATH", path)]))
}

pub(super) async fn pool() -> Pool {
    let command = LauncherCommand { program: env!("CARGO_BIN_EXE_aicodebox").into(), arg0: LAUNCHER.into() };
    Pool::start(command, 66).await.unwrap()
}

pub(super) async fn load(spec: &str, environment: Variables) -> Result<PythonAdapter, PythonError> {
    let path = environment.get(OsStr::new("PATH")).cloned();
    load_python(spec, pool().await, Arc::new(environment), path.as_deref()).await
}

impl Box_ {
    pub(super) async fn new(spec: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pool = pool().await;
        let agent_env = Arc::new(environment(&python_path()));
        let path = agent_env.get(OsStr::new("PATH")).map(AsRef::as_ref);
        let adapter = load_python(spec, pool.clone(), agent_env.clone(), path).await.unwrap();
        let engine = Engine::new(EngineConfig {
            adapter: Arc::new(adapter),
            pool,
            store: Arc::new(MemoryStore::new(Duration::from_secs(600), 64 << 20)),
            scratch: Scratch::open(&directory.path().join("scratch")).unwrap(),
            home: directory.path().to_owned(),
            agent_env,
            subscription: false,
            binary: None,
            default_model: Some("default".to_owned()),
            models: Arc::default(),
            max_runs: 64,
            max_queued: 64,
            run_timeout: Duration::from_secs(60),
            idle_timeout: None,
            no_new_privs: false,
        });
        let root = directory.path().join("work");
        std::fs::create_dir(&root).unwrap();
        let workspaces = Workspaces::open(&root).unwrap();
        Self { engine, workspaces, directory }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("work").canonicalize().unwrap()
    }

    /// A fresh run in the root.
    pub(super) fn request(&self, prompt: &str, origin: Origin) -> RunRequest {
        RunRequest::new(prompt, self.workspaces.root(), origin)
    }

    pub(super) async fn run(&self, request: RunRequest) -> (Arc<RunOutcome>, Vec<RunEvent>) {
        let mut handle = self.engine.start(request, WhenBusy::Wait).await.unwrap();
        let mut live = handle.events().live();
        let mut events = Vec::new();
        loop {
            let batch = within(25, live.next()).await.unwrap();
            if batch.is_empty() {
                break;
            }
            let told = batch.iter().map(|logged| logged.event.clone());
            events.extend(told.filter(|event| !matches!(event, RunEvent::Status(_))));
        }
        (within(25, handle.outcome()).await.unwrap(), events)
    }

    /// The failure with which a run is not even accepted.
    pub(super) async fn refused(&self, request: RunRequest) -> Failure {
        match within(25, self.engine.start(request, WhenBusy::Wait)).await {
            Err(failure) => failure,
            Ok(handle) => panic!("{} was accepted", handle.id),
        }
    }

    pub(super) async fn ask(&self, prompt: &str) -> Arc<RunOutcome> {
        self.run(self.request(prompt, Origin::Api)).await.0
    }
}

/// The failure of an outcome; panics when it went well.
pub(super) fn failure(outcome: &RunOutcome) -> (FailureKind, String) {
    match &outcome.verdict {
        Verdict::Failed(Failure { kind, message, .. }) => (kind.clone(), message.clone()),
        Verdict::Ok => panic!("it went well: {:?}", outcome.text),
    }
}

pub(super) async fn within<T>(seconds: u64, what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), what).await.expect("in time")
}

/// Where this machine's Python is found.
#[expect(clippy::disallowed_methods, reason = "a test has no configuration that could have read it")]
pub(super) fn path_of_this_test() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap()
}
