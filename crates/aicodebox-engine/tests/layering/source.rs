//! Reads the sources of a crate far enough to know which modules they name.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its own sources has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Every module of a crate with the modules that it may name.
pub(crate) type Layers = &'static [(&'static str, &'static [&'static str])];

/// One source file.
pub(crate) struct Source {
    /// Where it is.
    pub(crate) file: PathBuf,
    /// The top-level module that it belongs to.
    pub(crate) module: String,
    /// Its text without comments and strings.
    pub(crate) code: String,
    /// Every path in it that begins at the crate's root, without that beginning.
    pub(crate) paths: Vec<String>,
}

/// All sources below `src`, in the order of their names.
pub(crate) fn read_sources(src: &Path) -> Vec<Source> {
    let read = |file: PathBuf| {
        let relative = file.strip_prefix(src).unwrap().with_extension("");
        let names: Vec<_> = relative.iter().map(|name| name.to_str().unwrap()).collect();
        let depth = match names.last() {
            Some(&("lib" | "main")) => 0,
            Some(&"mod") => names.len() - 1,
            _ => names.len(),
        };
        let code = strip(&fs::read_to_string(&file).unwrap());
        let paths = crate_paths(&code, depth);
        Source { module: names[0].to_owned(), code, paths, file }
    };
    files(src).into_iter().map(read).collect()
}

/// Every place where a module names one that is not below it.
pub(crate) fn upward_names(sources: &[Source], layers: Layers) -> Vec<String> {
    let below = |module: &str| layers.iter().find(|(name, _)| *name == module).map(|(_, below)| *below);
    let mut wrong = Vec::new();
    for source in sources {
        let (file, module) = (source.file.display(), &source.module);
        let Some(allowed) = below(module) else {
            wrong.push(format!("{file}: `{module}` has no place in the layers; give it one in this test"));
            continue;
        };
        for path in &source.paths {
            let named = path.split("::").next().unwrap_or(path);
            if named != module && below(named).is_some() && !allowed.contains(&named) {
                wrong.push(format!("{file}: `{module}` may not name `{path}`"));
            }
        }
    }
    wrong
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The source without comments and strings.
fn strip(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(next) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + "*/".len())
        } else if let Some(raw) = rest.strip_prefix("r#\"") {
            raw.find("\"#").map_or(rest.len(), |end| end + "r#\"\"#".len())
        } else if rest.starts_with("'\"'") {
            "'\"'".len()
        } else if let Some(string) = rest.strip_prefix('"') {
            1 + end_of_string(string)
        } else {
            out.push(next);
            next.len_utf8()
        };
        rest = &rest[skipped..];
    }
    out
}

/// Where the string ends whose opening quote was just read.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Every path that begins with `crate::`, or with as many `super::` as lead from `depth` to the root.
fn crate_paths(code: &str, depth: usize) -> Vec<String> {
    let mut found = Vec::new();
    let up = "super::".repeat(depth);
    for start in ["crate::", &up].into_iter().filter(|start| !start.is_empty()) {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|c| is_name(c) || c == ':') {
                read_path(&code[at + start.len()..], "", &mut found);
            }
        }
    }
    found
}

/// Reads the path, or the group of paths in braces, with which `text` begins; gives back what follows.
fn read_path<'a>(text: &'a str, prefix: &str, found: &mut Vec<String>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut group) = text.strip_prefix('{') {
        while group.starts_with(|c: char| is_name(c) || c == '{' || c == ',' || c.is_whitespace()) {
            group = group.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
            if !group.starts_with('}') {
                group = read_path(group, prefix, found);
            }
        }
        return group.strip_prefix('}').unwrap_or(group);
    }
    let (name, rest) = text.split_at(text.find(|c| !is_name(c)).unwrap_or(text.len()));
    let path = format!("{prefix}{name}");
    match rest.strip_prefix("::") {
        Some(deeper) if deeper.trim_start().starts_with(|c: char| is_name(c) || c == '{') => {
            read_path(deeper, &format!("{path}::"), found)
        }
        _ => {
            found.push(path);
            rest.strip_prefix(" as ").map_or(rest, |alias| alias.trim_start_matches(is_name))
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '*'
}

#[test]
fn paths_from_the_root_are_found() {
    let found = |text: &str, depth| crate_paths(&strip(text), depth).join(" ");
    assert_eq!(found("use crate::engine::Engine;", 2), "engine::Engine");
    assert_eq!(
        found("use crate::{BoxFuture, engine::{Engine as E, Gate}, store,\n};", 2),
        "BoxFuture engine::Engine engine::Gate store"
    );
    assert_eq!(found("fn f() { crate::engine::start::<u8>() }", 2), "engine::start");
    assert_eq!(found("use super::super::engine;", 2), "engine");
    assert_eq!(found("use super::engine;", 1), "engine");
    assert_eq!(found("use super::sibling;", 2), "");
    assert_eq!(found("// crate::a\n/* crate::b */ let s = \"\\\" crate::c\"; r#\"crate::d\"#", 1), "");
}
