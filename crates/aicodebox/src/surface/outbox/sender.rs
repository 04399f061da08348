use std::{
    collections::HashMap,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{
    Address, Attachment, Chunk, Client, Delivery, MESSAGE_LIMIT, Manner, RichText, TelegramError, pace::Pace,
};

/// An answer of more messages than this comes as a file as well.
const LONG: usize = 5;
/// Messages of one answer: after these comes the whole, as a file.
const MOST: usize = 20;
/// Tries of one message while Telegram cannot be reached.
const TRIES: u32 = 6;
/// How long one message may wait for Telegram altogether.
const PATIENCE: Duration = Duration::from_secs(900);

/// Something to deliver.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) to: Address,
    pub(crate) text: RichText,
    /// What the text was made from: sent as a file when the text is very long.
    pub(crate) source: Option<String>,
    pub(crate) files: Vec<Attachment>,
    pub(crate) manner: Manner,
}

impl Letter {
    /// A text to a place.
    pub(crate) fn new(to: Address, text: RichText) -> Self {
        Self { to, text, source: None, files: Vec::new(), manner: Manner::default() }
    }

    /// Its text as messages, and the file that comes with them when they are many; with more than [`MOST`], it is there
    /// that the rest is.
    pub(super) fn messages(&self) -> (Vec<Chunk>, Option<Attachment>) {
        let mut chunks: Vec<_> = self.text.chunks(MESSAGE_LIMIT).take(MOST + 1).collect();
        let whole = if chunks.len() > MOST {
            chunks.truncate(MOST - 1);
            chunks
                .push(Chunk { text: "… The whole text is in answer.md.".to_owned(), entities: Vec::new() });
            Some(self.source.as_ref().unwrap_or(&self.text.text))
        } else {
            self.source.as_ref().filter(|_| chunks.len() > LONG)
        };
        let file = whole.map(|text| Attachment { name: "answer.md".into(), bytes: text.clone().into() });
        (chunks, file)
    }
}

/// Sends letters: whole, in order within a chat, as fast as Telegram takes them. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Outbox(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    pace: Pace,
    /// One letter at a time in each chat.
    order: Mutex<HashMap<i64, Arc<tokio::sync::Mutex<()>>>>,
    /// Groups that have become supergroups since the start.
    moved: Mutex<HashMap<i64, i64>>,
}

impl Outbox {
    pub(crate) fn new(client: Client) -> Self {
        let inner = Inner { client, pace: Pace::new(), order: Mutex::default(), moved: Mutex::default() };
        Self(Arc::new(inner))
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    /// Delivers a letter, and says what became of it. What was sent before a failure stays; what comes after it is
    /// tried, unless nothing more can arrive.
    pub(crate) async fn send(&self, letter: Letter) -> Delivery {
        self.send_until(letter, pending()).await
    }

    /// Like [`Self::send`], but leaves out what has not been sent when `stop` is ready.
    pub(crate) async fn send_until(&self, letter: Letter, stop: impl Future<Output = ()>) -> Delivery {
        let mut report = Report::default();
        let to = letter.to;
        tokio::select! {
            () = self.deliver(letter, &mut report) => {}
            () = stop => report.failures.push("it was stopped".to_owned()),
        }
        let Report { messages, mut failures, .. } = report;
        failures.dedup();
        let failure = (!failures.is_empty()).then(|| failures.join("; "));
        if let Some(error) = &failure {
            tracing::warn!(chat = to.chat, sent = messages.len(), %error, "a message could not be delivered");
        }
        Delivery { chat: self.current(to.chat), messages, failure }
    }

    async fn deliver(&self, letter: Letter, report: &mut Report) {
        let order = self.order(letter.to.chat);
        let _turn = if letter.manner.urgent { None } else { Some(order.lock().await) };
        let (chunks, document) = letter.messages();
        let mut files = letter.files;
        files.extend(document);
        let last = chunks.len().saturating_sub(1);
        for (index, chunk) in chunks.iter().enumerate() {
            // The first answers, the last has the buttons.
            let manner = Manner {
                reply_to: letter.manner.reply_to.filter(|_| index == 0),
                silent: letter.manner.silent || index > 0,
                urgent: letter.manner.urgent,
                buttons: letter.manner.buttons.clone().filter(|_| index == last),
            };
            report.note(self.message(letter.to, chunk, &manner).await, "");
            if report.over {
                break;
            }
        }
        for file in &files {
            if report.over {
                report.failures.push(format!("{} was not sent", file.name));
            } else {
                let what = format!("{} could not be sent: ", file.name);
                report.note(self.file(letter.to, file).await, &what);
            }
        }
    }

    /// Shows a text that can as well be left out, in this message or in a new one, where it does not take the place of
    /// something that must be said. Gives the message that is there now.
    pub(crate) async fn show_if_spare(
        &self,
        to: Address,
        message: Option<i32>,
        chunk: &Chunk,
    ) -> Option<i32> {
        let to = Address { chat: self.current(to.chat), ..to };
        if !self.0.pace.spare(to.chat) {
            return message;
        }
        let shown = match message {
            Some(id) => self.0.client.edit(to.chat, id, chunk).await.map(|()| id),
            None => {
                let manner = Manner { silent: true, ..Manner::default() };
                self.0.client.send(to, chunk, &manner).await.map(|message| message.id.0)
            }
        };
        match shown {
            Ok(id) => return Some(id),
            Err(TelegramError::Wait(wait)) => self.0.pace.hold(to.chat, wait),
            Err(TelegramError::Migrated(chat)) if chat != to.chat => self.moved(to.chat, chat),
            Err(error) if error.not_modified() => {}
            Err(error) => tracing::debug!(chat = to.chat, %error, "a text could not be shown"),
        }
        message
    }

    /// Takes a message back, when Telegram wants that to wait as well.
    pub(crate) async fn take_back(&self, chat: i64, message: i32) {
        for _ in 0..TRIES {
            let chat = self.current(chat);
            match self.0.client.delete(chat, message).await {
                Ok(()) => return,
                Err(TelegramError::Wait(wait)) if wait < PATIENCE => {
                    self.0.pace.hold(chat, wait);
                    sleep(wait).await;
                }
                Err(error) => {
                    tracing::debug!(chat, %error, "a message stays that should be gone");
                    return;
                }
            }
        }
    }

    /// The group has this id from now on.
    pub(crate) fn moved(&self, from: i64, to: i64) {
        lock(&self.0.moved).insert(from, to);
    }

    fn current(&self, chat: i64) -> i64 {
        lock(&self.0.moved).get(&chat).copied().unwrap_or(chat)
    }

    fn order(&self, chat: i64) -> Arc<tokio::sync::Mutex<()>> {
        let mut order = lock(&self.0.order);
        order.retain(|_, held| Arc::strong_count(held) > 1);
        order.entry(self.current(chat)).or_default().clone()
    }

    /// One message; where its styles are refused, its text alone.
    async fn message(&self, to: Address, chunk: &Chunk, manner: &Manner) -> Result<i32, TelegramError> {
        match self.persist(to, Parcel::Text(chunk, manner)).await {
            Err(TelegramError::Refused(reason)) if !chunk.entities.is_empty() => {
                tracing::warn!(chat = to.chat, reason, "a message is sent again as plain text");
                let plain = Chunk { text: chunk.text.clone(), entities: Vec::new() };
                self.persist(to, Parcel::Text(&plain, manner)).await
            }
            other => other,
        }
    }

    /// One file; what Telegram will not show as a picture or a video goes as a document.
    async fn file(&self, to: Address, file: &Attachment) -> Result<i32, TelegramError> {
        match self.persist(to, Parcel::File { file, as_document: false }).await {
            Err(TelegramError::Refused(_)) if file.shown() => {
                self.persist(to, Parcel::File { file, as_document: true }).await
            }
            other => other,
        }
    }

    /// Calls until Telegram has done it, or will never do it.
    async fn persist(&self, to: Address, parcel: Parcel<'_>) -> Result<i32, TelegramError> {
        let begun = Instant::now();
        let mut unreached = 0;
        let mut urgent = matches!(parcel, Parcel::Text(_, Manner { urgent: true, .. }));
        loop {
            let to = Address { chat: self.current(to.chat), ..to };
            if urgent {
                self.0.pace.count(to.chat);
            } else {
                self.0.pace.turn(to.chat).await;
            }
            let sent = match parcel {
                Parcel::Text(chunk, manner) => self.0.client.send(to, chunk, manner).await,
                Parcel::File { file, as_document } => self.0.client.attach(to, file, as_document).await,
            };
            match sent {
                Ok(message) => return Ok(message.id.0),
                Err(TelegramError::Wait(wait)) if begun.elapsed() + wait < PATIENCE => {
                    tracing::info!(chat = to.chat, seconds = wait.as_secs(), "Telegram wants a pause");
                    self.0.pace.hold(to.chat, wait);
                    urgent = false;
                }
                Err(TelegramError::Migrated(chat)) if chat != to.chat => self.moved(to.chat, chat),
                // The answer may have been lost after the message was taken: better twice than not at all.
                Err(error @ TelegramError::Unreachable(_)) => {
                    unreached += 1;
                    if unreached == TRIES || begun.elapsed() > PATIENCE {
                        return Err(error);
                    }
                    sleep(Duration::from_millis(500) * 2_u32.pow(unreached)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What has become of a letter so far.
#[derive(Default)]
struct Report {
    messages: Vec<i32>,
    failures: Vec<String>,
    /// Nothing more can arrive: it is not tried again with each part.
    over: bool,
}

impl Report {
    fn note(&mut self, sent: Result<i32, TelegramError>, what: &str) {
        match sent {
            Ok(id) => self.messages.push(id),
            Err(error) => {
                self.over = !matches!(error, TelegramError::Refused(_));
                self.failures.push(format!("{what}{error}"));
            }
        }
    }
}

/// What one call sends.
#[derive(Clone, Copy)]
enum Parcel<'a> {
    Text(&'a Chunk, &'a Manner),
    File { file: &'a Attachment, as_document: bool },
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
