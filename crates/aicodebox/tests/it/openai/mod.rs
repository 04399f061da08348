//! Chat completions and models.

mod chat;
mod disconnect;
mod errors;
mod images;
mod queue;
mod schema;
mod stream;
mod support;
mod tools;
