//! Processes: a launcher, reusable keepers, and the one loop that supervises a run.
//!
//! The launcher is this program executed again before runtime, secrets and threads exist. It forks keepers;
//! a keeper starts one agent at a time, is the subreaper of everything that the agent starts, and reports the
//! end only when `waitpid` says that no descendant is left. See `docs/processes.md`.
//!
//! ```text
//! server ── launcher ── keeper ── leader ── whatever the agent starts
//!    └─── one socket ──────┘ │       │
//!    └─── three pipes ───────┴───────┘
//! ```

mod error;
mod keeper;
mod launch;
mod launcher;
mod leader;
mod lines;
mod link;
mod memory;
mod message;
mod output;
mod pipes;
mod pool;
mod pump;
mod running;
mod socket;
mod stop;
mod supervise;
mod sweep;
mod sys;
mod tail;
pub mod times;
mod utf8;
mod wire;

pub use error::SpawnError;
pub use launch::{Launch, Limits, Rlimit, Stdin, StopPlan, Variables, variables};
pub use launcher::{LAUNCHER, run_launcher};
pub use lines::{Line, Lines, MAX_LINE};
pub use link::LauncherCommand;
pub use memory::{give_memory_back, return_large_blocks};
pub use output::{Flow, Output, Stream};
pub use pool::Pool;
pub use running::Running;
pub use stop::{Requests, Stop};
pub use sweep::children;
pub use sys::blocked;
pub use tail::KEPT;
pub use utf8::Utf8Chunks;
