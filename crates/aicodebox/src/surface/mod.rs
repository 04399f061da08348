//! The surfaces: each takes requests in its own way and gives them to the engine.

pub(crate) mod answer;
mod body;
mod callers;
mod check;
mod complaint;
pub(crate) mod cron;
mod file_answer;
pub(crate) mod http;
pub(crate) mod mcp;
pub(crate) mod openai;
pub(crate) mod outbox;
mod records;
mod regular_file;
mod run_answer;
mod run_event;
mod run_record;
mod sse;
pub(crate) mod telegram;
pub(crate) mod terminal;
mod token;
mod wire;

pub(crate) use run_record::RunRecordAnswer;
