//! The environment as `serve`, `config` and the command line take it.

use std::process::Command;

use crate::harness::{Finished, Home, SHELL, Server};

fn serve(home: &Home) -> Command {
    let mut command = home.command("serve");
    command.env("AICODEBOX_API_MODE", "1").env("AICODEBOX_API_MODE_PORT", "0");
    command
}

#[test]
fn an_open_port_without_a_token_is_refused_and_an_empty_token_is_none() {
    let home = Home::new(SHELL);
    for token in [None, Some("")] {
        let mut command = serve(&home);
        command.envs(token.map(|token| ("AICODEBOX_API_MODE_TOKEN", token)));
        let stderr = Finished::of(&mut command).code(78).stderr();
        assert!(stderr.contains("AICODEBOX_API_MODE_ALLOW_UNAUTHENTICATED=1"), "{stderr}");
    }
}

#[test]
fn all_faults_are_told_at_once_and_no_secret_is() {
    let home = Home::new(SHELL);
    let mut command = serve(&home);
    command
        .env("AICODEBOX_API_MODE_PORT", "99999")
        .env("AICODEBOX_RUN_TIMEOUT", "soon")
        .env("AICODEBOX_CRON_MODE", "1")
        .env("AICODEBOX_API_MODE_TOKEN", "hush-hush")
        .env("AICODEBOX_API_MODE_TOKEN_FILE", "/run/token");
    let stderr = Finished::of(&mut command).code(78).stderr();
    for name in [
        "AICODEBOX_API_MODE_PORT",
        "AICODEBOX_RUN_TIMEOUT",
        "AICODEBOX_CRON_MODE_FILE",
        "AICODEBOX_API_MODE_TOKEN",
    ] {
        assert!(stderr.contains(&format!("{name}: ")), "{name} in {stderr}");
    }
    assert!(!stderr.contains("hush-hush"), "{stderr}");
}

#[test]
fn without_a_mode_there_is_nothing_to_serve() {
    let home = Home::new(SHELL);
    let stderr = Finished::of(&mut home.command("serve")).code(78).stderr();
    assert!(stderr.contains("AICODEBOX_API_MODE"), "{stderr}");
}

#[test]
fn an_adapter_without_models_needs_a_list_of_them() {
    let home = Home::new(&SHELL.replace("list = [\"small\", \"large\"]", ""));
    let mut command = serve(&home);
    command.env("AICODEBOX_API_MODE_HOST", "127.0.0.1");
    let stderr = Finished::of(&mut command).code(78).stderr();
    assert!(stderr.contains("AICODEBOX_AVAILABLE_MODELS"), "{stderr}");
}

#[test]
fn a_wrong_adapter_file_and_a_missing_workspace_are_configuration_faults() {
    let home = Home::new("schema = 1\nnmae = \"x\"\n");
    let mut command = serve(&home);
    command.env("AICODEBOX_API_MODE_HOST", "127.0.0.1");
    let stderr = Finished::of(&mut command).code(78).stderr();
    assert!(stderr.contains("adapter.toml:2:1"), "{stderr}");

    let home = Home::new(SHELL);
    let mut command = serve(&home);
    command.env("AICODEBOX_API_MODE_HOST", "127.0.0.1").env("AICODEBOX_WORKSPACE", "/nowhere/at/all");
    let stderr = Finished::of(&mut command).code(78).stderr();
    assert!(stderr.contains("AICODEBOX_WORKSPACE") && stderr.contains("/nowhere/at/all"), "{stderr}");
}

#[test]
fn an_unknown_variable_and_the_demo_agent_are_worth_a_warning() {
    let server = Server::new().env("AICODEBOX_API_MODE_PROT", "1").env("AICODEBOX_ADAPTER", "").start();
    server.log.wait(
        "AICODEBOX_API_MODE_PROT is not a variable of aicodebox; did you mean AICODEBOX_API_MODE_PORT?",
    );
    server.log.wait("AICODEBOX_ADAPTER is not set: the demo agent answers, which asks no model");
    server.get("/healthz").status(200).field("/adapter", "demo").field("/demo", true);
}

#[test]
fn config_prints_what_holds_masks_secrets_and_says_what_is_wrong() {
    let home = Home::new(SHELL);
    let finished = Finished::of(home.command("config").env("AICODEBOX_API_MODE_TOKEN", "hush-hush")).code(0);
    let table = finished.stdout();
    assert!(table.contains("********") && !table.contains("hush-hush"), "{table}");
    assert!(table.contains(home.path("workspace").to_str().unwrap()), "{table}");

    let finished = Finished::of(home.command("config").env("AICODEBOX_RUN_TIMEOUT", "soon")).code(78);
    assert!(finished.stderr().contains("AICODEBOX_RUN_TIMEOUT"), "{}", finished.stderr());
    assert!(finished.stdout().contains("AICODEBOX_RUN_TIMEOUT"), "{}", finished.stdout());
}

#[test]
fn a_mode_that_is_off_in_words_leaves_a_box_with_the_agents_own_interface() {
    let home = Home::new(SHELL);
    Finished::of(home.command("config").env("AICODEBOX_API_MODE", "0")).code(0);
    Finished::of(home.command("config").env("AICODEBOX_ADAPTER", "nosuch")).code(78);
}

#[test]
fn names_with_the_images_prefix_hold_for_every_command() {
    let server = Server::new().start();
    let home = Home::new(SHELL);
    let command = |name: &str| {
        let mut command = home.command(name);
        for (name, value) in [
            ("AICODEBOX_PREFIX", "MYBOX"),
            ("AICODEBOX_API_MODE_PORT", "1"),
            ("MYBOX_API_MODE", "1"),
            ("MYBOX_API_MODE_HOST", "127.0.0.1"),
            ("MYBOX_API_MODE_PORT", &server.address.port().to_string()),
            ("MYBOX_API_MODE_TOKEN", "hush"),
        ] {
            command.env(name, value);
        }
        command
    };
    let well = Finished::of(&mut command("healthcheck")).code(0).stdout();
    assert!(well.contains(r#""adapter":"shell""#), "{well}");
    let seen = Finished::of(command("run").arg("env")).code(0).stdout();
    assert!(seen.contains("AICODEBOX_API_MODE=1") && !seen.contains("hush"), "{seen}");
    let table = Finished::of(&mut command("config")).code(0).stdout();
    assert!(table.contains("********") && !table.contains("hush"), "{table}");
}

#[test]
fn the_first_argument_is_always_one_of_ours() {
    let home = Home::new(SHELL);
    for unknown in ["-p", "chat", "--model"] {
        Finished::of(&mut home.command(unknown)).code(2);
    }
}
