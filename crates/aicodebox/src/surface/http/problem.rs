use std::time::Duration;

use aicodebox_engine::run::Failure;
use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::surface::wire::{Wire, part_at_fault};

/// When to try again what is too much now or not to be had, where nobody said.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(5);
/// When a workspace that is taken may be free.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// An error answer: a problem document (RFC 9457).
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
    field: Option<String>,
    /// When another try makes sense; told in whole seconds, rounded up.
    retry_after: Option<Duration>,
}

/// Why there is nothing else to answer (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Document<'a> {
    /// `about:blank`: the status says it all.
    r#type: &'static str,
    /// What the status is called.
    title: &'a str,
    /// The status.
    status: u16,
    /// What happened, and what to do.
    detail: &'a str,
    /// The part of the request that is at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let again = status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE;
        let retry_after = again.then_some(RETRY_AFTER);
        Self { status, detail: detail.into(), field: None, retry_after }
    }

    /// A part of the request that cannot be accepted; the detail begins with its name.
    pub(crate) fn field(status: StatusCode, field: &str, detail: impl std::fmt::Display) -> Self {
        Self { field: Some(field.to_owned()), ..Self::new(status, format!("{field}: {detail}")) }
    }

    /// 422 for a field.
    pub(crate) fn unprocessable(field: &str, detail: impl std::fmt::Display) -> Self {
        Self::field(StatusCode::UNPROCESSABLE_ENTITY, field, detail)
    }

    /// 422 for what serde says of the part at `path`; `whole` is what the whole is called.
    pub(super) fn of_part(path: &str, reason: &str, whole: &str) -> Self {
        // That a part is there twice is told of the whole.
        let twice = reason.strip_prefix("duplicate field `").and_then(|rest| rest.strip_suffix('`'));
        match (twice, path) {
            (Some(field), _) => Self::unprocessable(field, "is there more than once"),
            (None, ".") => Self::unprocessable(whole, reason),
            (None, field) => Self::unprocessable(field, reason),
        }
    }

    /// 404 for a run.
    pub(crate) fn no_such_run() -> Self {
        Self::new(StatusCode::NOT_FOUND, "run not found")
    }

    /// The document of a failure, where the table wants one.
    pub(crate) fn of(failure: &Failure) -> Option<Self> {
        let Wire::Problem(status) = Wire::of(&failure.kind) else { return None };
        let problem = match part_at_fault(failure) {
            Some((field, wrong)) => Self::field(status, &camel_case(field), wrong),
            None => Self::new(status, &failure.message),
        };
        let usual = if status == StatusCode::CONFLICT { Some(BUSY_RETRY_AFTER) } else { problem.retry_after };
        Some(Self { retry_after: failure.retry_after.or(usual), ..problem })
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// What is wrong, for people.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = Document {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            field: self.field.as_deref(),
        };
        let mut response = (self.status, Json(document)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(after) = self.retry_after {
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, seconds.max(1).into());
        }
        response
    }
}

/// The engine's spelling of a field in the API's.
fn camel_case(field: &str) -> String {
    let field = match field {
        "effort" => "thinking",
        "tools" => "tools_allowlist",
        other => other,
    };
    let mut words = field.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_come_back_is_told_when() {
        for (status, after) in [(429, Some("5")), (503, Some("5")), (400, None), (500, None)] {
            let response = Problem::new(StatusCode::from_u16(status).unwrap(), "x").into_response();
            let told = response.headers().get(header::RETRY_AFTER).map(|after| after.to_str().unwrap());
            assert_eq!(told, after, "{status}");
        }
    }

    #[test]
    fn fields_are_named_as_callers_write_them() {
        for (ours, theirs) in [
            ("prompt", "prompt"),
            ("append_system_prompt", "appendSystemPrompt"),
            ("effort", "thinking"),
            ("tools", "toolsAllowlist"),
        ] {
            assert_eq!(camel_case(ours), theirs);
        }
    }
}
