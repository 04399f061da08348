//! Requests that the box itself makes to addresses that others name: images, callbacks.
//!
//! Whoever names an address must not reach by us what he cannot reach himself. So a name is resolved once, all its
//! addresses must be public ([`is_public`]), the connection goes to one of exactly these, and every redirect goes the
//! same way. No proxy of the environment is used: it would resolve names for itself.

mod address;
mod client;
mod error;
mod resolver;
mod tls;

pub(crate) use address::is_public;
pub(crate) use client::Fetcher;
pub(crate) use error::FetchError;
pub(crate) use resolver::{Resolve, SystemResolver};
