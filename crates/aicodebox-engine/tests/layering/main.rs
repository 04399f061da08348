//! The engine's modules are layers: each may name only those below it.

mod source;

use std::path::Path;

use source::{Layers, read_sources, upward_names};

const LAYERS: Layers = &[
    ("lib", &["run", "process", "adapter", "workspace", "store", "engine"]),
    ("run", &[]),
    ("process", &["run"]),
    ("adapter", &["run", "process"]),
    ("workspace", &["run", "process"]),
    ("store", &["run"]),
    ("engine", &["run", "process", "adapter", "workspace", "store"]),
];

/// What an adapter may use of `process`: data. It plans and reads; it never starts anything.
const PROCESS_DATA: &[&str] = &[
    "Flow",
    "Launch",
    "Limits",
    "Line",
    "Lines",
    "MAX_LINE",
    "Output",
    "Rlimit",
    "Stdin",
    "Stop",
    "StopPlan",
    "Stream",
    "Utf8Chunks",
    "Variables",
    "lines",
    "tail",
    "variables",
];

/// What starts a process without the launcher. Only `process` may.
const SPAWNERS: &[&str] = &["process::Command", "Command::new", "posix_spawn", "fork("];

#[test]
fn modules_name_only_what_is_below_them() {
    let wrong = upward_names(&sources(), LAYERS);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// An adapter file never starts anything. A Python class needs an interpreter that lives, which it has from the pool
/// like everybody else.
#[test]
fn an_adapter_file_uses_only_the_data_of_processes() {
    let python = Path::new("adapter").join("python");
    let of_files = |source: &&source::Source| {
        source.module == "adapter" && !source.file.ancestors().any(|folder| folder.ends_with(&python))
    };
    for source in sources().iter().filter(of_files) {
        for path in &source.paths {
            let item = path.strip_prefix("process::").and_then(|rest| rest.split("::").next());
            assert!(
                item.is_none_or(|item| PROCESS_DATA.contains(&item)),
                "{}: an adapter may not use {path}",
                source.file.display()
            );
        }
    }
}

#[test]
fn only_process_starts_processes() {
    let tests = |source: &&source::Source| source.file.ends_with("tests.rs");
    for source in sources().iter().filter(|source| source.module != "process" && !tests(source)) {
        for spawner in SPAWNERS {
            let file = source.file.display();
            assert!(!source.code.contains(spawner), "{file}: `{spawner}` belongs into `process`");
        }
    }
}

fn sources() -> Vec<source::Source> {
    read_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}
