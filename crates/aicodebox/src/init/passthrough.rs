use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode},
};

use nix::sys::prctl;

use crate::{
    config::{Config, Environment},
    setup::{self, SetupError},
};

/// `argv[0]` under which this program becomes the agent's own command line.
pub(crate) const PASSTHROUGH: &str = "aicodebox-passthrough";

/// Executes the agent's own command line with these arguments, in the environment of agents. Returns only when that
/// cannot be: 127 when there is no such program, 126 when it cannot be executed, 78 when the configuration is wrong.
pub(crate) fn passthrough(arguments: &[OsString]) -> ExitCode {
    let environment = Environment::of_process();
    match prepare(&environment) {
        Ok((program, mut command)) => {
            let error = command.args(arguments).exec();
            complain(format_args!(
                "{} cannot be executed: {error}; install the agent, or name its program in AICODEBOX_AGENT_BINARY",
                program.display()
            ));
            if error.kind() == io::ErrorKind::NotFound { 127.into() } else { 126.into() }
        }
        Err(error) => {
            complain(error);
            78.into()
        }
    }
}

fn prepare(environment: &Environment) -> Result<(PathBuf, Command), Box<dyn std::error::Error>> {
    let config = Config::from_env(environment)?;
    environment.warnings().iter().for_each(complain);
    // Loaded only where it has something to say: a class takes a process of its own.
    let adapter = match config.agent_binary.is_none() || config.subscription {
        true => Some(setup::adapter_info(&config, environment)?),
        false => None,
    };
    let named = || adapter.as_ref()?.binary.as_ref().filter(|binary| !binary.is_empty()).map(PathBuf::from);
    let program = config.agent_binary.clone().or_else(named).ok_or(SetupError::NoProgram)?;
    let (mut variables, warnings) = config.agent_environment(environment);
    warnings.iter().for_each(complain);
    for name in adapter.iter().filter(|_| config.subscription).flat_map(|adapter| &adapter.metered) {
        variables.remove(OsStr::new(name));
    }
    if config.no_new_privs {
        prctl::set_no_new_privs()?;
    }
    if !config.adapter_chosen {
        complain("AICODEBOX_ADAPTER is not set, so there is no agent yet: this is the demo's shell");
    }
    let mut command = Command::new(&program);
    command.env_clear().envs(variables);
    // Where the workspace cannot be entered, the agent says so better than we could.
    if config.workspace_chosen && config.workspace.is_dir() {
        command.current_dir(&config.workspace);
    }
    Ok((program, command))
}

fn complain(what: impl std::fmt::Display) {
    writeln!(io::stderr(), "aicodebox: {what}").ok();
}
