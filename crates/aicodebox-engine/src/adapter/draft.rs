use super::{
    condition::Term,
    contract::{Capability, Host, PlanError, RunFile},
    field::Field,
    filling::Filling,
    model::without_provider,
    spec::{GuardPart, Spec},
    values::Values,
};
use crate::run::{Notice, RunRequest};

/// What a file makes of a request: changes to the environment, not the environment; the program as the file
/// names it. What `adapter plan` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables that are set, in the order of the file.
    pub env: Vec<(String, String)>,
    /// Variables that are taken out.
    pub unset: Vec<String>,
    /// Files to write before the start.
    pub files: Vec<RunFile>,
    /// What it reads; `None` = `/dev/null`.
    pub stdin: Option<String>,
    /// What was dropped or put before the prompt.
    pub notices: Vec<Notice>,
    /// The fields that were dropped.
    pub ignored: Vec<&'static str>,
}

/// Why a request cannot be carried out by this agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The request's field.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
    /// When it does not fit its channel: how long it is.
    pub length: Option<String>,
}

impl From<Refusal> for PlanError {
    fn from(refusal: Refusal) -> Self {
        let Refusal { field, why, length } = refusal;
        match length {
            None => Self::Refused { field, message: format!("{field}: {why}") },
            Some(length) => Self::TooLong { field, message: format!("{field}: {why} ({length})") },
        }
    }
}

pub(super) fn refuse(field: &'static str, why: impl Into<String>) -> Refusal {
    Refusal { field, why: why.into(), length: None }
}

impl Spec {
    /// Plans a request as far as the file says: no program is looked for and no file is touched.
    pub(super) fn draft(&self, request: &RunRequest, host: &Host) -> Result<Draft, Refusal> {
        if request.images.iter().any(|path| path.to_str().is_none()) {
            return Err(refuse("images", "the path of an image is not UTF-8"));
        }
        let mut values = Values::of(request).on(host);
        if values.holds(Term::Continue) && !self.continues() {
            // Either the agent has no sessions, or there is no session yet.
            values.set(Term::Continue, false);
            values.set(Term::Fresh, true);
            values.set(Term::Keep, self.reports_session());
        }
        let mut draft = Draft {
            argv: Vec::new(),
            env: Vec::new(),
            unset: Vec::new(),
            files: Vec::new(),
            stdin: None,
            notices: Vec::new(),
            ignored: Vec::new(),
        };
        self.choose_model(&mut values, host)?;
        self.choose_effort(&mut values)?;
        for field in [Field::Model, Field::Effort, Field::Resume] {
            if values.text(field).starts_with('-') {
                return Err(refuse(field.name(), "must not begin with '-'"));
            }
        }
        let prefix = self.fall_back(&mut values, &mut draft)?;
        self.guard_prompt(&mut values, prefix)?;
        Filling::new(self, &values, host, &mut draft).fill()?;
        Ok(draft)
    }

    fn choose_model(&self, values: &mut Values, host: &Host) -> Result<(), Refusal> {
        let default = || host.default_model.clone().or_else(|| self.models.default.clone());
        values.model = values.model.take().or_else(default);
        if self.models.keep_prefix {
            return Ok(());
        }
        let listed = if host.models.is_empty() { &self.models.list } else { &*host.models };
        let name = values.model.as_deref().map(|model| without_provider(model, listed));
        if name.is_some_and(str::is_empty) {
            return Err(refuse("model", "has nothing after its provider"));
        }
        values.model = name.map(str::to_owned);
        Ok(())
    }

    fn choose_effort(&self, values: &mut Values) -> Result<(), Refusal> {
        let efforts = &self.models.efforts;
        if let (Some(effort), false) = (&values.effort, efforts.is_empty()) {
            let Some((_, theirs)) = efforts.iter().find(|(ours, _)| ours == effort) else {
                let known: Vec<&str> = efforts.iter().map(|(ours, _)| ours.as_str()).collect();
                return Err(refuse("effort", format!("{} knows {}", self.name, known.join(", "))));
            };
            values.effort = Some(theirs.clone());
        }
        Ok(())
    }

    /// Deals with the fields that nothing carries; returns what is put before the prompt.
    fn fall_back(&self, values: &mut Values, draft: &mut Draft) -> Result<String, Refusal> {
        let mut prefix = String::new();
        for field in Field::ALL.into_iter().filter(|field| values.has(*field)).collect::<Vec<_>>() {
            let name = field.name();
            match (self.capability(field), field.prefix()) {
                (Capability::Flag | Capability::Env | Capability::File, _) => {}
                (Capability::Prefix, Some((before, after))) => {
                    prefix.extend([before, &values.text(field), after]);
                    let message = format!("{name} is sent inside the prompt");
                    draft.notices.push(Notice { code: "prefixed".into(), message });
                }
                (Capability::Drop, _) => {
                    let message = format!("{name} is not supported by {} and was left out", self.name);
                    draft.notices.push(Notice { code: "ignored".into(), message });
                    draft.ignored.push(name);
                    values.drop(field);
                }
                (Capability::Refuse | Capability::Prefix, _) => {
                    return Err(refuse(name, format!("{} cannot do this", self.name)));
                }
            }
        }
        Ok(prefix)
    }

    fn guard_prompt(&self, values: &mut Values, prefix: String) -> Result<(), Refusal> {
        let mut prompt = prefix + &values.prompt;
        for guard in &self.prompt.guard {
            let put = |groups: &regex::Captures<'_>| {
                let part = |part: &GuardPart| match part {
                    GuardPart::Text(text) => text.clone(),
                    GuardPart::Group(index) => {
                        groups.get(*index).map_or("", |found| found.as_str()).to_owned()
                    }
                };
                guard.put.iter().map(part).collect::<String>()
            };
            prompt = guard.find.replace_all(&prompt, put).into_owned();
        }
        let chars = || prompt.chars().count();
        let over = |limit: Option<usize>, is: usize, unit: &str| {
            let limit = limit.filter(|limit| is > *limit)?;
            Some(format!("{is} {unit}, at most {limit}"))
        };
        let limits = &self.prompt;
        let too_many_chars = limits.max_chars.and_then(|limit| over(Some(limit), chars(), "characters"));
        if let Some(length) = too_many_chars.or_else(|| over(limits.max_bytes, prompt.len(), "bytes")) {
            return Err(Refusal {
                field: "prompt",
                why: "too long for this agent".to_owned(),
                length: Some(length),
            });
        }
        values.prompt = prompt;
        Ok(())
    }
}
