//! Reads the case files, runs a case, and says how the outcome differs from what the case wants.

#![expect(clippy::unwrap_used, reason = "a case that cannot be read has failed")]

use std::{collections::HashMap, fs, path::PathBuf};

use aicodebox_engine::{
    adapter::{FileAdapter, Recording, builtin, rehearse, replay},
    run::{SessionTotals, Tokens},
};
use serde_json::{Map, Value, json};

pub(crate) const NAMES: [&str; 7] = ["demo", "text", "codex", "claude", "pi", "gemini", "opencode"];

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/adapters")
}

pub(crate) fn cases(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder().join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn load(text: &str) -> FileAdapter {
    FileAdapter::load(text, "test").unwrap_or_else(|errors| panic!("{errors}"))
}

pub(crate) fn built_in(name: &str) -> FileAdapter {
    load(builtin(name).unwrap())
}

/// The built-in adapters, by name.
pub(crate) fn builtins() -> HashMap<&'static str, FileAdapter> {
    NAMES.map(|name| (name, built_in(name))).into()
}

/// Output of a captured run; a stream that was empty has no file.
pub(crate) fn capture(case: &Value, stream: &str) -> Vec<u8> {
    let path = folder().join(format!("{}.{stream}", case["capture"].as_str().unwrap()));
    fs::read(path).unwrap_or_default()
}

pub(crate) fn adapter_of(capture: &Value) -> &str {
    capture["capture"].as_str().unwrap().split('/').nth(1).unwrap()
}

/// Reads a captured run, its output cut by `cut`.
pub(crate) fn read_capture<'a>(
    adapter: &FileAdapter,
    case: &Value,
    stdout: &'a [u8],
    stderr: &'a [u8],
    cut: impl Fn(&'a [u8]) -> Vec<&'a [u8]>,
) -> Value {
    let input = &case["input"];
    let flag = |key: &str| input[key].as_bool().unwrap_or_default();
    replay(
        adapter,
        &Recording {
            stdout: &cut(stdout),
            stderr: &cut(stderr),
            exit: input["exit"].as_i64().unwrap().try_into().unwrap(),
            stopped: flag("stopped"),
            json_schema: flag("json_schema").then(|| json!({ "type": "object" })),
            resumes: flag("resume"),
            baseline: input.get("baseline").map(totals),
        },
    )
}

pub(crate) fn totals(words: &Value) -> SessionTotals {
    let tokens =
        Tokens { input: words["input"].as_u64(), output: words["output"].as_u64(), ..Tokens::default() };
    SessionTotals { native: Value::Null, tokens }
}

/// The numbers that are not zero, rounded so that sums of fractions compare.
fn slim(usage: &Value) -> Map<String, Value> {
    let empty = Map::new();
    let numbers = usage.as_object().unwrap_or(&empty).iter();
    let rounded = numbers.map(|(key, value)| (key.clone(), (value.as_f64().unwrap() * 1e9).round() / 1e9));
    rounded.filter(|(_, number)| *number != 0.0).map(|(key, number)| (key, json!(number))).collect()
}

fn names_and_verdicts(tools: &Value) -> Value {
    tools.as_array().unwrap().iter().map(|tool| json!([tool["name"], tool["ok"]])).collect()
}

/// How the outcome of a captured run differs from what is expected.
pub(crate) fn capture_differences(case: &Value, got: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut compare = |key: &str, got: &Value, want: &Value| {
        if got != want {
            wrong.push(format!("{key}: got {got}, want {want}"));
        }
    };
    for key in ["text", "session", "kind", "verdict", "finish", "retries"] {
        compare(key, &got[key], &case[key]);
    }
    compare("tools", &names_and_verdicts(&got["tools"]), &case["tools"]);
    compare("thinking", &got["thinking"], case.get("thinking").unwrap_or(&json!("")));
    compare("notices", &json!(got["notices"].as_array().unwrap().len()), &case["notices"]);
    if let Some(message) = case.get("message") {
        compare("message", &got["message"], message);
    }
    let (used, wanted) = (slim(&got["usage"]), slim(&case["usage"]));
    let unwanted = wanted.is_empty() && (used.contains_key("input") || used.contains_key("output"));
    if unwanted || wanted.iter().any(|(key, number)| used.get(key) != Some(number)) {
        wrong.push(format!("usage: got {used:?}, want {wanted:?}"));
    }
    let part = case.get("message_has").and_then(Value::as_str).unwrap_or_default();
    if !got["message"].as_str().unwrap_or_default().contains(part) {
        wrong.push(format!("message: got {}, which does not have '{part}'", got["message"]));
    }
    wrong
}

/// Reads a hand-made run; a case may bring an adapter of its own.
pub(crate) fn made_differences(case: &Value, builtins: &HashMap<&str, FileAdapter>) -> Vec<String> {
    let own = case.get("toml").map(|toml| load(toml.as_str().unwrap()));
    let adapter = own.as_ref().unwrap_or_else(|| &builtins[case["adapter"].as_str().unwrap()]);
    let request = case.get("request").cloned().unwrap_or_default();
    let got = replay(
        adapter,
        &Recording {
            stdout: &[case["stdout"].as_str().unwrap().as_bytes()],
            stderr: &[case["stderr"].as_str().unwrap().as_bytes()],
            exit: case["exit"].as_i64().unwrap().try_into().unwrap(),
            stopped: case.get("stopped").is_some_and(|stopped| stopped == true),
            json_schema: request.get("json_schema").cloned(),
            resumes: request.pointer("/session/resume").is_some(),
            baseline: None,
        },
    );
    let mut wrong = Vec::new();
    for (key, want) in case["want"].as_object().unwrap() {
        let got = match key.as_str() {
            "tools" => names_and_verdicts(&got["tools"]),
            "tool_io" => {
                let tools = got["tools"].as_array().unwrap().iter();
                tools.map(|tool| json!([tool["input"], tool["output"]])).collect()
            }
            "usage" => Some(slim(&got["usage"]))
                .filter(|usage| !usage.is_empty())
                .map(Value::Object)
                .unwrap_or_default(),
            _ => got[key].clone(),
        };
        let want = if key == "usage" && want.is_object() { Value::Object(slim(want)) } else { want.clone() };
        if got != want {
            wrong.push(format!("{key}: got {got}, want {want}"));
        }
    }
    wrong
}

/// `{"repeat": n}` stands for n times `x`, in both directions.
fn unpack(request: &Value) -> Value {
    let entries = request.as_object().unwrap().iter().map(|(key, value)| {
        let repeat = value.get("repeat").and_then(Value::as_u64);
        let value =
            repeat.map_or_else(|| value.clone(), |times| json!("x".repeat(times.try_into().unwrap())));
        (key.clone(), value)
    });
    Value::Object(entries.collect())
}

fn pack(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() > 5000 && text.bytes().all(|byte| byte == b'x') => {
            json!({ "repeat": text.len() })
        }
        Value::Object(map) => Value::Object(map.into_iter().map(|(key, value)| (key, pack(value))).collect()),
        Value::Array(items) => items.into_iter().map(pack).collect(),
        other => other,
    }
}

/// Plans a request; a case may bring an adapter of its own.
pub(crate) fn plan_differences(case: &Value, builtins: &HashMap<&str, FileAdapter>) -> Option<String> {
    let own = case.get("toml").map(|toml| load(toml.as_str().unwrap()));
    let adapter = own.as_ref().unwrap_or_else(|| &builtins[case["adapter"].as_str().unwrap()]);
    let host = case.get("host").cloned().unwrap_or_else(|| json!({}));
    let text = json!({ "request": unpack(&case["request"]), "host": host }).to_string();
    let got = pack(rehearse(adapter, &text).unwrap());
    (got != case["plan"]).then(|| format!("got {got}, want {}", case["plan"]))
}
