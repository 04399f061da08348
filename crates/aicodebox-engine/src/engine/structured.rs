use std::{borrow::Cow, collections::HashMap, fmt, sync::Arc};

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::references::References;
use crate::run::AnswerCheck;

/// A schema larger than this many bytes is refused: it travels in prompts and on command lines.
pub const SCHEMA_LIMIT: usize = 256 << 10;
/// A schema that has more subschemas than this when its references are followed is refused: each is looked at wherever
/// it is referred to, and of forty that refer twice to the next one the last would be looked at a million million times.
const MAX_UNFOLDED: u64 = 100_000;
/// How often a `{` or `[` in running text may turn out not to begin anything: each takes time in proportion to what
/// follows.
const MAX_STARTS: usize = 32;
/// So many values in running text are tried as the answer.
const MAX_CANDIDATES: usize = 32;
/// So many values that stand side by side are read.
const MAX_PIECES: usize = 512;
/// How often a pattern may step back on one string before it counts as not matching.
const BACKTRACK_LIMIT: usize = 100_000;
/// How much of an answer or an error is quoted.
const QUOTE: usize = 300;

/// A compiled JSON Schema. Cheap to clone.
#[derive(Clone)]
pub struct Schema {
    source: Arc<Value>,
    validator: Arc<Validator>,
}

impl Schema {
    /// Compiles a schema; the draft is that of `$schema`, else 2020-12. Takes time in proportion to its size: not
    /// for the reactor.
    ///
    /// # Errors
    /// Says what is wrong with it. A `$ref` out of the document is refused: nothing is ever fetched or read.
    pub fn compile(source: Value) -> Result<Self, String> {
        if !source.is_object() && !source.is_boolean() {
            return Err("a JSON Schema is an object or a boolean".into());
        }
        let size = source.to_string().len();
        if size > SCHEMA_LIMIT {
            return Err(format!("the schema has {size} bytes; at most {SCHEMA_LIMIT} are accepted"));
        }
        let references = References::of(&source)?;
        if references.unfolded(&source, &mut HashMap::new(), 0) > MAX_UNFOLDED {
            return Err(format!("its references, followed, make more than {MAX_UNFOLDED} subschemas"));
        }
        let mut options = jsonschema::options()
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_LIMIT));
        if source.get("$schema").is_none() {
            options = options.with_draft(Draft::Draft202012);
        }
        let validator = options.build(&source).map_err(|error| short(&error.to_string()))?;
        Ok(Self { source: Arc::new(source), validator: Arc::new(validator) })
    }

    /// [`Self::compile`] off the reactor: a schema may be large.
    ///
    /// # Errors
    /// As there, as a sentence.
    pub async fn compile_aside(source: Value) -> Result<Self, String> {
        let compiled = spawn_blocking(move || Self::compile(source)).await;
        compiled
            .unwrap_or_else(|error| Err(error.to_string()))
            .map_err(|wrong| format!("the JSON Schema is not usable: {wrong}"))
    }

    /// The schema as it was given.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Finds the answer in a text: the first candidate that parses and is valid (contract §5). Not for the reactor.
    ///
    /// # Errors
    /// What is wrong with the best candidate, for the model and for the user.
    pub fn find(&self, text: &str) -> Result<Value, String> {
        let mut complaint = None;
        for value in json_values(text) {
            match self.complaint(&value) {
                None => return Ok(value),
                // The first that parsed is most likely the one that was meant.
                Some(wrong) => complaint = complaint.or(Some(wrong)),
            }
        }
        Err(complaint.unwrap_or_else(|| format!("no JSON was found in the answer: {}", short(text.trim()))))
    }

    /// Why the value is not valid; `None` when it is.
    pub fn complaint(&self, value: &Value) -> Option<String> {
        let mut errors = self.validator.iter_errors(value);
        let first = errors.next()?;
        let place = first.instance_path().to_string();
        let place = if place.is_empty() { "the answer".to_owned() } else { place };
        let more = errors.count();
        let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
        Some(format!("{place}: {}{more}", short(&first.to_string())))
    }
}

impl AnswerCheck for Schema {
    fn read(&self, text: &str, structured: Option<Value>) -> Result<Value, String> {
        match structured {
            Some(value) => self.complaint(&value).map_or(Ok(value), Err),
            None => self.find(text),
        }
    }

    fn instruction(&self) -> &str {
        "Answer again with nothing but one JSON value that is valid against the schema."
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.source).finish()
    }
}

/// The JSON values that may be the answer in a text, likeliest first (contract §5).
fn json_values(text: &str) -> impl Iterator<Item = Value> {
    candidates(text).filter_map(|candidate| {
        serde_json::from_str(&candidate)
            .inspect_err(|error| tracing::trace!(%error, "a candidate is no JSON"))
            .ok()
    })
}

/// What stands in a text side by side and looks like JSON, from left to right and none inside another, each with what
/// it is. The whole text, or the whole of a fenced block, is one piece if it is JSON. At most 512.
pub fn json_pieces(text: &str) -> impl Iterator<Item = (&str, serde_json::Result<Value>)> {
    let parts = match serde_json::from_str::<Value>(text) {
        Ok(_) => vec![text],
        Err(_) => fenced_or_not(text),
    };
    let pieces = parts.into_iter().flat_map(|part| {
        let whole = serde_json::from_str(part).ok().map(|value| (part, Ok(value)));
        let inside = if whole.is_none() { part } else { "" };
        whole.into_iter().chain(balanced(inside).map(|piece| (piece, serde_json::from_str(piece))))
    });
    pieces.take(MAX_PIECES)
}

/// What may be the answer, in the order in which it is tried.
fn candidates(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let whole = text.trim();
    let blocks = fenced(whole);
    std::iter::once(whole)
        .chain(without_edge_fences(whole))
        .chain(blocks.into_iter().rev())
        .chain(balanced(whole).take(MAX_CANDIDATES))
        .map(Cow::Borrowed)
}

/// The text between an opening fence in its first line and a closing one in its last.
fn without_edge_fences(text: &str) -> Option<&str> {
    let (_language, inner) = text.strip_prefix("```")?.split_once('\n')?;
    Some(inner.strip_suffix("```").unwrap_or(inner).trim())
}

/// The contents of all fenced blocks that end.
fn fenced(text: &str) -> Vec<&str> {
    let mut parts = fenced_or_not(text);
    // Behind the last fence there is running text, or a block without an end.
    parts.pop();
    parts.into_iter().skip(1).step_by(2).map(str::trim).collect()
}

/// What is between fences, from beginning to end: running text and the contents of blocks in turns.
fn fenced_or_not(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut offset, mut start) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            parts.push(&text[start..offset]);
            start = offset + line.len();
        }
        offset += line.len();
    }
    parts.push(&text[start..]);
    parts
}

/// The balanced `{…}` and `[…]` of running text, from left to right, none inside another that was given.
fn balanced(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    let mut starts = 0;
    std::iter::from_fn(move || {
        while starts < MAX_STARTS {
            let start = rest.find(['{', '['])?;
            let here = &rest[start..];
            let end = balanced_end(here.as_bytes());
            rest = &here[end.unwrap_or(1)..];
            if let Some(end) = end {
                return Some(&here[..end]);
            }
            starts += 1;
        }
        None
    })
}

/// Where the bracket that `text` begins with is closed; brackets in strings do not count.
fn balanced_end(text: &[u8]) -> Option<usize> {
    let (mut open, mut in_string, mut escaped) = (Vec::new(), false, false);
    for (index, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' => {
                if open.pop() != Some(*byte) {
                    return None;
                }
                if open.is_empty() {
                    return Some(index + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// At most [`QUOTE`] bytes, cut at a character.
fn short(text: &str) -> String {
    if text.len() <= QUOTE {
        return text.to_owned();
    }
    let end = (0..=QUOTE).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::compile(json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
            "required": ["name"],
        }))
        .unwrap()
    }

    #[test]
    fn the_answer_is_found_wherever_it_stands() {
        let ada = json!({"name": "Ada"});
        for text in [
            r#"{"name": "Ada"}"#,
            "```json\n{\"name\": \"Ada\"}\n```",
            "```\n{\"name\": \"Ada\"}```",
            "Here it is:\n```json\n{\"name\": 1}\n```\nNo, this:\n```json\n{\"name\": \"Ada\"}\n```\nDone.",
            "Sure! {\"name\": \"Ada\"} Anything else?",
            "In {braces} and [brackets]: {\"name\": \"Ada\"}",
            "An unclosed { before {\"name\": \"Ada\"}",
            "First {\"other\": 1}, then {\"name\": \"Ada\"}",
        ] {
            assert_eq!(schema().find(text), Ok(ada.clone()), "{text}");
        }
        let tricky = r#"x {"name": "a } \" ] {"} y"#;
        assert_eq!(schema().find(tricky), Ok(json!({"name": "a } \" ] {"})));
    }

    #[test]
    fn what_is_wrong_is_said_of_the_first_that_parsed() {
        assert_eq!(
            schema().find(r#"{"name": "Ada", "age": -1} or {"x": 1}"#).unwrap_err(),
            "/age: -1 is less than the minimum of 0"
        );
        assert_eq!(schema().find("I cannot.").unwrap_err(), "no JSON was found in the answer: I cannot.");
        assert_eq!(
            schema().find(r#"{"age": "x"}"#).unwrap_err(),
            "the answer: \"name\" is a required property (and 1 more)"
        );
    }

    #[test]
    fn a_schema_reads_and_fetches_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{}").unwrap();
        for target in [format!("file://{}", file.path().display()), "http://127.0.0.1:9/x.json".into()] {
            let refused = Schema::compile(json!({"$ref": target}));
            assert!(refused.is_err(), "{target} was resolved");
        }
        assert!(Schema::compile(json!({"$defs": {"x": {"type": "null"}}, "$ref": "#/$defs/x"})).is_ok());
    }

    #[test]
    fn a_small_schema_that_would_be_looked_at_for_ever_is_refused() {
        let next = |number: usize| json!({"$ref": format!("#/$defs/n{number}")});
        let mut defs: serde_json::Map<_, _> = (0..40)
            .map(|number| (format!("n{number}"), json!({"allOf": [next(number + 1), next(number + 1)]})))
            .collect();
        defs.insert("n40".into(), json!({"type": "object"}));
        let refused = Schema::compile(json!({"$defs": defs, "$ref": "#/$defs/n0"}));
        assert_eq!(refused.unwrap_err(), "its references, followed, make more than 100000 subschemas");
        let chain: serde_json::Map<_, _> =
            (0..5_000).map(|number| (format!("n{number}"), next(number + 1))).collect();
        assert!(Schema::compile(json!({"$defs": chain, "$ref": "#/$defs/n0"})).is_err());
        // By other names than that of the place.
        let written = |reference: &str| {
            let twice = json!({"allOf": [{"$ref": reference}, {"$ref": reference}]});
            let mut defs: serde_json::Map<_, _> = (1..40)
                .map(|number| {
                    let text = twice.to_string().replace("n1", &format!("n{}", number + 1));
                    let mut next: Value = serde_json::from_str(&text).unwrap();
                    next["$anchor"] = json!(format!("n{number}"));
                    (format!("n{number}"), next)
                })
                .collect();
            defs.insert("n40".into(), json!({"$anchor": "n40"}));
            Schema::compile(json!({"$defs": defs, "allOf": twice["allOf"]})).map(drop)
        };
        for reference in ["#/$defs/n1", "#/%24defs/n1", "#/%24def%73/n1", "#n1"] {
            assert!(written(reference).unwrap_err().contains("make more than"), "{reference}");
        }
        // A tree, and what refers to itself.
        let tree = json!({
            "$defs": {"node": {"type": "object", "properties": {
                "left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}, "all": {"$ref": "#"},
            }}},
            "$ref": "#/$defs/node",
        });
        assert_eq!(Schema::compile(tree).unwrap().complaint(&json!({"left": {"right": {}}})), None);
    }

    #[test]
    fn places_within_are_named_by_pointer_or_anchor() {
        let named = json!({"$defs": {"a b": {"$anchor": "x", "type": "null"}}, "$ref": "#/$defs/a%20b"});
        assert_eq!(Schema::compile(named.clone()).unwrap().complaint(&json!(null)), None);
        let with = |key: &str, value: Value| {
            let mut schema = named.clone();
            schema[key] = value;
            Schema::compile(schema)
        };
        assert!(with("$ref", json!("#x")).unwrap().complaint(&json!(1)).is_some());
        assert!(with("$id", json!("http://example.org/whole")).is_ok());
        for odd in ["#nowhere", "#/$defs/nowhere", "other.json", "#/$defs/%zz"] {
            assert!(with("$ref", json!(odd)).is_err(), "{odd}");
        }
        assert!(with("items", json!({"$id": "other.json"})).is_err(), "its references would lead elsewhere");
        // A property may have any name.
        let plain = json!({"properties": {"$ref": {"type": "string"}, "$id": {}}});
        assert_eq!(Schema::compile(plain).unwrap().complaint(&json!({"$ref": "x"})), None);
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for bad in [json!("x"), json!({"type": "nonsense"}), json!({"pattern": "("}), json!([])] {
            assert!(Schema::compile(bad.clone()).is_err(), "{bad}");
        }
        let large = json!({"description": "x".repeat(SCHEMA_LIMIT)});
        assert!(Schema::compile(large).err().unwrap().contains("at most 262144"));
    }

    #[test]
    fn the_draft_is_that_of_the_schema() {
        // `items` as a list means something in draft 7, and nothing valid in 2020-12.
        let tuple =
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]});
        assert!(Schema::compile(tuple.clone()).unwrap().complaint(&json!(["x"])).is_some());
        let mut modern = tuple;
        modern.as_object_mut().unwrap().remove("$schema");
        assert!(Schema::compile(modern).is_err());
    }

    #[test]
    fn a_pattern_that_steps_back_for_ever_ends() {
        let slow = Schema::compile(json!({"type": "string", "pattern": "^(a|a)*(?=b)$"})).unwrap();
        assert!(slow.complaint(&json!("a".repeat(200))).is_some());
    }

    #[test]
    fn many_brackets_take_no_time() {
        assert!(schema().find(&"[".repeat(1 << 20)).is_err());
        assert!(schema().find(&"{\"".repeat(1 << 19)).is_err());
    }

    proptest! {
        #[test]
        fn prop_no_text_makes_it_panic(text in r#"[\[\]{}",:\\a-c1`\n é]{0,60}"#) {
            let _ended = schema().find(&text).is_ok();
        }

        #[test]
        fn an_object_in_prose_is_found(before in "[a-z .,\n]{0,20}", name in ".{0,20}", after in "[a-z .,\n]{0,20}") {
            let value = json!({"name": name});
            prop_assert_eq!(schema().find(&format!("{before}{value}{after}")), Ok(value));
        }
    }
}
