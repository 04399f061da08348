use super::{
    fault::{End, Facts, Fault, shorten},
    progress::Progress,
    rule::Done,
};
use crate::run::{EndedBy, Exit, ExitStatus, Failure, FailureKind, Verdict};

/// Characters of stderr in a message: this many from its beginning and from its end.
const SAID_CHARS: usize = 300;

/// The verdict of an attempt: the first of these that applies (adapter-format §3).
pub(super) fn judge(progress: &Progress, wants_schema: bool, no_text: bool, exit: &Exit) -> Verdict {
    let spec = &progress.spec;
    // 1. A retry that we do not wait for. Our stop for another reason came first, or else it would be the reason.
    let aborted = match exit.ended_by {
        EndedBy::Abort => exit.abort.as_ref().or(progress.abort.as_ref()),
        EndedBy::Itself | EndedBy::Finished | EndedBy::Lost => progress.abort.as_ref(),
        EndedBy::Deadline | EndedBy::Idle | EndedBy::Cancelled | EndedBy::Shutdown => None,
    };
    if let Some(failure) = aborted {
        return Verdict::Failed(failure.clone());
    }
    // 2. A stop of ours.
    if let Some(failure) = stopped(exit.ended_by) {
        return Verdict::Failed(failure);
    }
    // 3. An error that stands.
    if let Some(failure) = progress.standing_error() {
        return Verdict::Failed(failure.clone());
    }
    // 4. No final event, of an agent that has one.
    if progress.done.is_none() && spec.rules.iter().any(|rule| rule.done.is_some()) {
        let silent = format!("the agent ended without its final event, {}", describe(exit));
        return Verdict::Failed(by_exit(progress, exit, silent));
    }
    // 5. The exit code, unless the agent said that all is well. When we stopped it after its final event, the
    // code is of our making.
    if progress.done != Some(Done::Ok) && exit.ended_by != EndedBy::Finished && !is_ok(exit, &spec.ok_exit) {
        let silent = format!("the agent ended with {}", describe(exit));
        return Verdict::Failed(by_exit(progress, exit, silent));
    }
    let empty = |message: &str| Verdict::Failed(Failure::new(FailureKind::Agent(Fault::Empty), message));
    // 6. A schema that went through the agent's own channel, and nothing came back through it.
    if wants_schema && progress.structured.is_none() && spec.has_structured() {
        return empty("no structured output although a schema was sent");
    }
    // 7. No answer.
    if no_text && !spec.empty_ok {
        return empty("the agent gave no answer");
    }
    Verdict::Ok
}

/// The failure that a stop of ours is.
pub(super) fn stopped(ended_by: EndedBy) -> Option<Failure> {
    let (kind, message) = match ended_by {
        EndedBy::Deadline => {
            (FailureKind::Deadline, "the run took longer than its time limit and was stopped")
        }
        EndedBy::Idle => (FailureKind::Idle, "the agent printed nothing for too long and was stopped"),
        EndedBy::Cancelled => (FailureKind::Cancelled, "the run was cancelled"),
        EndedBy::Shutdown => (FailureKind::Shutdown, "the server is shutting down"),
        EndedBy::Itself | EndedBy::Finished | EndedBy::Abort | EndedBy::Lost => return None,
    };
    Some(Failure::new(kind, message))
}

/// The exit code as classes may name it.
fn codes(exit: &Exit) -> Vec<i32> {
    match exit.status {
        Some(ExitStatus::Code(code)) => vec![code],
        Some(status @ ExitStatus::Signal(signal)) => vec![status.code(), -signal],
        None => Vec::new(),
    }
}

fn is_ok(exit: &Exit, ok_exit: &[i32]) -> bool {
    codes(exit).iter().any(|code| ok_exit.contains(code))
}

/// How the agent ended, to be put after a comma.
pub(super) fn describe(exit: &Exit) -> String {
    match exit.status {
        Some(ExitStatus::Code(code)) => format!("exit code {code}"),
        Some(ExitStatus::Signal(9)) => {
            "signal 9 (SIGKILL), which was not ours: somebody killed it, or it met a memory limit".to_owned()
        }
        Some(ExitStatus::Signal(signal)) => format!("signal {signal}, which was not ours"),
        None => "no exit code: the process that watched it is gone".to_owned(),
    }
}

/// A failure that only stderr and the exit code tell of.
fn by_exit(progress: &Progress, exit: &Exit, silent: String) -> Failure {
    let spec = &progress.spec;
    let said = progress.said.to_text();
    let stderr = progress.stderr.to_text();
    let facts = spec.classifier.facts(Facts { message: said.clone(), ..Facts::default() });
    let end = End { codes: &codes(exit), stderr: &stderr };
    let kind = match spec.classifier.kind(&facts, Some(end)) {
        Some(fault) => FailureKind::Agent(fault),
        None => match exit.status {
            Some(ExitStatus::Signal(signal)) => FailureKind::Signal(signal),
            // Its keeper was killed, and the agent with it.
            None => FailureKind::Signal(9),
            Some(ExitStatus::Code(code)) if !spec.ok_exit.contains(&code) => FailureKind::Exit(code),
            Some(ExitStatus::Code(_)) => FailureKind::NoFinalEvent,
        },
    };
    let message = if said.is_empty() { silent } else { both_ends(&said) };
    let status = facts.status.and_then(|status| u16::try_from(status).ok());
    Failure { kind, message, status, retry_after: facts.retry_after }
}

fn both_ends(text: &str) -> String {
    let count = text.chars().count();
    if count <= 2 * SAID_CHARS {
        return text.to_owned();
    }
    let end: String = text.chars().skip(count - SAID_CHARS).collect();
    format!("{} … {end}", shorten(text, SAID_CHARS))
}
