use std::{
    borrow::Cow,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use aicodebox_engine::{
    engine::{RunHandle, WhenBusy},
    run::{AnswerCheck, RunOutcome, RunRequest, Workspace},
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{
    error::{ApiError, param},
    headers::Headers,
    images::{self, SavedImage},
    models::Models,
    request::ChatRequest,
    response::Head,
    stream::ChatStream,
    tool_check::ToolCheck,
    translate::{self, Shape},
};
use crate::{
    config::{ApiConfig, ChatAsides, ChatWorkspace},
    fetch::Fetcher,
    surface::{check, http::Api},
};

const X_RUN_ID: HeaderName = HeaderName::from_static("x-aicodebox-run-id");
const X_IGNORED: HeaderName = HeaderName::from_static("x-aicodebox-ignored");
/// A body longer than this is read off the reactor.
const LARGE_BODY: usize = 64 << 10;

/// Starts the runs that chats ask for. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Chats(Arc<Inner>);

struct Inner {
    api: Api,
    models: Models,
    fetcher: Fetcher,
    workspace: ChatWorkspace,
    asides: ChatAsides,
}

/// A chat whose run has been accepted. Dropping it cancels the run, unless the client wants it to go on.
pub(super) struct Begun {
    handle: RunHandle,
    pub(super) head: Head,
    pub(super) shape: Shape,
    /// Length of all that the agent was told.
    pub(super) prompt_bytes: usize,
    /// The run's id, and what of the request has no effect.
    pub(super) headers: HeaderMap,
}

impl Chats {
    /// `config` says where a chat works that names no workspace, and which chats are questions beside a conversation.
    pub(crate) fn new(api: Api, models: Models, fetcher: Fetcher, config: &ApiConfig) -> Self {
        let (workspace, asides) = (config.chat_workspace, config.chat_asides);
        Self(Arc::new(Inner { api, models, fetcher, workspace, asides }))
    }

    /// Which chats are questions beside the conversation, unless the caller says so.
    pub(super) fn asides(&self) -> ChatAsides {
        self.0.asides
    }

    pub(super) fn models(&self) -> &Models {
        &self.0.models
    }

    /// The longest body that is read, in bytes.
    pub(super) fn max_body(&self) -> usize {
        self.0.api.max_body()
    }

    /// What leads to the run of a chat, to its end also without its client where that is wanted.
    pub(super) async fn accept<T: Send + 'static>(
        &self,
        detach: bool,
        accepting: impl Future<Output = Result<T, ApiError>> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.0.api.engine().accept(detach, accepting).await
    }

    /// Reads a JSON body by `read`, a large one off the reactor.
    ///
    /// # Errors
    /// What `read` finds wrong; 400 for a body that is no JSON object.
    pub(super) async fn read<T: Send + 'static>(
        bytes: bytes::Bytes,
        read: impl FnOnce(serde_json::Map<String, Value>) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let large = bytes.len() > LARGE_BODY;
        let work = move || match serde_json::from_slice(&bytes) {
            Ok(Value::Object(body)) => read(body),
            Ok(_) => Err(ApiError::invalid("body", "must be a JSON object")),
            Err(error) => {
                let message = format!("the body is not valid JSON: {error}");
                Err(ApiError::new(StatusCode::BAD_REQUEST, Some("invalid_json"), message))
            }
        };
        if large { off_the_reactor(work).await } else { work() }
    }

    /// Starts the run of a chat; `prefix` begins the answer's id.
    ///
    /// # Errors
    /// 400 for what cannot be done, and what keeps the engine from accepting the run.
    pub(super) async fn begin(
        &self,
        request: &Arc<ChatRequest>,
        mut headers: Headers,
        prefix: &str,
    ) -> Result<Begun, ApiError> {
        let Inner { api, models, fetcher, .. } = &*self.0;
        if !headers.extra_args.is_empty() && !api.allow_extra_args() {
            let detail = "is not allowed on this server (AICODEBOX_ALLOW_EXTRA_ARGS=0)";
            return Err(ApiError::invalid("x-aicodebox-extra-args", detail));
        }
        let model = models.choose(&request.model)?;
        let check = check_of(request).await?;
        let temporary = translate::wants_temporary_workspace(request);
        let named = headers.workspace.take().filter(|_| !request.aside);
        let workspace = self.workspace(named, temporary).await?;
        let images = if request.images.is_empty() {
            Vec::new()
        } else {
            images::save(&request.images, &workspace, api.workspaces(), fetcher).await?
        };
        let (detach, no_tools) = (headers.detach, headers.no_tools.is_some());
        let run =
            RunRequest { detach, check, ..self.plan(request, headers, model, workspace, images).await? };
        let told = [Some(&run.prompt), run.system_prompt.as_ref(), run.append_system_prompt.as_ref()];
        let prompt_bytes = told.into_iter().flatten().map(String::len).sum();
        let started = api.engine().start(run, WhenBusy::Wait).await;
        let handle = started.map_err(|failure| {
            ApiError::of(&failure)
                .renamed(|part| (part == "response_format").then(|| request.schema_place.to_owned()))
        })?;
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let head = Head { id: format!("{prefix}{}", handle.id), created, model: request.model.clone() };
        let headers = answer_headers(&handle, request, no_tools);
        Ok(Begun { handle, head, shape: Shape::of(request), prompt_bytes, headers })
    }

    async fn workspace(&self, named: Option<String>, temporary: bool) -> Result<Workspace, ApiError> {
        let api = &self.0.api;
        let temporary = temporary || self.0.workspace == ChatWorkspace::Ephemeral;
        match (named, temporary) {
            (Some(path), _) => {
                api.workspace(path).await.map_err(|error| ApiError::invalid("x-aicodebox-workspace", error))
            }
            (None, true) => api.temporary_workspace().await.map_err(ApiError::from),
            (None, false) => Ok(api.root_workspace()),
        }
    }

    /// The run of a request. Where there are tools to be told of, or a long conversation, that is no work for the reactor.
    async fn plan(
        &self,
        request: &Arc<ChatRequest>,
        headers: Headers,
        model: Option<String>,
        workspace: Workspace,
        images: Vec<SavedImage>,
    ) -> Result<RunRequest, ApiError> {
        let engine = self.0.api.engine().clone();
        if !request.tools.callable() && request.is_short() {
            return translate::translate(request, headers, engine.adapter(), model, workspace, &images);
        }
        let request = Arc::clone(request);
        off_the_reactor(move || {
            translate::translate(&request, headers, engine.adapter(), model, workspace, &images)
        })
        .await
    }

    /// Waits for the end of a run that must end well.
    ///
    /// # Errors
    /// Its failure.
    pub(super) async fn outcome(&self, begun: &mut Begun) -> Result<Arc<RunOutcome>, ApiError> {
        let outcome = begun.handle.outcome().await.ok_or_else(lost)?;
        match ApiError::of_outcome(&outcome, self.0.api.engine().adapter()) {
            None => Ok(outcome),
            Some(error) => Err(error),
        }
    }

    /// The answer as it comes.
    pub(super) fn stream(&self, begun: Begun, options: super::request::StreamOptions) -> ChatStream {
        let Begun { handle, head, shape, prompt_bytes, headers: _ } = begun;
        ChatStream::new(self.0.api.engine().clone(), handle, &head, options, shape, prompt_bytes)
    }
}

/// What the answer has to pass.
async fn check_of(request: &Arc<ChatRequest>) -> Result<Option<Arc<dyn AnswerCheck>>, ApiError> {
    if !request.tools.callable() {
        let check = check::by_schema(request.schema.as_ref()).await;
        return check.map_err(|wrong| ApiError::invalid(request.schema_place, wrong));
    }
    let request = Arc::clone(request);
    off_the_reactor(move || {
        let check = ToolCheck::new(&request.tools, request.schema.as_ref(), request.schema_place)?;
        Ok(Some(Arc::new(check) as Arc<dyn AnswerCheck>))
    })
    .await
}

async fn off_the_reactor<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    spawn_blocking(work).await.unwrap_or_else(|error| {
        let message = format!("a fault in the gateway: {error}");
        Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, None, message))
    })
}

/// `no_tools` = the client itself asked for the agent's tools to be off or on.
fn answer_headers(handle: &RunHandle, request: &ChatRequest, no_tools: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(id) = HeaderValue::try_from(handle.id.to_string()) {
        headers.insert(X_RUN_ID, id);
    }
    let mut names: Vec<Cow<'_, str>> = request.ignored.iter().map(|name| name.as_str().into()).collect();
    // That the agent keeps its own tools beside the client's was nobody's wish.
    let dropped = handle.ignored.iter().filter(|field| **field != "no_tools" || no_tools);
    names.extend(dropped.map(|field| match *field {
        "json_schema" => request.schema_place.into(),
        field => param(field),
    }));
    if !names.is_empty()
        && let Ok(list) = HeaderValue::try_from(names.join(", "))
    {
        headers.insert(X_IGNORED, list);
    }
    headers
}

/// The engine was torn down under a run.
pub(super) fn lost() -> ApiError {
    let message = "the server went down before the run ended";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, Some("shutting_down"), message).after_begin()
}
