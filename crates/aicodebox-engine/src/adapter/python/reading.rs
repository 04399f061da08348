use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{
    super::{
        contract::Reading,
        fault::{Classifier, Facts},
        verdict::{describe, stopped},
    },
    usage::usage,
};
use crate::run::{AgentFault, Exit, ExitStatus, Failure, FailureKind, Finish, SessionId, Verdict};

/// Bytes of standard error in the message of a crash.
const STDERR_BYTES: usize = 1000;

/// What the hooks said of one attempt.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) session: Option<SessionId>,
    pub(super) usage: Option<Value>,
    pub(super) structured: Option<Value>,
    pub(super) parse_error: Option<String>,
    pub(super) finish: Finish,
    /// What the provider complained about.
    pub(super) provider_error: Option<String>,
    /// A hook failed: why.
    pub(super) broken: Option<String>,
}

impl Default for Said {
    fn default() -> Self {
        Self {
            text: String::new(),
            session: None,
            usage: None,
            structured: None,
            parse_error: None,
            finish: Finish::Stop,
            provider_error: None,
            broken: None,
        }
    }
}

impl Said {
    /// The reading of an attempt that ended so.
    ///
    /// An empty answer is an answer, as in the original: only the class knows whether its agent may have nothing to
    /// say. An exit code other than 0 comes before a hook's failure, which is then most often its consequence.
    pub(super) fn reading(self, exit: Exit) -> Reading {
        let failure = stopped(exit.ended_by)
            .or_else(|| exit.abort.clone())
            .or_else(|| self.provider_error.map(|message| provider_failure(&message)))
            .or_else(|| crashed(&exit))
            .or_else(|| self.broken.map(broken));
        Reading {
            verdict: failure.map_or(Verdict::Ok, Verdict::Failed),
            text: self.text,
            structured: self.structured,
            session: self.session,
            usage: self.usage.map(usage),
            totals: None,
            finish: self.finish,
            parse_error: self.parse_error,
            exit,
        }
    }
}

/// The failure that a failed hook is.
pub(super) fn broken(why: String) -> Failure {
    Failure::new(FailureKind::Agent(AgentFault::Internal), format!("the Python adapter failed: {why}"))
}

fn crashed(exit: &Exit) -> Option<Failure> {
    let kind = match exit.status {
        Some(ExitStatus::Code(0)) => return None,
        Some(ExitStatus::Code(code)) => FailureKind::Exit(code),
        Some(ExitStatus::Signal(signal)) => FailureKind::Signal(signal),
        None => FailureKind::Signal(9),
    };
    let stderr = exit.stderr.tail_text(STDERR_BYTES);
    let message = match stderr.trim() {
        "" => format!("the agent ended with {}", describe(exit)),
        said => said.to_owned(),
    };
    Some(Failure::new(kind, message))
}

fn provider_failure(message: &str) -> Failure {
    static CLASSIFIER: LazyLock<Classifier> = LazyLock::new(|| {
        // Classes pass on what their agent printed: "401 …", "Error code: 429 - …", "HTTP 500", "(status 503)".
        let status = r"(?i)(?:^|\bstatus(?: code)?[ :=]*|\bhttp[ /:]*|\berror(?: code)?[ :]*|\()(?P<status>[45]\d\d)\b";
        Classifier { extract: Regex::new(status).into_iter().collect(), ..Classifier::default() }
    });
    CLASSIFIER.failure(Facts { message: message.to_owned(), ..Facts::default() }, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::EndedBy;

    fn kind(said: Said, exit: Exit) -> Option<FailureKind> {
        match said.reading(exit).verdict {
            Verdict::Ok => None,
            Verdict::Failed(failure) => Some(failure.kind),
        }
    }

    fn says(provider: Option<&str>, broken: Option<&str>) -> Said {
        Said {
            provider_error: provider.map(str::to_owned),
            broken: broken.map(str::to_owned),
            ..Said::default()
        }
    }

    #[test]
    fn the_first_reason_counts() {
        let ended = |code| Exit::bare(Some(ExitStatus::Code(code)), EndedBy::Itself);
        let cases = [
            (
                says(Some("401"), Some("x")),
                Exit::bare(Some(ExitStatus::Signal(15)), EndedBy::Deadline),
                Some(FailureKind::Deadline),
            ),
            (
                says(Some("429 slow down"), Some("x")),
                ended(1),
                Some(FailureKind::Agent(AgentFault::RateLimit)),
            ),
            (says(None, Some("x")), ended(3), Some(FailureKind::Exit(3))),
            (
                says(None, None),
                Exit::bare(Some(ExitStatus::Signal(9)), EndedBy::Itself),
                Some(FailureKind::Signal(9)),
            ),
            (says(None, None), Exit::bare(None, EndedBy::Lost), Some(FailureKind::Signal(9))),
            (says(None, Some("x")), ended(0), Some(FailureKind::Agent(AgentFault::Internal))),
            (says(None, None), ended(0), None),
        ];
        for (said, exit, expected) in cases {
            let case = format!("{said:?} {exit:?}");
            assert_eq!(kind(said, exit), expected, "{case}");
        }
    }

    #[test]
    fn a_complaint_of_the_provider_has_its_kind() {
        for (message, fault) in [
            ("401 {\"type\":\"error\"}", AgentFault::Auth),
            ("Error code: 429 - too fast", AgentFault::RateLimit),
            ("unexpected status 503 Service Unavailable", AgentFault::Overloaded),
            ("You exceeded your current quota", AgentFault::Quota),
            ("it wrote 500 words", AgentFault::Provider),
        ] {
            assert_eq!(provider_failure(message).kind, FailureKind::Agent(fault), "{message}");
        }
    }
}
