use std::{sync::LazyLock, time::Duration};

use nix::sys::signal::Signal;
use regex::Regex;
use toml::de::DeTable;

use super::{
    fault::Classifier,
    field::Field,
    group::{Group, Shape, uses_prompt},
    load_error::{LoadErrors, Sink},
    load_rules,
    node::{Node, Table},
    pattern,
    rule::FinishMap,
    spec::{
        Content, Fallback, FileText, Format, Guard, GuardPart, Models, ProbeSpec, PromptLimits, Spec,
        Variable,
    },
    words::{Scope, Words},
};
use crate::process::StopPlan;

const TOP: [&str; 23] = [
    "auth", "binary", "class", "env", "errors", "event", "fallback", "file", "finish", "limits", "models",
    "name", "output", "probe", "prompt", "retry", "run", "schema", "state", "stderr", "stop", "tested",
    "usage",
];

/// Reads a whole file; every error is found in one go.
pub(super) fn load(text: &str, origin: &str) -> Result<Spec, LoadErrors> {
    let sink = Sink::new(text);
    let (document, syntax) = DeTable::parse_recoverable(text);
    for error in &syntax {
        sink.push(&error.span().unwrap_or(0..0), error.message());
    }
    // What the parser made of a broken file would only lead to errors that are none.
    let spec = syntax.is_empty().then(|| read(&Table::document("top level", &document, &TOP, &sink)));
    match (sink.finish(origin), spec) {
        (None, Some(spec)) => Ok(spec),
        (errors, _) => {
            Err(errors.unwrap_or_else(|| LoadErrors { origin: origin.to_owned(), errors: Vec::new() }))
        }
    }
}

/// A section, called `[name]`.
fn section<'a>(top: &Table<'a>, name: &str, known: &[&str]) -> Option<Table<'a>> {
    top.get(name)?.called(format!("[{name}]")).table(known)
}

/// The tables of `[[name]]`, not yet opened.
pub(super) fn tables<'a>(top: &Table<'a>, name: &str) -> Vec<Node<'a>> {
    let node = top.get(name).map(|node| node.called(format!("[[{name}]]")));
    node.and_then(|node| node.list()).unwrap_or_default()
}

fn text(table: Option<&Table<'_>>, key: &str) -> Option<String> {
    table?.get(key)?.text().map(str::to_owned)
}

fn texts(table: Option<&Table<'_>>, key: &str) -> Vec<String> {
    table.and_then(|table| table.get(key)).map(|node| node.texts()).unwrap_or_default()
}

fn read(top: &Table<'_>) -> Spec {
    let schema = top.get("schema").map(|node| node.to_json());
    if schema != Some(1.into()) {
        let got = schema.map_or("nothing".to_owned(), |value| value.to_string());
        top.bare_error(format!("schema: expected 1, got {got}"));
    }
    for key in ["name", "run", "output"] {
        if top.get(key).is_none() {
            top.bare_error(format!("'{key}' is missing"));
        }
    }
    let name = top.get("name").and_then(|node| {
        let name = node.text()?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            node.called("name").error(format_args!("'{name}' may have letters, digits and '-'"));
        }
        Some(name.to_owned())
    });
    let file_names: Vec<String> = tables(top, "file").iter().map(file_name).collect();
    let run = section(top, "run", &["argv", "stdin"]);
    let auth = section(top, "auth", &["hint", "metered"]);
    let output = section(top, "output", &["empty_ok", "format", "ok_exit"]);
    let format = output.as_ref().and_then(|output| load_rules::format(output, top.get("event").is_some()));
    let own_words = format == Some(load_rules::FileFormat::Events);
    let scope = Scope { each: None, files: &file_names };
    let stdin = run.as_ref().and_then(|run| run.get("stdin"));
    let ok_exit = output.as_ref().and_then(|output| output.get("ok_exit"));
    let mut spec = Spec {
        name: name.unwrap_or_default(),
        binary: text(Some(top), "binary"),
        tested: text(Some(top), "tested"),
        models: section(top, "models", &["default", "efforts", "keep_prefix", "list"])
            .map(|table| models(&table))
            .unwrap_or_default(),
        argv: run.as_ref().and_then(|run| run.get("argv")).map(|node| argv(&node, scope)).unwrap_or_default(),
        stdin: stdin.and_then(|node| Some(Words::parse(node.text()?, &node, scope))),
        prompt: section(top, "prompt", &["guard", "max_bytes", "max_chars"])
            .map(|table| prompt(&table))
            .unwrap_or_default(),
        fallback: [Fallback::Refuse; Field::ALL.len()],
        env: section_env(top, &file_names),
        files: tables(top, "file").iter().filter_map(|node| file(node, &file_names)).collect(),
        metered: texts(auth.as_ref(), "metered"),
        auth_hint: text(auth.as_ref(), "hint"),
        probe: section(top, "probe", &["absent", "args", "version"]).map(|table| probe(&table)),
        stop: section(top, "stop", &["grace", "signal"]).map(|table| stop(&table)).unwrap_or_default(),
        quiet: section(top, "limits", &["quiet"]).and_then(|limits| quiet(&limits)),
        state_paths: texts(section(top, "state", &["write"]).as_ref(), "write"),
        format: match format {
            Some(load_rules::FileFormat::Json) => Format::Document,
            Some(load_rules::FileFormat::Jsonl | load_rules::FileFormat::Events) => Format::Lines,
            Some(load_rules::FileFormat::Text) | None => Format::Text,
        },
        own_words,
        ok_exit: ok_exit.map_or_else(|| vec![0], |node| load_rules::codes(&node)),
        empty_ok: output.and_then(|output| output.get("empty_ok")?.boolean()).unwrap_or_default(),
        rules: Vec::new(),
        stderr: load_rules::stderr(top),
        classifier: Classifier {
            extract: load_rules::extract(section(top, "errors", &["extract"]).as_ref()),
            classes: load_rules::classes(top),
        },
        usage: None,
        finish: FinishMap::default(),
        retry: load_rules::retry(section(top, "retry", &["abort_on", "max"]).as_ref()),
    };
    load_rules::rules(top, &mut spec);
    if let Some(table) = section(top, "fallback", &fallback_keys()) {
        fallback(&table, &mut spec);
    }
    check_prompt(top, &spec);
    check_probes(top, &spec);
    load_rules::check_session(top, &spec);
    spec
}

fn models(table: &Table<'_>) -> Models {
    let efforts = table.get("efforts").map(|node| {
        if !node.is_table() {
            return node.texts().into_iter().map(|effort| (effort.clone(), effort)).collect();
        }
        let pairs = node.open_table();
        let pair = |(ours, theirs): (&str, Node<'_>)| Some((ours.to_owned(), theirs.text()?.to_owned()));
        pairs.iter().flat_map(|pairs| pairs.entries().filter_map(pair).collect::<Vec<_>>()).collect()
    });
    Models {
        list: texts(Some(table), "list"),
        default: text(Some(table), "default"),
        efforts: efforts.unwrap_or_default(),
        keep_prefix: table.get("keep_prefix").and_then(|node| node.boolean()).unwrap_or_default(),
    }
}

fn argv(node: &Node<'_>, scope: Scope<'_>) -> Vec<Group<Vec<Words>>> {
    let mut groups = Vec::new();
    let mut options_ended = false;
    for node in node.list().unwrap_or_default() {
        let group = match node.as_text() {
            Some(text) => Some(Group::plain(vec![Words::parse(text, &node, scope)])),
            None => Group::parse(&node, "args", scope.files, |args, scope| {
                let items = if args.is_list() { args.list().unwrap_or_default() } else { vec![args.clone()] };
                let word = |item: Node<'_>| {
                    let item = item.called(&args.place);
                    Some(Words::parse(item.text()?, &item, scope))
                };
                items.into_iter().filter_map(word).collect()
            }),
        };
        for words in group.iter().flat_map(|group| &group.body) {
            options_ended |= words.is_text("--");
            if words.is_bare_prompt() && !options_ended {
                node.error("a positional {prompt} needs \"--\" before it, or the form \"--flag={prompt}\"");
            }
        }
        groups.extend(group);
    }
    groups
}

fn json_parts(node: &Node<'_>, files: &[String]) -> Vec<Group<Shape>> {
    let part = |node: &Node<'_>| {
        Group::parse(node, "put", files, |put, scope| {
            if !put.is_table() {
                put.error("'put' must be a table");
            }
            Shape::parse(put, scope)
        })
    };
    node.list().unwrap_or_default().iter().filter_map(part).collect()
}

fn section_env(top: &Table<'_>, files: &[String]) -> Vec<(String, Variable)> {
    let Some(table) = top.get("env").and_then(|node| node.called("[env]").open_table()) else {
        return Vec::new();
    };
    let scope = Scope { each: None, files };
    let variable = |node: &Node<'_>| {
        if let Some(text) = node.as_text() {
            return Some(Variable::Text { when: Default::default(), text: Words::parse(text, node, scope) });
        }
        if !node.is_table() {
            if node.boolean()? {
                node.error("only false removes a variable; a text sets it");
            }
            return Some(Variable::Remove);
        }
        let table = node.table(&["from", "json", "value", "when"])?;
        let when = load_rules::when(&table);
        match (table.get("value"), table.get("json"), table.get("from")) {
            (Some(value), None, None) => {
                let value = value.called(&node.place);
                Some(Variable::Text { when, text: Words::parse(value.text()?, &value, scope) })
            }
            (None, Some(json), None) => Some(Variable::Json { when, parts: json_parts(&json, files) }),
            (None, None, Some(from)) => Some(Variable::Alias { when, from: from.texts() }),
            _ => {
                node.error("exactly one of value, json, from");
                None
            }
        }
    };
    let entry = |(name, node): (&str, Node<'_>)| {
        if name.is_empty() || name.contains(['=', '\0']) {
            node.error("is no name of a variable");
        }
        Some((name.to_owned(), variable(&node)?))
    };
    table.entries().filter_map(entry).collect()
}

fn file_name(node: &Node<'_>) -> String {
    let name = node.is_table().then(|| node.open_table()?.get("name")?.as_text()).flatten();
    let name = name.unwrap_or_default();
    name.split_once('.').map_or(name, |(name, _)| name).to_owned()
}

fn file(node: &Node<'_>, files: &[String]) -> Option<FileText> {
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^[a-z_]+(\.[a-z]+)?$").expect("a valid regex"));
    let place = match file_name(node) {
        name if name.is_empty() => node.place.clone(),
        name => format!("[[file]] {name}"),
    };
    let table = node.clone().called(&place).table(&["json", "name", "path", "text", "when"])?;
    let name = text(Some(&table), "name").unwrap_or_default();
    if !NAME.is_match(&name) {
        table.error("name is lower-case letters and _, with an extension if the agent wants one");
    }
    if files.iter().filter(|other| **other == file_name(node)).count() > 1 {
        table.error("another [[file]] has the same name");
    }
    let path = text(Some(&table), "path").map(|path| {
        let below = path.strip_prefix("~/").filter(|below| !below.split('/').any(|part| part == ".."));
        if below.is_none() {
            table.error("path must begin with ~/ (leave it out for a temporary file)");
        }
        below.unwrap_or_default().to_owned()
    });
    let content = match (table.get("text"), table.get("json")) {
        (Some(text), None) => {
            let text = text.called(&place);
            Content::Text(Words::parse(text.text()?, &text, Scope { each: None, files }))
        }
        (None, Some(json)) => Content::Json(json_parts(&json, files)),
        _ => {
            table.error("exactly one of text, json");
            return None;
        }
    };
    Some(FileText { name, path, when: load_rules::when(&table), content })
}

fn prompt(table: &Table<'_>) -> PromptLimits {
    let guard = |node: &Node<'_>| {
        let table = node.table(&["find", "put"])?;
        let find = table.get("find").and_then(|find| pattern::parse(&find));
        let put = table.get("put").and_then(|put| put.text());
        if table.get("find").is_none() || table.get("put").is_none() {
            node.error("needs find and put");
        }
        let (find, put) = find.zip(put)?;
        let groups = find.captures_len();
        Some(Guard { put: guard_parts(node, put, groups), find })
    };
    let guards = table.get("guard").and_then(|node| node.list()).unwrap_or_default();
    PromptLimits {
        max_chars: table.get("max_chars").and_then(|node| node.count()),
        max_bytes: table.get("max_bytes").and_then(|node| node.count()),
        guard: guards.iter().filter_map(guard).collect(),
    }
}

/// `$1` is a group of the regex; every other `$` is itself.
fn guard_parts(node: &Node<'_>, put: &str, groups: usize) -> Vec<GuardPart> {
    let mut parts = Vec::new();
    let mut rest = put;
    while let Some(at) = rest.find('$') {
        let digit = rest[at + 1..].chars().next().and_then(|c| c.to_digit(10));
        match digit {
            Some(digit) => {
                if digit as usize >= groups {
                    node.error(format_args!("'find' has no group {digit}"));
                }
                parts.push(GuardPart::Text(rest[..at].to_owned()));
                parts.push(GuardPart::Group(digit as usize));
                rest = &rest[at + 2..];
            }
            None => {
                parts.push(GuardPart::Text(rest[..=at].to_owned()));
                rest = &rest[at + 1..];
            }
        }
    }
    parts.push(GuardPart::Text(rest.to_owned()));
    parts
}

fn probe(table: &Table<'_>) -> ProbeSpec {
    let regex = |key: &str| table.get(key).and_then(|node| pattern::parse(&node));
    let version = regex("version");
    if version.as_ref().is_some_and(|version| version.captures_len() != 2) {
        table.error("version must have exactly one group");
    }
    if table.get("args").is_none() {
        table.error("'args' is missing");
    }
    ProbeSpec { args: texts(Some(table), "args"), absent: regex("absent"), version }
}

fn stop(table: &Table<'_>) -> StopPlan {
    let mut plan = StopPlan::default();
    if let Some(node) = table.get("signal")
        && let Some(name) = node.text()
    {
        match ["HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM"].iter().find(|known| **known == name) {
            Some(name) => {
                let signal = format!("SIG{name}").parse::<Signal>();
                plan.signal = signal.map_or(plan.signal, |signal| signal as i32);
            }
            None => node.error(format_args!(
                "unknown signal '{name}'; known: HUP, INT, QUIT, KILL, USR1, USR2, TERM"
            )),
        }
    }
    plan.grace = table.get("grace").and_then(|node| node.duration()).unwrap_or(plan.grace);
    plan
}

fn quiet(table: &Table<'_>) -> Option<Duration> {
    table.get("quiet")?.duration()
}

fn fallback_keys() -> Vec<&'static str> {
    let mut keys = Field::ALL.map(Field::name).to_vec();
    keys.sort_unstable();
    keys
}

fn fallback(table: &Table<'_>, spec: &mut Spec) {
    use super::contract::Capability;
    for (name, node) in table.entries() {
        let Some(field) = Field::from_name(name) else { continue };
        let fallback = match node.text() {
            Some("prefix") if field.prefix().is_none() => {
                node.error("cannot be put into the prompt; use drop or refuse");
                continue;
            }
            Some("prefix") => Fallback::Prefix,
            Some("drop") => Fallback::Drop,
            Some("refuse") => Fallback::Refuse,
            Some(_) => {
                node.error("expected prefix, drop or refuse");
                continue;
            }
            None => continue,
        };
        match spec.capability(field) {
            Capability::Flag | Capability::Env | Capability::File => {
                node.error("is carried by argv, env or a file already");
            }
            Capability::Prefix | Capability::Drop | Capability::Refuse => {
                spec.fallback[field as usize] = fallback;
            }
        }
    }
}

fn check_prompt(top: &Table<'_>, spec: &Spec) {
    let json = |parts: &[Group<Shape>]| parts.iter().any(|part| uses_prompt(&part.body));
    let argv = spec.argv.iter().any(|group| uses_prompt(&group.body));
    let env = spec.env.iter().any(|(_, variable)| match variable {
        Variable::Text { text, .. } => uses_prompt(text),
        Variable::Json { parts, .. } => json(parts),
        Variable::Remove | Variable::Alias { .. } => false,
    });
    let file = spec.files.iter().any(|file| match &file.content {
        Content::Text(text) => uses_prompt(text),
        Content::Json(parts) => json(parts),
    });
    if !(argv || env || file || spec.stdin.as_ref().is_some_and(uses_prompt)) {
        top.bare_error("the prompt goes nowhere: use {prompt} in argv or stdin, or {prompt.file}");
    }
}

fn check_probes(top: &Table<'_>, spec: &Spec) {
    if spec.probe.is_some() {
        return;
    }
    let argv = top.get("run").and_then(|run| run.open_table()?.get("argv")?.called("[run] argv").list());
    for node in argv.unwrap_or_default() {
        if node.is_table() && node.open_table().is_some_and(|group| group.get("probe").is_some()) {
            node.error("'probe' needs a [probe] section");
        }
    }
}
