//! What commands do.

use std::time::Instant;

use aicodebox_engine::run::Origin;
use teloxide_core::types::InlineKeyboardMarkup;
use tokio::task::spawn_blocking;

use super::{
    Bot, TelegramFile,
    commands::{Command, MENU, clears},
    incoming::{Incoming, Upload},
    overrides::Knob,
    picker, uploads,
};
use crate::surface::{
    answer::attachment,
    outbox::{Address, Letter, Manner, RichText},
};

/// Characters of a setting that are shown.
const SHOWN: usize = 1_500;

impl Bot {
    /// Carries a command out, which came in this update. What it changes is changed when this returns; what it says is
    /// said meanwhile, so that nobody else waits for it.
    pub(super) async fn command(&self, update: u32, incoming: Incoming, command: Command) {
        let place = incoming.place;
        let text = match command {
            Command::Start => format!("Hello! {}", self.help()),
            Command::Help => self.help(),
            Command::Status => self.status(place),
            Command::Cancel { all } => self.cancel(place, all).await,
            Command::Reload => self.reload().await,
            Command::Config => self.config(place.chat),
            Command::New => self.forget(place).await,
            Command::Fetch(path) => {
                let bot = self.clone();
                self.tracker().spawn(async move {
                    bot.fetch(place, &path).await;
                    bot.settle(&[update]).await;
                });
                return;
            }
            Command::Set(knob, Some(value)) => {
                self.set(place.chat, knob, (!clears(&value)).then_some(value)).await
            }
            Command::Set(knob, None) => return self.show(place, knob),
            Command::Unknown(name) => format!("I know no /{name}. /help lists what I know."),
            Command::NotOurs => return,
        };
        self.say_soon(place, text);
    }

    fn help(&self) -> String {
        let commands: String = MENU.iter().map(|(name, about)| format!("\n/{name} – {about}")).collect();
        format!(
            "Write to me, and {} answers; send files, and they are saved to the workspace. Messages wait for each other.\n{commands}",
            self.engine().adapter().name
        )
    }

    fn status(&self, place: Address) -> String {
        let adapter = self.engine().adapter();
        let settings = self.settings(place.chat);
        let mut lines = vec![
            format!("Agent: {}", adapter.name),
            format!("Model: {}", settings.model.as_deref().unwrap_or("default")),
            format!("Effort: {}", settings.effort.as_deref().unwrap_or("default")),
            format!("Workspace: {}", settings.workspace),
        ];
        lines.push(match self.lanes().busy(place) {
            None => "Nothing is running here.".to_owned(),
            Some(busy) => {
                let seconds = Instant::now().duration_since(busy.since).as_secs();
                format!("Running for {}:{:02}; {} waiting.", seconds / 60, seconds % 60, busy.waiting)
            }
        });
        lines.push(format!("Runs in all: {}", self.engine().active().len()));
        if let Err(error) = self.engine().program() {
            lines.push(format!("⚠ {error}"));
        }
        lines.extend(self.trouble().as_ref().map(|trouble| format!("⚠ {trouble}")));
        lines.join("\n")
    }

    async fn cancel(&self, place: Address, all: bool) -> String {
        let Some(dropped) = self.lanes().cancel(place, all) else { return "Nothing is running.".to_owned() };
        for turn in &dropped {
            self.settle(&turn.updates).await;
        }
        let waiting = self.lanes().busy(place).map_or(0, |busy| busy.waiting);
        match (dropped.len(), waiting) {
            (0, 0) => "⏹ Stopping.".to_owned(),
            (0, waiting) => format!("⏹ Stopping. {waiting} waiting; /cancel all drops them too."),
            (dropped, _) => format!("⏹ Stopping, and {dropped} dropped."),
        }
    }

    async fn reload(&self) -> String {
        let (path, only) = (self.setup().path.clone(), self.setup().only);
        match spawn_blocking(move || TelegramFile::read(&path, only)).await {
            Ok(Ok(file)) => {
                self.replace_file(file);
                "Read again.".to_owned()
            }
            Ok(Err(error)) => format!("⚠ The old settings stay: {error}"),
            Err(error) => format!("⚠ The old settings stay: {error}"),
        }
    }

    fn config(&self, chat: i64) -> String {
        let settings = self.settings(chat);
        let shown = |value: Option<&str>| value.map_or_else(|| "default".to_owned(), short);
        format!(
            "Chat: {chat}\nWorkspace: {}\nModel: {}\nEffort: {}\nContinue: {}\nSystem prompt: {}\nAppended: {}",
            settings.workspace,
            shown(settings.model.as_deref()),
            shown(settings.effort.as_deref()),
            if settings.continues { "yes" } else { "no" },
            shown(settings.system_prompt.as_deref()),
            shown(settings.append_system_prompt.as_deref()),
        )
    }

    async fn forget(&self, place: Address) -> String {
        let workspace = match self.workspace(&self.settings(place.chat)).await {
            Ok(workspace) => workspace,
            Err(error) => return format!("⚠ {error}"),
        };
        let origin = Origin::Telegram { chat: place.chat, topic: place.topic };
        match self.engine().forget_session(&workspace, &origin).await {
            Ok(()) => "🆕 The next message begins a new conversation.".to_owned(),
            Err(error) => format!("⚠ {error}"),
        }
    }

    async fn fetch(&self, place: Address, path: &str) {
        let found = async {
            if path.is_empty() {
                return Err("say which file: /fetch path".to_owned());
            }
            let workspace = self.workspace(&self.settings(place.chat)).await?;
            let root = aicodebox_engine::workspace::Workspaces::open(&workspace.path)
                .map_err(|error| error.to_string())?;
            attachment(root.files(), path).await
        };
        match found.await {
            Ok(file) => {
                let letter = Letter { files: vec![file], ..Letter::new(place, RichText::default()) };
                let delivery = self.outbox().send(letter).await;
                if let Some(reason) = delivery.failure {
                    self.say(place, &format!("⚠ {reason}"), Manner::default()).await;
                }
            }
            Err(error) => self.say(place, &format!("⚠ {error}"), Manner::default()).await,
        }
    }

    /// Sets a knob of a chat, or lets the file's value hold again, and says what holds now.
    async fn set(&self, chat: i64, knob: Knob, value: Option<String>) -> String {
        let bot = self.clone();
        let set = spawn_blocking(move || bot.overrides().set(chat, knob, value)).await;
        match set.map_err(std::io::Error::other) {
            Ok(Ok(())) => format!(
                "{}: {}",
                knob.title(),
                short(self.current(chat, knob).as_deref().unwrap_or("default"))
            ),
            Ok(Err(error)) | Err(error) => format!("⚠ It could not be set: {error}"),
        }
    }

    /// What a pressed button does.
    pub(super) async fn choose(&self, chat: i64, data: &str) -> String {
        match picker::chosen(data, |knob| self.choices(knob)) {
            Some((knob, value)) => self.set(chat, knob, value).await,
            None => "This choice is no longer offered.".to_owned(),
        }
    }

    /// Shows a knob, with buttons where there is a choice.
    fn show(&self, place: Address, knob: Knob) {
        let current = self.current(place.chat, knob);
        let buttons = picker::buttons(knob, &self.choices(knob), current.as_deref());
        let how = if buttons.is_some() { "Choose, or type" } else { "Type" };
        let text = format!(
            "{}: {}\n\n{how} /{} VALUE; /{} default takes it back.",
            knob.title(),
            short(current.as_deref().unwrap_or("default")),
            knob.command(),
            knob.command(),
        );
        self.show_soon(place, text, buttons);
    }

    fn show_soon(&self, place: Address, text: String, buttons: Option<InlineKeyboardMarkup>) {
        let bot = self.clone();
        let manner = Manner { buttons, ..Manner::default() };
        self.tracker().spawn(async move { bot.say(place, &text, manner).await });
    }

    fn choices(&self, knob: Knob) -> Vec<String> {
        match knob {
            Knob::Model => self.setup().models.clone(),
            Knob::Effort => self.setup().efforts.clone(),
            Knob::SystemPrompt | Knob::AppendSystemPrompt => Vec::new(),
        }
    }

    fn current(&self, chat: i64, knob: Knob) -> Option<String> {
        let settings = self.settings(chat);
        match knob {
            Knob::Model => settings.model,
            Knob::Effort => settings.effort,
            Knob::SystemPrompt => settings.system_prompt,
            Knob::AppendSystemPrompt => settings.append_system_prompt,
        }
    }

    /// Saves files that came without a word.
    pub(super) async fn save(&self, place: Address, files: Vec<Upload>) {
        let mut lines = Vec::new();
        match self.workspace(&self.settings(place.chat)).await {
            Ok(workspace) => match aicodebox_engine::workspace::Workspaces::open(&workspace.path) {
                Ok(root) => {
                    for file in &files {
                        lines.push(match uploads::save(self.outbox().client(), root.files(), file).await {
                            Ok(name) => format!("saved {name}"),
                            Err(problem) => format!("⚠ {problem}"),
                        });
                    }
                }
                Err(error) => lines.push(format!("⚠ {error}")),
            },
            Err(error) => lines.push(format!("⚠ {error}")),
        }
        self.say(place, &lines.join("\n"), Manner::default()).await;
    }

    /// An album has come in: one turn if it has a word with it, else files to be saved. Nothing in a group where the
    /// bot has to be named and no part of it does that.
    pub(super) async fn finish_album(self, key: (Address, String)) {
        let parts = self.albums().complete(&key).await;
        let updates: Vec<u32> = parts.iter().map(|(update, _)| *update).collect();
        let to_bot = parts.iter().any(|(_, part)| part.to_bot);
        if !to_bot && parts.iter().any(|(_, part)| self.is_deaf(part)) {
            self.settle(&updates).await;
            return;
        }
        let files: Vec<Upload> = parts.iter().filter_map(|(_, part)| part.upload.clone()).collect();
        let words = parts.into_iter().map(|(_, part)| part).find(|part| !part.text.trim().is_empty());
        match words {
            Some(words) => {
                let turn = self.turn_of(updates, words, files).await;
                self.push(turn).await;
            }
            None => {
                self.save(key.0, files).await;
                self.settle(&updates).await;
            }
        }
    }
}

/// A value as it is shown in a message.
fn short(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}
