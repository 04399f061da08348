//! P17, P19, P22: the first process of a box, as far as it can be tried outside of a container.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::{
    harness::{Finished, Home, SHELL, Server, alive, eventually, gone},
    pty::Terminal,
};

/// The entrypoint, whose agent is this shell script.
fn entrypoint(home: &Home, agent: &str) -> Command {
    let program = home.path("agent");
    fs::write(&program, format!("#!/bin/sh\n{agent}\n")).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = home.command("entrypoint");
    command.env("AICODEBOX_AGENT_BINARY", program);
    command
}

#[test]
fn called_as_the_entrypoint_every_argument_is_the_agents() {
    let home = Home::new(SHELL);
    let says = "echo \"$# $*\"";
    for words in [&["run"][..], &["mcp"], &["--help"], &["config"], &["--version", "--", "a b"], &[]] {
        let expected = format!("{} {}\n", words.len(), words.join(" "));
        // By its name, as the image calls it.
        let ours = entrypoint(&home, says);
        let mut command = Command::new(ours.get_program());
        command.arg0("/usr/local/bin/aicodebox-entrypoint").args(words).env_clear();
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        assert_eq!(Finished::of(&mut command).code(0).stdout(), expected);
        // And by the command.
        let mut command = entrypoint(&home, says);
        assert_eq!(Finished::of(command.arg("--").args(words)).code(0).stdout(), expected);
    }
    Finished::of(&mut home.command("no-such-command")).code(2);
}

#[test]
fn the_exit_code_is_the_agents() {
    let home = Home::new(SHELL);
    for (script, code) in
        [("exit 0", 0), ("exit 7", 7), ("exit 75", 75), ("kill -KILL $$", 137), ("kill -TERM $$", 143)]
    {
        Finished::of(&mut entrypoint(&home, script)).code(code);
    }
    let mut missing = home.command("entrypoint");
    let stderr = Finished::of(missing.env("AICODEBOX_AGENT_BINARY", "no-such-program")).code(127).stderr();
    assert!(stderr.contains("no-such-program cannot be executed"), "{stderr}");
    let mut no_program = home.command("entrypoint");
    Finished::of(no_program.env("AICODEBOX_AGENT_BINARY", home.path("adapter.toml"))).code(126);
    let mut wrong = entrypoint(&home, "exit 0");
    Finished::of(wrong.env("AICODEBOX_RUN_TIMEOUT", "soon")).code(78);
}

#[test]
fn an_agent_gets_the_auth_file_and_added_programs_but_no_secret() {
    let home = Home::new(SHELL);
    let state = home.path("home/.aicodebox");
    fs::create_dir_all(state.join("bin")).unwrap();
    fs::write(state.join(".aicodebox-auth"), "export OPENAI_API_KEY='sk-1'\nPATH=/evil\n").unwrap();
    let mut command = entrypoint(&home, "env");
    let finished = Finished::of(command.env("AICODEBOX_API_MODE_TOKEN", "hush")).code(0);
    let environment = finished.stdout();
    assert!(environment.contains("OPENAI_API_KEY=sk-1\n"), "{environment}");
    assert!(environment.contains(&format!("PATH={}/bin:/usr/local/bin:", state.display())), "{environment}");
    assert!(!environment.contains("hush") && !environment.contains("_TOKEN"), "{environment}");
    assert!(finished.stderr().contains("PATH is not for this file to set"), "{}", finished.stderr());
}

#[test]
fn scripts_run_in_order_before_the_agent_and_one_that_fails_stops_nothing() {
    let home = Home::new(SHELL);
    let hooks = home.path("home/.aicodebox/init.d");
    fs::create_dir_all(&hooks).unwrap();
    let tool = home.path("home/.aicodebox/bin/tool");
    fs::create_dir_all(tool.parent().unwrap()).unwrap();
    fs::write(&tool, "#!/bin/sh\necho tool\n").unwrap();
    fs::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
    for (name, script) in [
        ("20-second.sh", "echo second; env | grep -c _TOKEN"),
        ("10-first.sh", "echo first; tool; exit 3"),
        ("30-not-a-script", "echo never"),
    ] {
        fs::write(hooks.join(name), script).unwrap();
    }
    let mut command = entrypoint(&home, "echo agent");
    let finished = Finished::of(command.env("AICODEBOX_API_MODE_TOKEN", "hush")).code(0);
    assert_eq!(finished.stdout(), "first\ntool\nsecond\n0\nagent\n");
    let failed = |name: &str| format!("[entrypoint] init script {} failed", hooks.join(name).display());
    assert!(finished.stderr().contains(&failed("10-first.sh")), "{}", finished.stderr());
    // grep found nothing, and says so.
    assert!(finished.stderr().contains(&failed("20-second.sh")), "{}", finished.stderr());
}

#[test]
fn sigterm_during_a_script_ends_it_and_the_box() {
    let home = Home::new(SHELL);
    let hooks = home.path("home/.aicodebox/init.d");
    fs::create_dir_all(&hooks).unwrap();
    let script =
        "setsid sleep 300 & echo $! > ~/sleeper; trap 'echo bye > ~/bye; exit' TERM; echo $$ > ~/hook; wait";
    fs::write(hooks.join("slow.sh"), script).unwrap();
    let mut child = entrypoint(&home, "echo agent > ~/agent").spawn().unwrap();
    let pid = |name: &str| {
        let path = home.path("home").join(name);
        eventually(name, || fs::read_to_string(&path).ok()?.trim().parse::<i32>().ok())
    };
    let (hook, sleeper) = (pid("hook"), pid("sleeper"));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let status = eventually("the box ends", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(143));
    // Another session, another group: stopped all the same, and nothing was started after it.
    [hook, sleeper].into_iter().for_each(gone);
    assert!(home.path("home/bye").exists() && !home.path("home/agent").exists());
}

#[test]
fn nothing_that_an_agent_leaves_behind_survives_the_box() {
    let home = Home::new(SHELL);
    let script = "for i in 1 2 3; do (setsid sleep 300 & echo $! >> ~/left); done; (trap '' TERM; setsid sleep 300 & echo $! >> ~/left); exit 7";
    Finished::of(&mut entrypoint(&home, script)).code(7);
    let left = fs::read_to_string(home.path("home/left")).unwrap();
    let pids: Vec<i32> = left.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(pids.len(), 4);
    assert!(pids.iter().all(|pid| !alive(*pid)), "{left}");
}

#[test]
fn the_agents_own_interface_has_no_metered_keys_and_no_new_rights_where_that_is_asked() {
    let home = Home::new(&format!("{SHELL}[auth]\nmetered = [\"SOME_KEY\", \"OTHER_KEY\"]\n"));
    fs::create_dir(home.path("home/.aicodebox")).unwrap();
    fs::write(home.path("home/.aicodebox/.aicodebox-auth"), "OTHER_KEY=of-the-file").unwrap();
    let says = |auth: &str, no_new_privs: &str| {
        let mut command =
            entrypoint(&home, "echo \"$SOME_KEY $OTHER_KEY\"; grep NoNewPrivs /proc/self/status");
        command.env("SOME_KEY", "of-the-environment").env("AICODEBOX_AGENT_AUTH", auth);
        Finished::of(command.env("AICODEBOX_NO_NEW_PRIVS", no_new_privs)).code(0).stdout()
    };
    assert!(says("auto", "0").starts_with("of-the-environment of-the-file\n"));
    assert_eq!(says("subscription", "1"), " \nNoNewPrivs:\t1\n");
}

#[test]
fn a_mistyped_variable_is_told_by_whatever_runs_an_agent() {
    let home = Home::new(SHELL);
    let mut commands =
        [entrypoint(&home, "exit 0"), home.command("run"), home.command("verify"), home.command("mcp")];
    commands[1].arg("true");
    for command in &mut commands {
        let told = Finished::of(command.env("AICODEBOX_API_MDOE", "1")).stderr();
        let expected = "AICODEBOX_API_MDOE is not a variable of aicodebox; did you mean AICODEBOX_API_MODE?";
        assert!(told.contains(expected), "{command:?}: {told}");
    }
}

#[test]
fn a_foreign_init_that_shows_a_secret_is_told_by_the_name_that_the_user_gave_it() {
    let home = Home::new(SHELL);
    let ours = entrypoint(&home, "env");
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$@\"; exit $?", "sh"]).arg(ours.get_program()).args(ours.get_args());
    shell.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("AICODEBOX_PREFIX", "MYBOX").env("MYBOX_API_MODE_TOKEN", "hush");
    let Some(mut command) = as_pid_1(&shell) else { return };
    let finished = Finished::of(&mut command).code(0);
    assert!(finished.stderr().contains("agents may read MYBOX_API_MODE_TOKEN"), "{}", finished.stderr());
    assert!(!finished.stdout().contains("hush"), "{}", finished.stdout());
}

/// In a mount namespace of its own where this shell script has been before it. `None`: this machine does not allow one.
fn with_mounts(script: &str, ours: &Command) -> Option<Command> {
    let possible = Command::new("unshare").args(["--mount", "true"]).output();
    if !possible.is_ok_and(|output| output.status.success()) || !Path::new("/home").is_dir() {
        eprintln!("SKIP disks: a file system can be mounted only by root");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", &format!("{script}\n\"$@\""), "sh"]);
    command.arg(ours.get_program()).args(ours.get_args()).env_clear();
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(command)
}

#[test]
fn the_state_directory_is_the_mounted_one_also_where_the_home_cannot_be_written() {
    let home = Home::new(SHELL);
    let state = home.path("home");
    fs::create_dir(state.join("init.d")).unwrap();
    fs::write(state.join("init.d/1.sh"), "echo hook of the mount, $AICODEBOX_STATE_DIR").unwrap();
    fs::write(state.join(".aicodebox-auth"), "KEY=kept").unwrap();
    let mounts = format!(
        "mount -t tmpfs tmpfs /home && mkdir -p /home/aicode/.aicodebox \
         && mount --bind '{}' /home/aicode/.aicodebox && mount -o remount,ro /home",
        state.display()
    );
    let agent = "echo $KEY; echo $PATH; rmdir \"$HOME\"; case $HOME in /home/*) echo $HOME;; esac";
    let mut ours = entrypoint(&home, agent);
    ours.env("HOME", "/home/aicode");
    let Some(mut command) = with_mounts(&mounts, &ours) else { return };
    let finished = Finished::of(&mut command).code(0);
    assert_eq!(
        finished.stdout(),
        "hook of the mount, /home/aicode/.aicodebox\nkept\n/home/aicode/.aicodebox/bin:/usr/local/bin:/usr/bin:/bin\n",
        "{}",
        finished.stderr()
    );
    let told = finished.stderr();
    assert!(told.contains("is lost with the container, but not /home/aicode/.aicodebox"), "{told}");
}

#[test]
fn a_relative_state_directory_is_the_same_from_everywhere() {
    let home = Home::new(SHELL);
    let hooks = home.path("kept/init.d");
    fs::create_dir_all(&hooks).unwrap();
    fs::write(hooks.join("1.sh"), "echo $AICODEBOX_STATE_DIR").unwrap();
    // As a shell has it, `*.sh` does not mean this one.
    fs::write(hooks.join(".hidden.sh"), "echo never").unwrap();
    let state = home.path("kept").display().to_string();
    let mut command = entrypoint(&home, "echo $PATH");
    let told = Finished::of(command.env("AICODEBOX_STATE_DIR", "kept")).code(0).stdout();
    assert_eq!(told, format!("{state}\n{state}/bin:/usr/local/bin:/usr/bin:/bin\n"));
    let mut run = home.command("run");
    let told = Finished::of(run.env("AICODEBOX_STATE_DIR", "kept").arg("echo $PATH")).code(0).stdout();
    assert_eq!(told, format!("{state}/bin:/usr/local/bin:/usr/bin:/bin\n"));
}

/// In a PID namespace of its own, where the entrypoint is PID 1. `None`: this machine does not allow one.
fn as_pid_1(ours: &Command) -> Option<Command> {
    let unshare = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    let possible = Command::new("unshare").args(unshare).arg("true").output();
    if !possible.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIP pid-namespace: unshare --pid is not permitted here");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(unshare).arg(ours.get_program()).args(ours.get_args()).env_clear();
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(command)
}

#[test]
fn as_pid_1_it_reaps_every_orphan_and_keeps_every_exit_code() {
    let home = Home::new(SHELL);
    // Each subshell ends at once and leaves an orphan that ends a moment later.
    let script = r#"
for i in $(seq 200); do (sleep 0.1 &); done
for i in $(seq 200); do
    left=$(ps -eo stat=,ppid=,comm= | grep -c '[s]leep')
    [ "$left" = 0 ] && break
    sleep 0.05
done
ps -eo pid=,comm= | head -1
ps -eo stat=,comm= | grep -c '^Z'
exit 7
"#;
    let Some(mut command) = as_pid_1(&entrypoint(&home, script)) else { return };
    let finished = Finished::of(&mut command).code(7);
    let lines: Vec<_> = finished.stdout().lines().map(|line| line.trim().to_owned()).collect();
    // One that is not reaped is still called sleep, and a zombie.
    assert_eq!(lines, ["1 aicodebox", "0"], "{}", finished.stderr());
}

#[test]
fn as_pid_1_it_ends_with_its_server_within_the_time_of_an_engine() {
    let home = Home::new(SHELL);
    let mut ours = home.command("entrypoint");
    ours.env("AICODEBOX_API_MODE", "1").env("AICODEBOX_API_MODE_HOST", "127.0.0.1");
    ours.env("AICODEBOX_API_MODE_PORT", "0");
    let Some(mut command) = as_pid_1(&ours) else { return };
    // What a container holds beside the box: an `exec`, here a hook's leftover that hears nothing.
    let hooks = home.path("home/.aicodebox/init.d");
    fs::create_dir_all(&hooks).unwrap();
    fs::write(hooks.join("1.sh"), "trap '' TERM; setsid sleep 300 >/dev/null 2>&1 & echo done > ~/hooked")
        .unwrap();
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let log = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(log);
    assert!(lines.any(|line| line.unwrap().contains("listening")));
    let begun = Instant::now();
    // unshare is deaf to SIGTERM while it waits; its one child is the box.
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let init: i32 = fs::read_to_string(children).unwrap().trim().parse().unwrap();
    kill(Pid::from_raw(init), Signal::SIGTERM).unwrap();
    assert_eq!(eventually("the box ends", || child.try_wait().unwrap()).code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn sigterm_ends_three_runs_the_server_and_the_box() {
    let mut server = Server::new().under_init().start();
    for name in ["a", "b", "c"] {
        let script = format!("trap '' TERM; setsid sleep 300 & echo $! > ../{name}.pid; wait; sleep 300");
        server.run(json!({"prompt": script, "workspace": name, "async": true})).status(200);
    }
    let agents = ["a", "b", "c"]
        .map(|name| server.wait_for_file(&format!("{name}.pid")).trim().parse::<i32>().unwrap());
    let begun = Instant::now();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    agents.into_iter().for_each(gone);
}

#[test]
fn when_the_init_is_killed_its_server_ends_in_order() {
    let mut server = Server::new().under_init().start();
    let serving = server_of(server.pid());
    let run = "trap 'echo bye > bye; exit' TERM; echo $$ > pid; while :; do sleep 0.1; done";
    server.run(json!({"prompt": run, "async": true})).status(200);
    let agent: i32 = server.wait_for_file("pid").trim().parse().unwrap();
    server.signal(Signal::SIGKILL);
    server.ended();
    server.log.wait("stopped");
    [serving, agent].into_iter().for_each(gone);
    assert_eq!(server.wait_for_file("bye"), "bye\n");
}

#[test]
fn when_the_init_is_killed_the_agents_own_interface_ends() {
    let home = Home::new(SHELL);
    let pid = home.path("home/pid");
    let mut child = entrypoint(&home, "echo $$ > ~/pid; exec sleep 300").spawn().unwrap();
    let agent = eventually("the agent runs", || fs::read_to_string(&pid).ok()?.trim().parse().ok());
    child.kill().unwrap();
    child.wait().unwrap();
    gone(agent);
}

#[test]
fn under_init_no_process_shows_the_gateways_secrets() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "secret-of-a-file").unwrap();
    fs::set_permissions(file.path(), PermissionsExt::from_mode(0o644)).unwrap();
    let server = Server::new()
        .under_init()
        .unprivileged()
        .token("secret-of-the-api")
        // An empty value is none, so this does not stand against the file.
        .env("AICODEBOX_CALLBACK_SECRET", "")
        .env("AICODEBOX_CALLBACK_SECRET_FILE", file.path().to_str().unwrap())
        .start();
    // Up from the agent to the init, and everything of our own user.
    let script = "env; for p in /proc/[0-9]*; do [ $(stat -c %u $p) = $(id -u) ] || continue; \
                  cat $p/environ $p/cmdline 2>/dev/null | tr '\\0' '\\n'; done; true";
    let seen = server.run(json!({"prompt": script})).status(200).text("/text");
    assert!(!seen.contains("secret-of") && !seen.contains(file.path().to_str().unwrap()), "{seen}");
    for pid in [server.pid(), server_of(server.pid())] {
        let tried = server.run(json!({"prompt": format!("cat /proc/{pid}/environ /proc/{pid}/mem")}));
        assert!(tried.status(200).text("/stderr").matches("Permission denied").count() == 2);
    }
    // It is told that this file is for everybody to read.
    assert!(server.log.text().contains("agents can read"), "{}", server.log.text());
}

/// The one child of the init.
fn server_of(init: i32) -> i32 {
    fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap().trim().parse().unwrap()
}

#[test]
fn at_a_terminal_keys_sizes_and_stops_are_the_agents() {
    let home = Home::new(SHELL);
    let script = r#"
trap 'echo interrupted' INT
trap 'echo "size $(stty size)"' WINCH
trap 'echo continued' CONT
echo "ready $$"
while read -r line; do
    case "$line" in
        quit) exit 9 ;;
        *) echo "read $line" ;;
    esac
done
"#;
    // dash ends `read` at a trapped signal, bash goes on.
    let mut terminal =
        Terminal::open(&entrypoint(&home, &format!("exec bash -c '{}'", script.replace('\'', "'\\''"))));
    terminal.wait_for("ready ");
    terminal.press(b"hello\n");
    terminal.wait_for("read hello");
    terminal.resize(50, 132);
    terminal.press(b"\n");
    terminal.wait_for("size 50 132");
    terminal.press(b"\x03");
    terminal.press(b"\n");
    terminal.wait_for("interrupted");
    // Once, not once more by the init.
    terminal.press(b"again\n");
    terminal.wait_for("read again");
    assert_eq!(terminal.screen().matches("interrupted").count(), 1);
    terminal.press(b"quit\n");
    assert_eq!(terminal.code(), Some(9));
}

#[test]
fn ctrl_z_stops_the_box_with_the_agent_and_both_go_on() {
    let home = Home::new(SHELL);
    let script = "echo $PPID > ~/init; echo ready; while read -r line; do echo \"read $line\"; [ \"$line\" = quit ] && exit 9; done";
    let mut terminal = Terminal::open(&entrypoint(&home, script));
    terminal.wait_for("ready");
    let init: i32 = fs::read_to_string(home.path("home/init")).unwrap().trim().parse().unwrap();
    terminal.press(b"\x1a");
    let state = || {
        let stat = fs::read_to_string(format!("/proc/{init}/stat")).unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().next().unwrap().to_owned()
    };
    eventually("the box is stopped", || (state() == "T").then_some(()));
    // What a shell does for `fg`.
    kill(Pid::from_raw(init), Signal::SIGCONT).unwrap();
    terminal.press(b"quit\n");
    terminal.wait_for("read quit");
    assert_eq!(terminal.code(), Some(9));
}
