//! MCP, as raw messages: over HTTP in both revisions of the protocol, and over pipes.

mod admission;
mod cancel;
mod client;
mod protocol;
mod stdio;
mod tools;
