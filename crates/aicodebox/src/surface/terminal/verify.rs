use std::{io, time::Duration};

use aicodebox_engine::{
    adapter::{AdapterInfo, Capability, fault_in},
    engine::{Engine, RunHandle, WhenBusy},
    run::{AgentFault, Failure, FailureKind, Origin, RunEvent, RunRequest, ToolPolicy, Verdict, Workspace},
};

use super::interrupt::Interrupts;

/// How long the agent may take for its one word. With its start and its end, it is told within a minute.
const LIMIT: Duration = Duration::from_secs(55);

/// Asks the agent for one word and tells what that says about it: a sentence or two, and whether all is well. `limit`
/// is that of any run; a shorter one than the usual 55 s holds here, too.
///
/// # Errors
/// When signals cannot be taken.
pub(crate) async fn verify(
    engine: &Engine,
    workspace: Workspace,
    limit: Duration,
) -> io::Result<(String, bool)> {
    let agent = engine.adapter();
    let mut interrupts = Interrupts::new()?;
    let mut handle = match engine.start(request(agent, workspace, limit.min(LIMIT)), WhenBusy::Refuse).await {
        Ok(handle) => handle,
        Err(failure) => return Ok((told(agent, &failure), false)),
    };
    let outcome = loop {
        tokio::select! {
            outcome = handle.outcome() => break outcome,
            () = interrupts.next() => handle.cancel(),
        }
    };
    let Some(outcome) = outcome else { return Ok((format!("{}: the run was lost", agent.name), false)) };
    Ok(match &outcome.verdict {
        Verdict::Ok => {
            let took = outcome.took.as_secs_f64();
            let word: String = outcome.text.trim().chars().take(60).collect();
            (format!("{}: signed in; it answered {word:?} in {took:.1} s", agent.name), true)
        }
        Verdict::Failed(failure) if failure.kind == FailureKind::Deadline => {
            (told(agent, &late(failure, last_retry(&handle).await?)), false)
        }
        Verdict::Failed(failure) => (told(agent, failure), false),
    })
}

/// What the agent said when it last tried again by itself.
async fn last_retry(handle: &RunHandle) -> io::Result<Option<String>> {
    let mut events = handle.events().stored(0);
    let mut last = None;
    loop {
        let batch = events.next().await.map_err(io::Error::other)?;
        if batch.is_empty() {
            return Ok(last);
        }
        for logged in &batch {
            if let RunEvent::Notice(notice) = &logged.event
                && notice.code == "retry"
            {
                last = Some(notice.message.clone());
            }
        }
    }
}

/// Some agents try again for longer than we wait: then it is their last complaint that tells what is wrong.
fn late(failure: &Failure, retry: Option<String>) -> Failure {
    let Some(retry) = retry else { return failure.clone() };
    match fault_in(&retry) {
        Some(fault) => Failure::new(FailureKind::Agent(fault), retry),
        None => Failure::new(failure.kind.clone(), format!("{}; it last said: {retry}", failure.message)),
    }
}

fn request(agent: &AdapterInfo, workspace: Workspace, limit: Duration) -> RunRequest {
    let refuses_no_tools = agent.capabilities.fields.get("no_tools") == Some(&Capability::Refuse);
    RunRequest {
        tools: if refuses_no_tools { ToolPolicy::All } else { ToolPolicy::None },
        deadline: Some(limit),
        ..RunRequest::new("Answer with the single word: ready", workspace, Origin::Cli)
    }
}

fn told(agent: &AdapterInfo, failure: &Failure) -> String {
    let state = match failure.kind {
        FailureKind::Agent(fault) => match fault {
            AgentFault::Auth => "not signed in",
            AgentFault::Permission => "signed in, but not allowed",
            AgentFault::RateLimit => "signed in, but rate limited",
            AgentFault::Quota => "signed in, but the quota is used up",
            AgentFault::Overloaded => "signed in, but the provider is overloaded",
            AgentFault::Network => "the provider cannot be reached",
            AgentFault::ModelNotFound => "the model does not exist",
            AgentFault::Config => "its configuration is wrong",
            AgentFault::Context
            | AgentFault::ContentFilter
            | AgentFault::BadRequest
            | AgentFault::Provider
            | AgentFault::SessionNotFound
            | AgentFault::Empty
            | AgentFault::Internal => "it failed",
        },
        FailureKind::Spawn { .. } => "it cannot be started",
        FailureKind::Deadline => "no answer in time",
        FailureKind::Cancelled => "cancelled",
        FailureKind::Invalid { .. }
        | FailureKind::TooLong { .. }
        | FailureKind::Busy
        | FailureKind::QueueFull
        | FailureKind::Idle
        | FailureKind::Shutdown
        | FailureKind::Budget
        | FailureKind::Storage
        | FailureKind::Stuck
        | FailureKind::Signal(_)
        | FailureKind::Exit(_)
        | FailureKind::NoFinalEvent
        | FailureKind::Schema => "it failed",
    };
    let mut text = format!("{}: {state}: {}", agent.name, failure.message);
    if let FailureKind::Agent(fault) = failure.kind
        && let Some(hint) = agent.hint(fault)
    {
        text.push('\n');
        text.push_str(hint);
    }
    text
}
