use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use super::settings::ChatSettings;
use crate::surface::regular_file;

/// Bytes of the file; a longer one is none that was written here.
const FILE_LIMIT: u64 = 16 << 20;

/// What people have set in their chats, kept in a file of its own. Every method but the reading ones blocks.
#[derive(Debug)]
pub(super) struct Overrides {
    path: PathBuf,
    chats: Mutex<BTreeMap<i64, Override>>,
}

/// What is set in one chat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Override {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    append_system_prompt: Option<String>,
}

/// What can be set in a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knob {
    Model,
    Effort,
    SystemPrompt,
    AppendSystemPrompt,
}

impl Knob {
    /// The command that sets it.
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Effort => "effort",
            Self::SystemPrompt => "system_prompt",
            Self::AppendSystemPrompt => "append_system_prompt",
        }
    }

    /// For people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Model => "Model",
            Self::Effort => "Effort",
            Self::SystemPrompt => "System prompt",
            Self::AppendSystemPrompt => "Appended system prompt",
        }
    }
}

impl Overrides {
    /// Reads the file. One that cannot be read as such is left aside, and said so.
    pub(super) fn open(path: PathBuf) -> Self {
        let read = match regular_file::read(&path, FILE_LIMIT) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        };
        let chats = read.unwrap_or_else(|error| {
            tracing::error!(path = %path.display(), %error, "the settings made in chats cannot be read: they begin anew");
            BTreeMap::new()
        });
        Self { path, chats: Mutex::new(chats) }
    }

    /// Puts what is set in the chat over what its file says.
    pub(super) fn apply(&self, chat: i64, settings: ChatSettings) -> ChatSettings {
        let set = self.chats().get(&chat).cloned().unwrap_or_default();
        ChatSettings {
            model: set.model.or(settings.model),
            effort: set.effort.or(settings.effort),
            system_prompt: set.system_prompt.or(settings.system_prompt),
            append_system_prompt: set.append_system_prompt.or(settings.append_system_prompt),
            ..settings
        }
    }

    /// Sets a knob, or lets the file's value hold again.
    ///
    /// # Errors
    /// When the file cannot be written: then nothing has changed.
    pub(super) fn set(&self, chat: i64, knob: Knob, value: Option<String>) -> io::Result<()> {
        let mut chats = self.chats();
        let mut changed = chats.clone();
        let set = changed.entry(chat).or_default();
        match knob {
            Knob::Model => set.model = value,
            Knob::Effort => set.effort = value,
            Knob::SystemPrompt => set.system_prompt = value,
            Knob::AppendSystemPrompt => set.append_system_prompt = value,
        }
        changed.retain(|_, set| *set != Override::default());
        write(&self.path, &serde_json::to_vec_pretty(&changed)?)?;
        *chats = changed;
        Ok(())
    }

    /// A group has another id now.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn moved(&self, from: i64, to: i64) -> io::Result<()> {
        let mut chats = self.chats();
        let Some(set) = chats.remove(&from) else { return Ok(()) };
        chats.insert(to, set);
        write(&self.path, &serde_json::to_vec_pretty(&*chats)?)
    }

    fn chats(&self) -> MutexGuard<'_, BTreeMap<i64, Override>> {
        self.chats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    regular_file::replace(path, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surface::telegram::TelegramFile;

    #[test]
    fn what_is_set_in_a_chat_stays_there_and_can_be_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/overrides.json");
        let file = TelegramFile::default().chat(5);
        let overrides = Overrides::open(path.clone());
        overrides.set(5, Knob::Model, Some("small".into())).unwrap();
        overrides.set(5, Knob::SystemPrompt, Some("short".into())).unwrap();
        let again = Overrides::open(path.clone());
        assert_eq!(again.apply(5, file.clone()).model.as_deref(), Some("small"));
        assert_eq!(again.apply(6, file.clone()).model, None);
        again.set(5, Knob::Model, None).unwrap();
        assert_eq!(Overrides::open(path).apply(5, file).model, None);
    }

    #[test]
    fn what_cannot_be_written_is_not_set() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let overrides = Overrides::open(folder.path().join("file/overrides.json"));
        assert!(overrides.set(5, Knob::Model, Some("small".into())).is_err());
        assert_eq!(overrides.apply(5, TelegramFile::default().chat(5)).model, None);
    }
}
