//! The box from outside: real processes, real sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapter;
mod auth;
mod cancel;
mod config;
mod disconnect;
mod errors;
mod harness;
mod health;
mod init;
mod openai;
mod process;
mod pty;
mod python;
mod run;
mod secrets;
mod shutdown;
mod terminal;
