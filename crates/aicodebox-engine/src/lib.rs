//! Drives any AI coding agent CLI: plans its command line from a declarative adapter, supervises the
//! process and everything that it starts, and reads its output into events and one outcome.
//!
//! Modules are layers, and each may use only those below it:
//! [`engine`] → [`adapter`], [`store`], [`workspace`] → [`process`] → [`run`].

pub mod adapter;
pub mod engine;
pub mod process;
pub mod run;
pub mod store;
pub mod workspace;

use std::{future::Future, pin::Pin};

/// A boxed future, for traits that are used as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
