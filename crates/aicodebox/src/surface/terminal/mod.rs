//! `aicodebox run` and `aicodebox verify`: one run for the person at this terminal.

mod args;
mod interrupt;
mod progress;
mod run;
mod verify;

pub(crate) use args::RunArgs;
pub(crate) use run::{Output, run};
pub(crate) use verify::verify;
