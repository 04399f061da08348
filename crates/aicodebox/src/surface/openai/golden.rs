//! Golden tests of the translation. Each file of `tests/openai` says what a client sends to which kind of agent and how
//! the run ends, and beside it lies what the agent is told and what the client gets. A file without its golden one
//! gets it written, and the test fails that once.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use aicodebox_engine::{
    adapter::{AdapterInfo, Capabilities, Capability},
    run::{Attempt, Finish, RunId, RunOutcome, RunRequest, Tokens, ToolPolicy, Usage, Verdict, Workspace},
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    chunks::Chunks,
    error::ApiError,
    headers::Headers,
    images::SavedImage,
    models::Models,
    request::ChatRequest,
    response::{Answer, Completion, Head, UsagePart},
    tool_check::ToolCheck,
    translate::{Shape, translate},
};
use crate::config::ChatAsides;

/// What a file says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// How the agent takes each field; those that are not named go by flag.
    #[serde(default)]
    agent: BTreeMap<String, String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    request: Map<String, Value>,
    /// What the agent prints; without it only the prompt is looked at.
    answer: Option<String>,
    usage: Option<TokensCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokensCase {
    input: u64,
    output: u64,
    cache_read: Option<u64>,
    reasoning: Option<u64>,
}

const FIELDS: [&str; 10] = [
    "append_system_prompt",
    "effort",
    "extra_args",
    "images",
    "json_schema",
    "model",
    "no_tools",
    "resume",
    "system_prompt",
    "tools",
];

#[test]
fn translations_are_as_they_were() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openai");
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        count += 1;
        let got = translated(serde_json::from_slice(&fs::read(&path).unwrap()).unwrap());
        let golden = path.with_extension("golden");
        match fs::read_to_string(&golden) {
            Ok(expected) if expected == got => {}
            Ok(expected) => {
                wrong.push(format!("{}\n--- expected\n{expected}\n--- got\n{got}", golden.display()));
            }
            Err(_) => {
                fs::write(&golden, got).unwrap();
                wrong.push(format!("{} was not there and has been written: read it", golden.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(count >= 12, "only {count} cases were found");
}

/// What the agent is told and what the client gets, as text.
fn translated(case: Case) -> String {
    match run_of(&case) {
        Err(error) => format!("# error\n{}\n", pretty(&serde_json::to_value(error.object()).unwrap())),
        Ok((request, run)) => {
            let mut text = told(&request, &run);
            if let Some(answer) = &case.answer {
                text.push_str(&answered(&case, &request, &run, answer));
            }
            text
        }
    }
}

fn run_of(case: &Case) -> Result<(ChatRequest, RunRequest), ApiError> {
    let sent: HeaderMap = case
        .headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
        .collect();
    let mut headers = Headers::read(&sent)?;
    let schema = headers.json_schema.take();
    let request = ChatRequest::from_object(case.request.clone(), schema, ChatAsides::Known)?;
    let agent = agent(&case.agent);
    let model = Models::new(&agent, &[], false).choose(&request.model)?;
    let images: Vec<_> = (0..request.images.len())
        .map(|index| {
            let relative = format!(".aicodebox/images/{index}.png");
            SavedImage { path: format!("/w/{relative}").into(), relative }
        })
        .collect();
    let workspace = Workspace { path: "/w".into(), root: true, guard: None };
    let mut run = translate(&request, headers, &agent, model, workspace, &images)?;
    if request.tools.callable() {
        run.check =
            Some(Arc::new(ToolCheck::new(&request.tools, request.schema.as_ref(), request.schema_place)?));
    }
    Ok((request, run))
}

fn agent(fields: &BTreeMap<String, String>) -> AdapterInfo {
    let capability = |field: &'static str| match fields.get(field).map(String::as_str) {
        None | Some("flag") => Capability::Flag,
        Some("prefix") => Capability::Prefix,
        Some("drop") => Capability::Drop,
        Some("refuse") => Capability::Refuse,
        Some(other) => panic!("unknown capability {other}"),
    };
    AdapterInfo {
        name: "agent".into(),
        models: vec!["m1".into()],
        capabilities: Capabilities {
            fields: FIELDS.into_iter().map(|field| (field, capability(field))).collect(),
            ..Capabilities::default()
        },
        ..AdapterInfo::default()
    }
}

fn told(request: &ChatRequest, run: &RunRequest) -> String {
    let mut text = String::new();
    let mut section = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            text.push_str(&format!("# {name}\n{value}\n"));
        }
    };
    section("prompt", Some(&run.prompt));
    section("to an agent that does not know the conversation", run.whole_prompt.as_deref());
    section("system prompt", run.system_prompt.as_deref());
    section("appended to the system prompt", run.append_system_prompt.as_deref());
    let mut rest = Map::new();
    let mut field = |name: &str, value: Value| {
        if !value.is_null() && value != json!([]) {
            rest.insert(name.to_owned(), value);
        }
    };
    field("model", json!(run.model));
    field("effort", json!(run.effort));
    field("session", json!(format!("{:?}", run.session)));
    field("schema", json!(run.json_schema));
    field("check", json!(run.check.as_ref().map(|check| check.instruction().to_owned())));
    field(
        "tools",
        match &run.tools {
            ToolPolicy::All => Value::Null,
            ToolPolicy::None => json!("none"),
            ToolPolicy::Only(names) => json!(names),
        },
    );
    field("images", json!(run.images));
    if run.whole_images != run.images {
        field("images of the whole conversation", json!(run.whole_images));
    }
    field("extra_args", json!(run.extra_args));
    field("seconds", json!(run.deadline.map(|limit| limit.as_secs_f64())));
    field("ignored", json!(request.ignored));
    section("and", Some(&pretty(&Value::Object(rest))));
    text
}

fn answered(case: &Case, request: &ChatRequest, run: &RunRequest, printed: &str) -> String {
    let parsed = run.check.as_ref().map(|check| check.read(printed, None));
    let parsed = match (parsed, &run.json_schema) {
        (Some(Err(wrong)), _) => return format!("# not accepted\n{wrong}\n"),
        (Some(Ok(value)), _) => Some(value),
        (None, Some(_)) => Some(serde_json::from_str(printed).unwrap()),
        (None, None) => None,
    };
    let outcome = outcome(case, printed, parsed);
    let shape = Shape::of(request);
    let mut answer = Answer::new(&outcome, shape);
    for (index, call) in answer.calls.iter_mut().enumerate() {
        assert!(call.id.starts_with("call_") && call.id.len() == 29, "{}", call.id);
        call.id = format!("call_{index}");
    }
    let usage = UsagePart::new(&outcome, run.prompt.len(), &answer);
    let head = Head { id: "chatcmpl-0".into(), created: 0, model: request.model.clone() };
    let Some(options) = request.stream else {
        let whole = serde_json::to_value(Completion::new(&head, &answer, usage, &outcome)).unwrap();
        return format!("# response\n{}\n", pretty(&whole));
    };
    let chunks = Chunks::new(&head, options.usage);
    let mut out = Vec::new();
    chunks.role(&mut out);
    chunks.answer(&mut out, &answer);
    if options.usage {
        chunks.usage(&mut out, &usage);
    }
    super::chunks::done(&mut out);
    format!("# stream\n{}", String::from_utf8(out).unwrap())
}

fn outcome(case: &Case, printed: &str, parsed: Option<Value>) -> RunOutcome {
    let usage = case.usage.as_ref().map(|counted| Usage {
        native: Value::Null,
        tokens: Tokens {
            input: Some(counted.input),
            output: Some(counted.output),
            cache_read: counted.cache_read,
            reasoning: counted.reasoning,
            ..Tokens::default()
        },
    });
    RunOutcome {
        id: RunId::random(),
        verdict: Verdict::Ok,
        text: printed.to_owned(),
        parsed,
        finish: Finish::Stop,
        session: None,
        attempts: vec![Attempt { usage: usage.clone(), exit_code: 0, parse_error: None }],
        usage,
        exit_code: 0,
        exit: None,
        took: Duration::ZERO,
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}
