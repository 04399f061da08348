use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use serde_json::Value;
use tokio::time::sleep;

use super::{
    Inner,
    attempt::{Attempted, after},
    runner::{Runner, stopped},
};
use crate::{
    adapter::Capability,
    run::{AgentFault, AnswerCheck, EndedBy, Failure, FailureKind, SessionChoice, Verdict},
};

/// How often the agent is asked again when its answer is not accepted.
const MAX_RETRIES: usize = 3;
/// At most so many bytes of a bad answer are shown to the agent again.
const QUOTE: usize = 16 << 10;

/// So many checks that were given up may go on at a time: no thread can be stopped, and there are schemas and answers
/// with which none would come to an end.
const MAX_STRAYS: usize = 4;

/// What the check says of an attempt.
pub(super) enum Checked {
    /// The run is over; the attempt's verdict says how.
    Over,
    /// The request has been rewritten: try again.
    Again,
}

impl Inner {
    /// Whether another check may be given up too.
    pub(super) fn can_check(&self) -> bool {
        let mut strays = self.strays();
        strays.retain(|sign| sign.strong_count() > 0);
        strays.len() < MAX_STRAYS
    }

    fn strays(&self) -> MutexGuard<'_, Vec<Weak<()>>> {
        self.strays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runner {
    /// Checks an attempt's answer, if the request asks for that, and prepares another attempt when it is not
    /// accepted. No retry after a crash or a provider's error: those are not mended by asking again.
    pub(super) async fn check_answer(&mut self, attempted: &mut Attempted) -> Checked {
        let Some(check) = self.check.clone() else { return Checked::Over };
        let answered = attempted.verdict == Verdict::Ok || attempted.fault() == Some(AgentFault::Empty);
        if !answered {
            return Checked::Over;
        }
        let complaint = match self.read(check.clone(), attempted).await {
            Ok(Ok(value)) => {
                self.parsed = Some(value);
                attempted.verdict = Verdict::Ok;
                return Checked::Over;
            }
            Ok(Err(complaint)) => complaint,
            Err(given_up) => {
                attempted.verdict = Verdict::Failed(given_up);
                return Checked::Over;
            }
        };
        attempted.parse_error = Some(complaint.clone());
        let failure = Failure::new(FailureKind::Schema, format!("the answer was not accepted: {complaint}"));
        attempted.verdict = Verdict::Failed(failure);
        if self.retries >= MAX_RETRIES || self.stop.requested().reason.is_some() {
            return Checked::Over;
        }
        self.retries += 1;
        self.ask_again(&*check, attempted, &complaint);
        Checked::Again
    }

    /// Reads the answer, within the limits of the run: a schema and an answer from outside may take their time, more
    /// than there is. The outer error says why it was given up.
    async fn read(
        &self,
        check: Arc<dyn AnswerCheck>,
        attempted: &mut Attempted,
    ) -> Result<Result<Value, String>, Failure> {
        if let Some(error) = attempted.parse_error.take() {
            return Ok(Err(error));
        }
        let (structured, text) = (attempted.structured.take(), attempted.text.clone());
        let alive = Arc::new(());
        let sign = Arc::downgrade(&alive);
        let reading = tokio::task::spawn_blocking(move || {
            let _alive = alive;
            check.read(&text, structured)
        });
        let mut requests = self.stop.watch();
        let given_up = tokio::select! {
            read = reading => {
                return Ok(read.unwrap_or_else(|error| Err(format!("the answer could not be checked: {error}"))));
            }
            Ok(asked) = requests.wait_for(|requests| requests.reason.is_some()) => {
                stopped(asked.reason.unwrap_or(EndedBy::Cancelled))
            }
            () = sleep(self.time_left()) => after(stopped(EndedBy::Deadline), Some(self.deadline())),
        };
        self.engine.strays().push(sign);
        Err(given_up)
    }

    /// Rewrites the request for the next attempt (contract §2, "Schema runs").
    fn ask_again(&mut self, check: &dyn AnswerCheck, attempted: &Attempted, complaint: &str) {
        let first = self.first_session.clone().filter(|_| self.request.workspace.ephemeral());
        let instruction = format!("Your last answer was not accepted: {complaint}\n{}", check.instruction());
        // Where the schema has no channel of its own, the plan puts it before every prompt.
        let channel = self.engine.config.adapter.info().capabilities.fields.get("json_schema");
        let schema = self.request.json_schema.as_ref().filter(|_| channel != Some(&Capability::Prefix));
        let schema = schema.map(|schema| format!("\nThe schema:\n{schema}")).unwrap_or_default();
        self.continues = false;
        if let Some(id) = first {
            self.request.session = SessionChoice::Resume(id);
            self.request.prompt = format!("{instruction}{schema}");
            return;
        }
        self.request.session = SessionChoice::Fresh { keep: false };
        let whole = || self.request.whole_prompt.as_ref().unwrap_or(&self.request.prompt).clone();
        if self.request.whole_prompt.is_some() {
            self.request.images.clone_from(&self.request.whole_images);
        }
        let task = self.task.get_or_insert_with(whole);
        self.request.prompt = format!(
            "{task}\n\n----\nThis was asked before, and the answer was:\n{}\n----\n{instruction}{schema}",
            quote(&attempted.text)
        );
    }
}

/// The beginning of a bad answer, cut at a character.
fn quote(text: &str) -> &str {
    let end = (0..=QUOTE.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}
