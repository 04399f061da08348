/// A part of the request that an agent may have a way for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Model,
    Effort,
    SystemPrompt,
    AppendSystemPrompt,
    JsonSchema,
    Tools,
    NoTools,
    Resume,
    Images,
    ExtraArgs,
}

/// The name of the temporary file of `{prompt.file}`.
pub(super) const PROMPT_FILE: &str = "prompt.txt";

impl Field {
    /// All, in the order in which they are checked and put before the prompt.
    pub(super) const ALL: [Self; 10] = [
        Self::Model,
        Self::Effort,
        Self::SystemPrompt,
        Self::AppendSystemPrompt,
        Self::JsonSchema,
        Self::Tools,
        Self::NoTools,
        Self::Resume,
        Self::Images,
        Self::ExtraArgs,
    ];

    /// Its name in requests and in adapter files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Effort => "effort",
            Self::SystemPrompt => "system_prompt",
            Self::AppendSystemPrompt => "append_system_prompt",
            Self::JsonSchema => "json_schema",
            Self::Tools => "tools",
            Self::NoTools => "no_tools",
            Self::Resume => "resume",
            Self::Images => "images",
            Self::ExtraArgs => "extra_args",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }

    /// Whether it has several values, which `each` goes through.
    pub(super) fn is_list(self) -> bool {
        match self {
            Self::Tools | Self::Images | Self::ExtraArgs => true,
            Self::Model
            | Self::Effort
            | Self::SystemPrompt
            | Self::AppendSystemPrompt
            | Self::JsonSchema
            | Self::NoTools
            | Self::Resume => false,
        }
    }

    /// What stands around its text when it is put before the prompt; `None` = it cannot be.
    pub(super) fn prefix(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::SystemPrompt | Self::AppendSystemPrompt => {
                Some(("<instructions>\n", "\n</instructions>\n\n"))
            }
            Self::JsonSchema => {
                Some(("Answer with nothing but JSON that is valid against this JSON Schema:\n", "\n\n"))
            }
            Self::Model
            | Self::Effort
            | Self::Tools
            | Self::NoTools
            | Self::Resume
            | Self::Images
            | Self::ExtraArgs => None,
        }
    }

    /// The name of the temporary file that `.file` writes.
    pub(super) fn file_name(self) -> String {
        format!("{}.{}", self.name(), if self == Self::JsonSchema { "json" } else { "txt" })
    }

    pub(super) fn bit(self) -> u32 {
        1 << self as u32
    }
}
