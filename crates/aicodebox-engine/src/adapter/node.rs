use std::{ops::Range, time::Duration};

use serde_json::Value;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::load_error::Sink;

/// One value of the file with its place, for messages, and its span, for line and column.
#[derive(Clone)]
pub(super) struct Node<'a> {
    pub(super) place: String,
    pub(super) span: Range<usize>,
    pub(super) value: &'a DeValue<'a>,
    sink: &'a Sink<'a>,
}

/// A table of the file. One that is not there is empty.
#[derive(Clone)]
pub(super) struct Table<'a> {
    pub(super) place: String,
    pub(super) span: Range<usize>,
    entries: Option<&'a DeTable<'a>>,
    sink: &'a Sink<'a>,
}

impl<'a> Node<'a> {
    pub(super) fn error(&self, message: impl std::fmt::Display) {
        self.sink.push(&self.span, format!("{}: {message}", self.place));
    }

    fn expected(&self, what: &str) {
        let got = match self.value {
            DeValue::String(_) => "text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.error(format_args!("expected {what}, got {got}"));
    }

    /// The same value under another name.
    pub(super) fn called(mut self, place: impl Into<String>) -> Self {
        self.place = place.into();
        self
    }

    pub(super) fn as_text(&self) -> Option<&'a str> {
        match self.value {
            DeValue::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.value, DeValue::Array(_))
    }

    pub(super) fn text(&self) -> Option<&'a str> {
        self.as_text().or_else(|| {
            self.expected("text");
            None
        })
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        if let DeValue::Boolean(value) = self.value {
            return Some(*value);
        }
        self.expected("true or false");
        None
    }

    pub(super) fn integer(&self) -> Option<i64> {
        let number = match self.value {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        if number.is_none() {
            self.expected("a whole number");
        }
        number
    }

    /// A whole number that is not negative.
    pub(super) fn count(&self) -> Option<usize> {
        let number = self.integer()?;
        let count = usize::try_from(number).ok();
        if count.is_none() {
            self.error("must not be negative");
        }
        count
    }

    /// `500ms`, `2s`, `5m`, `1h`.
    pub(super) fn duration(&self) -> Option<Duration> {
        let text = self.text()?;
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let scale = match unit {
            "ms" => Some(1),
            "s" => Some(1000),
            "m" => Some(60_000),
            "h" => Some(3_600_000),
            _ => None,
        };
        let millis = scale.zip(number.parse::<u32>().ok()).map(|(scale, n)| scale * u64::from(n));
        if millis.is_none() {
            self.error(format_args!("expected a duration like 500ms, 2s, 5m or 1h, got '{text}'"));
        }
        millis.map(Duration::from_millis)
    }

    /// The elements of a list, called `place[index]`.
    pub(super) fn list(&self) -> Option<Vec<Self>> {
        let DeValue::Array(items) = self.value else {
            self.expected("a list");
            return None;
        };
        let named = |(index, item): (usize, &'a Spanned<DeValue<'a>>)| Node {
            place: format!("{}[{index}]", self.place),
            span: item.span(),
            value: item.get_ref(),
            sink: self.sink,
        };
        Some(items.iter().enumerate().map(named).collect())
    }

    pub(super) fn texts(&self) -> Vec<String> {
        let items = self.list().unwrap_or_default();
        items.iter().filter_map(Node::text).map(str::to_owned).collect()
    }

    /// The table, after every key that is not in `known` was reported. `known` is sorted.
    pub(super) fn table(&self, known: &[&str]) -> Option<Table<'a>> {
        let table = self.open_table()?;
        table.check_keys(known);
        Some(table)
    }

    /// The table, whatever its keys.
    pub(super) fn open_table(&self) -> Option<Table<'a>> {
        let DeValue::Table(entries) = self.value else {
            self.expected("a table");
            return None;
        };
        let (place, span) = (self.place.clone(), self.span.clone());
        Some(Table { place, span, entries: Some(entries), sink: self.sink })
    }

    /// The value as JSON, for comparing and for literal parts of JSON texts. A date becomes text.
    pub(super) fn to_json(&self) -> Value {
        to_json(self.value)
    }
}

impl<'a> Table<'a> {
    /// The whole document.
    pub(super) fn document(table: &'a Spanned<DeTable<'a>>, known: &[&str], sink: &'a Sink<'a>) -> Self {
        let place = "top level".to_owned();
        let document = Self { place, span: table.span(), entries: Some(table.get_ref()), sink };
        document.check_keys(known);
        document
    }

    /// The section `[name]`.
    pub(super) fn section(&self, name: &str, known: &[&str]) -> Self {
        let place = format!("[{name}]");
        let table = self.get(name).and_then(|node| node.called(&place).table(known));
        table.unwrap_or(Self { place, span: self.span.clone(), entries: None, sink: self.sink })
    }

    /// The tables of `[[name]]`, called `[[name]] 1` and so on.
    pub(super) fn tables(&self, name: &str) -> Vec<Node<'a>> {
        let nodes = self.get(name).and_then(|node| node.called(format!("[[{name}]]")).list());
        let numbered = nodes.unwrap_or_default().into_iter().enumerate();
        numbered.map(|(index, node)| node.called(format!("[[{name}]] {}", index + 1))).collect()
    }

    fn check_keys(&self, known: &[&str]) {
        for (key, _) in self.entries.into_iter().flatten() {
            if !known.contains(&key.get_ref().as_ref()) {
                let known = known.join(", ");
                let message = format!("{}: unknown key '{}'; known here: {known}", self.place, key.get_ref());
                self.sink.push(&key.span(), message);
            }
        }
    }

    pub(super) fn error(&self, message: impl std::fmt::Display) {
        self.sink.push(&self.span, format!("{}: {message}", self.place));
    }

    /// Notes an error that speaks of the file as a whole.
    pub(super) fn bare_error(&self, message: impl Into<String>) {
        self.sink.push(&self.span, message);
    }

    pub(super) fn is_there(&self) -> bool {
        self.entries.is_some()
    }

    /// The value of a key, called `place key`.
    pub(super) fn get(&self, key: &str) -> Option<Node<'a>> {
        let (name, value) = self.entries?.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(self.entry(name.get_ref(), value))
    }

    /// All entries, in the order of the file.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, Node<'a>)> + '_ {
        let entries = self.entries.into_iter().flatten();
        entries.map(|(key, value)| (key.get_ref().as_ref(), self.entry(key.get_ref(), value)))
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.get(key)?.text().map(str::to_owned)
    }

    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        self.get(key).map(|node| node.texts()).unwrap_or_default()
    }

    /// `true` only if it says so.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.get(key).and_then(|node| node.boolean()).unwrap_or_default()
    }

    fn entry(&self, key: &str, value: &'a Spanned<DeValue<'a>>) -> Node<'a> {
        let place = format!("{} {key}", self.place);
        Node { place, span: value.span(), value: value.get_ref(), sink: self.sink }
    }
}

fn to_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(date) => Value::String(date.to_string()),
        DeValue::Array(items) => items.iter().map(|item| to_json(item.get_ref())).collect(),
        DeValue::Table(entries) => {
            let pairs =
                entries.iter().map(|(key, value)| (key.get_ref().to_string(), to_json(value.get_ref())));
            Value::Object(pairs.collect())
        }
    }
}
