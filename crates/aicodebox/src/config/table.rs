//! The tables of all variables: what holds now, and what the documents say. Both are made from [`VARIABLES`].

use std::fmt::Write as _;

use super::{
    Environment, VARIABLES,
    settings::state_dir,
    variable::{Fallback, Group, STATE_DIR, Variable},
};

/// Each variable and the value that holds, one per line; secrets are masked.
pub(crate) fn effective(environment: &Environment) -> String {
    let width = VARIABLES.iter().map(|variable| variable.name.len()).max().unwrap_or_default();
    let mut table = String::new();
    for variable in VARIABLES {
        let (value, source) = holds(variable, environment);
        table.push_str(format!("{:width$}  {value}{source}", variable.name).trim_end());
        table.push('\n');
    }
    table
}

fn holds(variable: &Variable, environment: &Environment) -> (String, &'static str) {
    let file = variable.file_name().filter(|name| environment.get(name).is_some());
    match (environment.value(variable), file, variable.fallback) {
        (Some(_), _, _) if variable.secret => ("********".to_owned(), ""),
        (Some(value), _, _) => (value.display().to_string(), ""),
        (None, Some(file), _) => (format!("******** (from {file})"), ""),
        (None, None, Fallback::Text(text)) => (text.to_owned(), "  (default)"),
        (None, None, Fallback::Derived(words)) => (derived(variable, words, environment), "  (default)"),
        (None, None, Fallback::Nothing) => ("-".to_owned(), ""),
    }
}

/// What its words come to, where that can be said.
fn derived(variable: &Variable, words: &str, environment: &Environment) -> String {
    let words = words.replace('`', "");
    let Some(state) = state_dir(environment).map(|state| state.display().to_string()) else { return words };
    if variable.name == STATE_DIR.name { state } else { words.replace("<state>", &state) }
}

/// The table for the documents.
pub(crate) fn markdown() -> String {
    let mut text = String::new();
    for group in Group::ALL {
        let mut rows = String::new();
        for variable in VARIABLES.iter().filter(|variable| variable.group == group) {
            // Writing into a String cannot fail.
            _ = writeln!(rows, "| {} | {} | {} |", names(variable), fallback(variable), variable.meaning);
        }
        let title = group.title();
        _ = writeln!(text, "| {title} | default | meaning |\n| --- | --- | --- |\n{rows}");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn names(variable: &Variable) -> String {
    let mut names = format!("`{}`", variable.name);
    if let Some(alias) = variable.alias {
        _ = write!(names, " (`{alias}`)");
    }
    if variable.secret {
        names.push_str(" or `…_FILE`");
    }
    names
}

fn fallback(variable: &Variable) -> String {
    match variable.fallback {
        Fallback::Nothing => "–".to_owned(),
        Fallback::Text(text) => format!("`{text}`"),
        Fallback::Derived(words) => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_what_holds_and_masks_secrets() {
        let environment = Environment::from_iter([
            ("AICODEBOX_API_MODE_TOKEN", "hush"),
            ("AICODEBOX_CALLBACK_SECRET_FILE", "/run/secrets/callback"),
            ("AICODE_WORKSPACE", "/w"),
            ("HOME", "/home/me"),
        ]);
        let table = effective(&environment);
        let row = |name: &str| {
            let mut words =
                table.lines().find(|line| line.split(' ').next() == Some(name)).unwrap().split_whitespace();
            words.next();
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(row("AICODEBOX_API_MODE_TOKEN"), "********");
        assert_eq!(row("AICODEBOX_CALLBACK_SECRET"), "******** (from AICODEBOX_CALLBACK_SECRET_FILE)");
        assert_eq!(row("AICODEBOX_WORKSPACE"), "/w");
        assert_eq!(row("AICODEBOX_API_MODE_PORT"), "8080 (default)");
        assert_eq!(row("AICODEBOX_STATE_DIR"), "/home/me/.aicodebox (default)");
        assert_eq!(row("AICODEBOX_CRON_MODE_HISTORY_DIR"), "/home/me/.aicodebox/cron (default)");
        assert!(!table.contains("hush"));
    }

    /// The documents that carry the table, each between the two marks.
    #[test]
    fn the_documents_carry_this_table() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        for document in ["README.md", "docs/configuration.md"] {
            let Ok(text) = std::fs::read_to_string(format!("{root}/{document}")) else { continue };
            let Some((_, rest)) = text.split_once("<!-- variables:begin -->") else { continue };
            let (table, _) = rest.split_once("<!-- variables:end -->").expect("the end mark");
            assert_eq!(table.trim(), markdown().trim(), "{document}: run `aicodebox config --markdown`");
        }
    }
}
