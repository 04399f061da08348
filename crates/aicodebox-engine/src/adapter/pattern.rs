use regex::Regex;

use super::node::Node;

/// Reads a regex, which must work in linear time.
pub(super) fn parse(node: &Node<'_>) -> Option<Regex> {
    compile(node, node.text()?)
}

/// Compiles a regex; what is wrong with it is said of `node`.
pub(super) fn compile(node: &Node<'_>, text: &str) -> Option<Regex> {
    if needs_backtracking(text) {
        node.error(format_args!("regex '{text}': look-around and back-references are not supported"));
        return None;
    }
    match Regex::new(text) {
        Ok(regex) => Some(regex),
        Err(error) => {
            // The crate draws the place under the text over several lines; its last line says what is wrong.
            let error = error.to_string();
            let last = error.lines().last().unwrap_or_default();
            node.error(format_args!("bad regex '{text}': {}", last.trim_start_matches("error: ")));
            None
        }
    }
}

fn needs_backtracking(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '(']) {
        rest = &rest[at..];
        if ["(?=", "(?!", "(?<=", "(?<!", "(?P="].iter().any(|start| rest.starts_with(start)) {
            return true;
        }
        let mut chars = rest.chars();
        if chars.next() == Some('\\') && chars.next().is_some_and(|next| ('1'..='9').contains(&next)) {
            return true;
        }
        rest = chars.as_str();
    }
    false
}
