use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use super::{
    super::{
        contract::{
            Adapter, AdapterInfo, Capabilities, Capability, Host, OutputReader, Plan, PlanError,
            ReaderContext, WHOLE_REQUEST,
        },
        file::MAX_ARGV_AND_ENV,
        filling::MAX_WORD,
        model::without_provider,
        program,
    },
    bridge::{Ask, Bridge, CallError},
    request::{fields, is_streamed},
    stream::StreamReader,
    whole::WholeReader,
    wire::{Planned, Ready, What},
};
use crate::{
    BoxFuture,
    process::{Launch, Stdin, StopPlan, Variables, variables},
    run::{Origin, RunRequest},
};

/// The longest wait for `validate`, `build_argv` and `build_env`.
const LIMIT: Duration = Duration::from_secs(10);

/// An adapter that is a Python class.
pub struct PythonAdapter {
    info: AdapterInfo,
    bridge: Arc<Bridge>,
}

/// A run in the bridge; dropped, the bridge forgets it.
pub(super) struct Run {
    pub(super) bridge: Arc<Bridge>,
    pub(super) number: u64,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.bridge.close(self.number);
    }
}

impl PythonAdapter {
    pub(super) fn new(ready: Ready, bridge: Bridge) -> Self {
        let info = AdapterInfo {
            name: ready.name,
            binary: Some(ready.binary).filter(|binary| !binary.is_empty()),
            tested: None,
            models: ready.models,
            default_model: None,
            efforts: ready.efforts,
            keeps_prefix: false,
            capabilities: capabilities(),
            // Nobody can tell before a run; as in the original a run has its workspace to itself.
            has_sessions: true,
            metered: Vec::new(),
            auth_hint: None,
            state_paths: ready.auth_paths,
        };
        Self { info, bridge: Arc::new(bridge) }
    }

    /// The model that the class is told. As in the original, that of a chat comes without its provider, and every other
    /// as it was asked for.
    fn model<'a>(&self, request: &'a RunRequest, host: &'a Host) -> Option<&'a str> {
        let asked = request.model.as_deref().or(host.default_model.as_deref())?;
        let listed = if host.models.is_empty() { &self.info.models } else { &*host.models };
        Some(match request.origin {
            Origin::OpenAi => without_provider(asked, listed),
            Origin::Api | Origin::Mcp | Origin::Telegram { .. } | Origin::Cron { .. } | Origin::Cli => asked,
        })
    }

    async fn ask_plan(&self, request: &RunRequest, host: &Host) -> Result<Plan, PlanError> {
        if !request.images.is_empty() {
            let message = "a Python adapter has no way for images".to_owned();
            return Err(PlanError::Refused { field: "images", message });
        }
        let fields = fields(request, self.model(request, host));
        let run = self.bridge.new_run();
        let ask = Ask { what: What::Plan, run, request: &fields, lines: None, stdout: None, limit: LIMIT };
        let planned = match self.bridge.ask::<Planned>(ask).await {
            Ok(planned) => planned,
            Err(CallError::Refused(message)) => {
                return Err(PlanError::Refused { field: WHOLE_REQUEST, message });
            }
            Err(CallError::Failed(why)) => {
                return Err(PlanError::Adapter(format!("the Python adapter failed: {why}")));
            }
        };
        let launch = launch(request, host, planned).inspect_err(|_| self.bridge.close(run))?;
        // The bridge keeps the request until this attempt's reader is dropped.
        let ticket = Some(run);
        Ok(Plan { launch, files: Vec::new(), notices: Vec::new(), ignored: Vec::new(), quiet: None, ticket })
    }
}

impl Adapter for PythonAdapter {
    fn info(&self) -> &AdapterInfo {
        &self.info
    }

    fn plan<'a>(&'a self, request: &'a RunRequest, host: &'a Host) -> BoxFuture<'a, Result<Plan, PlanError>> {
        Box::pin(self.ask_plan(request, host))
    }

    fn program(&self, host: &Host) -> Result<PathBuf, PlanError> {
        // A class without `binary` says only in `build_argv` what it starts: no more than Python can be looked for.
        program::find(self.info.binary.as_deref().or(Some("python3")), host)
    }

    fn reader(&self, context: ReaderContext<'_>) -> Box<dyn OutputReader> {
        let number = context.ticket.unwrap_or_else(|| self.bridge.new_run());
        let run = Run { bridge: self.bridge.clone(), number };
        // The plan's request object is used; these fields are for a bridge that was replaced since.
        let fields = fields(context.request, context.request.model.as_deref());
        if is_streamed(context.request) {
            Box::new(StreamReader::new(run, fields, context.events))
        } else {
            Box::new(WholeReader::new(run, fields, context.events))
        }
    }
}

/// What the interface has a field for. What the class makes of it, it says in `validate`.
fn capabilities() -> Capabilities {
    let fields =
        ["model", "effort", "system_prompt", "append_system_prompt", "json_schema", "tools", "no_tools"]
            .into_iter()
            .chain(["resume", "extra_args"])
            .map(|field| (field, Capability::Flag))
            .chain([("images", Capability::Refuse)])
            .collect();
    Capabilities {
        fields,
        streaming: true,
        sessions: true,
        tool_events: false,
        usage: true,
        structured: false,
    }
}

fn launch(request: &RunRequest, host: &Host, planned: Planned) -> Result<Launch, PlanError> {
    let mut env = (*host.env).clone();
    for name in planned.unset {
        env.remove(OsStr::new(&name));
    }
    env.extend(variables(planned.set));
    let cwd = request.workspace.path.clone();
    let mut args: Vec<OsString> = planned.argv.into_iter().map(OsString::from).collect();
    let first = args.first_mut().ok_or_else(|| PlanError::Adapter("build_argv gave no words".to_owned()))?;
    if let Some(binary) = &host.binary {
        *first = binary.clone().into();
    }
    // As `execvp` with the new environment does: a name with a slash goes from the working directory.
    let name = if first.as_bytes().contains(&b'/') { cwd.join(&*first) } else { PathBuf::from(&*first) };
    let program = program::locate(&name, env.get(OsStr::new("PATH")).map(AsRef::as_ref))?;
    check(&args, &env, request)?;
    Ok(Launch {
        program,
        args,
        env,
        cwd,
        stdin: Stdin::Bytes(request.prompt.clone().into_bytes()),
        stop: StopPlan::default(),
        rlimits: Vec::new(),
        no_new_privs: false,
    })
}

/// Refuses what no kernel takes, and names the field that is in it.
fn check(args: &[OsString], env: &Variables, request: &RunRequest) -> Result<(), PlanError> {
    if args.iter().any(|word| word.as_bytes().contains(&0)) {
        let message = "a word of the command line holds a NUL byte".to_owned();
        return Err(PlanError::Refused { field: longest(args, request), message });
    }
    if let Some(word) = args.iter().find(|word| word.len() > MAX_WORD) {
        let message = format!(
            "the adapter makes it an argument of {} bytes, at most {MAX_WORD} can be passed",
            word.len()
        );
        return Err(PlanError::TooLong { field: longest(std::slice::from_ref(word), request), message });
    }
    let words = args.iter().map(|word| word.len() + 1);
    let variables = env.iter().map(|(name, value)| name.len() + value.len() + 2);
    let bytes: usize = words.chain(variables).sum();
    if bytes > MAX_ARGV_AND_ENV {
        let message = format!("arguments and environment have {bytes} bytes, at most {MAX_ARGV_AND_ENV}");
        return Err(PlanError::TooLong { field: longest(args, request), message });
    }
    Ok(())
}

/// The longest of the request's texts that is in these words.
fn longest(args: &[OsString], request: &RunRequest) -> &'static str {
    let fields = [
        ("prompt", Some(&request.prompt)),
        ("system_prompt", request.system_prompt.as_ref()),
        ("append_system_prompt", request.append_system_prompt.as_ref()),
    ];
    let is_in = |text: &str| args.iter().any(|word| word.to_string_lossy().contains(text));
    let lengths = fields.into_iter().filter_map(|(name, text)| Some((text?, name)));
    let found = lengths.filter(|(text, _)| !text.is_empty() && is_in(text));
    found.max_by_key(|(text, _)| text.len()).map_or(WHOLE_REQUEST, |(_, name)| name)
}
