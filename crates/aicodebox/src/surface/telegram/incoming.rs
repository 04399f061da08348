use teloxide_core::types::{ChatKind, FileId, Message, MessageEntity, MessageEntityKind};

use crate::surface::outbox::Address;

/// A message to the bot, as much of it as the bot looks at.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub(super) place: Address,
    pub(super) message: i32,
    pub(super) group: bool,
    /// Text or caption, without the bot's own name at its begin.
    pub(super) text: String,
    /// Whether it names the bot or answers it.
    pub(super) to_bot: bool,
    pub(super) upload: Option<Upload>,
    /// Messages with the same one are one.
    pub(super) album: Option<String>,
    pub(super) reply: Option<Reply>,
    /// What it is, where it is neither text nor a file.
    pub(super) strange: Option<&'static str>,
}

/// A file in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upload {
    pub(super) file: FileId,
    /// As the sender names it, or made up.
    pub(super) name: String,
    /// Bytes, by what the sender's client says.
    pub(super) size: u64,
}

/// The message that another answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) message: i32,
    /// `message`, `photo`, …
    pub(super) kind: &'static str,
    /// Its text, or the part that was quoted.
    pub(super) text: String,
}

impl Incoming {
    /// Reads a message; `bot` = the bot's name and id. `None` = nothing for us: news of the chat itself.
    pub(super) fn of(message: &Message, bot: (&str, u64)) -> Option<Self> {
        let topic = message.thread_id.filter(|_| message.is_topic_message).map(|thread| thread.0.0);
        let upload = upload(message);
        let text = message.text().or_else(|| message.caption()).unwrap_or_default();
        let strange = strange(message);
        if upload.is_none() && strange.is_none() && text.trim().is_empty() {
            return None;
        }
        let answered = message.reply_to_message().filter(|answered| {
            // In a topic every message formally answers the topic's first one.
            topic != Some(answered.id.0)
        });
        let answers_bot =
            answered.and_then(|answered| answered.from.as_ref()).is_some_and(|from| from.id.0 == bot.1);
        let entities = message.entities().or_else(|| message.caption_entities()).unwrap_or_default();
        let reply = answered.map(|answered| Reply {
            message: answered.id.0,
            kind: kind(answered),
            text: match message.quote() {
                Some(quote) => quote.text.clone(),
                None => answered.text().or_else(|| answered.caption()).unwrap_or_default().to_owned(),
            },
        });
        Some(Self {
            place: Address { chat: message.chat.id.0, topic },
            message: message.id.0,
            group: !matches!(message.chat.kind, ChatKind::Private(_)),
            text: without_name(text, bot.0).to_owned(),
            to_bot: answers_bot || mentions(text, entities, bot.0),
            upload,
            album: message.media_group_id().map(|group| group.0.clone()),
            reply,
            strange,
        })
    }
}

fn upload(message: &Message) -> Option<Upload> {
    let id = message.id.0;
    let (file, name) = if let Some(document) = message.document() {
        (&document.file, document.file_name.clone().unwrap_or_else(|| format!("document_{id}")))
    } else if let Some(sizes) = message.photo() {
        let largest = sizes.iter().max_by_key(|size| u64::from(size.width) * u64::from(size.height))?;
        (&largest.file, format!("photo_{id}.jpg"))
    } else if let Some(video) = message.video() {
        (&video.file, video.file_name.clone().unwrap_or_else(|| format!("video_{id}.mp4")))
    } else if let Some(voice) = message.voice() {
        (&voice.file, format!("voice_{id}.ogg"))
    } else if let Some(audio) = message.audio() {
        (&audio.file, audio.file_name.clone().unwrap_or_else(|| format!("audio_{id}.mp3")))
    } else if let Some(animation) = message.animation() {
        (&animation.file, animation.file_name.clone().unwrap_or_else(|| format!("animation_{id}.mp4")))
    } else if let Some(note) = message.video_note() {
        (&note.file, format!("video_note_{id}.mp4"))
    } else {
        return None;
    };
    Some(Upload { file: file.id.clone(), name, size: u64::from(file.size) })
}

/// What people are told that the bot cannot read.
fn strange(message: &Message) -> Option<&'static str> {
    [
        ("stickers", message.sticker().is_some()),
        ("contacts", message.contact().is_some()),
        ("locations", message.location().is_some()),
        ("polls", message.poll().is_some()),
    ]
    .into_iter()
    .find_map(|(name, is)| is.then_some(name))
}

fn kind(message: &Message) -> &'static str {
    let kinds = [
        ("animation", message.animation().is_some()),
        ("document", message.document().is_some()),
        ("photo", message.photo().is_some()),
        ("video", message.video().is_some()),
        ("voice message", message.voice().is_some()),
        ("audio file", message.audio().is_some()),
        ("video message", message.video_note().is_some()),
        ("sticker", message.sticker().is_some()),
        ("poll", message.poll().is_some()),
        ("location", message.location().is_some()),
        ("contact", message.contact().is_some()),
    ];
    kinds.into_iter().find_map(|(name, is)| is.then_some(name)).unwrap_or("message")
}

/// Whether the text names the bot.
fn mentions(text: &str, entities: &[MessageEntity], bot: &str) -> bool {
    let units: Vec<u16> = text.encode_utf16().collect();
    entities.iter().any(|entity| {
        let range = entity.offset..entity.offset.saturating_add(entity.length);
        let named = units.get(range).map(String::from_utf16_lossy).unwrap_or_default();
        match entity.kind {
            MessageEntityKind::Mention => {
                named.strip_prefix('@').is_some_and(|name| name.eq_ignore_ascii_case(bot))
            }
            MessageEntityKind::BotCommand => match named.split_once('@') {
                Some((_, name)) => name.eq_ignore_ascii_case(bot),
                None => true,
            },
            _ => false,
        }
    })
}

/// What is said to the bot, when it is called by its name first.
fn without_name<'a>(text: &'a str, bot: &str) -> &'a str {
    let called = text.trim_start().strip_prefix('@').and_then(|rest| {
        let (name, rest) = rest.split_at_checked(bot.len())?;
        let ends = rest.chars().next().is_none_or(|c| !c.is_alphanumeric() && c != '_');
        (name.eq_ignore_ascii_case(bot) && ends).then(|| rest.trim_start_matches([' ', ',', ':']))
    });
    called.unwrap_or(text)
}
