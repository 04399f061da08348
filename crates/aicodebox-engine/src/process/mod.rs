//! Processes: a launcher, reusable keepers, and the one loop that supervises a run.
//!
//! The launcher is this program executed again before runtime, secrets and threads exist. It forks keepers;
//! a keeper starts one agent at a time, is the subreaper of everything that the agent starts, and reports the
//! end only when `waitpid` says that no descendant is left. See `docs/processes.md`.

mod launch;
mod lines;
mod output;
mod stop;
mod utf8;

pub use launch::{Launch, Limits, Rlimit, Stdin, StopPlan};
pub use lines::{Line, Lines, MAX_LINE};
pub use output::{Flow, Output, Stream};
pub use stop::{Requests, Stop};
pub use utf8::Utf8Chunks;
