//! The bot as a real process, in front of a Bot API server that refuses what Telegram refuses.

mod chat;
mod commands;
mod cron;
mod delivery;
pub(crate) mod fake;
mod files;
mod http;
mod load;
mod polling;
mod rules;
mod support;
mod transcript;
