//! Chat completions and models, as clients of OpenAI know them.
//!
//! A body ([`request`]) and headers ([`headers`]) become one run ([`translate`]): the conversation one prompt
//! ([`prompt`]), the client's tools a directive in the system text ([`tools`]) and a check of the answer
//! ([`tool_check`]). The outcome becomes a completion ([`response`]), or a stream that reads the run's log while it is
//! written ([`stream`], [`chunks`]). Whatever goes wrong is an [`error`] in OpenAI's shape, on every path below `/v1`.

mod aside;
mod chats;
mod chunks;
mod description;
mod error;
mod headers;
mod images;
mod message;
mod models;
mod prompt;
mod request;
mod response;
mod responses;
mod router;
mod stream;
mod tool_check;
mod tools;
mod translate;

#[cfg(test)]
mod golden;

#[cfg(feature = "fuzzing")]
pub(crate) use self::{message::Message, prompt::render, request::ChatRequest, tool_check::ToolCheck};
pub(crate) use chats::Chats;
pub(crate) use description::description;
pub(crate) use models::Models;
pub(crate) use router::routes;
