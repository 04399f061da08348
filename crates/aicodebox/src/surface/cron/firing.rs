use std::{io, path::Path, sync::Arc};

use aicodebox_engine::{
    engine::{Engine, RunHandle, WhenBusy},
    run::{Failure, Origin, RunOutcome, RunRequest, SessionChoice, Workspace},
    store::Ledger,
    workspace::Workspaces,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::{
    History, Job,
    clock::Clock,
    history::{Ended, RunDirectory},
    notice::{Notice, Notifier},
};
use crate::surface::answer::{Answer, failure_text};

/// What every firing needs.
pub(super) struct Means {
    pub(super) engine: Engine,
    pub(super) workspaces: Arc<Workspaces>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) history: History,
    pub(super) clock: Arc<dyn Clock>,
    /// Where there is a bot.
    pub(super) notifier: Option<Notifier>,
}

/// How a firing came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fired {
    /// It ran, well or not.
    Ran,
    /// It waited for its workspace until its next time came.
    Skipped,
}

/// One start of a job, before the agent runs.
pub(super) struct Firing {
    pub(super) means: Arc<Means>,
    pub(super) job: Arc<Job>,
    directory: RunDirectory,
    workspace: Result<Workspace, String>,
    prompt: String,
}

impl Firing {
    /// Makes the run's directory and fills the instruction. `slot` = the time that it is due; `None` = by hand.
    ///
    /// # Errors
    /// When the history cannot be written.
    pub(super) async fn prepare(
        means: Arc<Means>,
        job: Arc<Job>,
        slot: Option<Timestamp>,
    ) -> io::Result<Self> {
        let now = means.clock.now();
        let (with, of) = (means.clone(), job.clone());
        let prepared = spawn_blocking(move || {
            let workspace = with.workspaces.resolve(&of.workspace).map_err(|error| error.to_string());
            let shown =
                workspace.as_ref().map_or(of.workspace.clone(), |found| found.path.display().to_string());
            let instruction = of.fill(now, &shown);
            let meta = json!({
                "scheduled": slot.map(|slot| slot.to_string()), "workspace": shown, "model": of.model,
                "effort": of.effort, "instruction": instruction,
            });
            with.history.begin(&of, now, &meta).map(|directory| (directory, workspace, instruction))
        });
        let (directory, workspace, instruction) = prepared.await.map_err(io::Error::other)??;
        let prompt = instruction + &directory.hint();
        Ok(Self { means, job, directory, workspace, prompt })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory.path
    }

    /// Runs the job to its end, writes everything down, and says what is to be told of it. When `next` comes while the
    /// run still waits for its workspace, it is given up.
    pub(super) async fn run(self, next: CancellationToken) -> (Fired, Option<Notice>) {
        match self.start().await {
            Ok(handle) => self.follow(handle, next).await,
            Err(failure) => {
                self.failed(&failure.message).await;
                (Fired::Ran, self.notice("", Some(failure_text(&failure, None))).await)
            }
        }
    }

    /// Writes down that it could not be started.
    pub(super) async fn failed(&self, why: &str) {
        self.record("failed", "", ("", ""), json!({ "error": why })).await;
    }

    async fn start(&self) -> Result<RunHandle, Failure> {
        let workspace = self.workspace.clone().map_err(|wrong| {
            Failure::new(aicodebox_engine::run::FailureKind::Invalid { field: "workspace".into() }, wrong)
        })?;
        let job = &self.job;
        let request = RunRequest {
            session: if job.no_continue {
                SessionChoice::Fresh { keep: false }
            } else {
                SessionChoice::Continue
            },
            model: job.model.clone(),
            effort: job.effort.clone(),
            system_prompt: job.system_prompt.clone(),
            append_system_prompt: job.append_system_prompt.clone(),
            deadline: job.timeout,
            ..RunRequest::new(&self.prompt, workspace, Origin::Cron { job: job.name.clone() })
        };
        self.means.engine.start(request, WhenBusy::Wait).await
    }

    async fn follow(&self, mut handle: RunHandle, next: CancellationToken) -> (Fired, Option<Notice>) {
        let mut given_up = false;
        let outcome = tokio::select! {
            outcome = handle.outcome() => outcome,
            () = next.cancelled() => {
                // One that runs goes on: the next time counts as skipped.
                given_up = self.means.engine.queued(handle.id);
                if given_up {
                    handle.cancel();
                }
                handle.outcome().await
            }
        };
        let Some(outcome) = outcome else {
            self.record("interrupted", "", ("", ""), Value::Null).await;
            return (Fired::Ran, None);
        };
        if given_up {
            let why = json!({ "error": "the workspace was taken until the next time came" });
            self.record("skipped", "", ("", ""), why).await;
            return (Fired::Skipped, None);
        }
        (Fired::Ran, self.finish(&outcome).await)
    }

    async fn finish(&self, outcome: &RunOutcome) -> Option<Notice> {
        let failure = outcome.failure();
        let tokens = outcome.usage.as_ref().map(|usage| usage.tokens);
        let more = json!({
            "runId": outcome.id.to_string(),
            "exitCode": outcome.exit_code,
            "error": failure.map(|failure| failure.message.clone()),
            "durationSeconds": outcome.took.as_secs_f64(),
            "sessionId": outcome.session.as_ref().map(|id| id.0.clone()),
            "inputTokens": tokens.and_then(|tokens| tokens.input),
            "outputTokens": tokens.and_then(|tokens| tokens.output),
        });
        let stream = |of: fn(&aicodebox_engine::run::Exit) -> String| {
            outcome.exit.as_ref().map(of).unwrap_or_default()
        };
        let (stdout, stderr) =
            (stream(|exit| exit.stdout.to_string()), stream(|exit| exit.stderr.to_string()));
        self.record(outcome.status().name(), &outcome.text, (&stdout, &stderr), more).await;
        self.notice(&outcome.text, failure.map(|failure| failure_text(failure, Some(outcome)))).await
    }

    /// What is told of the run. Its files are read now: the next run may write them anew.
    async fn notice(&self, text: &str, failure: Option<String>) -> Option<Notice> {
        let notifier = self.means.notifier.as_ref()?;
        let answer = Answer::prepare(text, self.workspace.as_ref().ok().cloned()).await;
        notifier.notice(&self.job, self.directory.path.clone(), answer, failure)
    }

    /// Writes the directory. What cannot be written is said in the log; the run itself is over.
    async fn record(&self, status: &str, text: &str, (stdout, stderr): (&str, &str), more: Value) {
        let (history, directory, job) =
            (self.means.history.clone(), self.directory.clone(), self.job.clone());
        let at = self.means.clock.now();
        let texts = [status, text, stdout, stderr].map(str::to_owned);
        let written = spawn_blocking(move || {
            let [status, text, stdout, stderr] = &texts;
            history.end(&directory, &job, &Ended { at, status, text, stdout, stderr, more })
        });
        if let Err(error) = written.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            tracing::error!(job = self.job.name, %error, "the history of a job cannot be written");
        }
        tracing::info!(job = self.job.name, status, directory = %self.directory.path.display(), "a job has ended");
    }
}
