use teloxide_core::types::Message;

use super::{Bot, commands::Command, incoming::Incoming};

/// What is to be done about a message.
pub(super) enum Purpose {
    /// Nothing.
    Nothing,
    /// The group has another id.
    Moved(i64),
    Command(Incoming, Command),
    /// A file without a word.
    Save(Incoming),
    /// A part of an album.
    Album(Incoming),
    /// The agent is to answer.
    Turn(Incoming),
    /// It cannot be read.
    Strange(Incoming, &'static str),
}

impl Bot {
    /// Reads a message; who may not write, and what is not for the bot, is passed over.
    pub(super) fn purpose(&self, message: &Message) -> Purpose {
        let (chat, user) = (message.chat.id.0, message.from.as_ref().map(|from| from.id.0));
        // Telegram says it once, in the name of whoever did it.
        if let Some(new) = message.migrate_to_chat_id().filter(|_| self.lists(chat)) {
            return Purpose::Moved(new.0);
        }
        if !self.allows(chat, user) {
            tracing::info!(chat, user, "a message is passed over: the chat or the user is not allowed");
            return Purpose::Nothing;
        }
        let by_bot = message.from.as_ref().is_some_and(|from| from.is_bot);
        let me = self.me();
        let Some(incoming) = Incoming::of(message, me).filter(|_| !by_bot) else { return Purpose::Nothing };
        match Command::parse(&incoming.text, me.0) {
            Some(Command::NotOurs) => return Purpose::Nothing,
            Some(command) if incoming.upload.is_none() => return Purpose::Command(incoming, command),
            Some(_) | None => {}
        }
        // Of an album only one part names the bot: it is judged when it is complete.
        if incoming.album.is_none() && !incoming.to_bot && self.is_deaf(&incoming) {
            return Purpose::Nothing;
        }
        match (incoming.strange, incoming.upload.is_some()) {
            (Some(what), _) => Purpose::Strange(incoming, what),
            (None, true) if incoming.album.is_some() => Purpose::Album(incoming),
            (None, true) if incoming.text.trim().is_empty() => Purpose::Save(incoming),
            (None, _) => Purpose::Turn(incoming),
        }
    }

    /// Whether messages there have to name the bot or answer it.
    pub(super) fn is_deaf(&self, incoming: &Incoming) -> bool {
        incoming.group && self.settings(incoming.place.chat).mention_only
    }
}
