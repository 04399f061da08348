use super::{json::Json, node::Node};

/// A JSON Pointer with `*` for every element of an array or value of an object. `@/…` reads the element that
/// `each` stands at. A value that is null counts as missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    /// Begins with `@`.
    pub(super) item: bool,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Any,
    Key {
        name: String,
        /// The same as an index into an array.
        index: Option<usize>,
    },
}

/// Where pointers look: the line, and the element of `each`.
#[derive(Clone, Copy)]
pub(super) struct At<'v> {
    pub(super) line: &'v Json<'v>,
    pub(super) item: Option<&'v Json<'v>>,
}

impl Pointer {
    pub(super) fn new(text: &str) -> Option<Self> {
        let path = text.strip_prefix('@').unwrap_or(text);
        if !path.is_empty() && !path.starts_with('/') {
            return None;
        }
        let step = |part: &str| match part {
            "*" => Step::Any,
            _ => {
                let name = part.replace("~1", "/").replace("~0", "~");
                let index = name.parse().ok().filter(|_| name.bytes().all(|b| b.is_ascii_digit()));
                Step::Key { name, index }
            }
        };
        Some(Self { item: text.starts_with('@'), steps: path.split('/').skip(1).map(step).collect() })
    }

    /// Reads a pointer; `each` = whether the rule has one, for `@`.
    pub(super) fn parse(node: &Node<'_>, text: &str, each: bool) -> Option<Self> {
        let pointer = Self::new(text);
        match &pointer {
            None if text.starts_with('=') => {
                node.error(format_args!("'{text}' is a literal text; here it must be a pointer"));
            }
            None => node.error(format_args!(
                "'{text}' is no pointer; it begins with '/', '@/' (the each item) or '=' (literal text)"
            )),
            Some(pointer) if pointer.item && !each => node.error(format_args!("'{text}' needs 'each'")),
            Some(_) => {}
        }
        pointer
    }

    /// Whether `test` is true of a value found there.
    pub(super) fn any<'v>(&self, at: At<'v>, test: &mut dyn FnMut(&'v Json<'v>) -> bool) -> bool {
        let start = if self.item { at.item } else { Some(at.line) };
        start.is_some_and(|start| walk(start, &self.steps, test))
    }
}

/// Calls `test` for the values at the end of `steps`, until it is true of one.
fn walk<'v>(value: &'v Json<'v>, steps: &[Step], test: &mut dyn FnMut(&'v Json<'v>) -> bool) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return *value != Json::Null && test(value);
    };
    match (step, value) {
        (Step::Any, Json::List(items)) => items.iter().any(|item| walk(item, rest, test)),
        (Step::Any, Json::Object(entries)) => entries.iter().any(|(_, item)| walk(item, rest, test)),
        (Step::Key { name, .. }, Json::Object(_)) => {
            value.get(name).is_some_and(|value| walk(value, rest, test))
        }
        (Step::Key { index: Some(index), .. }, Json::List(items)) => {
            items.get(*index).is_some_and(|value| walk(value, rest, test))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(text: &str) -> Vec<Value> {
        let line = Json::from(json!({"a": {"b": [1, null, {"c": "x"}], "": 2, "~/": 3, "0": 4}, "n": null}));
        let item = Json::from(json!({"k": "item"}));
        let mut found = Vec::new();
        Pointer::new(text).unwrap().any(At { line: &line, item: Some(&item) }, &mut |value| {
            found.push(value.to_value());
            false
        });
        found
    }

    #[test]
    fn pointers_find_what_is_there_and_not_null() {
        assert_eq!(found("/a/b/0"), [json!(1)]);
        assert_eq!(found("/a/b/*"), [json!(1), json!({"c": "x"})]);
        assert_eq!(found("/a/b/*/c"), [json!("x")]);
        assert_eq!(found("/a/*"), [json!([1, null, {"c": "x"}]), json!(2), json!(3), json!(4)]);
        assert_eq!(found("/a/"), [json!(2)]);
        assert_eq!(found("/a/~0~1"), [json!(3)]);
        assert_eq!(found("/a/0"), [json!(4)]);
        assert_eq!(found("@/k"), [json!("item")]);
        assert_eq!(found("@"), [json!({"k": "item"})]);
        assert!(found("/n").is_empty() && found("/a/b/1").is_empty() && found("/a/b/9").is_empty());
        assert!(found("/a/b/+0").is_empty() && found("/x/y").is_empty());
    }

    #[test]
    fn the_empty_pointer_is_the_whole_line() {
        assert_eq!(found("").len(), 1);
    }

    #[test]
    fn other_texts_are_no_pointers() {
        assert_eq!(Pointer::new("m"), None);
        assert_eq!(Pointer::new("@m"), None);
    }
}
