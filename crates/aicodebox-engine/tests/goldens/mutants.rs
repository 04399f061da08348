//! Breaks the built-in files in ways in which somebody might break them: each must turn a golden red.

#![expect(clippy::unwrap_used, reason = "a mutation that finds nothing to change has failed")]

use std::collections::HashMap;

use aicodebox_engine::adapter::{FileAdapter, builtin};
use serde_json::{Value, json};

use crate::cases::{
    adapter_of, capture, capture_differences, cases, made_differences, plan_differences, read_capture,
};

type Mutation = (&'static str, &'static str, fn(&mut Value));

fn list<'a>(file: &'a mut Value, key: &str) -> &'a mut Vec<Value> {
    file[key].as_array_mut().unwrap()
}

fn argv(file: &mut Value) -> &mut Vec<Value> {
    file["run"]["argv"].as_array_mut().unwrap()
}

fn remove(table: &mut Value, key: &str) {
    table.as_object_mut().unwrap().shift_remove(key);
}

/// The index of the first rule that matches so.
fn rule(file: &mut Value, pairs: &[(&str, &str)]) -> usize {
    let has = |rule: &Value| pairs.iter().all(|(pointer, text)| rule["match"][*pointer] == *text);
    list(file, "event").iter().position(has).unwrap()
}

fn drop_rule(file: &mut Value, pairs: &[(&str, &str)]) {
    let index = rule(file, pairs);
    list(file, "event").remove(index);
}

/// Drops the first rule that has that action.
fn drop_rule_with(file: &mut Value, action: &str) {
    let rules = list(file, "event");
    let index = rules.iter().position(|rule| rule.get(action).is_some()).unwrap();
    rules.remove(index);
}

/// Takes an action out of every rule.
fn drop_action(file: &mut Value, action: &str) {
    list(file, "event").iter_mut().for_each(|rule| remove(rule, action));
}

fn drop_class(file: &mut Value, kind: &str) {
    list(file, "class").retain(|class| class["kind"] != kind);
}

const MUTATIONS: [Mutation; 44] = [
    ("codex", "swap Reconnecting and error", |file| {
        let rules = list(file, "event");
        let last = rules.len();
        rules.swap(last - 4, last - 3);
    }),
    ("codex", "item error becomes fatal", |file| {
        for rule in list(file, "event").iter_mut().filter(|rule| rule.get("notice").is_some()) {
            rule["error"] = rule["notice"].clone();
            remove(rule, "notice");
        }
    }),
    ("codex", "no boundary before a message", |file| drop_action(file, "boundary")),
    ("codex", "usage scope run", |file| file["usage"]["scope"] = json!("run")),
    ("codex", "turn.failed deleted", |file| drop_rule(file, &[("/type", "turn.failed")])),
    ("codex", "turn.completed done auto", |file| {
        list(file, "event")
            .iter_mut()
            .filter(|rule| rule["done"] == "ok")
            .for_each(|rule| rule["done"] = json!("auto"));
    }),
    ("codex", "extract deleted", |file| remove(file, "errors")),
    ("codex", "class session_not_found deleted", |file| drop_class(file, "session_not_found")),
    ("codex", "stderr noise rule deleted", |file| remove(file, "stderr")),
    ("codex", "-- deleted", |file| argv(file).retain(|word| word != "--")),
    ("codex", "images before resume", |file| {
        let words = argv(file);
        let images = words.remove(words.len() - 3);
        words.insert(words.len() - 4, images);
    }),
    ("codex", "toml encoder dropped", |file| {
        let words = file["run"]["argv"].to_string().replace(":toml", "");
        file["run"]["argv"] = serde_json::from_str(&words).unwrap();
    }),
    ("claude", "synthetic error rule deleted", |file| drop(list(file, "event").remove(3))),
    ("claude", "result error rule after ok", |file| {
        let rules = list(file, "event");
        let last = rules.len();
        rules.swap(last - 1, last - 2);
    }),
    ("claude", "boundary at enforcement deleted", |file| drop_rule_with(file, "boundary")),
    ("claude", "structured deleted", |file| drop_action(file, "structured")),
    ("claude", "abort_on deleted", |file| remove(file, "retry")),
    ("claude", "cost from the session total", |file| file["usage"]["cost"] = json!("/total_cost_usd")),
    ("claude", "finish map deleted", |file| file["finish"] = json!({})),
    ("claude", "class session_not_found deleted", |file| drop_class(file, "session_not_found")),
    ("claude", "retry status deleted", |file| {
        let retries = list(file, "event").iter_mut().filter(|rule| rule.get("retry").is_some());
        retries.for_each(|rule| remove(&mut rule["retry"], "status"));
    }),
    ("claude", "tool failed deleted", |file| {
        let tools = list(file, "event").iter_mut().filter(|rule| rule.get("tool").is_some());
        tools.for_each(|rule| remove(&mut rule["tool"], "failed"));
    }),
    ("claude", "guard deleted", |file| remove(file, "prompt")),
    ("claude", "sub-agent rule deleted", |file| drop(list(file, "event").remove(1))),
    ("claude", "IS_SANDBOX deleted", |file| remove(&mut file["env"], "IS_SANDBOX")),
    ("pi", "role filter deleted", |file| {
        for rule in list(file, "event") {
            if rule.get("also").is_some() && rule["match"]["/type"] == "message_end" {
                remove(&mut rule["match"], "/message/role");
            }
        }
    }),
    ("pi", "usage last instead of sum", |file| file["usage"]["scope"] = json!("run")),
    ("pi", "error rule deleted", |file| drop(list(file, "event").remove(3))),
    ("pi", "agent_settled ok instead of auto", |file| {
        list(file, "event").last_mut().unwrap()["done"] = json!("ok")
    }),
    ("pi", "clear_error deleted", |file| drop_action(file, "clear_error")),
    ("pi", "extract deleted", |file| remove(file, "errors")),
    ("gemini", "tool_use and tool_result deleted", |file| {
        list(file, "event").retain(|rule| rule.get("tool").is_none());
    }),
    ("gemini", "role filter deleted", |file| {
        let index = rule(file, &[("/type", "message"), ("/role", "assistant")]);
        remove(&mut list(file, "event")[index]["match"], "/role");
    }),
    ("gemini", "error event deleted", |file| drop_rule(file, &[("/type", "error"), ("/severity", "error")])),
    ("gemini", "stderr retries deleted", |file| drop(list(file, "stderr").remove(0))),
    ("gemini", "retry cap deleted", |file| remove(&mut file["retry"], "max")),
    ("gemini", "exit classes deleted", |file| {
        list(file, "class").retain(|class| class.get("exit").is_none())
    }),
    ("gemini", "settings file deleted", |file| list(file, "file").retain(|file| file["name"] != "settings")),
    ("opencode", "boundary at step_start deleted", |file| drop_rule(file, &[("/type", "step_start")])),
    ("opencode", "usage last instead of sum", |file| file["usage"]["scope"] = json!("run")),
    ("opencode", "rejected permission rule deleted", |file| drop_rule_with(file, "error")),
    ("opencode", "finish map deleted", |file| file["finish"] = json!({})),
    ("opencode", "class ContextOverflowError deleted", |file| drop_class(file, "context")),
    ("opencode", "permission deny deleted", |file| {
        file["env"]["OPENCODE_CONFIG_CONTENT"]["json"].as_array_mut().unwrap().remove(3);
    }),
];

/// Whether a case notices the change.
fn is_noticed(name: &'static str, adapter: &FileAdapter, goldens: &[Vec<Value>; 3]) -> bool {
    let [captures, made, plans] = goldens;
    let adapters = HashMap::from([(name, adapter.clone())]);
    let of_captures = captures.iter().filter(|case| adapter_of(case) == name).any(|case| {
        let (stdout, stderr) = (capture(case, "stdout"), capture(case, "stderr"));
        let got = read_capture(adapter, case, &stdout, &stderr, |bytes| vec![bytes]);
        !capture_differences(case, &got).is_empty()
    });
    let own = |case: &&Value| case["adapter"] == name;
    of_captures
        || made.iter().filter(own).any(|case| !made_differences(case, &adapters).is_empty())
        || plans.iter().filter(own).any(|case| plan_differences(case, &adapters).is_some())
}

#[test]
fn every_likely_mistake_in_a_file_is_noticed() {
    let goldens = ["expectations.jsonl", "made.jsonl", "plans.jsonl"].map(cases);
    let mut survivors = Vec::new();
    for (name, what, mutate) in MUTATIONS {
        let whole: Value = toml::from_str(builtin(name).unwrap()).unwrap();
        let mut broken = whole.clone();
        mutate(&mut broken);
        assert_ne!(broken, whole, "{name}: {what} changes nothing");
        let text = toml::to_string(&broken).unwrap();
        let adapter = FileAdapter::load(&text, name).unwrap_or_else(|errors| panic!("{what}: {errors}"));
        if !is_noticed(name, &adapter, &goldens) {
            survivors.push(format!("{name}: {what}"));
        }
    }
    assert!(survivors.is_empty(), "nobody noticed:\n{}", survivors.join("\n"));
}

#[test]
fn a_file_that_was_only_written_anew_is_as_good_as_before() {
    let goldens = ["expectations.jsonl", "made.jsonl", "plans.jsonl"].map(cases);
    for name in ["codex", "claude", "pi", "gemini", "opencode"] {
        let whole: Value = toml::from_str(builtin(name).unwrap()).unwrap();
        let adapter = FileAdapter::load(&toml::to_string(&whole).unwrap(), name).unwrap();
        assert!(!is_noticed(name, &adapter, &goldens), "{name}");
    }
}
