use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use super::{
    child::Child,
    identity::Identity,
    reaper::{Found, reap},
    say,
    signals::{Signals, StopSignal},
};
use crate::config::{Environment, path_with_programs};

/// Scripts of the image, before those of the state directory.
const OF_THE_IMAGE: &str = "/aicodebox-init.d";
/// Says that the scripts of this container have run. Root's, so that agents cannot have them run again.
const DONE: &str = "/var/lib/aicodebox/init-done";
/// What runs them.
const SHELL: &str = "/bin/bash";
/// How long one script may take: a package or two, but not for ever.
const LIMIT: Duration = Duration::from_secs(300);
/// How long one that has to end may take.
const GRACE: Duration = Duration::from_secs(2);

/// Runs the first-run scripts as the agents' user, unless this container has done so. One that fails is told, and the
/// rest run.
///
/// # Errors
/// The exit code of the box, when a signal stopped it meanwhile.
pub(super) fn run(signals: &Signals, identity: &Identity, environment: &Environment) -> Result<(), u8> {
    if Path::new(DONE).exists() {
        return Ok(());
    }
    let directories = [PathBuf::from(OF_THE_IMAGE), identity.state().join("init.d")];
    let scripts: Vec<_> = directories.iter().flat_map(|path| scripts(path)).collect();
    for script in &scripts {
        let ended = run_one(signals, identity, environment, script);
        match ended {
            Ok(Ended::With(0)) => {}
            Ok(Ended::With(code)) => failed(script, format_args!("exit code {code}")),
            Ok(Ended::TooLate) => failed(script, format_args!("not done after {} s", LIMIT.as_secs())),
            Ok(Ended::Stopped(stop)) => return Err(stop.code()),
            Err(error) => failed(script, error),
        }
    }
    if let Err(error) = fs::write(DONE, "")
        && !scripts.is_empty()
    {
        say(format_args!("the scripts run at every start, because {DONE} cannot be written: {error}"));
    }
    Ok(())
}

fn failed(script: &Path, why: impl std::fmt::Display) {
    use io::Write;
    writeln!(io::stderr(), "[entrypoint] init script {} failed: {why}", script.display()).ok();
}

/// The `*.sh` of a directory in the order of their names; as in a shell, no hidden ones.
fn scripts(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "sh") && !is_hidden(path))
        .collect();
    found.sort_unstable();
    found
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

enum Ended {
    With(u8),
    TooLate,
    Stopped(StopSignal),
}

fn run_one(
    signals: &Signals,
    identity: &Identity,
    environment: &Environment,
    script: &Path,
) -> io::Result<Ended> {
    let mut command = Command::new(SHELL);
    command
        .arg(script)
        .env_clear()
        .envs(environment.variables())
        .env("PATH", path_with_programs(environment.get("PATH"), identity.state()))
        .current_dir(identity.home())
        .stdin(Stdio::null());
    identity.name_user(&mut command);
    let child = Child::spawn(command, identity, false)?;
    let mut end = Instant::now() + LIMIT;
    let mut stopped = None;
    loop {
        loop {
            match reap() {
                Found::Ended { pid, code } if pid == child.pid() => {
                    return Ok(stopped.unwrap_or(Ended::With(code)));
                }
                Found::Ended { .. } | Found::Stopped { .. } => {}
                Found::Alive | Found::None => break,
            }
        }
        match signals.next(Some(end))? {
            Some(signal) => {
                if let Some(stop) = StopSignal::of(signal) {
                    child.signal_group(Signal::SIGTERM);
                    stopped = Some(Ended::Stopped(stop));
                    end = Instant::now() + GRACE;
                }
            }
            None => {
                child.signal_group(Signal::SIGKILL);
                stopped = stopped.or(Some(Ended::TooLate));
                // What cannot be killed is left behind.
                if Instant::now() > end + GRACE {
                    return Ok(Ended::TooLate);
                }
                end = Instant::now() + GRACE;
            }
        }
    }
}
