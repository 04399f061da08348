//! Puts any AI coding agent CLI on the network: see the README.

mod adapter_command;
mod callback;
mod command;
mod config;
mod cron_command;
mod fetch;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod health_check;
mod init;
mod logging;
mod preflight;
mod rest;
mod serve;
mod setup;
mod surface;

use std::{
    env,
    ffi::OsStr,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use aicodebox_engine::process::{LAUNCHER, return_large_blocks, run_launcher};
use clap::Parser;

/// The program; which of its parts runs, the name says that it was called by.
pub fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    // Called by itself under this name, it is the launcher of agents: before runtime, threads and secrets exist.
    if name == LAUNCHER {
        return run_launcher();
    }
    // Under these names no argument is ours, whatever it looks like.
    if Path::new(&name).file_name() == Some(OsStr::new(init::ENTRYPOINT)) {
        return init::run(&arguments.collect::<Vec<_>>());
    }
    if name == init::PASSTHROUGH {
        return init::passthrough(&arguments.collect::<Vec<_>>());
    }
    return_large_blocks();
    command::Cli::parse().run().unwrap_or_else(|error| {
        // Where standard error is gone, the exit code has to do.
        _ = writeln!(io::stderr(), "aicodebox: {error}");
        error.code()
    })
}
