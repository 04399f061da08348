//! `aicodebox run` and `aicodebox verify`.

use std::{io::Write, process::Stdio};

use serde_json::Value;

use crate::{
    harness::{EVENTS, Finished, Home, SHELL, eventually, gone},
    pty::Terminal,
};

fn run(home: &Home, arguments: &[&str]) -> Finished {
    Finished::of(home.command("run").args(arguments))
}

#[test]
fn the_answer_is_on_stdout_and_the_exit_code_is_the_agents() {
    let home = Home::new(SHELL);
    let finished = run(&home, &["echo hi; pwd"]).code(0);
    assert_eq!(finished.stdout(), format!("hi\n{}\n", home.path("workspace").display()));
    assert_eq!(finished.stderr(), "", "no progress where nobody looks");

    let finished = run(&home, &["echo half; echo broken >&2; exit 3"]).code(3);
    assert_eq!(finished.stdout(), "half\n");
    assert!(finished.stderr().starts_with("aicodebox: "), "{}", finished.stderr());
    run(&home, &["exit 0"]).code(1);
    run(&home, &["--timeout", "1s", "sleep 60"]).code(124);
    run(&home, &["--timeout", "soon", "true"]).code(2);
    run(&home, &[""]).code(2);
}

#[test]
fn a_secret_of_the_servers_that_cannot_be_read_is_no_business_of_a_command() {
    // By `docker exec`, who types it is not root, whose the file is.
    let home = Home::new(SHELL);
    for name in ["AICODEBOX_CALLBACK_SECRET_FILE", "AICODEBOX_API_MODE_TOKEN_FILE"] {
        Finished::of(home.command("run").env(name, "/none/of/yours").arg("echo hi")).code(0);
        Finished::of(home.command("serve").env("AICODEBOX_API_MODE", "1").env(name, "/none/of/yours"))
            .code(78);
    }
}

#[test]
fn the_prompt_may_come_from_stdin_and_the_workspace_from_an_option() {
    let home = Home::new(SHELL);
    std::fs::create_dir(home.path("elsewhere")).unwrap();
    let mut child = home
        .command("run")
        .args(["--workspace", "elsewhere", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"pwd").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", home.path("elsewhere").display()));

    let finished = run(&home, &["--ephemeral", "pwd"]).code(0);
    assert!(!std::path::Path::new(finished.stdout().trim()).exists(), "{}", finished.stdout());
}

#[test]
fn json_is_one_object_and_events_are_lines() {
    let home = Home::new(EVENTS);
    let script =
        r#"echo '{"session":"s-1"}'; echo '{"delta":"he"}'; echo '{"delta":"y"}'; echo '{"done":"ok"}'"#;
    let finished = run(&home, &["--json", script]).code(0);
    let answer: Value = serde_json::from_str(&finished.stdout()).unwrap();
    assert_eq!((&answer["text"], &answer["sessionId"]), (&"hey".into(), &"s-1".into()));
    assert_eq!((&answer["exitCode"], &answer["status"]), (&0.into(), &"completed".into()));

    let finished = run(&home, &["--events", script]).code(0);
    let lines: Vec<Value> =
        finished.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let words: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(words.iter().filter(|word| **word == "native").count(), 4, "{words:?}");
    let rest: Vec<_> = words.iter().filter(|word| **word != "native").collect();
    assert_eq!(rest, [&"status", &"session", &"delta", &"delta", &"outcome"]);
    assert_eq!(lines.last().unwrap()["data"]["text"], "hey");
}

#[test]
fn a_session_is_resumed_by_its_id() {
    let home = Home::new(EVENTS);
    let script =
        r#"echo '{"session":"s-2"}'; printf '{"message":"%s"}\n' "${1:-fresh}"; echo '{"done":"ok"}'"#;
    assert_eq!(run(&home, &[script]).code(0).stdout(), "fresh\n");
    assert_eq!(run(&home, &["--resume", "s-1", script]).code(0).stdout(), "resumed:s-1\n");
    let refused = run(&home, &["--continue", script]).code(2);
    assert!(refused.stderr().contains("--resume"), "{}", refused.stderr());
}

#[test]
fn verify_tells_whether_the_agent_is_signed_in() {
    let says = |script: &str| {
        // Braces are placeholders in a file.
        let script = script.replace('{', "{{").replace('}', "}}");
        let adapter = EVENTS.replace(r#"'eval "$(cat)"'"#, &format!("'''{script}'''"));
        let home = Home::new(&(adapter + "[auth]\nhint = \"sign in with mycli login\"\n"));
        Finished::of(&mut home.command("verify"))
    };
    let well = says(r#"echo '{"message":"ready"}'; echo '{"done":"ok"}'"#).code(0).stdout();
    assert!(well.contains("signed in") && well.contains("ready"), "{well}");
    let out = says(r#"echo '{"error":"Invalid API key"}'; echo '{"done":"error"}'"#).code(1).stdout();
    assert!(out.contains("not signed in") && out.contains("sign in with mycli login"), "{out}");
    let used_up = says(r#"echo '{"error":"Quota exceeded"}'; echo '{"done":"error"}'"#).code(1).stdout();
    assert!(used_up.contains("the quota is used up"), "{used_up}");
    let home = Home::new(&EVENTS.replace("/bin/sh", "no-such-program-anywhere"));
    let missing = Finished::of(&mut home.command("verify")).code(1).stdout();
    assert!(missing.contains("cannot be started"), "{missing}");
    let demo = Finished::of(home.command("verify").args(["--adapter", "demo"])).code(0).stdout();
    assert!(demo.starts_with("demo: signed in"), "{demo}");
}

#[test]
fn verify_tells_by_the_last_retry_why_no_answer_came_in_time() {
    let says = |complaint: &str| {
        let again = "[[stderr]]\nfind = '^again: (?P<message>.*)'\nas = 'retry'\n";
        let script = format!("echo again: no luck >&2; echo again: {complaint} >&2; exec sleep 60");
        let adapter = EVENTS.replace(r#"'eval "$(cat)"'"#, &format!("'{script}'"));
        let home = Home::new(&(adapter + again));
        Finished::of(home.command("verify").env("AICODEBOX_RUN_TIMEOUT", "1s")).code(1).stdout()
    };
    let text = says("connection refused by 127.0.0.1");
    assert_eq!(text, "events: the provider cannot be reached: connection refused by 127.0.0.1\n");
    let text = says("it rains");
    assert_eq!(text, "events: no answer in time: timed out after 1.0 s; it last said: it rains\n");
}

#[test]
fn at_a_terminal_the_answer_streams_and_progress_is_shown() {
    let home = Home::new(EVENTS);
    let script = r#"
echo '{"delta":"first "}'
while [ ! -e go ]; do sleep 0.01; done
echo '{"delta":"second"}'
echo '{"usage":{"input":5,"output":7}}'
echo '{"done":"ok"}'
"#;
    let mut terminal = Terminal::open(home.command("run").arg(script));
    terminal.wait_for("first ");
    assert!(!terminal.screen().contains("second"));
    std::fs::write(home.path("workspace/go"), "").unwrap();
    terminal.wait_for("second\r\n");
    terminal.wait_for(", 5 tokens in, 7 tokens out");
    assert_eq!(terminal.code(), Some(0));
}

/// The pid that an agent wrote into a file.
fn pid_in(home: &Home, name: &str) -> i32 {
    std::fs::read_to_string(home.path("workspace").join(name)).unwrap().trim().parse().unwrap()
}

#[test]
fn ctrl_c_stops_everything_and_a_second_one_at_once() {
    let home = Home::new(SHELL);
    let script = "setsid sleep 300 & echo $! > child; echo $$ > agent; echo begun; wait";
    let mut terminal = Terminal::open(home.command("run").arg(script));
    terminal.wait_for("begun");
    terminal.press(b"\x03");
    assert_eq!(terminal.code(), Some(143));
    ["child", "agent"].into_iter().for_each(|name| gone(pid_in(&home, name)));

    let deaf = "trap '' TERM; echo $$ > deaf; echo 'deaf now'; while :; do sleep 1; done";
    let home = Home::new(&format!("{SHELL}[stop]\ngrace = \"30s\"\n"));
    let mut terminal = Terminal::open(home.command("run").arg(deaf));
    terminal.wait_for("deaf now");
    // Two that come too close together are one to the system.
    eventually("the program ends", || {
        terminal.press(b"\x03");
        terminal.ended()
    });
    gone(pid_in(&home, "deaf"));
}
