use std::time::Duration;

use aicodebox_engine::{
    run::{Origin, RunRequest, SessionChoice, SessionId, ToolPolicy},
    workspace::FileError,
};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Number, Value};
use utoipa::{
    ToSchema,
    openapi::{
        Object, Schema,
        schema::{SchemaType, Type},
    },
};

use super::{Api, Problem};
use crate::surface::{body::given, check, run_answer::Shape};

/// Longest limit that a caller may set.
const MAX_LIMIT: Duration = Duration::from_secs(30 * 86_400);

/// The body of `POST /run`. Names it does not know are ignored, as the original did; every name may also be written
/// in snake_case.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunBody {
    /// The task; more than white space.
    #[schema(
        required, nullable = false, value_type = String,
        pattern = r"[^\t-\r \u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]",
    )]
    prompt: Option<String>,
    /// Where to work: a path below the workspace root, which is made if it is missing. Without one, the root.
    #[schema(pattern = r"^(?!/)(?!([\s\S]*/)?\.\.(/|(?![\s\S])))[^\x00]*$")]
    workspace: Option<String>,
    /// Which model.
    model: Option<String>,
    /// Replaces the agent's own system prompt.
    #[serde(alias = "system_prompt")]
    system_prompt: Option<String>,
    /// Is added to it.
    #[serde(alias = "append_system_prompt")]
    append_system_prompt: Option<String>,
    /// JSON Schema that the answer has to meet, an object or a boolean; the agent is asked again at most three times.
    #[serde(alias = "json_schema")]
    #[schema(schema_with = json_schema)]
    json_schema: Option<Value>,
    /// `json-verbose` adds session, usage and tokens to the answer.
    #[serde(alias = "output_format")]
    output_format: Option<OutputFormat>,
    /// Whether the provider's records are part of the answer; `auto` = with a schema or `json-verbose`.
    #[serde(alias = "event_mode")]
    event_mode: Option<EventMode>,
    /// Begin a new conversation instead of going on with the last one of this workspace.
    #[serde(alias = "no_continue")]
    no_continue: Option<bool>,
    /// The conversation to go on with.
    resume: Option<String>,
    /// Answer at once.
    r#async: Option<bool>,
    /// The same.
    #[serde(alias = "fire_and_forget")]
    fire_and_forget: Option<bool>,
    /// Limit of the whole run; more than 0, at most 30 days.
    #[serde(alias = "timeout_seconds")]
    #[schema(value_type = Option<f64>, exclusive_minimum = 0, maximum = 2_592_000)]
    timeout_seconds: Option<Number>,
    /// Limit of the agent's silence; the same bounds.
    #[serde(alias = "idle_timeout_seconds")]
    #[schema(value_type = Option<f64>, exclusive_minimum = 0, maximum = 2_592_000)]
    idle_timeout_seconds: Option<Number>,
    /// How hard to think, in the agent's words.
    thinking: Option<String>,
    /// Only these tools; an empty list is as good as `noTools`.
    #[serde(alias = "tools_allowlist")]
    tools_allowlist: Option<Vec<String>>,
    /// No tools at all.
    #[serde(alias = "no_tools")]
    no_tools: Option<bool>,
    /// More words for the agent's command line.
    #[serde(alias = "extra_args")]
    extra_args: Option<Vec<String>>,
    /// Add what the agent wrote to both streams.
    #[serde(alias = "include_raw")]
    include_raw: Option<bool>,
    /// A temporary workspace of its own; not with `workspace`.
    ephemeral: Option<bool>,
    /// Paths of image files in the workspace.
    images: Option<Vec<String>>,
    /// Go on when the client leaves.
    detach: Option<bool>,
    /// Where the record is sent when the run is over, signed; needs `AICODEBOX_CALLBACK_SECRET` on the server.
    #[serde(alias = "callback_url")]
    callback_url: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OutputFormat {
    Text,
    Json,
    JsonVerbose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EventMode {
    Auto,
    None,
    Full,
}

/// A body, read and checked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: RunRequest,
    pub(crate) shape: Shape,
}

impl RunBody {
    pub(crate) fn fire_and_forget(&self) -> bool {
        self.fire_and_forget.unwrap_or_default()
    }

    /// Whether to answer without waiting for the end.
    pub(crate) fn at_once(&self) -> bool {
        self.r#async.unwrap_or_default() || self.fire_and_forget()
    }

    /// Whether the run goes on when the client leaves.
    pub(crate) fn detach(&self) -> bool {
        self.at_once() || self.detach.unwrap_or_default()
    }

    /// Checks everything and finds the workspace.
    ///
    /// # Errors
    /// 400 for a path, 422 for any other field.
    pub(crate) async fn into_asked(self, api: &Api) -> Result<Asked, Problem> {
        let detach = self.detach();
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
        let callback = given(self.callback_url);
        if let Some(url) = &callback {
            api.callback(url)?;
        }
        let deadline = limit("timeoutSeconds", self.timeout_seconds.as_ref())?;
        let idle = limit("idleTimeoutSeconds", self.idle_timeout_seconds.as_ref())?;
        let tools = match (self.no_tools.unwrap_or_default(), self.tools_allowlist) {
            (true, _) => ToolPolicy::None,
            (false, None) => ToolPolicy::All,
            (false, Some(names)) if names.is_empty() => ToolPolicy::None,
            (false, Some(names)) => ToolPolicy::Only(names),
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
        let check = check::by_schema(self.json_schema.as_ref()).await;
        let check = check.map_err(|wrong| Problem::unprocessable("jsonSchema", wrong))?;
        let images = self.images.unwrap_or_default();
        let workspace = match (given(self.workspace), self.ephemeral.unwrap_or_default()) {
            (Some(_), true) => {
                return Err(Problem::unprocessable("ephemeral", "cannot be combined with workspace"));
            }
            (None, true) => api.temporary_workspace().await?,
            (None, false) => api.root_workspace(),
            (Some(path), false) => {
                // Not made for images that cannot be in it.
                if !images.is_empty() && matches!(api.files().find(&path).await, Err(FileError::NotFound(_)))
                {
                    return Err(Api::no_image(0));
                }
                let found = api.workspace(path).await;
                found.map_err(|error| Problem::field(StatusCode::BAD_REQUEST, "workspace", error))?
            }
        };
        let images = api.images(&workspace, images).await?;
        Ok(Asked {
            shape,
            request: RunRequest {
                session,
                model: given(self.model),
                effort: given(self.thinking),
                system_prompt: given(self.system_prompt),
                append_system_prompt: given(self.append_system_prompt),
                json_schema: self.json_schema,
                check,
                tools,
                images,
                extra_args,
                deadline,
                idle,
                natives: shape.events,
                detach,
                callback,
                note: shape.to_note(),
                ..RunRequest::new(prompt, workspace, Origin::Api)
            },
        })
    }
}

/// A boolean is a JSON Schema too: `true` takes any JSON, and `false` none.
fn json_schema() -> Schema {
    let types = [Type::Object, Type::Boolean, Type::Null];
    Object::builder().schema_type(SchemaType::from_iter(types)).into()
}

fn limit(field: &str, seconds: Option<&Number>) -> Result<Option<Duration>, Problem> {
    let Some(seconds) = seconds else { return Ok(None) };
    let seconds = seconds.as_f64().filter(|seconds| *seconds > 0.0);
    let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    limit.filter(|limit| *limit <= MAX_LIMIT).map(Some).ok_or_else(|| {
        let most = MAX_LIMIT.as_secs();
        Problem::unprocessable(field, format_args!("must be more than 0 and at most {most}"))
    })
}
