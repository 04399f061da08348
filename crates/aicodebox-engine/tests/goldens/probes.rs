use std::sync::Arc;

use aicodebox_engine::{
    adapter::{Adapter, Host},
    process::{Launch, Stdin, variables},
};

use crate::cases::built_in;

/// A machine on which every program is `/bin/sh`.
fn host() -> Host {
    Host {
        home: "/home/agent".into(),
        tmp: "/tmp/run".into(),
        env: Arc::new(variables([("PATH", "/bin")])),
        root: false,
        subscription: false,
        binary: Some("/bin/sh".into()),
        default_model: None,
        models: Arc::default(),
        flags: Arc::default(),
    }
}

fn args(launch: &Launch) -> Vec<String> {
    launch.args.iter().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect()
}

#[test]
fn the_help_tells_which_flags_there_are() {
    let probes = built_in("codex").probes(&host());
    assert_eq!(probes.len(), 1);
    assert_eq!(
        (args(&probes[0].launch), &probes[0].launch.stdin),
        (vec!["exec".into(), "--help".into()], &Stdin::Null)
    );
    let known = |answer: &str| (probes[0].read)(answer);
    assert_eq!(known("Options:\n      --ephemeral  Do not keep"), [("--ephemeral".to_owned(), true)]);
    assert_eq!(known("Options:\n      --ephemerality"), [("--ephemeral".to_owned(), false)]);
    assert_eq!(known(" \n"), []);
}

#[test]
fn where_the_help_hides_flags_the_complaint_tells() {
    let probes = built_in("claude").probes(&host());
    let asked: Vec<Vec<String>> = probes.iter().map(|probe| args(&probe.launch)).collect();
    let flags =
        ["--include-partial-messages", "--no-session-persistence", "--effort", "--system-prompt-snapshot"];
    assert_eq!(asked, flags.map(|flag| vec!["-p".to_owned(), flag.to_owned()]));
    let known = |answer: &str| (probes[2].read)(answer);
    assert_eq!(known("error: unknown option '--effort'"), [("--effort".to_owned(), false)]);
    assert_eq!(known("error: option '--effort <level>' argument missing"), [("--effort".to_owned(), true)]);
}

#[test]
fn an_agent_without_optional_flags_is_asked_nothing() {
    for name in ["demo", "text", "pi", "gemini", "opencode"] {
        assert!(built_in(name).probes(&host()).is_empty(), "{name}");
    }
}

#[test]
fn the_version_is_found_among_warnings() {
    let version = |name: &str, answer: &str| {
        let probe = built_in(name).version_probe(&host())?;
        assert_eq!(args(&probe.launch), ["--version"]);
        (probe.read)(answer)
    };
    assert_eq!(
        version("codex", "WARNING: proceeding, even though\ncodex-cli 0.171.0\n").as_deref(),
        Some("0.171.0")
    );
    assert_eq!(version("claude", "2.1.332 (Claude Code)\n").as_deref(), Some("2.1.332"));
    assert_eq!(version("pi", "\n1.6.0\r\n").as_deref(), Some("1.6.0"));
    assert_eq!(version("gemini", "command not found\n"), None);
    assert_eq!(version("demo", "1.0"), None);
}
