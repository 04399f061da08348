//! The box from outside: real processes, real sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod process;
