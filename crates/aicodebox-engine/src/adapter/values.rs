use serde_json::Value;

use super::{condition::Term, contract::Host, field::Field};
use crate::run::{RunRequest, SessionChoice, ToolPolicy};

/// What a request gives to conditions and placeholders, after defaults and fallbacks.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    pub(super) prompt: String,
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    pub(super) system_prompt: Option<String>,
    pub(super) append_system_prompt: Option<String>,
    pub(super) json_schema: Option<Value>,
    pub(super) tools: Vec<String>,
    pub(super) no_tools: bool,
    pub(super) resume: Option<String>,
    pub(super) images: Vec<String>,
    pub(super) extra_args: Vec<String>,
    /// The bits of the conditions that are no fields.
    others: u32,
}

impl Values {
    /// The request as it is. An image whose path is no UTF-8 is given with replacement characters.
    pub(super) fn of(request: &RunRequest) -> Self {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let schema = request.json_schema.clone().filter(|schema| match schema {
            Value::Null | Value::Bool(false) => false,
            Value::Object(map) => !map.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::String(text) => !text.is_empty(),
            Value::Bool(true) | Value::Number(_) => true,
        });
        let mut values = Self {
            prompt: request.prompt.clone(),
            model: given(&request.model),
            effort: given(&request.effort),
            system_prompt: given(&request.system_prompt),
            append_system_prompt: given(&request.append_system_prompt),
            json_schema: schema,
            images: request.images.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
            extra_args: request.extra_args.clone(),
            ..Self::default()
        };
        match &request.tools {
            ToolPolicy::All => {}
            ToolPolicy::None => values.no_tools = true,
            ToolPolicy::Only(tools) => values.tools = tools.clone(),
        }
        values.set(Term::Stream, request.stream);
        match &request.session {
            SessionChoice::Fresh { keep } => {
                values.set(Term::Fresh, true);
                values.set(Term::Keep, *keep);
            }
            SessionChoice::Resume(id) => {
                values.resume = Some(id.0.clone()).filter(|id| !id.is_empty());
                values.set(Term::Keep, true);
            }
            SessionChoice::Continue => values.set(Term::Continue, true),
        }
        values
    }

    /// Adds what only the machine knows.
    pub(super) fn on(mut self, host: &Host) -> Self {
        self.set(Term::Root, host.root);
        self.set(Term::Subscription, host.subscription);
        self
    }

    /// Makes a condition that is no field hold or not.
    pub(super) fn set(&mut self, term: Term, holds: bool) {
        if holds {
            self.others |= term.bit();
        } else {
            self.others &= !term.bit();
        }
    }

    pub(super) fn holds(&self, term: Term) -> bool {
        self.set_of_terms() & term.bit() != 0
    }

    /// Everything that holds, for [`super::condition::Condition::holds`].
    pub(super) fn set_of_terms(&self) -> u32 {
        let fields = Field::ALL.into_iter().filter(|field| self.has(*field));
        fields.fold(self.others, |set, field| set | field.bit())
    }

    /// Whether a field is given and not empty.
    pub(super) fn has(&self, field: Field) -> bool {
        match field {
            Field::Model => self.model.is_some(),
            Field::Effort => self.effort.is_some(),
            Field::SystemPrompt => self.system_prompt.is_some(),
            Field::AppendSystemPrompt => self.append_system_prompt.is_some(),
            Field::JsonSchema => self.json_schema.is_some(),
            Field::Tools => !self.tools.is_empty(),
            Field::NoTools => self.no_tools,
            Field::Resume => self.resume.is_some(),
            Field::Images => !self.images.is_empty(),
            Field::ExtraArgs => !self.extra_args.is_empty(),
        }
    }

    /// Runs without a field.
    pub(super) fn drop(&mut self, field: Field) {
        match field {
            Field::Model => self.model = None,
            Field::Effort => self.effort = None,
            Field::SystemPrompt => self.system_prompt = None,
            Field::AppendSystemPrompt => self.append_system_prompt = None,
            Field::JsonSchema => self.json_schema = None,
            Field::Tools => self.tools.clear(),
            Field::NoTools => self.no_tools = false,
            Field::Resume => {
                self.resume = None;
                self.set(Term::Fresh, true);
                self.set(Term::Keep, false);
            }
            Field::Images => self.images.clear(),
            Field::ExtraArgs => self.extra_args.clear(),
        }
    }

    /// The elements of a list, for `each`; empty for other fields.
    pub(super) fn list(&self, field: Field) -> &[String] {
        match field {
            Field::Tools => &self.tools,
            Field::Images => &self.images,
            Field::ExtraArgs => &self.extra_args,
            Field::Model
            | Field::Effort
            | Field::SystemPrompt
            | Field::AppendSystemPrompt
            | Field::JsonSchema
            | Field::NoTools
            | Field::Resume => &[],
        }
    }

    /// The value as text: a text as it is, everything else as JSON; nothing when it is not given.
    pub(super) fn text(&self, field: Field) -> String {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        match field {
            Field::Model => text(&self.model),
            Field::Effort => text(&self.effort),
            Field::SystemPrompt => text(&self.system_prompt),
            Field::AppendSystemPrompt => text(&self.append_system_prompt),
            Field::JsonSchema => self.json_schema.as_ref().map(Value::to_string).unwrap_or_default(),
            Field::Tools | Field::Images | Field::ExtraArgs => Value::from(self.list(field)).to_string(),
            Field::NoTools => self.no_tools.to_string(),
            Field::Resume => text(&self.resume),
        }
    }

    /// The value as JSON.
    pub(super) fn json(&self, field: Field) -> Value {
        match field {
            Field::JsonSchema => self.json_schema.clone().unwrap_or_default(),
            Field::NoTools => Value::Bool(self.no_tools),
            Field::Tools | Field::Images | Field::ExtraArgs => Value::from(self.list(field)),
            Field::Model
            | Field::Effort
            | Field::SystemPrompt
            | Field::AppendSystemPrompt
            | Field::Resume => {
                if self.has(field) {
                    Value::String(self.text(field))
                } else {
                    Value::Null
                }
            }
        }
    }
}
