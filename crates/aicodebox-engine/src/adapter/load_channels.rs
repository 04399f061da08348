use std::sync::LazyLock;

use regex::Regex;

use super::{
    condition::Condition,
    field::{Field, PROMPT_FILE},
    group::{Group, Shape},
    load_rules,
    node::{Node, Table},
    spec::{Content, FileText, Variable},
    words::{Scope, Words},
};

/// `[run] argv`.
pub(super) fn argv(node: &Node<'_>, scope: Scope<'_>) -> Vec<Group<Vec<Words>>> {
    let mut groups = Vec::new();
    let mut options_ended = false;
    for node in node.list().unwrap_or_default() {
        let group = match node.as_text() {
            Some(text) => Some(Group::plain(vec![Words::parse(text, &node, scope)])),
            None => Group::parse(&node, "args", scope, |args, scope| {
                let items = if args.is_list() { args.list().unwrap_or_default() } else { vec![args.clone()] };
                let word = |item: Node<'_>| {
                    let item = item.called(&args.place);
                    Some(Words::parse(item.text()?, &item, scope))
                };
                items.into_iter().filter_map(word).collect()
            }),
        };
        let mut ended_here = options_ended;
        for words in group.iter().flat_map(|group| &group.body) {
            ended_here |= words.is_text("--");
            if words.is_bare_prompt() && !ended_here {
                node.error("a positional {prompt} needs \"--\" before it, or the form \"--flag={prompt}\"");
            }
        }
        // A "--" that is only there under a condition ends the options for its own group alone.
        options_ended |= ended_here && node.as_text().is_some();
        groups.extend(group);
    }
    groups
}

/// The parts of a JSON text.
fn json_parts(node: &Node<'_>, scope: Scope<'_>) -> Vec<Group<Shape>> {
    let part = |node: &Node<'_>| {
        Group::parse(node, "put", scope, |put, scope| {
            if !put.is_table() {
                put.error("'put' must be a table");
            }
            Shape::parse(put, scope)
        })
    };
    node.list().unwrap_or_default().iter().filter_map(part).collect()
}

/// `[env]`.
pub(super) fn env(top: &Table<'_>, scope: Scope<'_>) -> Vec<(String, Variable)> {
    let Some(table) = top.get("env").and_then(|node| node.called("[env]").open_table()) else {
        return Vec::new();
    };
    let variable = |node: &Node<'_>| {
        if let Some(text) = node.as_text() {
            return Some(Variable::Text {
                when: Condition::default(),
                text: Words::parse(text, node, scope),
            });
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
            (None, Some(json), None) => Some(Variable::Json { when, parts: json_parts(&json, scope) }),
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

/// The name of a `[[file]]` for placeholders: without extension.
pub(super) fn file_name(node: &Node<'_>) -> String {
    let name = node.open_table().and_then(|table| table.get("name")?.as_text()).unwrap_or_default();
    name.split_once('.').map_or(name, |(name, _)| name).to_owned()
}

/// The placeholder whose `.file` has that name; both would lie in the same folder.
fn own_file(name: &str) -> Option<&'static str> {
    let field = || Field::ALL.into_iter().find(|field| field.file_name() == name).map(Field::name);
    if name == PROMPT_FILE { Some("prompt") } else { field() }
}

/// One `[[file]]`.
pub(super) fn file(node: &Node<'_>, scope: Scope<'_>) -> Option<FileText> {
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^[a-z_]+(\.[a-z]+)?$").expect("a valid regex"));
    let short = file_name(node);
    let place = if short.is_empty() { node.place.clone() } else { format!("[[file]] {short}") };
    let table = node.clone().called(&place).table(&["json", "name", "path", "text", "when"])?;
    let name = table.text("name").unwrap_or_default();
    if !NAME.is_match(&name) {
        table.error("name is lower-case letters and _, with an extension if the agent wants one");
    }
    if let Some(placeholder) = own_file(&name) {
        table.error(format_args!("'{name}' is the name of {{{placeholder}.file}}; choose another"));
    }
    if scope.files.iter().filter(|other| **other == short).count() > 1 {
        table.error("another [[file]] has the same name");
    }
    let path = table.text("path").map(|path| {
        let below = path.strip_prefix("~/");
        match below {
            None => table.error("path must begin with ~/ (leave it out for a temporary file)"),
            Some(below) if below.split('/').any(|part| part == "..") => {
                table.error("path must not leave the home directory: no .. in it");
            }
            Some(_) => {}
        }
        below.unwrap_or_default().to_owned()
    });
    let content = match (table.get("text"), table.get("json")) {
        (Some(text), None) => {
            let text = text.called(&place);
            Content::Text(Words::parse(text.text()?, &text, scope))
        }
        (None, Some(json)) => Content::Json(json_parts(&json, scope)),
        _ => {
            table.error("exactly one of text, json");
            return None;
        }
    };
    Some(FileText { name, path, when: load_rules::when(&table), content })
}
