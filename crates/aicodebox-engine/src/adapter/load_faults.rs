use regex::Regex;

use super::{
    fault::{Class, Fault},
    node::{Node, Table},
    pattern,
    spec::{Retry, StderrMeaning, StderrRule},
};

/// A list of exit codes.
pub(super) fn codes(node: &Node<'_>) -> Vec<i32> {
    let code = |node: &Node<'_>| {
        let code = i32::try_from(node.integer()?).ok();
        if code.is_none() {
            node.error("no program ends with this code");
        }
        code
    };
    node.list().unwrap_or_default().iter().filter_map(code).collect()
}

fn integers(node: &Node<'_>) -> Vec<i64> {
    node.list().unwrap_or_default().iter().filter_map(Node::integer).collect()
}

/// Reads a kind; what is wrong with it is said of `place`.
pub(super) fn kind(node: &Node<'_>, place: &str) -> Option<Fault> {
    let name = node.text()?;
    let fault = Fault::from_name(name);
    if fault.is_none() {
        let known = Fault::ALL.map(Fault::name).join(", ");
        node.clone().called(place).error(format_args!("unknown kind '{name}'; known: {known}"));
    }
    fault
}

/// `[[stderr]]`.
pub(super) fn stderr(top: &Table<'_>) -> Vec<StderrRule> {
    let rule = |node: &Node<'_>| {
        let table = node.table(&["as", "find", "kind"])?;
        let means = match table.get("as").and_then(|node| node.as_text()) {
            Some("retry") => Some(StderrMeaning::Retry),
            Some("notice") => Some(StderrMeaning::Notice),
            Some("error") => Some(StderrMeaning::Error),
            Some("ignore") => Some(StderrMeaning::Ignore),
            _ => {
                node.error("as is retry, notice, error or ignore");
                None
            }
        };
        let kind = table.get("kind").and_then(|kind| self::kind(&kind, &node.place));
        let Some(find) = table.get("find") else {
            node.error("'find' is missing");
            return None;
        };
        let find = pattern::parse(&find.called(&node.place)).inspect(|find| {
            known_groups(node, find, &["message", "status", "retry_after"]);
        });
        find.zip(means).map(|(find, means)| StderrRule { find, means, kind })
    };
    top.tables("stderr").iter().filter_map(rule).collect()
}

/// A group with another name would be lost without a word.
fn known_groups(node: &Node<'_>, regex: &Regex, known: &[&str]) {
    for name in regex.capture_names().flatten().filter(|name| !known.contains(name)) {
        node.error(format_args!("unknown group '{name}'; known: {}", known.join(", ")));
    }
}

/// `[[class]]`.
pub(super) fn classes(top: &Table<'_>) -> Vec<Class> {
    let class = |node: &Node<'_>| {
        let table = node.table(&["code", "exit", "kind", "status", "stderr", "text"])?;
        let regex = |key: &str| table.get(key).and_then(|regex| pattern::parse(&regex.called(&node.place)));
        let kind = match table.get("kind") {
            Some(kind) => self::kind(&kind, &node.place),
            None => {
                node.error("'kind' is missing");
                None
            }
        };
        if table.entries().count() < 2 {
            node.error("needs one of status, code, text, exit, stderr");
        }
        let class = Class {
            kind: kind.unwrap_or(Fault::Internal),
            status: table.get("status").map(|node| integers(&node)),
            code: table.get("code").map(|node| node.texts()),
            text: regex("text"),
            exit: table.get("exit").map(|node| codes(&node)),
            stderr: regex("stderr"),
        };
        Some(class)
    };
    top.tables("class").iter().filter_map(class).collect()
}

/// `[errors] extract`.
pub(super) fn extract(top: &Table<'_>) -> Vec<Regex> {
    let nodes = top.section("errors", &["extract"]).get("extract").and_then(|node| node.list());
    let regex = |node: Node<'_>| {
        let node = node.called("[errors] extract");
        let regex = pattern::parse(&node)?;
        let known = ["status", "code", "message", "json"];
        if !regex.capture_names().flatten().any(|name| known.contains(&name)) {
            node.error(format_args!("'{regex}' has none of the groups status, code, message, json"));
        }
        known_groups(&node, &regex, &[&known[..], &["retry_after"]].concat());
        Some(regex)
    };
    nodes.unwrap_or_default().into_iter().filter_map(regex).collect()
}

/// `[retry]`.
pub(super) fn retry(top: &Table<'_>) -> Retry {
    let table = top.section("retry", &["abort_on", "max"]);
    let kinds = table.get("abort_on").and_then(|node| node.list()).unwrap_or_default();
    Retry {
        abort_on: kinds.iter().filter_map(|node| kind(node, &table.place)).collect(),
        max: table.get("max").and_then(|node| node.count()),
    }
}
