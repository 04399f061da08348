use std::{sync::Arc, time::Duration};

use aicodebox_engine::{
    engine::{LiveEvents, RunHandle, WhenBusy},
    run::{Failure, FailureKind, Origin, RunId, RunOutcome, RunRequest, SessionChoice, Workspace},
    workspace::Workspaces,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{Bot, lanes::Turn, progress::Progress, settings::ChatSettings, uploads};
use crate::surface::{
    answer::{Answer, failure_text},
    outbox::{Address, Delivery, Letter, MESSAGE_LIMIT, Manner, RichText},
};

/// An answer that comes sooner needs no progress message.
const QUICK: Duration = Duration::from_millis(1_200);
/// How long Telegram shows that the bot writes.
const TYPING: Duration = Duration::from_millis(4_500);
/// How long the last call for a progress message may hold up the answer.
const LAST_CALL: Duration = Duration::from_secs(5);

impl Bot {
    /// Works on a turn, and on those that wait behind it.
    pub(super) async fn work(self, mut turn: Turn, mut stop: Arc<Notify>) {
        loop {
            let place = turn.place;
            if self.turn(&turn, &stop).await {
                self.settle(&turn.updates).await;
            }
            match self.lanes().next(place) {
                Some((next, its)) if !self.engine().draining() => (turn, stop) = (next, its),
                // What waits is told of at the next start.
                Some(_) | None => return,
            }
        }
    }

    /// One turn, from its files to the delivery of the answer. `false` = the server goes down under it: the next one
    /// will say so.
    async fn turn(&self, turn: &Turn, stop: &Notify) -> bool {
        let settings = self.settings(turn.place.chat);
        let workspace = match self.workspace(&settings).await {
            Ok(workspace) => workspace,
            Err(error) => return self.answer(turn, RichText::plain(&format!("⚠ {error}"))).await,
        };
        let with_files = tokio::select! {
            with_files = self.with_files(turn, &workspace) => with_files,
            () = stop.notified() => return self.answer(turn, RichText::plain("⏹ Cancelled.")).await,
        };
        let prompt = match with_files {
            Ok(prompt) => prompt,
            Err(problem) => return self.answer(turn, RichText::plain(&format!("⚠ {problem}"))).await,
        };
        let request = request(turn, &settings, workspace.clone(), prompt);
        match self.engine().start(request, WhenBusy::Wait).await {
            Ok(handle) => self.follow(turn, handle, workspace, stop).await,
            Err(failure) if failure.kind == FailureKind::Shutdown => false,
            Err(failure) => self.answer(turn, RichText::plain(&self.explained(&failure, None))).await,
        }
    }

    /// The prompt, with the files of the message saved and named.
    async fn with_files(&self, turn: &Turn, workspace: &Workspace) -> Result<String, String> {
        if turn.uploads.is_empty() {
            return Ok(turn.prompt.clone());
        }
        let root = Workspaces::open(&workspace.path).map_err(|error| error.to_string())?;
        let mut names = Vec::new();
        for upload in &turn.uploads {
            names.push(uploads::save(self.outbox().client(), root.files(), upload).await?);
        }
        let saved = match names.as_slice() {
            [name] => format!("I saved a file '{name}' to the workspace."),
            names => format!("I saved {} files to the workspace: '{}'.", names.len(), names.join("', '")),
        };
        Ok(format!("{saved} {}", turn.prompt))
    }

    async fn follow(&self, turn: &Turn, mut handle: RunHandle, workspace: Workspace, stop: &Notify) -> bool {
        let done = CancellationToken::new();
        let events = handle.events().live();
        let mut reporting =
            self.tracker().spawn(self.clone().report(turn.place, handle.id, events, done.clone()));
        let outcome = loop {
            tokio::select! {
                outcome = handle.outcome() => break outcome,
                () = stop.notified() => handle.cancel(),
            }
        };
        done.cancel();
        let reported = timeout(LAST_CALL, &mut reporting).await;
        let settled = match outcome {
            Some(outcome) if !interrupted(&outcome) => {
                let delivery = self.deliver(turn, &outcome, workspace, stop).await;
                self.record(turn, outcome.id, &delivery).await;
                true
            }
            Some(_) | None => false,
        };
        // After the answer, so that there is never nothing; also when the call that shows it ends late.
        let (bot, chat) = (self.clone(), turn.place.chat);
        self.tracker().spawn(async move {
            let shown = match reported {
                Ok(shown) => shown,
                Err(_late) => reporting.await,
            };
            if let Ok(Some(message)) = shown {
                bot.outbox().take_back(chat, message).await;
            }
        });
        settled
    }

    /// Sends what came of the run, until people want it stopped.
    async fn deliver(
        &self,
        turn: &Turn,
        outcome: &RunOutcome,
        workspace: Workspace,
        stop: &Notify,
    ) -> Delivery {
        let answer = Answer::prepare(&outcome.text, Some(workspace)).await;
        let text = match outcome.failure() {
            None if answer.is_empty() => RichText::plain("(no text)"),
            None => answer.text,
            Some(failure) => {
                let told = RichText::plain(&self.explained(failure, Some(outcome)));
                if answer.text.is_blank() {
                    told
                } else {
                    answer.text.then(RichText::plain("\n\n")).then(told)
                }
            }
        };
        let letter = Letter {
            source: Some(answer.source),
            files: answer.files,
            manner: manner(turn),
            ..Letter::new(turn.place, text)
        };
        self.outbox().send_until(letter, stop.notified()).await
    }

    /// Writes down what became of the answer, and says when it did not arrive.
    async fn record(&self, turn: &Turn, run: RunId, delivery: &Delivery) {
        let kept = serde_json::to_value(delivery).unwrap_or_default();
        if let Err(error) = self.ledger().keep_delivery(run, kept).await {
            tracing::error!(%run, %error, "the delivery of an answer could not be recorded");
        }
        if let Some(reason) = &delivery.failure {
            let text = format!("⚠ The answer could not be delivered completely: {reason}");
            self.say(turn.place, &text, Manner::default()).await;
        }
    }

    /// Shows that the agent works, until it is done. Gives the message that shows it, if there is one.
    async fn report(
        self,
        place: Address,
        run: RunId,
        mut events: LiveEvents,
        done: CancellationToken,
    ) -> Option<i32> {
        let mut progress = Progress::new();
        let (mut typing, mut show) = (Instant::now(), Instant::now() + QUICK);
        let (mut shown, mut reading) = (None, true);
        loop {
            tokio::select! {
                () = done.cancelled() => return shown,
                more = events.next(), if reading => match more {
                    Ok(more) => {
                        reading = !more.is_empty();
                        more.iter().for_each(|logged| progress.note(&logged.event));
                    }
                    Err(error) => {
                        tracing::warn!(%run, %error, "the events of a run cannot be read");
                        reading = false;
                    }
                },
                () = sleep_until(typing) => {
                    if let Err(error) = self.outbox().client().typing(place).await {
                        tracing::debug!(chat = place.chat, %error, "typing could not be shown");
                    }
                    typing = Instant::now() + TYPING;
                }
                () = sleep_until(show) => {
                    progress.waits(self.engine().queued(run));
                    if let Some(chunk) = progress.shown().chunks(MESSAGE_LIMIT).next() {
                        shown = self.outbox().show_if_spare(place, shown, &chunk).await;
                    }
                    show = Instant::now() + progress.pause();
                }
            }
        }
    }

    /// Answers with a text; always `true`, for there is nothing more to do.
    async fn answer(&self, turn: &Turn, text: RichText) -> bool {
        self.outbox().send(Letter { manner: manner(turn), ..Letter::new(turn.place, text) }).await;
        true
    }

    fn explained(&self, failure: &Failure, outcome: Option<&RunOutcome>) -> String {
        let text = failure_text(failure, outcome);
        let hint = if let FailureKind::Agent(fault) = failure.kind {
            self.engine().adapter().hint(fault)
        } else {
            None
        };
        hint.filter(|hint| !text.contains(hint)).map_or(text.clone(), |hint| format!("{text}\n{hint}"))
    }

    /// The chat's own directory, made where it is missing.
    pub(super) async fn workspace(&self, settings: &ChatSettings) -> Result<Workspace, String> {
        self.workspaces().find(settings.workspace.clone()).await.map_err(|error| error.to_string())
    }
}

fn request(turn: &Turn, settings: &ChatSettings, workspace: Workspace, prompt: String) -> RunRequest {
    let session = match (turn.fresh, settings.continues) {
        // The conversation goes on from there.
        (true, true) => SessionChoice::Fresh { keep: true },
        (false, true) => SessionChoice::Continue,
        (_, false) => SessionChoice::Fresh { keep: false },
    };
    RunRequest {
        session,
        model: settings.model.clone(),
        effort: settings.effort.clone(),
        system_prompt: settings.system_prompt.clone(),
        append_system_prompt: settings.append_system_prompt.clone(),
        ..RunRequest::new(
            prompt,
            workspace,
            Origin::Telegram { chat: turn.place.chat, topic: turn.place.topic },
        )
    }
}

fn manner(turn: &Turn) -> Manner {
    Manner { reply_to: turn.quote.then_some(turn.message), ..Manner::default() }
}

fn interrupted(outcome: &RunOutcome) -> bool {
    outcome.failure().is_some_and(|failure| failure.kind == FailureKind::Shutdown)
}
