//! What each tool takes. The schemas that clients see are in [`super::tools`]; a test holds the two together.

use serde::Deserialize;
use serde_json::Value;

/// `run_prompt` and `start_run`. Here and below, a null is as good as nothing: clients send one for what a model left
/// out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunArguments {
    pub(super) prompt: String,
    pub(super) workspace: Option<String>,
    pub(super) model: Option<String>,
    pub(super) system_prompt: Option<String>,
    pub(super) append_system_prompt: Option<String>,
    pub(super) no_continue: Option<bool>,
    pub(super) resume: Option<String>,
    pub(super) thinking: Option<String>,
    /// An object; models like to send its text instead.
    pub(super) json_schema: Option<Value>,
}

/// `get_run` and `cancel_run`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunName {
    pub(super) run_id: String,
}

/// `list_files`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListArguments {
    pub(super) path: Option<String>,
}

/// `read_file` and `delete_file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileName {
    pub(super) path: String,
}

/// `write_file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteArguments {
    pub(super) path: String,
    pub(super) content: String,
}
