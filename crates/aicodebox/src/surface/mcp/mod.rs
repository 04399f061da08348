//! MCP: the agent and its files as tools.
//!
//! [`Handler`] answers the protocol, whatever carries it: [`router()`] puts it on HTTP (beside the API, or alone on its own
//! port), [`serve_stdio`] on standard input and output. Both revisions of the protocol that are alive are spoken:
//! 2025-11-25 with its sessions, and 2026-07-28, where every request stands for itself.
//!
//! A call owns the handle of its run. It lets go of it, which cancels the run, when the client cancels the call, and
//! when nobody can receive the answer any more: the response was dropped, the session was closed, the pipe has ended
//! (see [`presence`]). Whoever wants a run to go on by itself calls `start_run`.

mod arguments;
mod file_tools;
mod guard;
mod handler;
mod patience;
mod presence;
mod progress;
mod reply;
mod router;
mod run_tools;
mod sessions;
mod stdio;
mod tools;

pub(crate) use handler::Handler;
pub(crate) use router::router;
pub(crate) use stdio::serve_stdio;
