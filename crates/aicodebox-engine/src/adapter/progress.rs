use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::Value;

use super::{
    answer::Answer,
    clip::Clip,
    fault::{Facts, MESSAGE_CHARS, shorten},
    json::Json,
    pointer::At,
    rule::{Done, ErrorRule, Rule, ToolRule},
    source::join,
    spec::Spec,
    usage::{UsageCount, UsageSoFar, hash},
};
use crate::{
    process::Flow,
    run::{
        AgentFault, EventSink, Failure, FailureKind, Finish, Notice, RunEvent, SessionId, SessionTotals,
        ToolEvent, ToolPhase,
    },
};

/// Tool calls whose start is remembered until their end.
const MAX_OPEN_TOOLS: usize = 4096;

/// Bytes of stderr that are kept for messages and classes, half of them from its beginning, half from its end.
const STDERR_LIMIT: usize = 128 << 10;

/// What the output of an attempt has said so far.
pub(super) struct Progress {
    pub(super) spec: Arc<Spec>,
    events: Arc<dyn EventSink>,
    resumes: bool,
    baseline: Option<SessionTotals>,
    pub(super) session: Option<String>,
    pub(super) answer: Answer,
    pub(super) result: Option<String>,
    pub(super) structured: Option<Value>,
    /// By [`hash`].
    open_tools: HashSet<u64>,
    unnamed_tools: u64,
    usage: UsageCount,
    pub(super) finish: Option<Finish>,
    /// How often the agent has told that it asks its provider again.
    retries: usize,
    /// The same of each rule alone, by the rule's number.
    retries_of_rules: HashMap<usize, usize>,
    /// The error that stands.
    error: Option<Failure>,
    /// The one that stderr told of. Kept apart, since nothing orders the two streams: whichever line is read
    /// first, the verdict is the same.
    stderr_error: Option<Failure>,
    pub(super) done: Option<Done>,
    pub(super) abort: Option<Failure>,
    /// What the supervisor has yet to be told.
    news: Flow,
    /// stderr without the lines that a rule took.
    pub(super) said: Clip,
    /// All of stderr, without ANSI codes.
    pub(super) stderr: Clip,
    /// A line was too long to be read: what it said is missing.
    pub(super) unread: bool,
}

impl Progress {
    pub(super) fn new(
        spec: Arc<Spec>,
        events: Arc<dyn EventSink>,
        resumes: bool,
        baseline: Option<SessionTotals>,
    ) -> Self {
        Self {
            spec,
            events,
            resumes,
            baseline,
            session: None,
            answer: Answer::default(),
            result: None,
            structured: None,
            open_tools: HashSet::new(),
            unnamed_tools: 0,
            usage: UsageCount::default(),
            finish: None,
            retries: 0,
            retries_of_rules: HashMap::new(),
            error: None,
            stderr_error: None,
            done: None,
            abort: None,
            news: Flow::Go,
            said: Clip::new(STDERR_LIMIT),
            stderr: Clip::new(STDERR_LIMIT),
            unread: false,
        }
    }

    pub(super) fn push(&self, event: RunEvent) {
        self.events.push(event);
    }

    pub(super) fn notice(&self, code: &'static str, message: impl Into<String>) {
        self.push(RunEvent::Notice(Notice { code: code.into(), message: message.into() }));
    }

    /// The error that decides; one from stderr before one from stdout.
    pub(super) fn standing_error(&self) -> Option<&Failure> {
        self.stderr_error.as_ref().or(self.error.as_ref())
    }

    /// What the supervisor should do; each thing is told once.
    pub(super) fn take_news(&mut self) -> Flow {
        std::mem::replace(&mut self.news, Flow::Go)
    }

    pub(super) fn usage(&self) -> UsageSoFar {
        let Some(spec) = &self.spec.usage else { return UsageSoFar::default() };
        self.usage.so_far(spec, self.resumes, self.baseline.as_ref())
    }

    /// Takes a piece of the answer.
    pub(super) fn delta(&mut self, text: &str) {
        if !text.is_empty() {
            self.answer.delta(text);
            self.push(RunEvent::Delta(text.to_owned()));
        }
    }

    /// Does what a rule says.
    pub(super) fn fire(&mut self, rule: &Rule, at: At<'_>) {
        if let Some(source) = &rule.session {
            let id = source.text(at);
            if !id.is_empty() && self.session.as_deref() != Some(&*id) {
                self.session = Some(id.clone().into_owned());
                self.push(RunEvent::Session(SessionId(id.into_owned())));
            }
        }
        if rule.boundary || rule.tool.is_some() {
            self.answer.boundary();
        }
        if let Some(source) = &rule.thinking {
            let text = source.text(at);
            if !text.is_empty() {
                self.push(RunEvent::Thinking(text.into_owned()));
            }
        }
        if let Some(source) = &rule.delta {
            self.delta(&source.text(at));
        }
        if let Some(source) = &rule.message {
            let text = source.text(at);
            if !text.is_empty() {
                let streamed = self.answer.message(&text);
                self.push(RunEvent::Message { text: text.into_owned(), streamed });
            }
        }
        if let Some(source) = &rule.result {
            self.result = Some(source.text(at).into_owned());
        }
        if let Some(value) = rule.structured.as_ref().and_then(|source| source.find(at).first().copied()) {
            self.structured = Some(value.to_value());
        }
        if let Some(tool) = &rule.tool {
            self.tool(tool, at);
        }
        if let (Some(source), Some(usage)) = (&rule.usage, &self.spec.usage) {
            let objects = source.find(at);
            for object in &objects {
                if self.usage.take(usage, object) {
                    self.notice("usage", "the provider's own usage is too large to be kept");
                }
            }
            if let Some(usage) = self.usage().usage.filter(|_| !objects.is_empty()) {
                self.push(RunEvent::Usage(usage));
            }
        }
        if let Some(source) = &rule.finish {
            let word = source.text(at);
            if !word.is_empty() {
                self.finish = Some(self.spec.finish.map(&word));
            }
        }
        if let Some(source) = &rule.notice {
            self.notice("agent", shorten(&source.text(at), MESSAGE_CHARS));
        }
        if let Some(retry) = &rule.retry {
            let lines = self.retries_of_rules.entry(rule.number).or_default();
            *lines += 1;
            let over = retry.max.is_some_and(|max| *lines > max);
            self.retry(self.failure(&retry.error, at), over);
        }
        if rule.clear_error {
            self.error = None;
        }
        if let Some(error) = &rule.error {
            self.error = Some(self.failure(error, at));
        }
        if let Some(done) = rule.done {
            self.done(done);
        }
    }

    fn tool(&mut self, rule: &ToolRule, at: At<'_>) {
        let id = match rule.id.text(at) {
            id if id.is_empty() => {
                self.unnamed_tools += 1;
                (self.unnamed_tools - 1).to_string()
            }
            id => id.into_owned(),
        };
        let text = |values: Vec<&Json<'_>>| (!values.is_empty()).then(|| join(&values).into_owned());
        let input = match rule.input.find(at).as_slice() {
            [] => None,
            [one] => Some(one.to_value()),
            several => Some(Value::String(join(several).into_owned())),
        };
        let phase = match rule.phase {
            ToolPhase::Start => {
                if self.open_tools.len() < MAX_OPEN_TOOLS {
                    self.open_tools.insert(hash(&id));
                }
                ToolPhase::Start
            }
            ToolPhase::End | ToolPhase::Both if self.open_tools.remove(&hash(&id)) => ToolPhase::End,
            ToolPhase::End | ToolPhase::Both => ToolPhase::Both,
        };
        let failed = match phase {
            ToolPhase::Start => None,
            ToolPhase::End | ToolPhase::Both => {
                Some(rule.failed.as_ref().is_some_and(|failed| failed.holds(at)))
            }
        };
        let (name, output) = (text(rule.name.find(at)), text(rule.output.find(at)));
        self.push(RunEvent::Tool(ToolEvent { id, phase, name, input, output, failed }));
    }

    fn failure(&self, rule: &ErrorRule, at: At<'_>) -> Failure {
        let status = rule.status.find(at).into_iter().find_map(|status| status.as_number()?.as_i64());
        let codes = rule.code.find_all(at).into_iter().filter_map(Json::as_text).map(str::to_owned).collect();
        let message = shorten(&rule.message.text(at), MESSAGE_CHARS).to_owned();
        self.spec.classifier.failure(Facts { message, status, codes, retry_after: None }, rule.kind)
    }

    /// The program tries again by itself. Some faults no retry heals: then we do not wait for it, nor after the
    /// last retry of a rule that waits for so many, which `over` says.
    pub(super) fn retry(&mut self, failure: Failure, over: bool) {
        self.retries += 1;
        self.notice("retry", failure.message.clone());
        let retry = &self.spec.retry;
        let hopeless = |fault: AgentFault| retry.abort_on.contains(&fault);
        let over = over || retry.max.is_some_and(|max| self.retries > max);
        if self.abort.is_none()
            && (over || matches!(failure.kind, FailureKind::Agent(fault) if hopeless(fault)))
        {
            if self.news == Flow::Go && self.done.is_none() {
                self.news = Flow::Abort(failure.clone());
            }
            self.abort = Some(failure);
        }
    }

    pub(super) fn stderr_error(&mut self, failure: Failure) {
        self.stderr_error = Some(failure);
    }

    fn done(&mut self, done: Done) {
        if self.done.is_none() && self.abort.is_none() {
            self.news = Flow::Done;
        }
        self.done = Some(done);
        match done {
            Done::Ok => self.error = None,
            Done::Error if self.error.is_none() => {
                let fault = FailureKind::Agent(AgentFault::Provider);
                self.error = Some(Failure::new(fault, "the agent reported failure"));
            }
            Done::Error | Done::Auto => {}
        }
    }
}
