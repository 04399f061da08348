use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value, value::RawValue};

/// Levels of lists and objects that are read; one that lies deeper is kept as a text, its JSON. Nobody could parse
/// again what has more than the 128 levels of `serde_json`, and a stack has an end.
const MAX_DEPTH: usize = 100;

/// A JSON value of one line, whose texts are the line's own bytes wherever they have no escapes.
///
/// Rules look at every line and keep little of it: with [`Value`], more than half of the time went into copying
/// texts and hashing keys that nobody asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json<'l> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'l, str>),
    List(Vec<Json<'l>>),
    /// In the order of the line. Of two entries with the same key the last one counts.
    Object(Vec<(Key<'l>, Json<'l>)>),
}

/// The key of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key<'l>(Cow<'l, str>);

impl Json<'_> {
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(entries) = self else { return None };
        entries.iter().rev().find(|(name, _)| name.0 == key).map(|(_, value)| value)
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    pub(super) fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            Self::Null | Self::Bool(_) | Self::Text(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// Whether it has at most about so many bytes. Looks at no more than that.
    pub(super) fn is_within(&self, bytes: usize) -> bool {
        self.rest_of(bytes).is_some()
    }

    fn rest_of(&self, bytes: usize) -> Option<usize> {
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) => bytes.checked_sub(4),
            Self::Text(text) => bytes.checked_sub(text.len() + 2),
            Self::List(items) => {
                items.iter().try_fold(bytes, |bytes, item| item.rest_of(bytes.checked_sub(1)?))
            }
            Self::Object(entries) => entries
                .iter()
                .try_fold(bytes, |bytes, (key, value)| value.rest_of(bytes.checked_sub(key.0.len() + 4)?)),
        }
    }

    /// A value that does not need the line any more.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.clone().into_owned()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(entries) => {
                let entry = |(key, value): &(Key<'_>, Self)| (key.0.clone().into_owned(), value.to_value());
                Value::Object(entries.iter().map(entry).collect())
            }
        }
    }
}

impl From<Value> for Json<'static> {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::Text(text.into()),
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(map) => {
                Self::Object(map.into_iter().map(|(key, value)| (Key(key.into()), value.into())).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Level(0).deserialize(deserializer)
    }
}

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// Reads a value that lies within that many others.
struct Level(usize);

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if self.0 < MAX_DEPTH {
            return deserializer.deserialize_any(self);
        }
        let text = <&RawValue>::deserialize(deserializer)?.get();
        if text.starts_with(['[', '{']) {
            return Ok(Json::Text(text.into()));
        }
        serde_json::from_str(text).map_err(D::Error::custom)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Self(self.0 + 1))? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut object = Vec::new();
        while let Some(key) = entries.next_key()? {
            object.push((key, entries.next_value_seed(Self(self.0 + 1))?));
        }
        Ok(Json::Object(object))
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Owned(text.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_same_as_that_of_serde_json() {
        let text = r#"{"a":[1,-2,3.5,1e40,true,null,"é\n\u00e9"],"b":{"\n":{}},"":18446744073709551615}"#;
        let json: Json<'_> = serde_json::from_str(text).unwrap();
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(json.to_value(), value);
        assert_eq!(Json::from(value), json);
    }

    #[test]
    fn what_lies_too_deep_is_kept_as_its_text() {
        let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        // In the object there is room for lists up to this many.
        for levels in [MAX_DEPTH - 1, MAX_DEPTH, 127, 200_000] {
            let line = format!(r#"{{"text":"hi","deep":{}}}"#, deep(levels));
            let json: Json<'_> = serde_json::from_str(&line).unwrap();
            assert_eq!(json.get("text").and_then(Json::as_text), Some("hi"));
            let value = json.to_value();
            assert_eq!(serde_json::from_str::<Value>(&value.to_string()).unwrap(), value);
            let (mut inner, mut depth) = (&value["deep"], 0);
            while let Some(item) = inner.get(0) {
                (inner, depth) = (item, depth + 1);
            }
            let rest = levels - depth;
            let want = if rest == 0 { Value::from(1) } else { Value::from(deep(rest)) };
            assert_eq!((depth, inner), (levels.min(MAX_DEPTH - 1), &want), "{levels}");
        }
    }

    #[test]
    fn texts_are_borrowed_and_the_last_of_two_entries_counts() {
        let json: Json<'_> = serde_json::from_str(r#"{"k":"first","k":"last"}"#).unwrap();
        let Some(Json::Text(Cow::Borrowed(text))) = json.get("k") else { panic!("{json:?}") };
        assert_eq!(*text, "last");
    }
}
