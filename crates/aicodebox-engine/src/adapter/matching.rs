use regex::Regex;
use serde_json::Value;

use super::{
    json::Json,
    node::Node,
    pattern,
    pointer::{At, Pointer},
};

/// `match`: pairs of a pointer and what must be there; all of them must hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Match(Vec<(Pointer, Want)>);

#[derive(Clone, Debug)]
enum Want {
    /// Equal, and of the same type: `true` is not 1, `3` is not 3.0.
    Equal(Json<'static>),
    Regex(Regex),
    OneOf(Vec<Want>),
    Exists,
    Absent,
}

impl Match {
    /// Matches where that pointer finds something.
    pub(super) fn exists(pointer: Pointer) -> Self {
        Self(vec![(pointer, Want::Exists)])
    }

    /// Matches where that pointer finds that text.
    pub(super) fn equals(pointer: Pointer, text: &str) -> Self {
        Self(vec![(pointer, Want::Equal(Json::Text(text.to_owned().into())))])
    }

    pub(super) fn parse(node: &Node<'_>, each: bool) -> Self {
        let Some(table) = node.open_table() else { return Self::default() };
        let pair = |(key, want): (&str, Node<'_>)| {
            let want = want.called(node.place.strip_suffix(" match").unwrap_or(&node.place));
            let pointer = Pointer::parse(&want, key, each);
            pointer.zip(Want::parse(&want))
        };
        Self(table.entries().filter_map(pair).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn holds(&self, at: At<'_>) -> bool {
        self.hold(at, |_| true)
    }

    /// Whether all holds that looks at the line as a whole: the same for each item of it.
    pub(super) fn holds_of_line(&self, at: At<'_>) -> bool {
        self.hold(at, |pointer| !pointer.item)
    }

    /// Whether all holds that looks at the item.
    pub(super) fn holds_of_item(&self, at: At<'_>) -> bool {
        self.hold(at, |pointer| pointer.item)
    }

    fn hold(&self, at: At<'_>, looked_at: impl Fn(&Pointer) -> bool) -> bool {
        self.0.iter().filter(|(pointer, _)| looked_at(pointer)).all(|(pointer, want)| want.holds(pointer, at))
    }
}

impl Want {
    fn parse(node: &Node<'_>) -> Option<Self> {
        if let Some(regex) = node.as_text().and_then(|text| text.strip_prefix('~')) {
            return pattern::compile(node, regex).map(Self::Regex);
        }
        if node.is_list() {
            let items = node.list().unwrap_or_default();
            let wants = items.into_iter().filter_map(|item| Self::parse(&item.called(&node.place)));
            return Some(Self::OneOf(wants.collect()));
        }
        if node.is_table() {
            return match node.to_json() {
                Value::Object(map) if map.len() == 1 && map.get("exists") == Some(&Value::Bool(true)) => {
                    Some(Self::Exists)
                }
                Value::Object(map) if map.len() == 1 && map.get("absent") == Some(&Value::Bool(true)) => {
                    Some(Self::Absent)
                }
                _ => {
                    node.error("only { absent = true } or { exists = true }");
                    None
                }
            };
        }
        Some(Self::Equal(node.to_json().into()))
    }

    fn holds(&self, pointer: &Pointer, at: At<'_>) -> bool {
        match self {
            Self::Equal(want) => pointer.any(at, &mut |got| got == want),
            Self::Regex(regex) => {
                pointer.any(at, &mut |got| got.as_text().is_some_and(|text| regex.is_match(text)))
            }
            Self::OneOf(wants) => wants.iter().any(|want| want.holds(pointer, at)),
            Self::Exists => pointer.any(at, &mut |_| true),
            Self::Absent => !pointer.any(at, &mut |_| true),
        }
    }
}
