//! The Telegram bot: people write, an agent answers.
//!
//! `updates` fetches each update once; [`Bot`] decides what it is for; a lane per chat and topic has one turn at a time;
//! a turn runs the agent, shows its progress, and delivers through the outbox.

mod actions;
mod albums;
mod bot;
mod commands;
mod incoming;
mod lanes;
mod overrides;
mod picker;
mod poll;
mod progress;
mod purpose;
mod reply;
mod settings;
mod turn;
mod updates;
mod uploads;

pub(crate) use bot::{Bot, TelegramSetup};
pub(crate) use settings::{TelegramFile, TelegramFileError};
pub(crate) use updates::serve;
