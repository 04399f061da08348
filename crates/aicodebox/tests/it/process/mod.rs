//! Launcher, keepers and the supervise loop, with real processes that misbehave.

mod clean;
mod death;
mod leak;
mod output;
mod spawn;
mod stop;
mod stuck;
mod support;
mod tree;
