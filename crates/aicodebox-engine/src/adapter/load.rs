use nix::sys::signal::Signal;
use toml::de::DeTable;

use super::{
    contract::Capability,
    fault::Classifier,
    field::Field,
    load_channels,
    load_error::{LoadErrors, Sink},
    load_faults, load_prompt,
    load_rules::{self, FileFormat},
    node::{Node, Table},
    pattern,
    rule::FinishMap,
    spec::{Fallback, Format, Guard, GuardPart, Models, ProbeSpec, PromptLimits, Spec},
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
    sink.check(origin)?;
    let spec = read(&Table::document(&document, &TOP, &sink));
    sink.check(origin)?;
    Ok(spec)
}

fn read(top: &Table<'_>) -> Spec {
    check_top(top);
    let files: Vec<String> = top.tables("file").iter().map(load_channels::file_name).collect();
    let scope = Scope { each: None, files: &files, probes: top.get("probe").is_some() };
    let run = top.section("run", &["argv", "stdin"]);
    let auth = top.section("auth", &["hint", "metered"]);
    let output = top.section("output", &["empty_ok", "format", "ok_exit"]);
    let no_rule = |node: Node<'_>| node.is_list() && node.list().is_some_and(|rules| rules.is_empty());
    let format = load_rules::format(&output, !top.get("event").is_none_or(no_rule));
    let probe = top.section("probe", &["absent", "args", "version"]);
    let mut spec = Spec {
        name: top.text("name").unwrap_or_default(),
        binary: top.text("binary"),
        tested: top.text("tested"),
        models: models(&top.section("models", &["default", "efforts", "keep_prefix", "list"])),
        argv: run.get("argv").map(|node| load_channels::argv(&node, scope)).unwrap_or_default(),
        stdin: run.get("stdin").and_then(|node| Some(Words::parse(node.text()?, &node, scope))),
        prompt: prompt(&top.section("prompt", &["guard", "max_bytes", "max_chars"])),
        fallback: [Fallback::Refuse; Field::ALL.len()],
        env: load_channels::env(top, scope),
        files: top.tables("file").iter().filter_map(|node| load_channels::file(node, scope)).collect(),
        metered: auth.texts("metered"),
        auth_hint: auth.text("hint"),
        probe: probe.is_there().then(|| self::probe(&probe)),
        stop: stop(&top.section("stop", &["grace", "signal"])),
        quiet: top.section("limits", &["quiet"]).get("quiet").and_then(|node| node.duration()),
        state_paths: top.section("state", &["write"]).texts("write"),
        format: match format {
            Some(FileFormat::Json) => Format::Document,
            Some(FileFormat::Jsonl | FileFormat::Events) => Format::Lines,
            Some(FileFormat::Text) | None => Format::Text,
        },
        own_words: format == Some(FileFormat::Events),
        ok_exit: output.get("ok_exit").map_or_else(|| vec![0], |node| load_faults::codes(&node)),
        empty_ok: output.flag("empty_ok"),
        rules: Vec::new(),
        stderr: load_faults::stderr(top),
        classifier: Classifier { extract: load_faults::extract(top), classes: load_faults::classes(top) },
        usage: None,
        finish: FinishMap::default(),
        retry: load_faults::retry(top),
    };
    load_rules::rules(top, &mut spec);
    fallback(top, &mut spec);
    load_prompt::check(top, &spec);
    load_rules::check_session(top, &spec);
    spec
}

fn check_top(top: &Table<'_>) {
    match top.get("schema").map(|node| node.called("schema")) {
        None => top.bare_error("schema: expected 1, got nothing"),
        Some(node) if node.to_json() != 1 => {
            node.error(format_args!("expected 1, got {}", node.to_json()));
        }
        Some(_) => {}
    }
    for key in ["name", "run", "output"] {
        if top.get(key).is_none() {
            top.bare_error(format!("'{key}' is missing"));
        }
    }
    let name = top.get("name").map(|node| node.called("name"));
    if let Some((node, name)) = name.as_ref().and_then(|node| Some((node, node.as_text()?)))
        && (name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
    {
        node.error(format_args!("'{name}' may have letters, digits and '-'"));
    }
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
        list: table.texts("list"),
        default: table.text("default"),
        efforts: efforts.unwrap_or_default(),
        keep_prefix: table.flag("keep_prefix"),
    }
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
    ProbeSpec { args: table.texts("args"), absent: regex("absent"), version }
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

fn fallback(top: &Table<'_>, spec: &mut Spec) {
    let mut known = Field::ALL.map(Field::name);
    known.sort_unstable();
    let table = top.section("fallback", &known);
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
