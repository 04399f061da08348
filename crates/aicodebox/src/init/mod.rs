//! The first process of a box: becomes the agents' user, runs the first-run scripts, starts the server or the
//! agent's own command line, and reaps.
//!
//! It has no runtime, no threads and no sockets, so that nothing which goes wrong in a handler can take it down, and
//! it never calls `waitpid` beside tokio. What it starts is this very program again, through `/proc/self/exe`, never a
//! program that an agent could have written.
//!
//! ```text
//! init ─┬─ aicodebox serve            what the modes of the environment say
//!       └─ aicodebox-passthrough ⇒ the agent's own command line (the same process, after exec)
//! ```
//!
//! In order: hide from agents, block signals, take the secrets out of the environment, follow the owner of the mounted
//! workspace, run the scripts, start, forward signals and reap, stop what is left. See `docs/container.md`.

mod accounts;
mod child;
mod farewell;
mod hooks;
mod identity;
mod ownership;
mod passthrough;
mod places;
mod reaper;
mod secrets;
mod signals;
mod supervise;
mod terminal;

use std::{
    ffi::OsString,
    fmt,
    io::{self, IsTerminal, Write},
    process::{Command, ExitCode, Stdio},
};

use nix::{
    sys::{
        prctl,
        stat::{Mode, umask},
    },
    unistd::getpid,
};

use crate::config::{Environment, Wanted};
use child::Child;
use identity::Identity;
pub(crate) use passthrough::{PASSTHROUGH, passthrough};
use places::Places;
use secrets::Secrets;
pub(crate) use secrets::decode as decode_secrets;
use signals::Signals;
use supervise::Supervision;

/// `argv[0]` that makes every argument the agent's: the image's entrypoint.
pub(crate) const ENTRYPOINT: &str = "aicodebox-entrypoint";

/// Runs the box until its main process has ended, and gives that one's exit code: its own, or 128 + n when a signal
/// ended it. `arguments` are the agent's.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let code = enter(arguments).unwrap_or_else(|error| {
        say(format_args!("the box cannot be started: {error}"));
        1
    });
    code.into()
}

fn enter(arguments: &[OsString]) -> io::Result<u8> {
    // First of all: whoever runs as our user must not read our environment and memory, which hold the secrets.
    prctl::set_dumpable(false)?;
    let signals = Signals::block()?;
    if getpid().as_raw() != 1 {
        // Orphans would go to the real PID 1, where nobody stops them.
        prctl::set_child_subreaper(true)?;
    }
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
    let mut environment = Environment::of_process();
    let mut secrets = Secrets::take(&mut environment);
    let places = Places::of(&environment);
    let identity = Identity::find(&places);
    identity.settle(&places);
    identity.describe(&mut environment);
    secrets.read_files(&identity);

    if let Err(code) = hooks::run(&signals, &identity, &environment) {
        farewell::end(&signals, None);
        return Ok(code);
    }
    if let Some(stop) = signals.pending_stop()? {
        return Ok(stop.code());
    }
    let wanted = Wanted::of(&environment, !arguments.is_empty(), io::stdin().is_terminal());
    let started = start(wanted, arguments, &identity, &environment, &secrets);
    // Without its agent a server that has started already is of no use.
    let supervision = started.inspect_err(|_| farewell::end(&signals, None))?;
    drop((environment, secrets));
    let (code, companion) = supervision.run(&signals);
    farewell::end(&signals, companion);
    Ok(code)
}

/// Starts what the environment asks for.
fn start(
    wanted: Wanted,
    arguments: &[OsString],
    identity: &Identity,
    environment: &Environment,
    secrets: &Secrets,
) -> io::Result<Supervision> {
    let server = |quiet: bool| -> io::Result<Child> {
        let mut command = ourselves("aicodebox", identity, environment);
        command.args(["serve", "--secrets-on-stdin"]).stdin(Stdio::piped());
        if quiet && environment.get("RUST_LOG").is_none() {
            // It shares the screen with the agent's own interface.
            command.env("RUST_LOG", "error");
        }
        let mut child = Child::spawn(command, identity, false)?;
        child.hand_over(secrets);
        Ok(child)
    };
    let agent = || {
        let mut command = ourselves(PASSTHROUGH, identity, environment);
        command.args(arguments);
        Child::spawn(command, identity, io::stdin().is_terminal())
    };
    Ok(match wanted {
        Wanted::Server => {
            if !arguments.is_empty() {
                say("the arguments are ignored: they are the agent's, and a mode is in the foreground");
            }
            Supervision::new(server(false)?, None)
        }
        Wanted::Agent => Supervision::new(agent()?, None),
        Wanted::AgentBesideServer => {
            let server = server(io::stdin().is_terminal())?;
            Supervision::new(agent()?, Some(server))
        }
    })
}

/// This program under another name, with what is left of the environment.
fn ourselves(name: &str, identity: &Identity, environment: &Environment) -> Command {
    use std::os::unix::process::CommandExt;

    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).env_clear().envs(environment.variables());
    identity.name_user(&mut command);
    command
}

/// One line to standard error. Where that is gone, there is nobody to tell.
fn say(what: impl fmt::Display) {
    writeln!(io::stderr(), "init: {what}").ok();
}
