//! The box's modules are layers too: a command starts surfaces, and a surface speaks to the engine.

#[path = "../../aicodebox-engine/tests/layering/source.rs"]
mod source;

use std::path::Path;

use source::{Layers, read_sources, upward_names};

const LAYERS: Layers = &[
    ("fuzzing", &["config", "surface"]),
    ("main", &["lib"]),
    ("lib", &["command", "init"]),
    (
        "command",
        &[
            "adapter_command",
            "config",
            "cron_command",
            "fetch",
            "health_check",
            "init",
            "logging",
            "preflight",
            "serve",
            "setup",
            "surface",
        ],
    ),
    ("preflight", &["config", "serve", "setup", "surface"]),
    ("init", &["config", "setup"]),
    ("serve", &["callback", "config", "fetch", "rest", "setup", "surface"]),
    ("rest", &[]),
    ("setup", &["config"]),
    ("adapter_command", &["config"]),
    ("cron_command", &["surface"]),
    ("health_check", &["config"]),
    ("logging", &["config"]),
    ("callback", &["fetch", "surface"]),
    ("surface", &["config", "fetch"]),
    ("fetch", &[]),
    ("config", &[]),
];

#[test]
fn modules_name_only_what_is_below_them() {
    let wrong = upward_names(&sources(), LAYERS);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn only_init_starts_processes() {
    for source in sources().iter().filter(|source| source.module != "init") {
        let file = source.file.display();
        assert!(!source.code.contains("process::Command"), "{file}: processes are started by the engine");
    }
}

fn sources() -> Vec<source::Source> {
    read_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}
