use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use aicodebox_engine::{
    adapter::{Adapter, FileAdapter, Host, Plan, PlanError},
    process::{Stdin, variables},
    run::{RunRequest, SessionChoice},
};

use crate::{
    cases::{built_in, load},
    streams::request,
};

fn host(path: &Path) -> Host {
    let env = [
        ("PATH", format!("relative:{}:/nowhere", path.display())),
        ("TERM", "xterm".to_owned()),
        ("OPENAI_API_KEY", "k".to_owned()),
        ("RUST_LOG", "trace".to_owned()),
    ];
    Host {
        home: "/home/agent".into(),
        tmp: "/tmp/run".into(),
        env: Arc::new(variables(env)),
        root: false,
        subscription: false,
        binary: None,
        default_model: None,
        models: Arc::default(),
        flags: Arc::default(),
    }
}

/// A directory with a program of that name.
fn with_program(name: &str, mode: u32) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join(name);
    fs::write(&program, "#!/bin/sh\n").expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(mode)).expect("its mode");
    directory
}

fn plan(adapter: &FileAdapter, request: &RunRequest, host: &Host) -> Result<Plan, PlanError> {
    let mut plan = adapter.plan(request, host);
    match plan.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(plan) => plan,
        Poll::Pending => panic!("a file's plan waits for nothing"),
    }
}

fn file(argv: &str) -> FileAdapter {
    load(&format!(
        "schema = 1\nname = \"x\"\nbinary = \"agent\"\n[run]\nargv = {argv}\nstdin = \"{{prompt}}\"\n[output]\nformat = \"text\"\n"
    ))
}

#[test]
fn a_launch_has_program_environment_input_and_stop() {
    let directory = with_program("codex", 0o755);
    let mut host = host(directory.path());
    host.subscription = true;
    let request = request();
    let plan = plan(&built_in("codex"), &request, &host).expect("a plan");
    assert_eq!(plan.launch.program, directory.path().join("codex"));
    assert_eq!(plan.launch.args[0], "codex");
    assert_eq!(plan.launch.stdin, Stdin::Bytes(b"x".to_vec()));
    assert_eq!(plan.launch.cwd, request.workspace.path);
    assert_eq!((plan.launch.stop.signal, plan.launch.stop.grace.as_millis()), (2, 2000));
    assert_eq!(plan.quiet.map(|quiet| quiet.as_secs()), Some(60));
    let var = |name: &str| plan.launch.env.get(OsStr::new(name)).and_then(|value| value.to_str());
    assert_eq!((var("TERM"), var("NO_COLOR")), (Some("dumb"), Some("1")));
    assert_eq!((var("RUST_LOG"), var("OPENAI_API_KEY")), (None, None));
    assert!(var("PATH").is_some());
}

#[test]
fn a_file_has_the_last_word_on_its_environment() {
    let directory = with_program("agent", 0o755);
    let text = "schema = 1\nname = \"x\"\nbinary = \"agent\"\n[run]\nstdin = \"{prompt}\"\n[output]\nformat = \"text\"\n\
                [env]\nTERM = \"ansi\"\nNO_COLOR = false\n";
    let plan = plan(&load(text), &request(), &host(directory.path())).expect("a plan");
    let var = |name: &str| plan.launch.env.get(OsStr::new(name)).and_then(|value| value.to_str());
    assert_eq!((var("TERM"), var("NO_COLOR")), (Some("ansi"), None));
}

#[test]
fn a_program_that_cannot_be_started_says_why() {
    let code = |plan: Result<Plan, PlanError>| match plan {
        Err(PlanError::Program { code, message }) => (code, message),
        other => panic!("{other:?}"),
    };
    let nothing = tempfile::tempdir().expect("a temporary directory");
    let request = request();
    let (missing, message) = code(plan(&built_in("codex"), &request, &host(nothing.path())));
    assert_eq!(missing, 127);
    assert!(message.contains("codex") && message.contains("AICODEBOX_ADAPTER_BINARY"), "{message}");
    let blocked = with_program("codex", 0o644);
    assert_eq!(code(plan(&built_in("codex"), &request, &host(blocked.path()))).0, 126);
    let (unnamed, message) = code(plan(&built_in("text"), &request, &host(nothing.path())));
    assert_eq!(unnamed, 127);
    assert!(message.contains("AICODEBOX_AGENT_BINARY"), "{message}");
    let mut other = host(blocked.path());
    other.binary = Some(blocked.path().join("codex"));
    assert_eq!(code(plan(&built_in("text"), &request, &other)).0, 126);
    other.binary = Some("/bin/sh".into());
    let plan = plan(&built_in("codex"), &request, &other).expect("a plan");
    assert_eq!(
        (plan.launch.program.as_path(), &plan.launch.args[0]),
        (Path::new("/bin/sh"), &"/bin/sh".into())
    );
}

#[test]
fn an_argument_has_a_limit_and_the_field_is_named() {
    let directory = with_program("agent", 0o755);
    let host = host(directory.path());
    let adapter =
        file("[\"--prompt={prompt}\", { when = \"system_prompt\", args = [\"-s\", \"{system_prompt}\"] }]");
    let try_it = |prompt: usize, system: usize| {
        let mut request = request();
        request.prompt = "x".repeat(prompt);
        request.system_prompt = Some("y".repeat(system));
        match plan(&adapter, &request, &host) {
            Ok(_) => "ok",
            Err(PlanError::TooLong { field, .. }) => field,
            Err(other) => panic!("{other:?}"),
        }
    };
    let most = 131_071;
    assert_eq!(try_it(most - "--prompt=".len(), most), "ok");
    assert_eq!(try_it(most - "--prompt=".len() + 1, 1), "prompt");
    assert_eq!(try_it(1, most + 1), "system_prompt");
    assert_eq!(try_it(1, 200 << 10), "system_prompt");
}

#[test]
fn a_variable_has_the_same_limit() {
    let mut request = request();
    request.system_prompt = Some("y".repeat(140_000));
    let mut host = host(Path::new("/nowhere"));
    host.binary = Some("/bin/sh".into());
    let error = plan(&built_in("opencode"), &request, &host).expect_err("too long");
    assert!(matches!(error, PlanError::TooLong { field: "system_prompt", .. }), "{error:?}");
}

#[test]
fn all_arguments_together_have_a_limit() {
    let mut request = request();
    request.extra_args = vec!["z".repeat(100_000); 11];
    let mut host = host(Path::new("/nowhere"));
    host.binary = Some("/bin/sh".into());
    let error = plan(&built_in("text"), &request, &host).expect_err("too long");
    assert!(matches!(error, PlanError::TooLong { field: "extra_args", .. }), "{error:?}");
    request.extra_args.truncate(9);
    plan(&built_in("text"), &request, &host).expect("a plan");
}

#[test]
fn a_nul_cannot_be_an_argument() {
    let directory = with_program("agent", 0o755);
    let mut request = request();
    request.model = Some("a\0b".to_owned());
    let adapter = file("[{ when = \"model\", args = [\"-m\", \"{model}\"] }]");
    let error = plan(&adapter, &request, &host(directory.path())).expect_err("a NUL");
    assert!(matches!(error, PlanError::Refused { field: "model", .. }), "{error:?}");
    request.model = None;
    request.prompt = "a\0b".to_owned();
    plan(&adapter, &request, &host(directory.path())).expect("stdin takes every byte");
}

#[test]
fn the_model_of_the_configuration_wins_over_that_of_the_file() {
    let mut host = host(Path::new("/nowhere"));
    host.binary = Some("/bin/sh".into());
    host.default_model = Some("google/gemini-x".to_owned());
    let plan = plan(&built_in("gemini"), &request(), &host).expect("a plan");
    assert!(plan.launch.args.contains(&"gemini-x".into()), "{:?}", plan.launch.args);
}

#[test]
fn a_provider_is_cut_once_unless_the_model_is_listed_with_it() {
    let mut host = host(Path::new("/nowhere"));
    host.binary = Some("/bin/sh".into());
    let adapter = file("[{ when = \"model\", args = [\"-m\", \"{model}\"] }]");
    let told = |host: &Host, model: &str| {
        let request = RunRequest { model: Some(model.to_owned()), ..request() };
        plan(&adapter, &request, host).expect("a plan").launch.args[2].clone()
    };
    assert_eq!(told(&host, "anthropic/claude"), "claude");
    assert_eq!(told(&host, "a/b/c"), "b/c");
    host.models = Arc::new(["anthropic/claude".to_owned()]);
    assert_eq!(told(&host, "anthropic/claude"), "anthropic/claude");
    assert_eq!(told(&host, "other/claude"), "claude");
}

#[test]
fn what_an_agent_has_no_way_for_is_dropped_and_named() {
    let mut host = host(Path::new("/nowhere"));
    host.binary = Some("/bin/sh".into());
    let mut request = request();
    request.effort = Some("high".to_owned());
    let plan = plan(&built_in("gemini"), &request, &host).expect("a plan");
    assert_eq!(plan.ignored, ["effort"]);
    assert_eq!(plan.notices.len(), 1);
}

#[test]
fn continuing_without_an_id_is_the_agents_own_way_or_a_fresh_session() {
    let directory = with_program("agent", 0o755);
    let words = |argv: &str, session: &str| {
        let adapter = file(argv);
        let mut request = request();
        request.session = match session {
            "continue" => SessionChoice::Continue,
            _ => SessionChoice::Fresh { keep: false },
        };
        let plan = plan(&adapter, &request, &host(directory.path())).expect("a plan");
        plan.launch.args[1..].join(OsStr::new(" "))
    };
    let own = "[{ when = \"continue\", args = [\"-c\"] }, { when = \"fresh\", args = [\"-f\"] }]";
    assert_eq!((words(own, "continue"), words(own, "fresh")), ("-c".into(), "-f".into()));
    let none = "[{ when = \"fresh\", args = [\"-f\"] }]";
    assert_eq!(words(none, "continue"), "-f");
}
