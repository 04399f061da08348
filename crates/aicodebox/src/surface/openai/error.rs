use std::{borrow::Cow, time::Duration};

use aicodebox_engine::{
    adapter::AdapterInfo,
    run::{AgentFault, Failure, FailureKind, RunOutcome},
    store::StoreError,
};
use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::surface::{complaint::complaint, http::Problem, wire::part_at_fault};

/// How much of an agent's stderr an error quotes.
const STDERR_QUOTE: usize = 4 << 10;

const X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// When to try again, where nobody said.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// An error as clients of OpenAI read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    message: String,
    /// The part of the request that is at fault.
    param: Option<Cow<'static, str>>,
    retry_after: Option<Duration>,
    /// The agent had begun: what it did is done, and asking again does it twice.
    begun: bool,
}

/// The object under `error`.
#[derive(Serialize)]
pub(crate) struct ErrorObject<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    code: Option<&'static str>,
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self::new(problem.status(), None, problem.detail())
    }
}

/// The body: the error, and its text once more where clients of the original look for it.
#[derive(Serialize)]
struct Document<'a> {
    error: ErrorObject<'a>,
    detail: &'a str,
}

impl ApiError {
    /// An error with the type that its status usually has.
    pub(crate) fn new(status: StatusCode, code: Option<&'static str>, message: impl Into<String>) -> Self {
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let again = status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE;
        let retry_after = again.then_some(RETRY_AFTER);
        Self { status, kind, code, message: message.into(), param: None, retry_after, begun: false }
    }

    /// The same for a run whose agent may have begun its work.
    pub(crate) fn after_begin(self) -> Self {
        Self { begun: true, ..self }
    }

    /// 400: the part of the request named `param` cannot be accepted.
    pub(crate) fn invalid(param: impl Into<Cow<'static, str>>, detail: impl std::fmt::Display) -> Self {
        let param = param.into();
        let message = format!("{param}: {detail}");
        Self { param: Some(param), ..Self::new(StatusCode::BAD_REQUEST, None, message) }
    }

    /// 400: we know this part, and cannot do it.
    pub(crate) fn unsupported(param: &'static str, detail: &str) -> Self {
        Self { code: Some("unsupported_parameter"), ..Self::invalid(param, detail) }
    }

    /// The same with the name that `other` has for the part at fault, if it has one.
    pub(crate) fn renamed(mut self, other: impl FnOnce(&str) -> Option<String>) -> Self {
        if let Some(param) = self.param.take() {
            let name = other(&param).map_or_else(|| param.clone(), Cow::Owned);
            if let Some(detail) = self.message.strip_prefix(&*param) {
                self.message = format!("{name}{detail}");
            }
            self.param = Some(name);
        }
        self
    }

    /// 404 for a model.
    pub(crate) fn no_such_model(model: &str) -> Self {
        let message = format!("the model '{model}' does not exist; GET /v1/models lists those that do");
        Self {
            param: Some("model".into()),
            ..Self::new(StatusCode::NOT_FOUND, Some("model_not_found"), message)
        }
    }

    /// A failure before the run had an outcome.
    pub(crate) fn of(failure: &Failure) -> Self {
        let (status, code) = on_the_wire(&failure.kind);
        let (param, message) = match part_at_fault(failure) {
            Some((field, wrong)) => {
                let param = param(field);
                let message = format!("{param}: {wrong}");
                (Some(param), message)
            }
            None => (None, failure.message.clone()),
        };
        let error = Self::new(status, code, message);
        Self { param, retry_after: failure.retry_after.or(error.retry_after), ..error }
    }

    /// 503: what happens in a run cannot be read back.
    pub(crate) fn of_store(error: &StoreError) -> Self {
        let message = format!("the events of this run cannot be read: {error}");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Some("storage"), message)
    }

    /// The failure of a run of this agent; `None` when it went well. A crash is told with exit code and the end of
    /// stderr, a fault that the agent's file knows about with what to do.
    pub(crate) fn of_outcome(outcome: &RunOutcome, agent: &AdapterInfo) -> Option<Self> {
        let failure = outcome.failure()?;
        // One that could not be started has an attempt too.
        let begun = !outcome.attempts.is_empty() && !matches!(failure.kind, FailureKind::Spawn { .. });
        let mut error = Self { begun, ..Self::of(failure) };
        if let FailureKind::Exit(_)
        | FailureKind::Signal(_)
        | FailureKind::NoFinalEvent
        | FailureKind::Spawn { .. }
        | FailureKind::Agent(AgentFault::Empty) = failure.kind
        {
            error.message =
                format!("the agent failed (exit code {}): {}", outcome.exit_code, failure.message);
            if let Some(stderr) = complaint(outcome, STDERR_QUOTE, &failure.message) {
                error.message.push_str("\nIts stderr ends with:\n");
                error.message.push_str(&stderr);
            }
        }
        if let FailureKind::Agent(fault) = failure.kind
            && let Some(hint) = agent.hint(fault)
        {
            error.message = format!("{}; {hint}", error.message);
        }
        Some(error)
    }

    /// The object under `error`.
    pub(crate) fn object(&self) -> ErrorObject<'_> {
        ErrorObject {
            message: &self.message,
            r#type: self.kind,
            param: self.param.as_deref(),
            code: self.code,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let document = Document { error: self.object(), detail: &self.message };
        let mut response = (self.status, Json(document)).into_response();
        if let Some(after) = self.retry_after {
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.max(1).into());
        }
        if self.begun {
            // OpenAI's clients try again by themselves after a 409, a 429 and every 5xx, unless they are told not to.
            response.headers_mut().insert(X_SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response
    }
}

/// What a failure is to a client of chat completions: status and code.
fn on_the_wire(kind: &FailureKind) -> (StatusCode, Option<&'static str>) {
    match kind {
        FailureKind::Invalid { .. } => (StatusCode::BAD_REQUEST, None),
        FailureKind::TooLong { .. } => (StatusCode::PAYLOAD_TOO_LARGE, Some("too_long")),
        // Chats wait for their workspace, so this is never seen; it would be worth another try.
        FailureKind::Busy => (StatusCode::TOO_MANY_REQUESTS, Some("workspace_busy")),
        FailureKind::QueueFull => (StatusCode::TOO_MANY_REQUESTS, Some("queue_full")),
        FailureKind::Spawn { .. } => (StatusCode::INTERNAL_SERVER_ERROR, Some("agent_not_started")),
        FailureKind::Deadline => (StatusCode::GATEWAY_TIMEOUT, Some("timeout")),
        FailureKind::Idle => (StatusCode::GATEWAY_TIMEOUT, Some("idle_timeout")),
        FailureKind::Cancelled => (StatusCode::CONFLICT, Some("run_cancelled")),
        FailureKind::Shutdown => (StatusCode::SERVICE_UNAVAILABLE, Some("shutting_down")),
        FailureKind::Storage => (StatusCode::SERVICE_UNAVAILABLE, Some("storage")),
        FailureKind::Budget => (StatusCode::PAYMENT_REQUIRED, Some("budget_exceeded")),
        FailureKind::Stuck => (StatusCode::INTERNAL_SERVER_ERROR, Some("stuck")),
        FailureKind::Signal(_) | FailureKind::Exit(_) | FailureKind::NoFinalEvent => {
            (StatusCode::INTERNAL_SERVER_ERROR, Some("agent_failed"))
        }
        FailureKind::Schema => (StatusCode::UNPROCESSABLE_ENTITY, Some("answer_not_accepted")),
        FailureKind::Agent(fault) => match fault {
            AgentFault::Auth
            | AgentFault::Permission
            | AgentFault::Provider
            | AgentFault::Network
            | AgentFault::Config
            | AgentFault::Internal
            | AgentFault::SessionNotFound => (StatusCode::BAD_GATEWAY, Some(fault.name())),
            AgentFault::RateLimit | AgentFault::Quota => (StatusCode::TOO_MANY_REQUESTS, Some(fault.name())),
            AgentFault::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, Some(fault.name())),
            AgentFault::Context => (StatusCode::BAD_REQUEST, Some("context_length_exceeded")),
            AgentFault::ContentFilter => (StatusCode::BAD_REQUEST, Some("content_filter")),
            AgentFault::BadRequest => (StatusCode::BAD_REQUEST, Some("bad_request")),
            AgentFault::ModelNotFound => (StatusCode::NOT_FOUND, Some("model_not_found")),
            AgentFault::Empty => (StatusCode::INTERNAL_SERVER_ERROR, Some("empty")),
        },
    }
}

/// The engine's name of a field in the words of this surface.
pub(super) fn param(field: &str) -> Cow<'static, str> {
    match field {
        "prompt" | "system_prompt" => "messages".into(),
        "effort" => "reasoning_effort".into(),
        "json_schema" => "response_format".into(),
        "tools" => "x-aicodebox-tools-allowlist".into(),
        "no_tools" => "x-aicodebox-no-tools".into(),
        "append_system_prompt" => "x-aicodebox-append-system-prompt".into(),
        "extra_args" => "x-aicodebox-extra-args".into(),
        "resume" => "x-aicodebox-resume".into(),
        other => other.to_owned().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_faults_have_their_statuses_and_codes() {
        let expected = [
            (AgentFault::Auth, 502, "auth"),
            (AgentFault::RateLimit, 429, "rate_limit"),
            (AgentFault::Quota, 429, "quota"),
            (AgentFault::Overloaded, 503, "overloaded"),
            (AgentFault::Context, 400, "context_length_exceeded"),
            (AgentFault::ContentFilter, 400, "content_filter"),
            (AgentFault::ModelNotFound, 404, "model_not_found"),
            (AgentFault::SessionNotFound, 502, "session_not_found"),
            (AgentFault::Empty, 500, "empty"),
        ];
        for (fault, status, code) in expected {
            let error = ApiError::of(&Failure::new(FailureKind::Agent(fault), "x"));
            assert_eq!((error.status.as_u16(), error.code), (status, Some(code)), "{fault:?}");
        }
    }

    #[test]
    fn a_part_at_fault_is_named_once_and_as_the_client_wrote_it() {
        for (field, message, expected) in [
            ("model", "model: has nothing after its provider", "model: has nothing after its provider"),
            ("resume", "resume: must not begin with '-'", "x-aicodebox-resume: must not begin with '-'"),
            (
                "json_schema",
                "the JSON Schema is not usable",
                "response_format: the JSON Schema is not usable",
            ),
            ("request", "this is not done", "this is not done"),
        ] {
            for kind in
                [FailureKind::Invalid { field: field.into() }, FailureKind::TooLong { field: field.into() }]
            {
                let error = ApiError::of(&Failure::new(kind, message));
                assert_eq!(error.object().message, expected);
                let param = expected.split_once(": ").map(|(param, _)| param);
                assert_eq!(error.object().param, param);
            }
        }
    }

    #[test]
    fn who_may_try_again_is_told_when() {
        let failure = Failure {
            retry_after: Some(Duration::from_millis(1500)),
            ..Failure::new(FailureKind::Agent(AgentFault::RateLimit), "slow down")
        };
        let response = ApiError::of(&failure).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        let usual = ApiError::of(&Failure::new(FailureKind::QueueFull, "x")).into_response();
        assert!(usual.headers().contains_key(header::RETRY_AFTER));
    }
}
