use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use teloxide_core::{
    Bot,
    requests::{JsonRequest, Payload},
    types::{AllowedUpdate, Update},
};

/// How long Telegram holds a poll without news, in seconds.
const HOLD: u32 = 30;
/// A poll that takes so much longer has lost its connection.
pub(super) const LOST: Duration = Duration::from_secs(HOLD as u64 + 15);
/// Media whose MIME type the sender's client may leave out, which the library does not expect: it would take the whole
/// message for an empty one. With each, the type that it usually has.
const USUAL: [(&str, &str); 4] =
    [("voice", "audio/ogg"), ("audio", "audio/mpeg"), ("video", "video/mp4"), ("animation", "video/mp4")];

/// `getUpdates` with answers as they come, for [`read`].
#[derive(Clone, Debug, Serialize)]
pub(super) struct Poll {
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<i32>,
    timeout: u32,
    allowed_updates: [AllowedUpdate; 2],
}

impl Payload for Poll {
    type Output = Vec<Value>;
    const NAME: &'static str = "GetUpdates";

    fn timeout_hint(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.timeout.into()))
    }
}

/// Asks for the updates after `last`, and confirms all up to it.
pub(super) fn poll(bot: &Bot, last: Option<u32>) -> JsonRequest<Poll> {
    let offset = last.map(|last| i32::try_from(last.saturating_add(1)).unwrap_or(i32::MAX));
    let allowed_updates = [AllowedUpdate::Message, AllowedUpdate::CallbackQuery];
    JsonRequest::new(bot.clone(), Poll { offset, timeout: HOLD, allowed_updates })
}

/// Reads an update; `None` = it is none.
pub(super) fn read(mut update: Value) -> Option<Update> {
    if let Some(message) = update.get_mut("message") {
        name_types(message);
        if let Some(answered) = message.get_mut("reply_to_message") {
            name_types(answered);
        }
    }
    // As text once more: the library finds the kind of an update only by a name that it can borrow.
    serde_json::from_str(&update.to_string())
        .inspect_err(|error| tracing::warn!(%error, "an update is passed over: it cannot be read"))
        .ok()
}

fn name_types(message: &mut Value) {
    for (kind, usual) in USUAL {
        if let Some(media) = message.get_mut(kind).and_then(Value::as_object_mut) {
            media.entry("mime_type").or_insert_with(|| usual.into());
        }
    }
}
