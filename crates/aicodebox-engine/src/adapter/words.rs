use std::sync::LazyLock;

use regex::Regex;

use super::{field::Field, node::Node};

/// A text of the file in which `{…}` stands for a value. It stays one word, whatever the value contains.
#[derive(Clone, Debug, Default)]
pub(super) struct Words(pub(super) Vec<Part>);

#[derive(Clone, Debug)]
pub(super) enum Part {
    Text(String),
    Value {
        slot: Slot,
        /// `.file`: the value goes into a temporary file, and its path stands here.
        file: bool,
        encoder: Encoder,
    },
}

/// What a placeholder names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Prompt,
    Field(Field),
    /// The element of `each`; it belongs to this field.
    Item(Field),
    Home,
    Tmp,
    /// Path of the `[[file]]` with this index.
    File(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoder {
    Plain,
    /// JSON and TOML write a text in the same way, but for DEL, which TOML wants escaped.
    Quoted,
    Csv,
}

/// What a word may refer to where it stands.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    /// The list of `each` around it.
    pub(super) each: Option<Field>,
    /// Names of all `[[file]]`, without extension.
    pub(super) files: &'a [String],
    /// Whether the file says how to probe for flags.
    pub(super) probes: bool,
}

static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{|\}\}|\{([a-z_]+)(?:\.([a-z_]+))?(?::([a-z]+))?\}|[{}]").expect("a valid regex")
});

impl Words {
    /// Reads a text; what is wrong with it is said of `node`.
    pub(super) fn parse(text: &str, node: &Node<'_>, scope: Scope<'_>) -> Self {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut end = 0;
        for token in TOKEN.captures_iter(text) {
            let Some(whole) = token.get(0) else { continue };
            literal.push_str(&text[end..whole.start()]);
            end = whole.end();
            let Some(name) = token.get(1) else {
                match whole.as_str() {
                    "{{" => literal.push('{'),
                    "}}" => literal.push('}'),
                    _ => node.error(format_args!("lone brace in '{text}'; write {{{{ or }}}} for a brace")),
                }
                continue;
            };
            let part = token.get(2).map(|part| part.as_str());
            let encoder = token.get(3).map(|encoder| encoder.as_str());
            match placeholder(name.as_str(), part, encoder, scope) {
                Ok(value) => {
                    if !literal.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut literal)));
                    }
                    parts.push(value);
                }
                Err(message) => node.error(message),
            }
        }
        literal.push_str(&text[end..]);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Self(parts)
    }

    /// Everything that it names.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Value { slot, .. } => Some(*slot),
        })
    }

    /// Whether it is the prompt and nothing else, so that a prompt beginning with `-` would look like a flag.
    pub(super) fn is_bare_prompt(&self) -> bool {
        matches!(self.0.as_slice(), [Part::Value { slot: Slot::Prompt, file: false, .. }])
    }

    pub(super) fn is_text(&self, text: &str) -> bool {
        matches!(self.0.as_slice(), [Part::Text(only)] if only == text)
    }
}

fn placeholder(
    name: &str,
    part: Option<&str>,
    encoder: Option<&str>,
    scope: Scope<'_>,
) -> Result<Part, String> {
    let unknown = || format!("unknown placeholder {{{name}}}");
    let slot = match name {
        "file" => {
            let part = part.unwrap_or_default();
            let index = scope.files.iter().position(|file| file == part);
            Slot::File(index.ok_or_else(|| format!("{{file.{part}}} names no [[file]]"))?)
        }
        "prompt" => Slot::Prompt,
        "home" => Slot::Home,
        "tmp" => Slot::Tmp,
        "item" => Slot::Item(scope.each.ok_or("{item} without 'each'")?),
        _ => match Field::from_name(name).ok_or_else(unknown)? {
            Field::NoTools | Field::ExtraArgs => return Err(unknown()),
            field => Slot::Field(field),
        },
    };
    let list = matches!(slot, Slot::Field(field) if field.is_list());
    if list && !matches!(encoder, Some("csv" | "json")) {
        return Err(format!(
            "{{{name}}} is a list: write {{{name}:csv}}, {{{name}:json}} or use each = \"{name}\""
        ));
    }
    let file = match (slot, part) {
        (Slot::File(_), _) | (_, None) => false,
        (Slot::Prompt | Slot::Field(_), Some("file")) => true,
        (_, Some("file")) => return Err(format!("{{{name}}} cannot be written to a file")),
        (_, Some(part)) => return Err(format!("'.{part}' is not known; only '.file'")),
    };
    let encoder = match encoder {
        None => Encoder::Plain,
        Some("json" | "toml") => Encoder::Quoted,
        Some("csv") if list && !file => Encoder::Csv,
        Some("csv") => return Err(format!("{{{name}}} is no list: csv joins lists")),
        Some(other) => return Err(format!("unknown encoder '{other}'; known: json, toml, csv")),
    };
    Ok(Part::Value { slot, file, encoder })
}
