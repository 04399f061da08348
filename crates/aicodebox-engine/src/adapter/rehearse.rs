use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Adapter, Draft, FileAdapter, Host, Refusal, RunFile};
use crate::{
    process::variables,
    run::{Origin, RunRequest, SessionChoice, SessionId, ToolPolicy, Workspace},
};

/// A request, and the machine that it is planned for, as `adapter plan` reads them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rehearsal {
    request: Request,
    #[serde(default)]
    host: Machine,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    prompt: String,
    model: Option<String>,
    effort: Option<String>,
    system_prompt: Option<String>,
    append_system_prompt: Option<String>,
    json_schema: Option<Value>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    no_tools: bool,
    #[serde(default)]
    session: Session,
    #[serde(default)]
    images: Vec<PathBuf>,
    #[serde(default)]
    extra_args: Vec<String>,
    #[serde(default)]
    stream: bool,
    /// The program, for a file that names none.
    binary: Option<PathBuf>,
}

/// One of the three.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Session {
    fresh: Option<Fresh>,
    resume: Option<String>,
    #[serde(default)]
    r#continue: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fresh {
    #[serde(default)]
    keep: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Machine {
    home: PathBuf,
    tmp: PathBuf,
    root: bool,
    subscription: bool,
    env: BTreeMap<String, String>,
    /// What probing found: flags that the program knows or not.
    help: HashMap<String, bool>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            home: "$HOME".into(),
            tmp: "$TMP".into(),
            root: false,
            subscription: false,
            env: BTreeMap::new(),
            help: HashMap::new(),
        }
    }
}

/// Plans a request without looking for the program: `text` is `{"request": {…}, "host": {…}}`, the answer
/// `argv env unset files stdin notices`, or `refuse` with `field` and `why`.
///
/// # Errors
/// What is wrong with `text`.
pub fn rehearse(adapter: &FileAdapter, text: &str) -> Result<Value, serde_json::Error> {
    let Rehearsal { request, host } = serde_json::from_str(text)?;
    let binary = request.binary.clone().filter(|_| adapter.info().binary.is_none());
    let host = Host {
        home: host.home,
        tmp: host.tmp,
        env: Arc::new(variables(host.env)),
        root: host.root,
        subscription: host.subscription,
        binary,
        default_model: None,
        models: Arc::default(),
        flags: Arc::new(host.help),
    };
    Ok(match adapter.draft(&run_request(request), &host) {
        Ok(draft) => plan(draft),
        Err(Refusal { field, why, .. }) => json!({ "refuse": { "field": field, "why": why } }),
    })
}

fn run_request(request: Request) -> RunRequest {
    let workspace = Workspace { path: PathBuf::from("/"), root: true, guard: None };
    let session = match request.session {
        Session { resume: Some(id), .. } => SessionChoice::Resume(SessionId(id)),
        Session { r#continue: true, .. } => SessionChoice::Continue,
        Session { fresh, .. } => SessionChoice::Fresh { keep: fresh.unwrap_or_default().keep },
    };
    let tools = match (request.no_tools, request.tools) {
        (true, _) => ToolPolicy::None,
        (false, tools) if tools.is_empty() => ToolPolicy::All,
        (false, tools) => ToolPolicy::Only(tools),
    };
    RunRequest {
        session,
        model: request.model,
        effort: request.effort,
        system_prompt: request.system_prompt,
        append_system_prompt: request.append_system_prompt,
        json_schema: request.json_schema,
        tools,
        images: request.images,
        extra_args: request.extra_args,
        stream: request.stream,
        ..RunRequest::new(request.prompt, workspace, Origin::Cli)
    }
}

fn plan(draft: Draft) -> Value {
    let file = |file: RunFile| {
        let lifetime = if file.temporary { "temporary" } else { "only_if_absent" };
        json!({ "path": file.path, "text": file.text, lifetime: true })
    };
    let env: Map<String, Value> =
        draft.env.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
    json!({
        "argv": draft.argv,
        "env": env,
        "unset": draft.unset,
        "files": draft.files.into_iter().map(file).collect::<Vec<_>>(),
        "stdin": draft.stdin,
        "notices": draft.notices.into_iter().map(|notice| notice.message).collect::<Vec<_>>(),
    })
}
