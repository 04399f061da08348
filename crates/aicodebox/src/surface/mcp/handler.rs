use std::sync::Arc;

use aicodebox_engine::{engine::Engine, workspace::Workspaces};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestMethod, CallToolRequestParams, CallToolResponse, ConstString, CustomRequest,
        CustomResult, ErrorCode, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
        ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    presence::Presence,
    reply::{Refusal, Reply, result},
    tools::{self, ToolName},
};

const INSTRUCTIONS: &str = "A coding agent in a workspace of its own. run_prompt gives it a task and waits for the \
    answer; start_run, get_run and cancel_run do the same for long tasks in the background. The file tools work on \
    the agent's workspace; all paths are relative to its root.";

/// Answers the protocol: lists the tools and carries out their calls. Cheap to clone; holds no state of a client.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(super) engine: Engine,
    pub(super) workspaces: Arc<Workspaces>,
    /// Of a client that is not there by requests of its own: over when the pipe to it has ended.
    presence: Presence,
}

/// One call of a tool.
pub(super) struct Call {
    pub(super) context: RequestContext<RoleServer>,
    presence: Presence,
}

impl Call {
    /// Waits until the client has cancelled the call, or cannot receive its answer. Cancel-safe.
    pub(super) async fn given_up(&self) {
        tokio::select! {
            () = self.context.ct.cancelled() => {}
            () = self.presence.over() => {}
        }
    }
}

impl Handler {
    pub(crate) fn new(engine: Engine, workspaces: Arc<Workspaces>) -> Self {
        Self { engine, workspaces, presence: Presence::default() }
    }

    /// The same for the client at the other end of a pipe.
    pub(super) fn with_presence(self, presence: Presence) -> Self {
        Self { presence, ..self }
    }

    async fn answer(&self, tool: ToolName, arguments: JsonObject, call: Call) -> Result<Reply, Refusal> {
        match tool {
            ToolName::RunPrompt => self.run_prompt(read(arguments)?, &call).await,
            ToolName::StartRun => self.start_run(read(arguments)?).await,
            ToolName::GetRun => self.get_run(&read(arguments)?).await,
            ToolName::CancelRun => self.cancel_run(&read(arguments)?).await,
            ToolName::ListFiles => self.list_files(&read(arguments)?).await,
            ToolName::ReadFile => self.read_file(&read(arguments)?).await,
            ToolName::WriteFile => self.write_file(&read(arguments)?).await,
            ToolName::DeleteFile => self.delete_file(&read(arguments)?).await,
        }
    }
}

/// Arguments that do not fit are for the model to correct.
fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Refusal> {
    serde_json::from_value(arguments.into())
        .map_err(|error| Refusal::from(format_args!("the arguments do not fit: {error}")))
}

/// What is wrong with a call that could not be read.
fn malformed_call(params: Option<Value>) -> String {
    let params = params.unwrap_or_default();
    let wrong = match (params.get("name"), params.get("arguments")) {
        (None, _) => "params.name is missing: it names the tool".to_owned(),
        (Some(name), _) if !name.is_string() => "params.name must be a string".to_owned(),
        (_, Some(arguments)) if !(arguments.is_object() || arguments.is_null()) => {
            "params.arguments must be an object".to_owned()
        }
        _ => serde_json::from_value::<CallToolRequestParams>(params)
            .err()
            .map_or_else(|| "the call could not be read".to_owned(), |error| error.to_string()),
    };
    format!("{}: {wrong}", CallToolRequestMethod::VALUE)
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut server = Implementation::new("aicodebox", env!("CARGO_PKG_VERSION"));
        server.title = Some(format!("aicodebox ({})", self.engine.adapter().name));
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_instructions(INSTRUCTIONS);
        info.server_info = server;
        info
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all().to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().iter().find(|tool| tool.name == name).cloned()
    }

    /// Whatever is none of the protocol's requests, and those of them whose parameters do not fit: rmcp reads these
    /// as unknown methods.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method == CallToolRequestMethod::VALUE {
            return Err(ErrorData::invalid_params(malformed_call(request.params), None));
        }
        let message = format!("method not found: {}", request.method.chars().take(100).collect::<String>());
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::parse(&request.name) else {
            let name: String = request.name.chars().take(100).collect();
            return Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None));
        };
        let presence = Presence::of(&context).unwrap_or_else(|| self.presence.clone());
        let call = Call { context, presence };
        let answer = self.answer(tool, request.arguments.unwrap_or_default(), call).await;
        Ok(result(answer).into())
    }
}
