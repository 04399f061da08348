//! The program: see the README.

use std::process::ExitCode;

fn main() -> ExitCode {
    aicodebox::main()
}
