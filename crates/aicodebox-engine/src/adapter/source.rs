use std::borrow::Cow;

use super::{
    json::Json,
    node::Node,
    pointer::{At, Pointer},
};

/// Where an action takes its value from: the first of these that is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Source(Vec<Choice>);

#[derive(Clone, Debug, PartialEq)]
enum Choice {
    At(Pointer),
    Literal(Json<'static>),
}

impl Source {
    pub(super) fn pointer(text: &str) -> Self {
        Self(Pointer::new(text).map(Choice::At).into_iter().collect())
    }

    /// Reads `"/pointer"`, `"=literal"` or a list of them.
    pub(super) fn parse(node: &Node<'_>, each: bool) -> Self {
        let nodes = if node.is_list() { node.list().unwrap_or_default() } else { vec![node.clone()] };
        let choice = |choice: &Node<'_>| {
            let text = choice.text()?;
            if let Some(literal) = text.strip_prefix('=') {
                return Some(Choice::Literal(Json::Text(literal.to_owned().into())));
            }
            Pointer::parse(&choice.clone().called(&node.place), text, each).map(Choice::At)
        };
        Self(nodes.iter().filter_map(choice).collect())
    }

    /// All values of the first choice that has any.
    pub(super) fn find<'v>(&'v self, at: At<'v>) -> Vec<&'v Json<'v>> {
        let mut found = Vec::new();
        for choice in &self.0 {
            choice.collect(at, &mut found);
            if !found.is_empty() {
                break;
            }
        }
        found
    }

    /// The values of all choices.
    pub(super) fn find_all<'v>(&'v self, at: At<'v>) -> Vec<&'v Json<'v>> {
        let mut found = Vec::new();
        self.0.iter().for_each(|choice| choice.collect(at, &mut found));
        found
    }

    /// The values as one text; empty when there are none.
    pub(super) fn text<'v>(&'v self, at: At<'v>) -> Cow<'v, str> {
        join(&self.find(at))
    }

    /// The pointers among the choices.
    pub(super) fn pointers(&self) -> impl Iterator<Item = &Pointer> {
        self.0.iter().filter_map(|choice| match choice {
            Choice::At(pointer) => Some(pointer),
            Choice::Literal(_) => None,
        })
    }
}

impl Choice {
    fn collect<'v>(&'v self, at: At<'v>, found: &mut Vec<&'v Json<'v>>) {
        match self {
            Self::Literal(value) => found.push(value),
            Self::At(pointer) => {
                pointer.any(at, &mut |value| {
                    found.push(value);
                    false
                });
            }
        }
    }
}

/// Values as one text: texts as they are, everything else as JSON.
pub(super) fn join<'v>(values: &[&'v Json<'v>]) -> Cow<'v, str> {
    match values {
        [] => Cow::Borrowed(""),
        [Json::Text(text)] => Cow::Borrowed(text),
        values => {
            let one = |value: &&Json<'_>| match value {
                Json::Text(text) => text.clone().into_owned(),
                other => other.to_value().to_string(),
            };
            Cow::Owned(values.iter().map(one).collect())
        }
    }
}
