use std::{fmt, time::Duration};

use secrecy::{ExposeSecret, SecretString};
use teloxide_core::{
    ApiError, Bot, RequestError,
    net::default_reqwest_settings,
    payloads::{
        AnswerCallbackQuerySetters, EditMessageTextSetters, SendDocumentSetters, SendMessageSetters,
        SendPhotoSetters, SendVideoSetters,
    },
    prelude::Requester,
    types::{
        CallbackQueryId, ChatAction, ChatId, InlineKeyboardMarkup, InputFile, LinkPreviewOptions, Message,
        MessageId, ReplyParameters, ThreadId,
    },
};
use url::Url;

use super::{
    Chunk,
    attachment::{Attachment, Kind},
};

/// How long one call may take, a file of 50 MB included.
const CALL_LIMIT: Duration = Duration::from_secs(300);

/// A place in Telegram where messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    /// Chat id; a group's is negative.
    pub(crate) chat: i64,
    /// Topic of a forum.
    pub(crate) topic: Option<i32>,
}

/// How a message hangs together with others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manner {
    /// The message that it answers.
    pub(crate) reply_to: Option<i32>,
    /// No sound.
    pub(crate) silent: bool,
    /// It waits for nothing that is on its way already: the answer to somebody who wants it stopped.
    pub(crate) urgent: bool,
    pub(crate) buttons: Option<InlineKeyboardMarkup>,
}

/// Why Telegram did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TelegramError {
    /// Too many calls.
    #[error("Telegram wants no calls for {} s", .0.as_secs())]
    Wait(Duration),
    /// The group has another id now.
    #[error("the group has become the supergroup {0}")]
    Migrated(i64),
    /// The token is wrong or was revoked.
    #[error(
        "Telegram refuses the bot's token: make a new one with @BotFather and set AICODEBOX_TELEGRAM_MODE_TOKEN"
    )]
    Unauthorized,
    /// Somebody else polls with this token.
    #[error("another program polls with this bot's token: stop it, or use another bot")]
    Conflict,
    /// It will not be otherwise next time.
    #[error("{0}")]
    Refused(String),
    /// The bot was blocked or removed.
    #[error("{0}")]
    Forbidden(String),
    /// It may be otherwise next time.
    #[error("Telegram cannot be reached: {0}")]
    Unreachable(String),
}

impl From<RequestError> for TelegramError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::RetryAfter(seconds) => Self::Wait(seconds.duration()),
            RequestError::MigrateToChatId(chat) => Self::Migrated(chat.0),
            RequestError::Api(ApiError::InvalidToken) => Self::Unauthorized,
            RequestError::Api(ApiError::TerminatedByOtherGetUpdates) => Self::Conflict,
            RequestError::Api(ApiError::Unknown(text)) => Self::of_description(text),
            RequestError::Api(known) => Self::of_description(known.to_string()),
            // The library has taken the token out of the address.
            RequestError::Network(error) => Self::Unreachable(chain(&*error)),
            RequestError::InvalidJson { .. } => Self::Unreachable("its answer is not JSON".into()),
            RequestError::Io(error) => Self::Unreachable(error.to_string()),
        }
    }
}

impl TelegramError {
    fn of_description(text: String) -> Self {
        let faults = ["Bad Gateway", "Internal Server Error", "Gateway Timeout", "Service Unavailable"];
        if text.starts_with("Forbidden") || text.starts_with("Unauthorized: ") {
            Self::Forbidden(text)
        } else if text.starts_with("Conflict") {
            Self::Conflict
        } else if faults.iter().any(|fault| text.contains(fault)) {
            Self::Unreachable(text)
        } else {
            Self::Refused(text)
        }
    }

    /// Whether a message that was to be edited already says that.
    pub(crate) fn not_modified(&self) -> bool {
        matches!(self, Self::Refused(text) if text.contains("message is not modified"))
    }
}

/// An error with its causes, which is where the reason of a connection fault is told.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The calls of the Bot API that go out, one each, without any second try. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client(Bot);

/// Without the token.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    /// A client with this token; `api` = another server than Telegram's. Calls may take `limit`.
    ///
    /// # Errors
    /// When the system gives no TLS or no resolver.
    pub(crate) fn new(token: &SecretString, api: Option<&Url>) -> Result<Self, TelegramError> {
        let client = default_reqwest_settings().timeout(CALL_LIMIT).build();
        let client = client.map_err(|error| TelegramError::Unreachable(error.to_string()))?;
        let bot = Bot::with_client(token.expose_secret(), client);
        Ok(Self(match api {
            Some(url) => bot.set_api_url(url.clone()),
            None => bot,
        }))
    }

    /// The library's own, for all other calls.
    pub(crate) fn bot(&self) -> &Bot {
        &self.0
    }

    pub(super) async fn send(
        &self,
        to: Address,
        chunk: &Chunk,
        manner: &Manner,
    ) -> Result<Message, TelegramError> {
        let mut call = self
            .0
            .send_message(ChatId(to.chat), &chunk.text)
            .entities(chunk.entities.clone())
            .link_preview_options(no_preview())
            .disable_notification(manner.silent);
        if let Some(topic) = to.topic {
            call = call.message_thread_id(thread(topic));
        }
        if let Some(id) = manner.reply_to {
            call = call.reply_parameters(reply(id));
        }
        if let Some(buttons) = &manner.buttons {
            call = call.reply_markup(buttons.clone());
        }
        Ok(call.await?)
    }

    pub(super) async fn attach(
        &self,
        to: Address,
        attachment: &Attachment,
        as_document: bool,
    ) -> Result<Message, TelegramError> {
        let file = InputFile::memory(attachment.bytes.clone()).file_name(attachment.name.clone());
        let (chat, topic) = (ChatId(to.chat), to.topic.map(thread));
        // The three calls share no trait for their options.
        macro_rules! sent {
            ($call:expr) => {{
                let call = $call;
                Ok(match topic {
                    Some(topic) => call.message_thread_id(topic).await?,
                    None => call.await?,
                })
            }};
        }
        match attachment.kind() {
            Kind::Photo if !as_document => sent!(self.0.send_photo(chat, file)),
            Kind::Video if !as_document => sent!(self.0.send_video(chat, file)),
            Kind::Photo | Kind::Video | Kind::Document => sent!(self.0.send_document(chat, file)),
        }
    }

    /// Makes a message say something else.
    ///
    /// # Errors
    /// Also when it says that already ([`TelegramError::not_modified`]).
    pub(crate) async fn edit(&self, chat: i64, message: i32, chunk: &Chunk) -> Result<(), TelegramError> {
        self.0
            .edit_message_text(ChatId(chat), MessageId(message), &chunk.text)
            .entities(chunk.entities.clone())
            .link_preview_options(no_preview())
            .await?;
        Ok(())
    }

    /// Takes a message back.
    ///
    /// # Errors
    /// Whatever Telegram says.
    pub(crate) async fn delete(&self, chat: i64, message: i32) -> Result<(), TelegramError> {
        self.0.delete_message(ChatId(chat), MessageId(message)).await?;
        Ok(())
    }

    /// Shows for some seconds that the bot writes.
    ///
    /// # Errors
    /// Whatever Telegram says.
    pub(crate) async fn typing(&self, to: Address) -> Result<(), TelegramError> {
        use teloxide_core::payloads::SendChatActionSetters;
        let mut call = self.0.send_chat_action(ChatId(to.chat), ChatAction::Typing);
        if let Some(topic) = to.topic {
            call = call.message_thread_id(thread(topic));
        }
        call.await?;
        Ok(())
    }

    /// Ends the waiting of a pressed button.
    ///
    /// # Errors
    /// Whatever Telegram says.
    pub(crate) async fn pressed(&self, id: &CallbackQueryId, text: &str) -> Result<(), TelegramError> {
        self.0.answer_callback_query(id.clone()).text(text).await?;
        Ok(())
    }
}

fn thread(topic: i32) -> ThreadId {
    ThreadId(MessageId(topic))
}

/// The message may have been deleted meanwhile.
fn reply(id: i32) -> ReplyParameters {
    ReplyParameters::new(MessageId(id)).allow_sending_without_reply()
}

/// A page that an answer mentions would cover the answer with its picture.
fn no_preview() -> LinkPreviewOptions {
    LinkPreviewOptions {
        is_disabled: true,
        url: None,
        prefer_small_media: false,
        prefer_large_media: false,
        show_above_text: false,
    }
}
