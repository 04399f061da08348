use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::time::timeout;

use super::{
    reader_output::ReaderOutput,
    runner::{Runner, not_remembered, stopped, unplannable},
};
use crate::{
    adapter::{OutputReader, Plan, ReadError, ReaderContext, Reading, RunFile},
    process::{Limits, Stop},
    run::{
        AgentFault, EndedBy, EventSink, Exit, ExitStatus, Failure, FailureKind, Finish, RunEvent,
        SessionChoice, SessionId, SessionTotals, Usage, Verdict,
    },
    workspace::{Scratch, ScratchDir},
};

/// How long the reader of a stopped run has; the bridge gives a Python class a second.
const READING_STOPPED: Duration = Duration::from_secs(2);

/// What the next attempt will do.
pub(super) struct Prepared {
    plan: Plan,
    /// [`Plan::ignored`].
    pub(super) ignored: Vec<&'static str>,
    /// Name of its directory for temporary files.
    scratch: String,
}

/// How one attempt ended.
pub(super) struct Attempted {
    pub(super) verdict: Verdict,
    pub(super) text: String,
    pub(super) structured: Option<Value>,
    pub(super) session: Option<SessionId>,
    pub(super) usage: Option<Usage>,
    pub(super) totals: Option<SessionTotals>,
    pub(super) finish: Finish,
    pub(super) parse_error: Option<String>,
    pub(super) exit: Option<Exit>,
}

impl Attempted {
    /// One that never got so far as a process, or whose output could not be read.
    fn failed(failure: Failure, exit: Option<Exit>) -> Self {
        Self {
            verdict: Verdict::Failed(failure),
            text: String::new(),
            structured: None,
            session: None,
            usage: None,
            totals: None,
            finish: Finish::Stop,
            parse_error: None,
            exit,
        }
    }

    pub(super) fn exit_code(&self) -> i32 {
        exit_code(&self.verdict, self.exit.as_ref())
    }

    /// Whether its process came to its own end: one that was stopped may have consumed more than it had reported.
    pub(super) fn ended_by_itself(&self) -> bool {
        self.exit.as_ref().is_some_and(|exit| match exit.ended_by {
            EndedBy::Itself => matches!(exit.status, Some(ExitStatus::Code(_))),
            EndedBy::Finished => true,
            EndedBy::Abort
            | EndedBy::Deadline
            | EndedBy::Idle
            | EndedBy::Cancelled
            | EndedBy::Shutdown
            | EndedBy::Lost => false,
        })
    }

    /// What the agent or its provider reported.
    pub(super) fn fault(&self) -> Option<AgentFault> {
        match &self.verdict {
            Verdict::Failed(Failure { kind: FailureKind::Agent(fault), .. }) => Some(*fault),
            Verdict::Failed(_) | Verdict::Ok => None,
        }
    }
}

impl Runner {
    /// Makes the plan for the request as it stands, with its session resolved.
    pub(super) async fn plan(&self) -> Result<Prepared, Failure> {
        let config = &self.engine.config;
        let scratch = format!("run-{}-{}", self.id, self.attempts());
        let host = self.engine.host(&config.scratch.path(&scratch), self.engine.flags().await);
        let mut plan = config.adapter.plan(&self.request, &host).await.map_err(unplannable)?;
        plan.launch.no_new_privs |= config.no_new_privs;
        Ok(Prepared { ignored: std::mem::take(&mut plan.ignored), plan, scratch })
    }

    /// Starts the agent once and reads it to its end.
    pub(super) async fn attempt(&mut self, prepared: Prepared) -> Attempted {
        let Prepared { plan, scratch, ignored: _ } = prepared;
        let config = &self.engine.config;
        self.log.begin_attempt(self.attempts());
        for notice in plan.notices {
            self.log.push(RunEvent::Notice(notice));
        }
        let files = match write_files(&config.scratch, scratch, plan.files).await {
            Ok(files) => files,
            Err(failure) => return Attempted::failed(failure, None),
        };
        let baseline = self.take_totals().await;
        let reader = config.adapter.reader(ReaderContext {
            request: &self.request,
            resumes: matches!(self.request.session, SessionChoice::Resume(_)),
            baseline,
            ticket: plan.ticket,
            events: self.log.clone(),
        });
        self.begun.get_or_insert_with(Instant::now);
        let limits = Limits {
            deadline: Some(self.time_left()),
            idle: self
                .request
                .idle
                .or(config.idle_timeout)
                .map(|idle| idle.max(plan.quiet.unwrap_or_default())),
        };
        let mut output = ReaderOutput::new(reader, &self.begins, &self.log);
        let supervised = config.pool.supervise(plan.launch, limits, &self.stop, &mut output).await;
        let attempted = match supervised {
            Ok(exit) => match finish(output.into_reader(), exit, &self.stop).await {
                Ok(Ok(reading)) => read(reading, self.deadline(), limits.idle),
                Ok(Err(error)) => {
                    let fault = FailureKind::Agent(AgentFault::Internal);
                    Attempted::failed(Failure::new(fault, error.message), Some(*error.exit))
                }
                Err(reason) => Attempted::failed(stopped(reason), None),
            },
            Err(error) => {
                let kind = FailureKind::Spawn { code: error.code() };
                Attempted::failed(Failure::new(kind, error.to_string()), None)
            }
        };
        if let Some(files) = files {
            // Not awaited: the answer need not wait for the file system.
            self.engine.tracker.spawn_blocking(move || drop(files));
        }
        attempted
    }

    /// The wall-clock limit of all attempts together.
    pub(super) fn deadline(&self) -> Duration {
        self.request.deadline.unwrap_or(self.engine.config.run_timeout)
    }

    /// What is left of it; all, before the first process was asked for.
    pub(super) fn time_left(&self) -> Duration {
        self.deadline().saturating_sub(self.begun.map_or(Duration::ZERO, |begun| begun.elapsed()))
    }

    /// The counters of the session that is resumed, which are unknown from now on until an attempt has reported them to
    /// its end: what one consumes that is stopped, or dies with the server, must not be counted as the next one's.
    async fn take_totals(&self) -> Option<SessionTotals> {
        let SessionChoice::Resume(id) = &self.request.session else { return None };
        // Of two attempts on one session only one may have them.
        let _turn = self.engine.totals.turn(id).await;
        let store = &self.engine.config.store;
        let taken = async {
            let totals = store.totals(id).await?;
            if totals.is_some() {
                store.keep_totals(id.clone(), None).await?;
            }
            Ok(totals)
        };
        taken.await.unwrap_or_else(|error| {
            not_remembered(error);
            None
        })
    }
}

/// Has the output read to its end. The reader of a Python class may take long over it: one whose run is asked to stop is
/// given up after a while, and the reason is the error.
async fn finish(
    reader: Box<dyn OutputReader>,
    exit: Exit,
    stop: &Stop,
) -> Result<Result<Reading, ReadError>, EndedBy> {
    let mut requests = stop.watch();
    let mut reading = reader.finish(exit);
    let reason = tokio::select! {
        biased;
        read = &mut reading => return Ok(read),
        Ok(asked) = requests.wait_for(|requests| requests.reason.is_some()) => asked.reason,
    };
    timeout(READING_STOPPED, reading).await.map_err(|_late| reason.unwrap_or(EndedBy::Cancelled))
}

/// What the engine knows better than the reader: a run whose processes could not be killed or whose supervisor
/// was lost is not ok, whatever was printed. The text is kept.
fn read(reading: Reading, deadline: Duration, idle: Option<Duration>) -> Attempted {
    let exit = reading.exit;
    let verdict = if exit.stuck.is_empty() {
        match (exit.ended_by, reading.verdict) {
            (EndedBy::Lost, _) => Verdict::Failed(stopped(EndedBy::Lost)),
            (EndedBy::Deadline, Verdict::Failed(failure)) => Verdict::Failed(after(failure, Some(deadline))),
            (EndedBy::Idle, Verdict::Failed(failure)) => Verdict::Failed(after(failure, idle)),
            (
                EndedBy::Itself
                | EndedBy::Finished
                | EndedBy::Abort
                | EndedBy::Deadline
                | EndedBy::Idle
                | EndedBy::Cancelled
                | EndedBy::Shutdown,
                verdict,
            ) => verdict,
        }
    } else {
        let pids: Vec<_> = exit.stuck.iter().map(ToString::to_string).collect();
        let message =
            format!("processes of this run could not be killed: {}; end them by hand", pids.join(", "));
        Verdict::Failed(Failure::new(FailureKind::Stuck, message))
    };
    Attempted {
        verdict,
        text: reading.text,
        structured: reading.structured,
        session: reading.session,
        usage: reading.usage,
        totals: reading.totals,
        finish: reading.finish,
        parse_error: reading.parse_error,
        exit: Some(exit),
    }
}

/// Says after how long the limit struck.
pub(super) fn after(failure: Failure, limit: Option<Duration>) -> Failure {
    let Some(limit) = limit else { return failure };
    let message = match failure.kind {
        FailureKind::Deadline => format!("timed out after {:.1} s", limit.as_secs_f64()),
        FailureKind::Idle => format!("printed nothing for {:.1} s", limit.as_secs_f64()),
        _ => return failure,
    };
    Failure { message, ..failure }
}

/// The exit code that callers see (contract §2).
pub(super) fn exit_code(verdict: &Verdict, exit: Option<&Exit>) -> i32 {
    let own = exit.and_then(|exit| exit.status).map(ExitStatus::code);
    match verdict {
        Verdict::Ok if exit.is_some_and(|exit| exit.ended_by != EndedBy::Itself) => 0,
        Verdict::Ok => own.unwrap_or(0),
        Verdict::Failed(failure) => match failure.kind {
            FailureKind::Deadline | FailureKind::Idle => 124,
            FailureKind::Cancelled | FailureKind::Shutdown => 143,
            FailureKind::Spawn { code } => code,
            FailureKind::Signal(signal) => 128 + signal,
            FailureKind::Exit(code) => code,
            FailureKind::Invalid { .. }
            | FailureKind::TooLong { .. }
            | FailureKind::Busy
            | FailureKind::QueueFull
            | FailureKind::Budget
            | FailureKind::Storage
            | FailureKind::Stuck
            | FailureKind::NoFinalEvent
            | FailureKind::Agent(_)
            | FailureKind::Schema => own.unwrap_or(1),
        },
    }
}

/// Writes the plan's files, all 0600. The directory of the temporary ones is removed with what this returns.
async fn write_files(
    scratch: &Scratch,
    name: String,
    files: Vec<RunFile>,
) -> Result<Option<ScratchDir>, Failure> {
    if files.is_empty() {
        return Ok(None);
    }
    let scratch = scratch.clone();
    let written = tokio::task::spawn_blocking(move || {
        let temporary = files.iter().any(|file| file.temporary);
        let dir = if temporary { Some(scratch.create(&name)?) } else { None };
        for file in &files {
            write_file(file).map_err(|error| {
                std::io::Error::new(
                    error.kind(),
                    format!("{} cannot be written: {error}", file.path.display()),
                )
            })?;
        }
        Ok(dir)
    });
    let written = written.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    written.map_err(|error| Failure::new(FailureKind::Storage, format!("a file for the agent: {error}")))
}

fn write_file(file: &RunFile) -> std::io::Result<()> {
    if !file.temporary
        && let Some(parent) = file.path.parent()
    {
        fs::create_dir_all(parent)?;
    }
    match new_private(&file.path) {
        Ok(mut new) => new.write_all(file.text.as_bytes()),
        // It is the user's from now on.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && !file.temporary => Ok(()),
        Err(error) => Err(error),
    }
}

fn new_private(path: &Path) -> std::io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
