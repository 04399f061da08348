use std::time::Duration;

use aicodebox_engine::run::{Origin, RunRequest, SessionChoice, SessionId, ToolPolicy};
use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::{Number, Value};

use super::{Api, Problem};
use crate::surface::run_answer::Shape;

/// Longest limit that a caller may set.
const MAX_LIMIT: Duration = Duration::from_secs(30 * 86_400);

/// The body of `POST /run`. Names it does not know are ignored, as the original did.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RunBody {
    prompt: Option<String>,
    workspace: Option<String>,
    model: Option<String>,
    #[serde(alias = "system_prompt")]
    system_prompt: Option<String>,
    #[serde(alias = "append_system_prompt")]
    append_system_prompt: Option<String>,
    #[serde(alias = "json_schema")]
    json_schema: Option<Value>,
    #[serde(alias = "output_format")]
    output_format: Option<OutputFormat>,
    #[serde(alias = "event_mode")]
    event_mode: Option<EventMode>,
    #[serde(alias = "no_continue")]
    no_continue: Option<bool>,
    resume: Option<String>,
    r#async: Option<bool>,
    #[serde(alias = "fire_and_forget")]
    fire_and_forget: Option<bool>,
    #[serde(alias = "timeout_seconds")]
    timeout_seconds: Option<Number>,
    #[serde(alias = "idle_timeout_seconds")]
    idle_timeout_seconds: Option<Number>,
    thinking: Option<String>,
    #[serde(alias = "tools_allowlist")]
    tools_allowlist: Option<Vec<String>>,
    #[serde(alias = "no_tools")]
    no_tools: Option<bool>,
    #[serde(alias = "extra_args")]
    extra_args: Option<Vec<String>>,
    #[serde(alias = "include_raw")]
    include_raw: Option<bool>,
    ephemeral: Option<bool>,
    images: Option<Vec<String>>,
    detach: Option<bool>,
    #[serde(alias = "callback_url")]
    callback_url: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OutputFormat {
    Text,
    Json,
    JsonVerbose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum EventMode {
    Auto,
    None,
    Full,
}

/// A body, read and checked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: RunRequest,
    pub(crate) shape: Shape,
    /// Answer at once, without waiting for the end.
    pub(crate) at_once: bool,
    pub(crate) fire_and_forget: bool,
    /// Let the run go on when the client leaves.
    pub(crate) detach: bool,
}

impl RunBody {
    /// Checks everything and finds the workspace.
    ///
    /// # Errors
    /// 400 for a path, 422 for any other field.
    pub(crate) async fn into_asked(self, api: &Api, headers: &HeaderMap) -> Result<Asked, Problem> {
        self.refuse_what_is_missing(headers)?;
        let prompt = match self.prompt {
            Some(prompt) if !prompt.trim().is_empty() => prompt,
            Some(_) => return Err(Problem::unprocessable("prompt", "must not be empty")),
            None => return Err(Problem::unprocessable("prompt", "is required")),
        };
        let extra_args = self.extra_args.unwrap_or_default();
        if !extra_args.is_empty() && !api.allow_extra_args() {
            let detail = "are not allowed on this server (AICODEBOX_ALLOW_EXTRA_ARGS=0)";
            return Err(Problem::unprocessable("extraArgs", detail));
        }
        let deadline = limit("timeoutSeconds", self.timeout_seconds.as_ref())?;
        let idle = limit("idleTimeoutSeconds", self.idle_timeout_seconds.as_ref())?;
        let tools = match (self.no_tools.unwrap_or_default(), self.tools_allowlist.unwrap_or_default()) {
            (true, _) => ToolPolicy::None,
            (false, names) if names.is_empty() => ToolPolicy::All,
            (false, names) => ToolPolicy::Only(names),
        };
        let session = match given(self.resume) {
            Some(id) => SessionChoice::Resume(SessionId(id)),
            None if self.no_continue.unwrap_or_default() => SessionChoice::Fresh { keep: false },
            None => SessionChoice::Continue,
        };
        let schema = self.json_schema.is_some();
        let verbose = schema || self.output_format == Some(OutputFormat::JsonVerbose);
        let shape = Shape {
            verbose,
            schema,
            events: match self.event_mode.unwrap_or(EventMode::Auto) {
                EventMode::Auto => verbose,
                EventMode::None => false,
                EventMode::Full => true,
            },
            raw: self.include_raw.unwrap_or_default(),
        };
        let workspace = match (given(self.workspace), self.ephemeral.unwrap_or_default()) {
            (Some(_), true) => {
                return Err(Problem::unprocessable("ephemeral", "cannot be combined with workspace"));
            }
            (None, true) => api.temporary_workspace().await?,
            (None, false) => api.root_workspace(),
            (Some(path), false) => api.workspace(path).await?,
        };
        let images = api.images(&workspace, self.images.unwrap_or_default()).await?;
        let fire_and_forget = self.fire_and_forget.unwrap_or_default();
        Ok(Asked {
            shape,
            at_once: self.r#async.unwrap_or_default() || fire_and_forget,
            fire_and_forget,
            detach: self.detach.unwrap_or_default(),
            request: RunRequest {
                session,
                model: given(self.model),
                effort: given(self.thinking),
                system_prompt: given(self.system_prompt),
                append_system_prompt: given(self.append_system_prompt),
                json_schema: self.json_schema,
                tools,
                images,
                extra_args,
                deadline,
                idle,
                natives: shape.events,
                note: shape.to_note(),
                ..RunRequest::new(prompt, workspace, Origin::Api)
            },
        })
    }

    /// What this version cannot do must not be passed over in silence.
    fn refuse_what_is_missing(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let asked = [
            ("callbackUrl", self.callback_url.is_some()),
            ("Idempotency-Key", headers.contains_key("idempotency-key")),
        ];
        match asked.into_iter().find(|(_, asked)| *asked) {
            Some((name, _)) => Err(Problem::unprocessable(name, "is not supported by this version")),
            None => Ok(()),
        }
    }
}

/// An empty text is as good as none.
fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn limit(field: &str, seconds: Option<&Number>) -> Result<Option<Duration>, Problem> {
    let Some(seconds) = seconds else { return Ok(None) };
    let limit = seconds.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    limit.filter(|limit| !limit.is_zero() && *limit <= MAX_LIMIT).map(Some).ok_or_else(|| {
        let most = MAX_LIMIT.as_secs();
        Problem::unprocessable(field, format_args!("must be more than 0 and at most {most}"))
    })
}
