//! Whatever text an agent answers with: the calls that are taken from it are of tools that were offered, with arguments
//! that fit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|answer: &str| {
    for call in aicodebox::fuzzing::tool_calls(answer) {
        match call["name"].as_str() {
            Some("weather") => assert!(call["arguments"]["city"].is_string(), "{call}"),
            Some("clock") => assert_eq!(call["arguments"], Value::Object(serde_json::Map::new())),
            other => panic!("{other:?} was not offered"),
        }
    }
});
