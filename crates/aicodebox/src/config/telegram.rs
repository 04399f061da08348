use std::path::{Path, PathBuf};

use secrecy::SecretString;
use url::Url;

use super::{Reader, variable::*};

/// The way to Telegram, for everything that sends there.
#[derive(Clone, Debug)]
pub(crate) struct TelegramAccess {
    pub(crate) token: SecretString,
    /// Another server than Telegram's.
    pub(crate) api: Option<Url>,
    /// The one chat that is meant where none is named.
    pub(crate) only_chat: Option<i64>,
}

/// The bot.
#[derive(Clone, Debug)]
pub(crate) struct TelegramConfig {
    pub(crate) access: TelegramAccess,
    /// `telegram.yml`.
    pub(crate) file: PathBuf,
    /// Where settings made in chats are kept.
    pub(crate) overrides: PathBuf,
}

impl TelegramAccess {
    /// `None` = there is no token, or something is wrong.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let only_chat = reader.chat(&TELEGRAM_CHAT_ID);
        let url = reader.text(&TELEGRAM_API_URL);
        let api = url.as_ref().and_then(|text| {
            let parsed = Url::parse(text.trim_end_matches('/')).ok();
            let usable =
                parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
            if usable.is_none() {
                reader.fault(
                    &TELEGRAM_API_URL,
                    format_args!("expected a URL such as https://api.example.org, found {text:?}"),
                );
            }
            usable
        });
        Some(Self { token: reader.secret(&TELEGRAM_TOKEN)?, api, only_chat })
    }
}

impl TelegramConfig {
    /// `None` = something is wrong.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        access: Option<TelegramAccess>,
        state_dir: &Path,
    ) -> Option<Self> {
        if access.is_none() && !reader.is_set(&TELEGRAM_TOKEN) && !reader.has_file(&TELEGRAM_TOKEN) {
            reader.fault(&TELEGRAM_TOKEN, "expected the token that @BotFather gave for the bot");
        }
        Some(Self {
            access: access?,
            file: reader.path(&TELEGRAM_CONFIG).unwrap_or_else(|| state_dir.join("telegram.yml")),
            overrides: reader
                .path(&TELEGRAM_OVERRIDES)
                .unwrap_or_else(|| state_dir.join("telegram_overrides.json")),
        })
    }
}
