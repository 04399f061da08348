use std::collections::HashMap;

use super::{
    condition::{Condition, Term},
    contract::Capability,
    field::Field,
    load_faults,
    matching::Match,
    node::{Node, Table},
    pointer::Pointer,
    rule::{self, Done, ErrorRule, FinishMap, RetryRule, Rule, ToolRule},
    source::Source,
    spec::Spec,
    usage::{Counter, UsageScope, UsageSpec},
};
use crate::run::{Finish, ToolPhase};

/// `[output] format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileFormat {
    Text,
    Jsonl,
    Json,
    Events,
}

const EVENT: [&str; 19] = [
    "also",
    "boundary",
    "clear_error",
    "delta",
    "done",
    "each",
    "error",
    "finish",
    "match",
    "message",
    "notice",
    "result",
    "retry",
    "session",
    "structured",
    "thinking",
    "tool",
    "usage",
    "when",
];

const ERROR: [&str; 4] = ["code", "kind", "message", "status"];

pub(super) fn format(output: &Table<'_>, has_rules: bool) -> Option<FileFormat> {
    let Some(node) = output.get("format") else {
        if output.is_there() {
            output.error("'format' is missing");
        }
        return None;
    };
    let (name, format) = match node.text()? {
        "text" => ("text", FileFormat::Text),
        "jsonl" => ("jsonl", FileFormat::Jsonl),
        "json" => ("json", FileFormat::Json),
        "events" => ("events", FileFormat::Events),
        other => {
            node.error(format_args!("expected text, json, jsonl or events, got '{other}'"));
            return None;
        }
    };
    let needs_rules = matches!(format, FileFormat::Json | FileFormat::Jsonl);
    if needs_rules != has_rules {
        let rules = if needs_rules { "missing" } else { "not used" };
        let place = format!("{} = \"{name}\"", node.place);
        node.called(place).error(format_args!("[[event]] rules are {rules}"));
    }
    Some(format)
}

pub(super) fn when(table: &Table<'_>) -> Condition {
    table.get("when").map(|node| Condition::parse(&node)).unwrap_or_default()
}

/// `[[event]]`, `[usage]` and `[finish]`.
pub(super) fn rules(top: &Table<'_>, spec: &mut Spec) {
    let usage = top.get("usage").map(|node| node.called("[usage]"));
    let finish = top.get("finish").map(|node| node.called("[finish]"));
    spec.usage = usage.and_then(|node| self::usage(&node));
    spec.finish = finish.and_then(|node| self::finish(&node)).unwrap_or_default();
    if spec.own_words {
        spec.rules = rule::events();
        spec.usage = Some(UsageSpec::events());
        spec.finish = FinishMap::events();
        return;
    }
    let mut seen: HashMap<String, (usize, bool)> = HashMap::new();
    let mut catches_all = None;
    for (index, node) in top.tables("event").into_iter().enumerate() {
        let number = index + 1;
        let Some(table) = node.table(&EVENT) else { continue };
        let rule = Rule { number, ..event(&table) };
        let key = ["match", "when", "each"].map(|key| table.get(key).map(|node| sorted(&node.to_json())));
        let key = format!("{key:?}");
        match (seen.get(&key), catches_all) {
            (Some((first, false)), _) => {
                node.error(format_args!("can never fire, rule {first} has the same match"));
            }
            (_, Some(first)) => node.error(format_args!("can never fire, rule {first} matches every line")),
            (Some((_, true)) | None, None) => {}
        }
        seen.entry(key).or_insert((number, rule.also));
        if rule.matches.is_empty() && rule.each.is_none() && table.get("when").is_none() && !rule.also {
            catches_all = catches_all.or(Some(number));
        }
        spec.rules.push(rule);
    }
    for (action, used) in [
        ("usage", spec.rules.iter().any(|rule| rule.usage.is_some())),
        ("finish", spec.rules.iter().any(|rule| rule.finish.is_some())),
    ] {
        if used && top.get(action).is_none() {
            top.bare_error(format!("a rule has '{action}' but there is no [{action}] section"));
        }
    }
}

/// The same value with the keys of its tables in order, for comparing.
fn sorted(value: &serde_json::Value) -> serde_json::Value {
    let mut value = value.clone();
    value.sort_all_objects();
    value
}

fn event(table: &Table<'_>) -> Rule {
    let each = table.get("each").and_then(|node| Pointer::parse(&node, node.text()?, false));
    let has_each = table.get("each").is_some();
    let source = |key: &str| table.get(key).map(|node| Source::parse(&node, has_each));
    let rule = Rule {
        number: 0,
        matches: table.get("match").map(|node| Match::parse(&node, has_each)).unwrap_or_default(),
        each,
        when: when(table),
        also: table.flag("also"),
        session: source("session"),
        boundary: table.flag("boundary"),
        thinking: source("thinking"),
        delta: source("delta"),
        message: source("message"),
        result: source("result"),
        structured: source("structured"),
        tool: table.get("tool").and_then(|node| tool_rule(&node, has_each)),
        usage: source("usage"),
        finish: source("finish"),
        notice: source("notice"),
        retry: table.get("retry").map(|node| retry_rule(&node, has_each)),
        clear_error: table.flag("clear_error"),
        error: table.get("error").map(|node| error_rule(&node, has_each, &ERROR)),
        done: table.get("done").and_then(|node| match node.text()? {
            "ok" => Some(Done::Ok),
            "error" => Some(Done::Error),
            "auto" => Some(Done::Auto),
            _ => {
                table.error("done is ok, error or auto");
                None
            }
        }),
    };
    for (name, term) in [("root", Term::Root), ("subscription", Term::Subscription)] {
        if rule.when.mentions(term) {
            table.error(format_args!("'{name}' is a condition for starting; a rule does not know it"));
        }
    }
    let has_action = table.entries().any(|(key, _)| !["match", "when", "each", "also"].contains(&key));
    if !has_action && rule.matches.is_empty() {
        table.error("neither match nor action");
    }
    rule
}

fn tool_rule(node: &Node<'_>, each: bool) -> Option<ToolRule> {
    let table = node.table(&["failed", "id", "input", "name", "output", "phase"])?;
    let source = |key: &str| table.get(key).map(|node| Source::parse(&node, each)).unwrap_or_default();
    let phase = match table.get("phase").map(|node| node.text()) {
        None | Some(Some("both")) => ToolPhase::Both,
        Some(Some("start")) => ToolPhase::Start,
        Some(Some("end")) => ToolPhase::End,
        Some(_) => {
            node.error("phase is start, end or both");
            ToolPhase::Both
        }
    };
    let failed = table.get("failed").map(|failed| Match::parse(&failed.called(&node.place), each));
    Some(ToolRule {
        phase,
        id: source("id"),
        name: source("name"),
        input: source("input"),
        output: source("output"),
        failed,
    })
}

fn retry_rule(node: &Node<'_>, each: bool) -> RetryRule {
    let error = error_rule(node, each, &["code", "kind", "max", "message", "status"]);
    let table = node.is_table().then(|| node.open_table()).flatten();
    RetryRule { error, max: table.and_then(|table| table.get("max")?.count()) }
}

fn error_rule(node: &Node<'_>, each: bool, known: &[&str]) -> ErrorRule {
    if !node.is_table() {
        return ErrorRule { message: Source::parse(node, each), ..ErrorRule::default() };
    }
    let Some(table) = node.table(known) else { return ErrorRule::default() };
    let source = |key: &str| table.get(key).map(|node| Source::parse(&node, each)).unwrap_or_default();
    ErrorRule {
        message: source("message"),
        status: source("status"),
        code: source("code"),
        kind: table.get("kind").and_then(|kind| load_faults::kind(&kind, &node.place)),
    }
}

fn usage(node: &Node<'_>) -> Option<UsageSpec> {
    let mut known: Vec<&str> = Counter::ALL.iter().map(|(name, _)| *name).collect();
    known.extend(["scope", "once_per", "input_includes_cache"]);
    known.sort_unstable();
    let table = node.table(&known)?;
    let scope = table.get("scope").and_then(|node| usage_scope(&node)).unwrap_or_default();
    let number = |(name, counter): (&str, Counter)| {
        let node = table.get(name)?;
        if !node.is_table() {
            return Some((counter, Source::parse(&node, false), scope));
        }
        let table = node.table(&["at", "scope"])?;
        let Some(at) = table.get("at") else {
            table.error("'at' is missing");
            return None;
        };
        let own = table.get("scope").and_then(|node| usage_scope(&node));
        Some((counter, Source::parse(&at, false), own.unwrap_or(scope)))
    };
    let numbers: Vec<_> = Counter::ALL.into_iter().filter_map(number).collect();
    let once_per = table.get("once_per").and_then(|node| Pointer::parse(&node, node.text()?, false));
    let includes = table.get("input_includes_cache").and_then(|node| node.boolean());
    let native = UsageSpec::common_steps(&numbers);
    Some(UsageSpec { numbers, scope, once_per, input_includes_cache: includes.unwrap_or(true), native })
}

fn usage_scope(node: &Node<'_>) -> Option<UsageScope> {
    match node.text()? {
        "run" => Some(UsageScope::Run),
        "sum" => Some(UsageScope::Sum),
        "session" => Some(UsageScope::Session),
        _ => {
            node.error("expected run, sum or session");
            None
        }
    }
}

fn finish(node: &Node<'_>) -> Option<FinishMap> {
    let table = node.table(&["content_filter", "length", "tool"])?;
    let words = |(key, finish): (&str, Finish)| Some((finish, table.get(key)?.texts()));
    let finishes =
        [("length", Finish::Length), ("content_filter", Finish::ContentFilter), ("tool", Finish::Tool)];
    Some(FinishMap(finishes.into_iter().filter_map(words).collect()))
}

/// What a file says of sessions must fit together.
pub(super) fn check_session(top: &Table<'_>, spec: &Spec) {
    let reports = spec.reports_session();
    if spec.continues() && reports {
        top.bare_error(
            "'continue' is only for agents that report no session id; this one does (the gateway remembers it)",
        );
    }
    match spec.capability(Field::Resume) {
        Capability::Flag | Capability::Env | Capability::File if !reports => {
            top.bare_error("{resume} is used but no rule reports a session");
        }
        Capability::Flag
        | Capability::Env
        | Capability::File
        | Capability::Prefix
        | Capability::Drop
        | Capability::Refuse => {}
    }
}
