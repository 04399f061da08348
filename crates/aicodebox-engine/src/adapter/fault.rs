use std::{collections::HashMap, sync::LazyLock, time::Duration};

use regex::Regex;
use serde_json::Value;

pub(super) use crate::run::AgentFault as Fault;
use crate::run::{Failure, FailureKind};

/// Characters of an error message that are kept.
pub(super) const MESSAGE_CHARS: usize = 4000;

/// Finds the kind of a fault: `[errors]`, then `[[class]]`, then what all providers have in common.
#[derive(Clone, Debug, Default)]
pub(super) struct Classifier {
    /// Tried on a message in order; the first that matches says what the message holds.
    pub(super) extract: Vec<Regex>,
    pub(super) classes: Vec<Class>,
}

/// All conditions that are given must hold.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) kind: Fault,
    pub(super) status: Option<Vec<i64>>,
    pub(super) code: Option<Vec<String>>,
    pub(super) text: Option<Regex>,
    pub(super) exit: Option<Vec<i32>>,
    pub(super) stderr: Option<Regex>,
}

/// What an error says about itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) message: String,
    pub(super) status: Option<i64>,
    pub(super) codes: Vec<String>,
    pub(super) retry_after: Option<Duration>,
}

/// The end of the process, for classes that look at it.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    /// The exit code, also as 128 + n and −n for signal n.
    pub(super) codes: &'a [i32],
    pub(super) stderr: &'a str,
}

impl Classifier {
    /// Reads what the message says: by `[errors] extract`, then the provider's JSON if there is any.
    pub(super) fn facts(&self, mut facts: Facts) -> Facts {
        let message = std::mem::take(&mut facts.message);
        let searched = message.strip_suffix('\n').unwrap_or(&message);
        let Some(groups) = self.extract.iter().find_map(|regex| regex.captures(searched)) else {
            return Facts { message, ..facts };
        };
        let group =
            |name: &str| groups.name(name).map(|found| found.as_str()).filter(|text| !text.is_empty());
        let mut shown = None;
        if let Some(Value::Object(mut json)) = group("json").and_then(|text| serde_json::from_str(text).ok())
        {
            let error = match json.remove("error") {
                Some(inner) => inner,
                None => Value::Object(json),
            };
            let text = |key: &str| error.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            facts.codes.extend(["code", "type", "status"].into_iter().filter_map(text).map(str::to_owned));
            facts.status = facts.status.or_else(|| error.get("code").and_then(Value::as_i64));
            shown = text("message").map(str::to_owned);
        }
        facts.status = facts.status.or_else(|| group("status").and_then(|text| text.parse().ok()));
        facts.codes.extend(group("code").map(str::to_owned));
        facts.retry_after = facts.retry_after.or_else(|| seconds(group("retry_after")?));
        shown = group("message").map(str::to_owned).or(shown);
        Facts { message: shown.unwrap_or(message), ..facts }
    }

    /// The kind of a fault, or `None` when nothing tells.
    pub(super) fn kind(&self, facts: &Facts, end: Option<End<'_>>) -> Option<Fault> {
        let class = self.classes.iter().find(|class| class.holds(facts, end));
        class
            .map(|class| class.kind)
            .or_else(|| by_code(facts))
            .or_else(|| fault_in(&facts.message))
            .or_else(|| by_status(facts))
    }

    /// The failure that an error message is.
    pub(super) fn failure(&self, facts: Facts, kind: Option<Fault>) -> Failure {
        let facts = self.facts(facts);
        let kind = kind.or_else(|| self.kind(&facts, None)).unwrap_or(Fault::Provider);
        let message = if facts.message.is_empty() { "unknown error".to_owned() } else { facts.message };
        let status = facts.status.and_then(|status| u16::try_from(status).ok());
        Failure { kind: FailureKind::Agent(kind), message, status, retry_after: facts.retry_after }
    }
}

/// `2`, `0.5`: at most a day, so that nobody is told to wait for ever.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds))?;
    Some(Duration::from_secs_f64(seconds))
}

/// At most `limit` characters of a text.
pub(super) fn shorten(text: &str, limit: usize) -> &str {
    text.char_indices().nth(limit).map_or(text, |(end, _)| &text[..end])
}

impl Class {
    fn holds(&self, facts: &Facts, end: Option<End<'_>>) -> bool {
        let status = |list: &Vec<i64>| facts.status.is_some_and(|status| list.contains(&status));
        let code = |list: &Vec<String>| facts.codes.iter().any(|code| list.contains(code));
        let exit = |list: &Vec<i32>| end.is_some_and(|end| end.codes.iter().any(|code| list.contains(code)));
        let stderr = |regex: &Regex| end.is_some_and(|end| regex.is_match(end.stderr));
        self.status.as_ref().is_none_or(status)
            && self.code.as_ref().is_none_or(code)
            && self.text.as_ref().is_none_or(|regex| regex.is_match(&facts.message))
            && self.exit.as_ref().is_none_or(exit)
            && self.stderr.as_ref().is_none_or(stderr)
    }
}

fn by_code(facts: &Facts) -> Option<Fault> {
    static CODES: LazyLock<HashMap<&str, Fault>> = LazyLock::new(|| {
        HashMap::from([
            ("invalid_api_key", Fault::Auth),
            ("authentication_error", Fault::Auth),
            ("permission_error", Fault::Permission),
            ("unsupported_country_region_territory", Fault::Permission),
            ("insufficient_quota", Fault::Quota),
            ("rate_limit_exceeded", Fault::RateLimit),
            ("rate_limit_error", Fault::RateLimit),
            ("slow_down", Fault::RateLimit),
            ("context_length_exceeded", Fault::Context),
            ("content_filter", Fault::ContentFilter),
            ("model_not_found", Fault::ModelNotFound),
            ("overloaded", Fault::Overloaded),
            ("overloaded_error", Fault::Overloaded),
            ("server_is_overloaded", Fault::Overloaded),
        ])
    });
    facts.codes.iter().find_map(|code| CODES.get(code.as_str()).copied())
}

/// The kind of a fault by what its message says, in words that all providers have in common.
pub fn fault_in(message: &str) -> Option<Fault> {
    static TEXTS: LazyLock<[(Fault, Regex); 5]> = LazyLock::new(|| {
        let any = |words: &str| Regex::new(&format!("(?i){words}")).expect("a valid regex");
        [
            (
                Fault::Quota,
                any(
                    "insufficient.?quota|quota exceeded|exceeded your current quota|usage limit (has been )?reached\
                     |credit balance",
                ),
            ),
            (
                Fault::Context,
                any(
                    "context (window|length|limit)|prompt is too long|maximum context|maximum number of tokens",
                ),
            ),
            (Fault::ContentFilter, any("content.?filter|content management policy")),
            (
                Fault::Auth,
                any("not logged in|not signed in|(invalid|incorrect|missing) api key\
                     |api key (not valid|not found|expired)"),
            ),
            (
                Fault::Network,
                any(
                    "econnre|enotfound|connection (error|refused|reset|failed|dropped)|socket|stream disconnected\
                     |fetch failed|failed to lookup|error sending request|cannot connect",
                ),
            ),
        ]
    });
    TEXTS.iter().find(|(_, regex)| regex.is_match(message)).map(|(fault, _)| *fault)
}

fn by_status(facts: &Facts) -> Option<Fault> {
    Some(match facts.status? {
        0 => return None,
        401 => Fault::Auth,
        402 => Fault::Quota,
        403 => Fault::Permission,
        404 => Fault::ModelNotFound,
        413 => Fault::Context,
        429 => Fault::RateLimit,
        503 | 529 => Fault::Overloaded,
        500.. => Fault::Provider,
        _ => Fault::BadRequest,
    })
}
