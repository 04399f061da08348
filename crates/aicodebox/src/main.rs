//! The box: see the README.

use std::process::ExitCode;

use aicodebox_engine::process::{LAUNCHER, run_launcher};

fn main() -> ExitCode {
    // Before anything else: a launcher has no runtime, no threads and no secrets.
    if std::env::args_os().next().is_some_and(|name| name == LAUNCHER) {
        return run_launcher();
    }
    ExitCode::SUCCESS
}
