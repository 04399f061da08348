use super::{condition::Condition, fault::Fault, matching::Match, pointer::Pointer, source::Source};
use crate::run::{Finish, ToolPhase};

/// `[[event]]`: what must be so, and what happens then, in the order of the fields.
#[derive(Clone, Debug, Default)]
pub(super) struct Rule {
    /// Its place in the file, from 1.
    pub(super) number: usize,
    pub(super) matches: Match,
    pub(super) each: Option<Pointer>,
    pub(super) when: Condition,
    pub(super) also: bool,

    pub(super) session: Option<Source>,
    pub(super) boundary: bool,
    pub(super) thinking: Option<Source>,
    pub(super) delta: Option<Source>,
    pub(super) message: Option<Source>,
    pub(super) result: Option<Source>,
    pub(super) structured: Option<Source>,
    pub(super) tool: Option<ToolRule>,
    pub(super) usage: Option<Source>,
    pub(super) finish: Option<Source>,
    pub(super) notice: Option<Source>,
    pub(super) retry: Option<RetryRule>,
    pub(super) clear_error: bool,
    pub(super) error: Option<ErrorRule>,
    pub(super) done: Option<Done>,
}

#[derive(Clone, Debug)]
pub(super) struct ToolRule {
    pub(super) phase: ToolPhase,
    pub(super) id: Source,
    pub(super) name: Source,
    pub(super) input: Source,
    pub(super) output: Source,
    /// `None` = it never fails.
    pub(super) failed: Option<Match>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ErrorRule {
    pub(super) message: Source,
    pub(super) status: Source,
    pub(super) code: Source,
    pub(super) kind: Option<Fault>,
}

#[derive(Clone, Debug)]
pub(super) struct RetryRule {
    pub(super) error: ErrorRule,
    /// Lines of this rule that we wait for; `None` = as many as `[retry]` says.
    pub(super) max: Option<usize>,
}

/// The final event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// All is well: an error that stands is forgotten.
    Ok,
    /// Failed, also when no error stands.
    Error,
    /// Failed only if an error stands.
    Auto,
}

/// `[finish]`: the program's words for why the model stopped; every other word is `stop`.
#[derive(Clone, Debug, Default)]
pub(super) struct FinishMap(pub(super) Vec<(Finish, Vec<String>)>);

impl FinishMap {
    /// The words of `format = "events"`.
    pub(super) fn events() -> Self {
        let own = |finish: Finish| (finish, vec![finish.name().to_owned()]);
        Self([Finish::Length, Finish::ContentFilter, Finish::Tool].map(own).to_vec())
    }

    pub(super) fn map(&self, word: &str) -> Finish {
        let entry = self.0.iter().find(|(_, words)| words.iter().any(|known| known == word));
        entry.map_or(Finish::Stop, |(finish, _)| *finish)
    }
}

/// The rules of `format = "events"`: lines in our own words, any number of them in one object.
pub(super) fn events() -> Vec<Rule> {
    let rule = |key: &str| {
        let pointer = format!("/{key}");
        let matches = Pointer::new(&pointer).map(Match::exists).unwrap_or_default();
        (Rule { matches, also: true, ..Rule::default() }, Source::pointer(&pointer))
    };
    let mut rules = Vec::new();
    for key in
        ["session", "thinking", "delta", "message", "result", "structured", "usage", "finish", "notice"]
    {
        let (mut rule, source) = rule(key);
        let action = match key {
            "session" => &mut rule.session,
            "thinking" => &mut rule.thinking,
            "delta" => &mut rule.delta,
            "message" => &mut rule.message,
            "result" => &mut rule.result,
            "structured" => &mut rule.structured,
            "usage" => &mut rule.usage,
            "finish" => &mut rule.finish,
            _ => &mut rule.notice,
        };
        *action = Some(source);
        rules.push(rule);
    }
    let (error, message) = rule("error");
    rules.push(Rule { error: Some(ErrorRule { message, ..ErrorRule::default() }), ..error });
    for (word, done) in [("ok", Done::Ok), ("error", Done::Error)] {
        let matches = Pointer::new("/done").map(|done| Match::equals(done, word)).unwrap_or_default();
        rules.push(Rule { matches, done: Some(done), ..Rule::default() });
    }
    let (auto, _) = rule("done");
    rules.push(Rule { done: Some(Done::Auto), ..auto });
    rules
}
