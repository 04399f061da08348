//! The bridge that serves all runs, whichever process it is at the moment.
//!
//! A hook may hang, or end the interpreter. The process is then replaced at the next call, and no other run fails
//! for it: calls that were in flight in a process that died are made once more, one at a time, so that the one that
//! killed it kills the next process alone and is known by that. Calls in flight beside one that was too late stay
//! with the old process, which goes when they are done.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::Mutex;

use super::{
    link::{Link, LinkError, NotReady, Wires, lock},
    wire::{Call, HookError, HookErrorKind, Ready, What},
};
use crate::BoxFuture;

/// How long a process may take to import the adapter's module.
const READY: Duration = Duration::from_secs(20);

/// Starts a bridge process.
pub(super) type Start = Box<dyn Fn() -> BoxFuture<'static, Result<Wires, String>> + Send + Sync>;

/// Why there is no process.
#[derive(Debug)]
pub(super) enum StartError {
    /// It could not be started.
    Spawn(String),
    /// It started and did not get ready.
    NotReady(NotReady),
}

/// Why a hook gave nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// `validate` refused the request.
    Refused(String),
    /// Everything else, as a sentence.
    Failed(String),
}

/// What a call carries; see [`Call`].
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) what: What,
    pub(super) run: u64,
    /// Sent along when the process does not know the run.
    pub(super) request: &'a RawValue,
    pub(super) lines: Option<&'a [String]>,
    pub(super) stdout: Option<&'a str>,
    /// The longest wait for an answer of one process.
    pub(super) limit: Duration,
}

/// Asks the adapter's hooks, in whichever process serves at the moment.
pub(super) struct Bridge {
    start: Start,
    current: std::sync::Mutex<Option<Arc<Link>>>,
    /// Held while a process is being started.
    starting: Mutex<()>,
    /// Held by the one call that is being made again.
    again: Mutex<()>,
    next_call: AtomicU64,
    next_run: AtomicU64,
}

impl Bridge {
    /// Starts the first process, so that an adapter that cannot be loaded is known at once.
    pub(super) async fn start(start: Start) -> Result<(Self, Ready), StartError> {
        let (link, ready) = start_link(&start).await?;
        let bridge = Self {
            start,
            current: std::sync::Mutex::new(Some(Arc::new(link))),
            starting: Mutex::default(),
            again: Mutex::default(),
            next_call: AtomicU64::new(1),
            next_run: AtomicU64::new(1),
        };
        Ok((bridge, ready))
    }

    /// A number under which the process keeps a run's request.
    pub(super) fn new_run(&self) -> u64 {
        self.next_run.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks a hook.
    pub(super) async fn ask<T: DeserializeOwned>(&self, ask: Ask<'_>) -> Result<T, CallError> {
        // The process has heard of a run since its plan, unless it was replaced.
        let mut answer = self.make(ask, ask.what == What::Plan).await;
        if matches!(&answer, Err(LinkError::Hook(HookError { kind: HookErrorKind::UnknownRun, .. }))) {
            answer = self.make(ask, true).await;
        }
        let hooks = match ask.what {
            What::Plan => "validate, build_argv or build_env",
            What::Lines => "parse_stream_event",
            What::Parse | What::Close => "parse_output or parse_events",
        };
        match answer {
            Ok(ok) => serde_json::from_str(ok.get())
                .map_err(|error| CallError::Failed(format!("{hooks} gave what cannot be used: {error}"))),
            Err(LinkError::Hook(HookError { kind: HookErrorKind::Refused, message })) => {
                Err(CallError::Refused(message))
            }
            Err(LinkError::Hook(HookError {
                kind: HookErrorKind::Raised | HookErrorKind::UnknownRun | HookErrorKind::BadCall,
                message,
            })) => Err(CallError::Failed(message)),
            Err(LinkError::Late) => {
                Err(CallError::Failed(format!("{hooks} took longer than {} s", ask.limit.as_secs())))
            }
            Err(LinkError::Died) => {
                Err(CallError::Failed(format!("the adapter's Python process ended or hung in {hooks}")))
            }
        }
    }

    /// Lets the process forget a run.
    pub(super) fn close(&self, run: u64) {
        let call = Call { id: 0, what: What::Close, run, request: None, lines: None, stdout: None };
        if let (Some(link), Ok(line)) = (self.alive(), to_line(&call)) {
            link.tell(line);
        }
    }

    async fn make(&self, ask: Ask<'_>, with_request: bool) -> Result<Box<RawValue>, LinkError> {
        let id = self.next_call.fetch_add(1, Ordering::Relaxed);
        let Ask { what, run, lines, stdout, .. } = ask;
        let call = Call { id, what, run, request: with_request.then_some(ask.request), lines, stdout };
        let line = to_line(&call).map_err(|error| {
            LinkError::Hook(HookError { kind: HookErrorKind::BadCall, message: error.to_string() })
        })?;
        match self.try_once(id, line.clone(), ask.limit).await {
            Err(LinkError::Died) => {
                let _one_at_a_time = self.again.lock().await;
                self.try_once(id, line, ask.limit).await
            }
            answer => answer,
        }
    }

    async fn try_once(&self, id: u64, line: Bytes, limit: Duration) -> Result<Box<RawValue>, LinkError> {
        let link = self.link().await?;
        let answer = link.call(id, line, limit).await;
        if answer.as_ref().is_err_and(|error| *error == LinkError::Late) {
            // Its thread hangs for ever. New calls get a new process; this one goes with its last call.
            let mut current = lock(&self.current);
            if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &link)) {
                *current = None;
            }
        }
        answer
    }

    async fn link(&self) -> Result<Arc<Link>, LinkError> {
        if let Some(link) = self.alive() {
            return Ok(link);
        }
        let _one_at_a_time = self.starting.lock().await;
        if let Some(link) = self.alive() {
            return Ok(link);
        }
        let (link, _) = start_link(&self.start).await.map_err(|error| {
            tracing::error!("the Python adapter's process cannot be started again: {error:?}");
            LinkError::Died
        })?;
        Ok(lock(&self.current).insert(Arc::new(link)).clone())
    }

    fn alive(&self) -> Option<Arc<Link>> {
        lock(&self.current).as_ref().filter(|link| link.is_alive()).cloned()
    }
}

async fn start_link(start: &Start) -> Result<(Link, Ready), StartError> {
    let wires = start().await.map_err(StartError::Spawn)?;
    Link::start(wires, READY).await.map_err(StartError::NotReady)
}

fn to_line(call: &Call<'_>) -> serde_json::Result<Bytes> {
    let mut line = serde_json::to_vec(call)?;
    line.push(b'\n');
    Ok(line.into())
}
