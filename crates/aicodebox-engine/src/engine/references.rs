use std::{borrow::Cow, collections::HashMap, ptr};

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// References that lead on to references, one after the other, at most.
const MAX_CHAIN: usize = 1_000;

/// What `$ref` and its like name within one schema.
pub(super) struct References<'s> {
    root: &'s Value,
    anchors: HashMap<&'s str, &'s Value>,
}

impl<'s> References<'s> {
    /// # Errors
    /// Says which reference is none that is followed here. With an `$id` further in, the same reference would name
    /// another place.
    pub(super) fn of(root: &'s Value) -> Result<Self, String> {
        let mut references = Self { root, anchors: HashMap::new() };
        let mut named = Vec::new();
        references.collect(root, &mut named)?;
        match named.iter().find(|name| references.target(name).is_none()) {
            None => Ok(references),
            Some(name) => Err(format!(
                "{name}: a reference that leads out of the schema is not followed; within it, one is by pointer (#/…) or \
                 anchor (#name)"
            )),
        }
    }

    fn collect(&mut self, value: &'s Value, named: &mut Vec<&'s str>) -> Result<(), String> {
        match value {
            Value::Object(fields) => fields.iter().try_for_each(|(key, field)| {
                match (key.as_str(), field.as_str()) {
                    (key, Some(name)) if refers(key) => named.push(name),
                    ("$anchor" | "$dynamicAnchor", Some(name)) => _ = self.anchors.insert(name, value),
                    ("$id" | "id", Some(id)) if id.starts_with('#') => {
                        self.anchors.insert(id.trim_start_matches('#'), value);
                    }
                    ("$id", Some(_)) if !ptr::eq(value, self.root) => {
                        return Err("an $id within the schema is not followed".to_owned());
                    }
                    _ => {}
                }
                self.collect(field, named)
            }),
            Value::Array(items) => items.iter().try_for_each(|item| self.collect(item, named)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn target(&self, name: &str) -> Option<&'s Value> {
        let fragment: Cow<'_, str> = percent_decode_str(name.strip_prefix('#')?).decode_utf8().ok()?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.root.pointer(&fragment);
        }
        self.anchors.get(&*fragment).copied()
    }

    /// How many values the schema has when its references are followed. One that leads back to where it came from
    /// counts once: what it costs is the answer's to say.
    pub(super) fn unfolded(
        &self,
        value: &Value,
        known: &mut HashMap<*const Value, u64>,
        depth: usize,
    ) -> u64 {
        if depth > MAX_CHAIN {
            return u64::MAX;
        }
        if let Some(count) = known.get(&ptr::from_ref(value)) {
            return *count;
        }
        known.insert(value, 1);
        let mut within = |value: &Value| self.unfolded(value, known, depth + 1);
        let parts = match value {
            Value::Object(fields) => fields.iter().fold(0, |sum: u64, (key, field)| {
                let target = field.as_str().filter(|_| refers(key)).and_then(|name| self.target(name));
                sum.saturating_add(within(target.unwrap_or(field)))
            }),
            Value::Array(items) => items.iter().fold(0, |sum: u64, item| sum.saturating_add(within(item))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        };
        let count = parts.saturating_add(1);
        known.insert(value, count);
        count
    }
}

/// Whether what stands at this key of a schema names another place.
fn refers(key: &str) -> bool {
    matches!(key, "$ref" | "$dynamicRef" | "$recursiveRef")
}
