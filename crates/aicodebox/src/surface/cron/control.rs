use serde::Serialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use utoipa::ToSchema;

/// Orders that wait for the scheduler.
const ORDERS: usize = 64;

/// Speaks to the scheduler from other surfaces. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct CronControl(mpsc::Sender<Order>);

/// What the scheduler is asked.
#[derive(Debug)]
pub(super) enum Order {
    List(oneshot::Sender<CronList>),
    Run(String, oneshot::Sender<Result<(), CronRefusal>>),
    Pause(String, bool, oneshot::Sender<Result<(), CronRefusal>>),
}

/// Why an order is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CronRefusal {
    #[error("there is no such job")]
    Unknown,
    #[error("the job is running")]
    Running,
    #[error("the scheduler does not run")]
    Stopped,
    /// It was tried; the text says what became of it.
    #[error("{0}")]
    Failed(String),
}

/// The jobs, as `GET /cron` shows them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CronList {
    /// The file they come from.
    pub(crate) file: String,
    /// What is wrong with the file now; the jobs are those of its last good state.
    pub(crate) error: Option<String>,
    pub(crate) jobs: Vec<JobView>,
}

/// One job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobView {
    pub(crate) name: String,
    pub(crate) schedule: String,
    pub(crate) timezone: String,
    pub(crate) enabled: bool,
    pub(crate) paused: bool,
    pub(crate) running: bool,
    pub(crate) next: Option<String>,
    /// Times at which it still ran, or waited for its workspace.
    pub(crate) skipped: u64,
    /// Times at which nothing ran that could have started it.
    pub(crate) missed: u64,
    /// `meta.json` of its last run.
    pub(crate) last: Option<Value>,
}

impl CronControl {
    pub(super) fn new() -> (Self, mpsc::Receiver<Order>) {
        let (sender, receiver) = mpsc::channel(ORDERS);
        (Self(sender), receiver)
    }

    /// The jobs.
    ///
    /// # Errors
    /// `Stopped`.
    pub(crate) async fn list(&self) -> Result<CronList, CronRefusal> {
        self.ask(Order::List).await
    }

    /// Runs a job now, whatever its schedule says.
    ///
    /// # Errors
    /// `Unknown`, `Running`, `Stopped`; `Failed` when it could not be written down, and so was not started.
    pub(crate) async fn run(&self, job: String) -> Result<(), CronRefusal> {
        self.ask(|answer| Order::Run(job, answer)).await?
    }

    /// Stops the times of a job, or lets them come again; stays so over a restart.
    ///
    /// # Errors
    /// `Unknown`, `Stopped`; `Failed` when it could not be stored.
    pub(crate) async fn pause(&self, job: String, paused: bool) -> Result<(), CronRefusal> {
        self.ask(|answer| Order::Pause(job, paused, answer)).await?
    }

    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Result<T, CronRefusal> {
        let (answer, answered) = oneshot::channel();
        self.0.send(order(answer)).await.map_err(|_gone| CronRefusal::Stopped)?;
        answered.await.map_err(|_gone| CronRefusal::Stopped)
    }
}
