//! The surfaces: each takes requests in its own way and gives them to the engine.

mod body;
mod file_answer;
pub(crate) mod http;
pub(crate) mod mcp;
mod run_answer;
mod run_event;
pub(crate) mod terminal;
mod token;
mod wire;
