//! The fuzz targets with their seeds. cargo-fuzz takes minutes to compile them and is seldom called: one of them did not
//! compile for days, and nobody saw it.

#![allow(unused_attributes, reason = "a target says #![no_main] for libFuzzer, and is a module here")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path};

// Under the name that the targets know: the macro is all that they need of it.
extern crate self as libfuzzer_sys;

mod stand_in {
    /// A target as a function of its input.
    macro_rules! fuzz_target {
        (|$input:ident: &[u8]| $body:block) => {
            pub(crate) fn run($input: &[u8]) $body
        };
        (|$input:ident: &str| $body:block) => {
            pub(crate) fn run(input: &[u8]) {
                let $input = std::str::from_utf8(input).unwrap();
                $body
            }
        };
    }
    pub(crate) use fuzz_target;
}
pub(crate) use stand_in::fuzz_target;

macro_rules! targets {
    ($($name:ident $file:literal)*) => { $(
        #[path = $file]
        mod $name;
    )*
        const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), $name::run)),*];
    };
}

targets! {
    adapter_reader "../../../../fuzz/fuzz_targets/adapter_reader.rs"
    chat_prompt "../../../../fuzz/fuzz_targets/chat_prompt.rs"
    json_finder "../../../../fuzz/fuzz_targets/json_finder.rs"
    path_resolver "../../../../fuzz/fuzz_targets/path_resolver.rs"
    tool_calls "../../../../fuzz/fuzz_targets/tool_calls.rs"
}

#[test]
fn every_target_bears_its_seeds() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let files = fs::read_dir(fuzz.join("fuzz_targets")).unwrap().count();
    assert_eq!(files, TARGETS.len(), "a target is not listed here");
    for (name, run) in TARGETS {
        let seeds = fs::read_dir(fuzz.join("seeds").join(name)).unwrap();
        assert!(seeds.map(|seed| run(&fs::read(seed.unwrap().path()).unwrap())).count() > 0, "{name}");
    }
}
