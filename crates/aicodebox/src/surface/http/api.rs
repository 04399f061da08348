use std::{path::PathBuf, sync::Arc, time::Duration};

use aicodebox_engine::{
    engine::Engine,
    run::{RunId, Workspace},
    store::{RunFilter, RunPage, RunRecord, StoreError},
    workspace::{Files, Scratch, WorkspaceError, Workspaces},
};
use axum::http::StatusCode;
use tokio::{task::spawn_blocking, time::timeout};

use super::Problem;
use crate::{
    config::Config,
    fetch::Fetcher,
    surface::{cron::CronControl, records::Records, run_answer::Shape},
};

/// How long the file system may take to answer a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Longest address of a callback, in bytes.
const MAX_URL: usize = 2_048;

/// What the handlers work with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api(Arc<Inner>);

struct Inner {
    engine: Engine,
    workspaces: Arc<Workspaces>,
    scratch: Scratch,
    state_dir: PathBuf,
    allow_extra_args: bool,
    max_body: usize,
    callbacks: Option<Fetcher>,
    cron: Option<CronControl>,
}

impl Api {
    /// `callbacks` = what sends them, where there is a key to sign them with; `cron` = the scheduler, where it runs.
    pub(crate) fn new(
        engine: Engine,
        workspaces: Arc<Workspaces>,
        scratch: Scratch,
        config: &Config,
        max_body: usize,
        callbacks: Option<Fetcher>,
        cron: Option<CronControl>,
    ) -> Self {
        let (state_dir, allow_extra_args) = (config.state_dir.clone(), config.allow_extra_args);
        Self(Arc::new(Inner {
            engine,
            workspaces,
            scratch,
            state_dir,
            allow_extra_args,
            max_body,
            callbacks,
            cron,
        }))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The scheduler, where it runs.
    pub(crate) fn cron(&self) -> Option<&CronControl> {
        self.0.cron.as_ref()
    }

    pub(crate) fn max_body(&self) -> usize {
        self.0.max_body
    }

    pub(crate) fn allow_extra_args(&self) -> bool {
        self.0.allow_extra_args
    }

    pub(crate) fn workspaces(&self) -> &Workspaces {
        &self.0.workspaces
    }

    /// Checks where a record is to be sent.
    ///
    /// # Errors
    /// 422 when that cannot be, or when nothing is sent.
    pub(crate) fn callback(&self, url: &str) -> Result<(), Problem> {
        let fetcher = self.0.callbacks.as_ref().ok_or_else(|| {
            let detail = "needs a key to sign with: set AICODEBOX_CALLBACK_SECRET on the server";
            Problem::unprocessable("callbackUrl", detail)
        })?;
        if url.len() > MAX_URL {
            return Err(Problem::unprocessable(
                "callbackUrl",
                format_args!("is longer than {MAX_URL} bytes"),
            ));
        }
        fetcher.check(url).map_err(|error| Problem::unprocessable("callbackUrl", error))
    }

    pub(crate) fn files(&self) -> &Files {
        self.0.workspaces.files()
    }

    pub(crate) fn root_workspace(&self) -> Workspace {
        self.0.workspaces.root()
    }

    /// The workspace at this path below the root.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub(crate) async fn workspace(&self, path: String) -> Result<Workspace, WorkspaceError> {
        self.0.workspaces.find(path).await
    }

    /// A new workspace that goes with its run.
    ///
    /// # Errors
    /// 503 when it cannot be made.
    pub(crate) async fn temporary_workspace(&self) -> Result<Workspace, Problem> {
        self.blocking(|inner| {
            inner.scratch.workspace().map_err(|error| {
                let detail = format!("a temporary workspace cannot be made: {error}");
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
            })
        })
        .await
    }

    /// The images as absolute paths.
    ///
    /// # Errors
    /// 400 for one that is no file in the workspace.
    pub(crate) async fn images(
        &self,
        workspace: &Workspace,
        images: Vec<String>,
    ) -> Result<Vec<PathBuf>, Problem> {
        if images.is_empty() {
            return Ok(Vec::new());
        }
        let workspace = workspace.path.clone();
        self.blocking(move |_| {
            let inside = |image: &String| {
                let path = workspace.join(image).canonicalize().ok()?;
                (path.starts_with(&workspace) && path.is_file()).then_some(path)
            };
            let checked = images
                .iter()
                .enumerate()
                .map(|(index, image)| inside(image).ok_or_else(|| Self::no_image(index)));
            checked.collect()
        })
        .await
    }

    /// 400 for the image with this index.
    pub(crate) fn no_image(index: usize) -> Problem {
        let field = format!("images[{index}]");
        Problem::field(StatusCode::BAD_REQUEST, &field, "is not a file in the workspace")
    }

    /// The record of a run; `None` also for what is no id.
    ///
    /// # Errors
    /// 503 when the store cannot be read.
    pub(crate) async fn record(&self, id: &str) -> Result<Option<RunRecord>, Problem> {
        let Some(id) = RunId::parse(id) else { return Ok(None) };
        self.0.engine.get(id).await.map_err(|error| unreadable(&error))
    }

    /// The runs that `filter` lets through.
    ///
    /// # Errors
    /// 503 when the store cannot be read.
    pub(crate) async fn runs(&self, filter: RunFilter) -> Result<RunPage, Problem> {
        self.0.engine.runs(filter).await.map_err(|error| unreadable(&error))
    }

    /// Forgets a run that is over.
    ///
    /// # Errors
    /// 503 when the store cannot be written.
    pub(crate) async fn purge(&self, id: RunId) -> Result<(), Problem> {
        self.0.engine.purge(id).await.map_err(|error| {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("the run store cannot be written: {error}"))
        })
    }

    /// The provider's records of a run that is over, if they are to be shown.
    ///
    /// # Errors
    /// 503 when the store cannot be read.
    pub(crate) async fn records(&self, id: RunId, shape: Shape) -> Result<Records, Problem> {
        if !shape.events {
            return Ok(Records::default());
        }
        Records::read(self.0.engine.events(id)).await.map_err(|error| unreadable(&error))
    }

    /// Which directory cannot be written, if any. A file system that does not answer is one.
    pub(crate) async fn not_writable(&self) -> Option<String> {
        let inner = self.0.clone();
        let check = spawn_blocking(move || {
            if !inner.workspaces.writable() {
                return Some(format!("the workspace {} is not writable", inner.workspaces.path().display()));
            }
            let writable = nix::unistd::access(&inner.state_dir, nix::unistd::AccessFlags::W_OK).is_ok();
            (!writable).then(|| format!("the state directory {} is not writable", inner.state_dir.display()))
        });
        match timeout(PROBE_LIMIT, check).await {
            Ok(Ok(fault)) => fault,
            Ok(Err(_)) | Err(_) => Some("the file system does not answer".to_owned()),
        }
    }

    /// Does something that blocks on the file system off the reactor.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let inner = self.0.clone();
        spawn_blocking(move || work(&inner)).await.unwrap_or_else(|error| {
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("a file operation failed: {error}")))
        })
    }
}

/// 503 for a store that cannot be read.
fn unreadable(error: &StoreError) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("the run store cannot be read: {error}"))
}
