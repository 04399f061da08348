use std::time::Duration;

use regex::Regex;

use super::{
    condition::{Condition, Term},
    contract::Capability,
    fault::{Classifier, Fault},
    field::Field,
    group::{Group, Shape, uses},
    rule::{FinishMap, Rule},
    usage::UsageSpec,
    words::Words,
};
use crate::process::StopPlan;

/// An adapter file, checked and compiled.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) binary: Option<String>,
    pub(super) tested: Option<String>,
    pub(super) models: Models,
    pub(super) argv: Vec<Group<Vec<Words>>>,
    pub(super) stdin: Option<Words>,
    pub(super) prompt: PromptLimits,
    /// What happens with a field that nothing carries; by [`Field`] as index.
    pub(super) fallback: [Fallback; Field::ALL.len()],
    pub(super) env: Vec<(String, Variable)>,
    pub(super) files: Vec<FileText>,
    pub(super) metered: Vec<String>,
    pub(super) auth_hint: Option<String>,
    pub(super) probe: Option<ProbeSpec>,
    pub(super) stop: StopPlan,
    pub(super) quiet: Option<Duration>,
    pub(super) state_paths: Vec<String>,
    pub(super) format: Format,
    /// `format = "events"`: the rules are ours.
    pub(super) own_words: bool,
    pub(super) ok_exit: Vec<i32>,
    pub(super) empty_ok: bool,
    pub(super) rules: Vec<Rule>,
    pub(super) stderr: Vec<StderrRule>,
    pub(super) classifier: Classifier,
    pub(super) usage: Option<UsageSpec>,
    pub(super) finish: FinishMap,
    pub(super) retry: Retry,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Models {
    pub(super) list: Vec<String>,
    pub(super) default: Option<String>,
    /// Ours and theirs; empty = passed on unchecked.
    pub(super) efforts: Vec<(String, String)>,
    pub(super) keep_prefix: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PromptLimits {
    pub(super) max_chars: Option<usize>,
    pub(super) max_bytes: Option<usize>,
    pub(super) guard: Vec<Guard>,
}

/// Rewrites a text that the program would interpret.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub(super) find: Regex,
    /// Text and numbers of groups, in turn.
    pub(super) put: Vec<GuardPart>,
}

#[derive(Clone, Debug)]
pub(super) enum GuardPart {
    Text(String),
    Group(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fallback {
    Prefix,
    Drop,
    Refuse,
}

#[derive(Clone, Debug)]
pub(super) enum Variable {
    Remove,
    Text {
        when: Condition,
        text: Words,
    },
    Json {
        when: Condition,
        parts: Vec<Group<Shape>>,
    },
    /// The first of these that is set.
    Alias {
        when: Condition,
        from: Vec<String>,
    },
}

#[derive(Clone, Debug)]
pub(super) struct FileText {
    /// With its extension.
    pub(super) name: String,
    /// Below the home directory; `None` = temporary.
    pub(super) path: Option<String>,
    pub(super) when: Condition,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Text(Words),
    Json(Vec<Group<Shape>>),
}

#[derive(Clone, Debug)]
pub(super) struct ProbeSpec {
    pub(super) args: Vec<String>,
    pub(super) absent: Option<Regex>,
    pub(super) version: Option<Regex>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// All of stdout is the answer.
    Text,
    /// One JSON object per line; `events` is this with rules of our own.
    Lines,
    /// All of stdout is one JSON object.
    Document,
}

#[derive(Clone, Debug)]
pub(super) struct StderrRule {
    pub(super) find: Regex,
    pub(super) means: StderrMeaning,
    pub(super) kind: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StderrMeaning {
    Retry,
    Notice,
    Error,
    Ignore,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Retry {
    pub(super) abort_on: Vec<Fault>,
    pub(super) max: Option<usize>,
}

impl Spec {
    /// How a field reaches the agent: derived from where it is used.
    pub(super) fn capability(&self, field: Field) -> Capability {
        let words = |words: &Words| uses(words, field);
        let shapes = |parts: &[Group<Shape>]| parts.iter().any(|part| part.uses(field));
        let variable = |variable: &Variable| match variable {
            Variable::Remove => false,
            Variable::Text { when, text } => when.mentions(Term::Field(field)) || words(text),
            Variable::Json { when, parts } => when.mentions(Term::Field(field)) || shapes(parts),
            Variable::Alias { when, .. } => when.mentions(Term::Field(field)),
        };
        let file = |file: &FileText| {
            let content = match &file.content {
                Content::Text(text) => words(text),
                Content::Json(parts) => shapes(parts),
            };
            file.when.mentions(Term::Field(field)) || content
        };
        if self.argv.iter().any(|group| group.uses(field)) || self.stdin.as_ref().is_some_and(words) {
            return Capability::Flag;
        }
        if self.env.iter().any(|(_, value)| variable(value)) {
            return Capability::Env;
        }
        if self.files.iter().any(file) {
            return Capability::File;
        }
        match self.fallback[field as usize] {
            Fallback::Prefix => Capability::Prefix,
            Fallback::Drop => Capability::Drop,
            Fallback::Refuse => Capability::Refuse,
        }
    }

    /// Whether a condition on the session says `continue`: the agent's own "go on with the last one".
    pub(super) fn continues(&self) -> bool {
        let json = |parts: &[Group<Shape>]| parts.iter().any(|part| part.when.mentions(Term::Continue));
        let variable = |variable: &Variable| match variable {
            Variable::Remove => false,
            Variable::Text { when, .. } | Variable::Alias { when, .. } => when.mentions(Term::Continue),
            Variable::Json { when, parts } => when.mentions(Term::Continue) || json(parts),
        };
        let file = |file: &FileText| {
            let content = match &file.content {
                Content::Text(_) => false,
                Content::Json(parts) => json(parts),
            };
            file.when.mentions(Term::Continue) || content
        };
        self.argv.iter().any(|group| group.when.mentions(Term::Continue))
            || self.env.iter().any(|(_, value)| variable(value))
            || self.files.iter().any(file)
    }

    /// Whether the file reads a channel for the answer to a schema.
    pub(super) fn has_structured(&self) -> bool {
        !self.own_words && self.rules.iter().any(|rule| rule.structured.is_some())
    }

    /// Whether a rule reports the session's id.
    pub(super) fn reports_session(&self) -> bool {
        self.rules.iter().any(|rule| rule.session.is_some())
    }
}
