use std::{io, path::PathBuf, sync::Arc};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::spawn_blocking,
};
use tokio_util::sync::CancellationToken;

use super::{History, Job, Recipient};
use crate::surface::{
    answer::Answer,
    outbox::{Address, Delivery, Letter, Outbox, RichText},
};

/// What may wait for Telegram altogether: each notice counts as one, and as one more for each MiB of its files.
const ROOM: usize = 1_024;

/// Who tells Telegram how jobs went, and whom.
#[derive(Debug)]
pub(super) struct Notifier {
    outbox: Outbox,
    /// Where a job does not say.
    default_chat: Option<i64>,
    history: History,
    room: Semaphore,
}

/// What is told of one run. It is sent when the run is over: Telegram may take its time, the job's next one does not.
#[derive(Debug)]
pub(super) struct Notice {
    job: Arc<Job>,
    /// Of the run.
    directory: PathBuf,
    letter: Letter,
}

impl Notifier {
    pub(super) fn new(outbox: Outbox, default_chat: Option<i64>, history: History) -> Self {
        Self { outbox, default_chat, history, room: Semaphore::new(ROOM) }
    }

    /// The notice of a run: to the chat that the job names always, to the default one when there is something to say.
    /// `failure` = what went wrong, after what there is of an answer.
    pub(super) fn notice(
        &self,
        job: &Arc<Job>,
        directory: PathBuf,
        answer: Answer,
        failure: Option<String>,
    ) -> Option<Notice> {
        let empty = answer.is_empty() && failure.is_none();
        let chat = match job.recipient {
            Recipient::None => None,
            Recipient::Chat(chat) => Some(chat),
            Recipient::Default => self.default_chat.filter(|_| !empty),
        }?;
        let header = RichText::plain("⏰ ").then(RichText::bold(&job.name)).then(RichText::plain("\n\n"));
        let text = match failure.as_deref().map(RichText::plain) {
            None if empty => RichText::plain("(no text)"),
            None => answer.text,
            Some(failure) if answer.text.is_blank() => failure,
            Some(failure) => answer.text.then(RichText::plain("\n\n")).then(failure),
        };
        let to = Address { chat, topic: None };
        let letter =
            Letter { source: Some(answer.source), files: answer.files, ..Letter::new(to, header.then(text)) };
        Some(Notice { job: job.clone(), directory, letter })
    }

    /// Delivers a notice and writes down what became of it; `last_call` = there is no more time.
    pub(super) async fn deliver(&self, notice: Notice, last_call: &CancellationToken) {
        let Notice { job, directory, letter } = notice;
        let chat = letter.to.chat;
        let lost = |why: &str| {
            tracing::warn!(job = job.name, chat, why, "the notice of a job is not delivered");
            Delivery { chat, messages: Vec::new(), failure: Some(why.to_owned()) }
        };
        let delivery = match self.take_room(&letter) {
            None => lost("too many notices wait for Telegram"),
            Some(_room) => tokio::select! {
                delivery = self.outbox.send(letter) => delivery,
                () = last_call.cancelled() => lost("the server went down before Telegram had taken all of it"),
            },
        };
        let (history, of) = (self.history.clone(), job.clone());
        let written = spawn_blocking(move || history.told(&directory, &of.name, &delivery)).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            tracing::error!(job = job.name, %error, "the history of a job cannot be written");
        }
    }

    /// Held while the letter waits.
    fn take_room(&self, letter: &Letter) -> Option<SemaphorePermit<'_>> {
        let bytes: usize = letter.files.iter().map(|file| file.bytes.len()).sum();
        self.room.try_acquire_many(u32::try_from(1 + (bytes >> 20)).unwrap_or(u32::MAX)).ok()
    }
}
