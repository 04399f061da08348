//! The surfaces: each takes requests in its own way and gives them to the engine.

pub(crate) mod http;
mod run_answer;
mod run_event;
pub(crate) mod terminal;
mod wire;
