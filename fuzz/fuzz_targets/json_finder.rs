//! Whatever text an agent answers with: what is found in it is JSON, and that without end or fall.
#![no_main]

use aicodebox_engine::engine::json_values;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &str| {
    for value in json_values(text) {
        let written = value.to_string();
        assert!(serde_json::from_str::<Value>(&written).is_ok(), "{written}");
    }
});
