//! The surfaces: each takes requests in its own way and gives them to the engine.

pub(crate) mod http;
pub(crate) mod openai;
mod run_answer;
mod run_event;
mod sse;
pub(crate) mod terminal;
mod token;
mod wire;
