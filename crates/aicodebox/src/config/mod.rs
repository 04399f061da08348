//! Configuration: environment variables in, valid values out, every fault told at once.
//!
//! [`VARIABLES`] is the one list. [`Config`] holds what the engine and all commands need; [`Foreground`] holds
//! what `serve` serves, so that `run` in a box does not stumble over the API's token.

mod environment;
mod modes;
pub(crate) mod parse;
mod reader;
mod settings;
mod table;
mod variable;

pub(crate) use environment::Environment;
pub(crate) use modes::{Access, ApiConfig, ChatWorkspace, Cors, Foreground, check, for_serving, local_api};
pub(crate) use reader::ConfigError;
use reader::Reader;
pub(crate) use settings::{Config, LogFormat, Logging};
pub(crate) use table::{effective, markdown};
use variable::VARIABLES;
