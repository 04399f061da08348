//! Adapters that are Python classes (`AICODEBOX_ADAPTER=package.module:Class`), written for the original project.
//!
//! The class lives in a process of its own, the bridge (`python3 -m aicodebox.bridge`), which asks its hooks what a
//! [`PythonAdapter`] needs to know: one call to plan a run, one to read its output, or one for every batch of lines
//! of a stream. Unlike an adapter file, this adapter does start a process, through the pool like every other one:
//! the bridge is the leader of a keeper that serves nothing else.
//!
//! No call is waited for longer than its deadline. A bridge that dies or hangs is replaced, and the calls of other
//! runs that it took along are made again: see [`bridge`].

mod adapter;
mod bridge;
mod link;
mod load;
mod reading;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod usage;
mod whole;
mod wire;

pub use adapter::PythonAdapter;
pub use load::{PythonError, load_python};
