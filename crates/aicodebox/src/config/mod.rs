//! Configuration: environment variables in, valid values out, every fault told at once.
//!
//! [`VARIABLES`] is the one list. [`Config`] holds what the engine and all commands need; [`Modes`] holds what
//! `serve` serves, so that `run` in a box does not stumble over the API's token.

mod agent_environment;
mod callbacks;
mod cron;
mod environment;
mod mcp;
mod modes;
pub(crate) mod parse;
mod reader;
mod serving;
mod settings;
mod table;
mod telegram;
mod variable;
mod wanted;

pub(crate) use agent_environment::path_with_programs;
pub(crate) use callbacks::CallbackConfig;
pub(crate) use cron::{CronConfig, known_zone};
pub(crate) use environment::Environment;
pub(crate) use mcp::{McpConfig, Names};
pub(crate) use modes::{Access, ApiConfig, ChatAsides, ChatWorkspace, Cors, Foreground, local_port};
use reader::Reader;
pub(crate) use reader::{ConfigError, read_secret};
pub(crate) use serving::{Modes, Serving};
pub(crate) use settings::{Config, LogFormat, Logging, STATE, named_state_dir};
pub(crate) use table::{effective, markdown};
pub(crate) use telegram::{TelegramAccess, TelegramConfig};
pub(crate) use variable::STATE_DIR;
use variable::VARIABLES;
pub(crate) use wanted::{Wanted, listens};
