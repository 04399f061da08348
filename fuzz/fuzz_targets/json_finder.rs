//! Whatever text an agent answers with: what is found in it is JSON, that without end or fall, and pieces that are said to
//! stand side by side do.
#![no_main]

use std::sync::LazyLock;

use aicodebox_engine::engine::{Schema, json_pieces};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

static OBJECTS: LazyLock<Schema> = LazyLock::new(|| Schema::compile(json!({"type": "object"})).unwrap());

fuzz_target!(|text: &str| {
    if let Ok(found) = OBJECTS.find(text) {
        assert!(found.is_object(), "{found}");
    }
    let mut end = 0;
    for (piece, value) in json_pieces(text) {
        let start = piece.as_ptr().addr() - text.as_ptr().addr();
        assert!(end <= start && start + piece.len() <= text.len(), "{piece}");
        end = start + piece.len();
        if let Ok(value) = value {
            let written = value.to_string();
            assert!(serde_json::from_str::<Value>(&written).is_ok(), "{written}");
        }
    }
});
