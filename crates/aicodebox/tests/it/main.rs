//! The box from outside: real processes, real sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapter;
mod auth;
mod callbacks;
mod cancel;
mod config;
mod cron;
mod disconnect;
mod errors;
mod events;
mod files;
mod harness;
mod health;
mod idempotency;
mod init;
mod mcp;
mod metrics;
mod openai;
mod openapi;
mod process;
mod pty;
mod python;
mod run;
mod secrets;
mod sessions;
mod shutdown;
mod sse;
mod store;
mod structured;
mod telegram;
mod terminal;
