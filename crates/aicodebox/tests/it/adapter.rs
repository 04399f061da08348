//! `aicodebox adapter`, by way of its documentation: every file in `docs/adapters.md` is written, every command run,
//! and what is printed must be what stands there.

use std::fs;

use serde_json::Value;

use crate::harness::{Finished, Home, SHELL};

/// A fenced block: what stands behind its fence, and its text.
fn blocks(markdown: &str) -> Vec<(&str, &str)> {
    let fenced = markdown.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| block.split_once('\n')).collect()
}

fn document() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/adapters.md")).unwrap()
}

fn adapter(home: &Home, words: &[&str]) -> Finished {
    Finished::of(home.command("adapter").args(words))
}

#[test]
fn the_documentation_is_what_happens() {
    let home = Home::new(SHELL);
    let document = document();
    let mut commands = 0;
    for (info, text) in blocks(&document) {
        let words: Vec<&str> = info.split(' ').collect();
        match words.as_slice() {
            ["toml" | "json" | "text", name] => fs::write(home.path(name), text).unwrap(),
            ["toml", name, "append"] => {
                let before = fs::read_to_string(home.path(name)).unwrap();
                fs::write(home.path(name), before + text).unwrap();
            }
            ["console"] => {
                let (command, output) = text.split_once('\n').unwrap();
                let Some(command) = command.strip_prefix("$ aicodebox adapter ") else { continue };
                let words: Vec<&str> = command.split(' ').collect();
                assert_eq!(adapter(&home, &words).code(0).stdout(), output, "{command}");
                commands += 1;
            }
            other => panic!("a block of an unknown sort: {other:?}"),
        }
    }
    assert_eq!(commands, 7);
}

#[test]
fn every_file_of_the_documentation_loads() {
    let home = Home::new(SHELL);
    let document = document();
    let mut files = 0;
    for (info, text) in blocks(&document) {
        if let ["toml", name] = info.split(' ').collect::<Vec<_>>().as_slice() {
            fs::write(home.path(name), text).unwrap();
            adapter(&home, &["check", name]).code(0);
            files += 1;
        }
    }
    assert_eq!(files, 4);
}

#[test]
fn everything_that_is_wrong_with_a_file_is_said() {
    let home =
        Home::new("schema = 2\nnmae = \"x\"\n[run]\nstdin = \"{prompt}\"\n[output]\nformat = \"text\"\n");
    let said = adapter(&home, &["check", "adapter.toml"]).code(1).stderr();
    for words in
        ["adapter.toml:2:1: top level: unknown key 'nmae'", "schema: expected 1, got 2", "'name' is missing"]
    {
        assert!(said.contains(words), "{words} in {said}");
    }
}

#[test]
fn a_kept_run_is_replayed_with_what_is_known_of_it() {
    let home = Home::new(SHELL);
    let write = |name: &str, text: &str| fs::write(home.path(name), text).unwrap();
    let replay = |words: &[&str]| -> Value {
        let printed = adapter(&home, &[&["replay"], words].concat()).code(0).stdout();
        serde_json::from_str(&printed).unwrap()
    };
    write("out", "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":222,\"output_tokens\":44}}\n");
    let usage = |words: &[&str]| replay(&[&["codex", "out"], words].concat())["usage"].clone();
    assert_eq!(usage(&[])["input"], 222);
    assert_eq!(usage(&["--baseline", "{\"input\":111,\"output\":22}"])["input"], 111);
    assert_eq!(usage(&["--baseline", "null"]), Value::Null);
    assert_eq!(replay(&["codex", "out", "--stopped"])["verdict"], "stopped");

    write("nothing", "");
    write("err", "Invalid session identifier\n");
    let kind = |words: &[&str]| replay(&[&["gemini", "nothing"], words].concat())["kind"].clone();
    assert_eq!(kind(&["--stderr", "err", "--exit", "42"]), "session_not_found");
    assert_eq!(kind(&["--exit", "173"]), "rate_limit");
    assert_eq!(kind(&["--exit", "-9"]), "internal");

    write("result", "{\"type\":\"result\",\"is_error\":false,\"result\":\"x\",\"usage\":{}}\n");
    write("schema", "{\"type\":\"object\"}");
    let message = replay(&["claude", "result", "--schema", "schema"])["message"].clone();
    assert_eq!(message, "no structured output although a schema was sent");
}

#[test]
fn a_command_that_cannot_be_carried_out_says_why() {
    let home = Home::new(SHELL);
    for (words, said) in [
        (&["show", "nobody"][..], "no adapter 'nobody': use demo, text, codex, claude, pi, gemini, opencode"),
        (&["show", "my.bot:Bot"], "my.bot:Bot is a Python class, and `aicodebox adapter` reads files only"),
        (&["check", "missing.toml"], "missing.toml: No such file"),
        (&["plan", "demo", "adapter.toml"], "adapter.toml: expected"),
        (&["replay", "demo", "missing"], "missing: No such file"),
        (&["replay", "demo", "adapter.toml", "--baseline", "{\"in\":1}"], "--baseline: unknown field `in`"),
    ] {
        let stderr = adapter(&home, words).code(1).stderr();
        assert!(stderr.contains(said), "{said} in {stderr}");
    }
    // A reader that goes away before it has read anything.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let done = home.command("adapter").args(["show", "codex"]).stdout(writer).output().unwrap();
    assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()), (Some(0), ""));
    let listed = adapter(&home, &["list"]).code(0).stdout();
    assert_eq!(listed, "demo\ntext\ncodex\nclaude\npi\ngemini\nopencode\n");
}

#[test]
fn the_demo_agent_needs_nothing_and_misbehaves_on_request() {
    let home = Home::new(SHELL);
    let run = |prompt: &str| {
        Finished::of(home.command("run").env("AICODEBOX_ADAPTER", "demo").args(["--json", prompt]))
    };
    let answer = |finished: &Finished| serde_json::from_str::<Value>(&finished.stdout()).unwrap();
    let prompt = "a \"b\" $HOME `id` {x}";
    let text = answer(&run(prompt).code(0))["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("This is the demo agent") && text.ends_with(prompt), "{text}");
    let failed = run("demo:fail").code(3);
    assert!(failed.stdout().contains("the demo agent was asked to fail"), "{}", failed.stdout());
    let limited = answer(&run("demo:quota").code(1));
    assert_eq!(limited["error"]["kind"], "quota", "{limited}");
}
