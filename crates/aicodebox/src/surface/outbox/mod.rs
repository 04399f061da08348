//! What goes out to Telegram, for the bot and the scheduler alike: answers rendered, cut, paced, and their delivery
//! known.

mod attachment;
mod chunks;
mod client;
mod delivery;
mod markdown;
mod pace;
mod rich;
mod sender;
#[cfg(test)]
mod tests;

pub(crate) use attachment::{Attachment, FILE_LIMIT};
pub(crate) use chunks::{Chunk, MESSAGE_LIMIT};
pub(crate) use client::{Address, Client, Manner, TelegramError};
pub(crate) use delivery::Delivery;
pub(crate) use markdown::render;
pub(crate) use rich::RichText;
pub(crate) use sender::{Letter, Outbox};
