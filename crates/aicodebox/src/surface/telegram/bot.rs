use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use aicodebox_engine::{
    engine::Engine,
    store::{Ledger, PendingMessage},
    workspace::Workspaces,
};
use teloxide_core::types::{CallbackQuery, Message, Update, UpdateKind};
use tokio::task::spawn_blocking;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    TelegramFile,
    albums::Albums,
    commands::Command,
    incoming::Incoming,
    lanes::{Lanes, Pushed, Turn},
    overrides::Overrides,
    purpose::Purpose,
    reply,
    settings::ChatSettings,
};
use crate::surface::{
    cron::History,
    outbox::{Address, Letter, MESSAGE_LIMIT, Manner, Outbox, RichText},
};

/// What a bot is built from.
pub(crate) struct TelegramSetup {
    pub(crate) engine: Engine,
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) outbox: Outbox,
    /// `telegram.yml`, and what was read from it.
    pub(crate) path: PathBuf,
    pub(crate) file: TelegramFile,
    /// The one allowed chat, where the file names none.
    pub(crate) only: Option<i64>,
    /// Where settings made in chats are kept.
    pub(crate) overrides: PathBuf,
    /// Models to offer.
    pub(crate) models: Vec<String>,
    /// Efforts to offer.
    pub(crate) efforts: Vec<String>,
    /// What the scheduler told in which message.
    pub(crate) history: History,
}

/// The bot: reads updates, and does what they ask for. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Bot(Arc<Inner>);

struct Inner {
    setup: TelegramSetup,
    /// Name and id, as Telegram knows it.
    me: (String, u64),
    file: RwLock<TelegramFile>,
    overrides: Overrides,
    lanes: Lanes,
    albums: Albums,
    /// Old ids of groups that have new ones.
    moved: Mutex<HashMap<i64, i64>>,
    /// Why updates cannot be fetched now.
    trouble: Mutex<Option<String>>,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Bot {
    pub(super) fn new(
        setup: TelegramSetup,
        me: (String, u64),
        moved: Vec<(i64, i64)>,
        stop: CancellationToken,
    ) -> Self {
        for (old, new) in &moved {
            setup.outbox.moved(*old, *new);
        }
        Self(Arc::new(Inner {
            me,
            file: RwLock::new(setup.file.clone()),
            overrides: Overrides::open(setup.overrides.clone()),
            lanes: Lanes::default(),
            albums: Albums::default(),
            moved: Mutex::new(moved.into_iter().map(|(old, new)| (new, old)).collect()),
            trouble: Mutex::default(),
            tracker: TaskTracker::new(),
            stop,
            setup,
        }))
    }

    /// Its name and id.
    pub(super) fn me(&self) -> (&str, u64) {
        (self.0.me.0.as_str(), self.0.me.1)
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.0.setup.engine
    }

    pub(super) fn setup(&self) -> &TelegramSetup {
        &self.0.setup
    }

    pub(super) fn outbox(&self) -> &Outbox {
        &self.0.setup.outbox
    }

    pub(super) fn ledger(&self) -> &dyn Ledger {
        &*self.0.setup.ledger
    }

    pub(super) fn workspaces(&self) -> Arc<Workspaces> {
        self.0.setup.workspaces.clone()
    }

    pub(super) fn lanes(&self) -> &Lanes {
        &self.0.lanes
    }

    pub(super) fn albums(&self) -> &Albums {
        &self.0.albums
    }

    pub(super) fn overrides(&self) -> &Overrides {
        &self.0.overrides
    }

    pub(super) fn tracker(&self) -> &TaskTracker {
        &self.0.tracker
    }

    pub(super) fn stopping(&self) -> &CancellationToken {
        &self.0.stop
    }

    pub(super) fn trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What holds in a chat: the file, and over it what people have set there.
    pub(super) fn settings(&self, chat: i64) -> ChatSettings {
        let file = self.0.file.read().unwrap_or_else(PoisonError::into_inner);
        self.0.overrides.apply(chat, file.chat(self.listed(chat)))
    }

    pub(super) fn allows(&self, chat: i64, user: Option<u64>) -> bool {
        self.0.file.read().unwrap_or_else(PoisonError::into_inner).allows(self.listed(chat), user)
    }

    /// Whether the chat is one of the bot's, whoever may write there.
    pub(super) fn lists(&self, chat: i64) -> bool {
        self.0.file.read().unwrap_or_else(PoisonError::into_inner).lists(self.listed(chat))
    }

    pub(super) fn replace_file(&self, file: TelegramFile) {
        *self.0.file.write().unwrap_or_else(PoisonError::into_inner) = file;
    }

    /// The id under which the file may have a group that has moved.
    fn listed(&self, chat: i64) -> i64 {
        self.moved().get(&chat).copied().unwrap_or(chat)
    }

    fn moved(&self) -> MutexGuard<'_, HashMap<i64, i64>> {
        self.0.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an update: first it is on record as taken, then it is acted upon. So it is never acted upon twice; what a
    /// crash cuts short is told at the next start.
    pub(super) async fn take(&self, update: Update) {
        let id = update.id.0;
        match update.kind {
            UpdateKind::Message(message) => {
                let purpose = self.purpose(&message);
                let pending = match &purpose {
                    Purpose::Turn(incoming)
                    | Purpose::Album(incoming)
                    | Purpose::Save(incoming)
                    | Purpose::Command(incoming, Command::Fetch(_)) => Some(PendingMessage {
                        update: id,
                        chat: incoming.place.chat,
                        topic: incoming.place.topic,
                        message: incoming.message,
                    }),
                    Purpose::Nothing | Purpose::Moved(_) | Purpose::Command(..) | Purpose::Strange(..) => {
                        None
                    }
                };
                if self.keep(id, pending).await {
                    self.act(id, &message, purpose).await;
                }
            }
            UpdateKind::CallbackQuery(query) => {
                if self.keep(id, None).await {
                    self.pressed(query).await;
                }
            }
            UpdateKind::Error(_) => {
                tracing::warn!(update = id, "an update is passed over: it cannot be read");
                self.keep(id, None).await;
            }
            // Edits and posts of channels start nothing; all else was not asked for.
            _ => {
                self.keep(id, None).await;
            }
        }
    }

    async fn keep(&self, id: u32, pending: Option<PendingMessage>) -> bool {
        let kept = self.ledger().keep_update(id, pending).await;
        kept.inspect_err(
            |error| tracing::error!(update = id, %error, "an update is dropped: it cannot be recorded"),
        )
        .is_ok()
    }

    /// These updates are done with.
    pub(super) async fn settle(&self, updates: &[u32]) {
        for update in updates {
            if let Err(error) = self.ledger().settle_update(*update).await {
                tracing::error!(update, %error, "an update could not be recorded as done");
            }
        }
    }

    async fn act(&self, update: u32, message: &Message, purpose: Purpose) {
        match purpose {
            Purpose::Nothing => {}
            Purpose::Moved(new) => self.move_group(message.chat.id.0, new).await,
            Purpose::Command(incoming, command) => self.command(update, incoming, command).await,
            Purpose::Save(incoming) => {
                let bot = self.clone();
                self.tracker().spawn(async move {
                    bot.save(incoming.place, incoming.upload.into_iter().collect()).await;
                    bot.settle(&[update]).await;
                });
            }
            Purpose::Album(incoming) => self.albums().add(self, update, incoming),
            Purpose::Turn(incoming) => {
                let turn =
                    self.turn_of(vec![update], incoming.clone(), incoming.upload.into_iter().collect()).await;
                self.push(turn).await;
            }
            Purpose::Strange(incoming, what) => {
                let text = format!("I cannot read {what}. Send me text or files.");
                self.say_soon(incoming.place, text);
            }
        }
    }

    /// A turn that answers this message.
    pub(super) async fn turn_of(
        &self,
        updates: Vec<u32>,
        incoming: Incoming,
        uploads: Vec<super::incoming::Upload>,
    ) -> Turn {
        let mut turn = Turn {
            place: incoming.place,
            message: incoming.message,
            updates,
            prompt: incoming.text.clone(),
            uploads,
            fresh: false,
            quote: incoming.group,
        };
        let Some(answered) = incoming.reply else { return turn };
        let history = self.setup().history.clone();
        let (chat, text) = (incoming.place.chat, incoming.text);
        let told = spawn_blocking(move || match history.message(chat, answered.message) {
            Some(told) => (true, reply::with_job(&told, &text)),
            None => (false, reply::with_quote(&answered, &text)),
        });
        if let Ok((fresh, prompt)) = told.await {
            (turn.fresh, turn.prompt) = (fresh, prompt);
        }
        turn
    }

    /// Begins a turn, or lets it wait and says so.
    pub(super) async fn push(&self, turn: Turn) {
        let (place, message, updates) = (turn.place, turn.message, turn.updates.clone());
        match self.lanes().push(turn) {
            Pushed::Begin(turn, stop) => {
                self.tracker().spawn(self.clone().work(turn, stop));
            }
            Pushed::Waits(number) => {
                let text = format!("⏳ Queued as number {number}. /cancel stops what runs now.");
                self.reply_soon(place, message, text);
            }
            Pushed::Full => {
                let text =
                    "⚠ Too many messages wait here already. Please send this one again later.".to_owned();
                self.reply_soon(place, message, text);
                self.settle(&updates).await;
            }
        }
    }

    async fn move_group(&self, old: i64, new: i64) {
        tracing::info!(old, new, "a group has become a supergroup");
        let listed = self.listed(old);
        self.moved().insert(new, listed);
        self.outbox().moved(old, new);
        if let Err(error) = self.ledger().keep_moved(listed, new).await {
            tracing::error!(%error, "the new id of a group could not be recorded");
        }
        let bot = self.clone();
        if let Ok(Err(error)) = spawn_blocking(move || bot.overrides().moved(old, new)).await {
            tracing::error!(%error, "the settings of a group could not be moved");
        }
    }

    /// A button was pressed.
    async fn pressed(&self, query: CallbackQuery) {
        let user = query.from.id.0;
        let Some(message) = query.regular_message() else { return };
        let (chat, id) = (message.chat.id.0, message.id.0);
        if !self.allows(chat, Some(user)) {
            tracing::info!(chat, user, "a button is passed over: the chat or the user is not allowed");
            return;
        }
        let text = self.choose(chat, query.data.as_deref().unwrap_or_default()).await;
        let bot = self.clone();
        self.tracker().spawn(async move {
            let client = bot.outbox().client();
            let pressed = client.pressed(&query.id, &text).await;
            let chunk = RichText::plain(&text).chunks(MESSAGE_LIMIT).next();
            let edited = match chunk {
                Some(chunk) => client.edit(chat, id, &chunk).await,
                None => Ok(()),
            };
            for error in
                [pressed, edited].into_iter().filter_map(Result::err).filter(|error| !error.not_modified())
            {
                tracing::warn!(chat, %error, "a choice could not be shown");
            }
        });
    }

    /// Says something, and waits until it is said.
    pub(super) async fn say(&self, place: Address, text: &str, manner: Manner) {
        self.outbox().send(Letter { manner, ..Letter::new(place, RichText::plain(text)) }).await;
    }

    /// Says something without holding up other updates.
    pub(super) fn say_soon(&self, place: Address, text: String) {
        let bot = self.clone();
        let manner = Manner { urgent: true, ..Manner::default() };
        self.tracker().spawn(async move { bot.say(place, &text, manner).await });
    }

    fn reply_soon(&self, place: Address, message: i32, text: String) {
        let bot = self.clone();
        let manner = Manner { reply_to: Some(message), silent: true, ..Manner::default() };
        self.tracker().spawn(async move { bot.say(place, &text, manner).await });
    }
}
