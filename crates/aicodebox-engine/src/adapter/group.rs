use serde_json::Value;

use super::{
    condition::{Condition, Term},
    field::Field,
    node::Node,
    words::{Scope, Slot, Words},
};

/// Something that is there under a condition, once per element of a list, or only if the program knows a flag.
#[derive(Clone, Debug)]
pub(super) struct Group<T> {
    pub(super) when: Condition,
    pub(super) each: Option<Field>,
    pub(super) probe: Option<String>,
    pub(super) body: T,
}

/// A JSON value whose texts and keys have placeholders.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Literal(Value),
    Text(Words),
    List(Vec<Shape>),
    Table(Vec<(Words, Shape)>),
}

/// A part of a file whose placeholders can be listed.
pub(super) trait Slots {
    /// Calls `found` for each.
    fn slots(&self, found: &mut dyn FnMut(Slot));
}

impl Slots for Words {
    fn slots(&self, found: &mut dyn FnMut(Slot)) {
        Words::slots(self).for_each(found);
    }
}

impl Slots for Vec<Words> {
    fn slots(&self, found: &mut dyn FnMut(Slot)) {
        self.iter().for_each(|words| Slots::slots(words, found));
    }
}

impl<T: Slots> Slots for [Group<T>] {
    fn slots(&self, found: &mut dyn FnMut(Slot)) {
        self.iter().for_each(|group| group.body.slots(found));
    }
}

impl Slots for Shape {
    fn slots(&self, found: &mut dyn FnMut(Slot)) {
        match self {
            Self::Literal(_) => {}
            Self::Text(words) => Slots::slots(words, found),
            Self::List(items) => items.iter().for_each(|item| item.slots(found)),
            Self::Table(entries) => entries.iter().for_each(|(key, value)| {
                Slots::slots(key, found);
                value.slots(found);
            }),
        }
    }
}

impl<T: Slots> Group<T> {
    pub(super) fn plain(body: T) -> Self {
        Self { when: Condition::default(), each: None, probe: None, body }
    }

    /// Reads `{ when, each, probe, KEY }`, where KEY is `args` or `put` and `body` reads its value.
    pub(super) fn parse(
        node: &Node<'_>,
        key: &str,
        scope: Scope<'_>,
        body: impl FnOnce(&Node<'_>, Scope<'_>) -> T,
    ) -> Option<Self> {
        let known =
            if key == "args" { ["args", "each", "probe", "when"] } else { ["each", "probe", "put", "when"] };
        let table = node.table(&known)?;
        let when = table.get("when").map(|when| Condition::parse(&when)).unwrap_or_default();
        let each = table.get("each").and_then(|each| {
            let name = each.text()?;
            let field = Field::from_name(name).filter(|field| field.is_list());
            if field.is_none() {
                let lists = "extra_args, images, tools";
                node.error(format_args!("each = '{name}' is not a list; lists: {lists}"));
            }
            field
        });
        let probe = table.text("probe");
        if probe.is_some() && !scope.probes {
            node.error("'probe' needs a [probe] section");
        }
        let Some(value) = table.get(key) else {
            node.error(format_args!("'{key}' is missing"));
            return None;
        };
        let body = body(&value.called(&node.place), Scope { each, ..scope });
        Some(Self { when, each, probe, body })
    }

    /// Whether it carries that field, or depends on it.
    pub(super) fn uses(&self, field: Field) -> bool {
        self.when.mentions(Term::Field(field)) || self.each == Some(field) || uses(&self.body, field)
    }
}

/// Whether a placeholder names that field.
pub(super) fn uses(part: &impl Slots, field: Field) -> bool {
    let mut used = false;
    part.slots(&mut |slot| used |= slot == Slot::Field(field));
    used
}

/// Whether a placeholder names the prompt.
pub(super) fn uses_prompt(part: &impl Slots) -> bool {
    let mut used = false;
    part.slots(&mut |slot| used |= slot == Slot::Prompt);
    used
}

impl Shape {
    pub(super) fn parse(node: &Node<'_>, scope: Scope<'_>) -> Self {
        if let Some(text) = node.as_text() {
            return Self::Text(Words::parse(text, node, scope));
        }
        let place = &node.place;
        if node.is_list() {
            let items = node.list().unwrap_or_default();
            return Self::List(
                items.into_iter().map(|item| Self::parse(&item.called(place), scope)).collect(),
            );
        }
        if node.is_table() {
            let Some(table) = node.open_table() else { return Self::Literal(Value::Null) };
            let entry = |(key, value): (&str, Node<'_>)| {
                let value = value.called(place);
                (Words::parse(key, &value, scope), Self::parse(&value, scope))
            };
            return Self::Table(table.entries().map(entry).collect());
        }
        Self::Literal(node.to_json())
    }
}
