//! Puts any AI coding agent CLI on the network: see the README.

mod adapter_command;
mod command;
mod config;
mod fetch;
mod health_check;
mod logging;
mod serve;
mod setup;
mod surface;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

use aicodebox_engine::process::{LAUNCHER, run_launcher};
use clap::Parser;

fn main() -> ExitCode {
    // Called by itself under this name, it is the launcher of agents: before runtime, threads and secrets exist.
    if env::args_os().next().is_some_and(|name| name == LAUNCHER) {
        return run_launcher();
    }
    command::Cli::parse().run().unwrap_or_else(|error| {
        // Where standard error is gone, the exit code has to do.
        _ = writeln!(io::stderr(), "aicodebox: {error}");
        error.code()
    })
}
