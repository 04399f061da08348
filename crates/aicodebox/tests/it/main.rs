//! The box from outside: real processes, real sockets.

mod process;
