use std::{collections::BTreeMap, io, path::Path};

use serde::Deserialize;

use crate::surface::regular_file;

/// A `telegram.yml` may have this many bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// Who may talk to the bot, and how it answers them: `telegram.yml`.
#[derive(Clone, Debug, Default)]
pub(crate) struct TelegramFile {
    allowed: Vec<i64>,
    default: ChatFields,
    chats: BTreeMap<i64, ChatFields>,
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    allowed_chats: Vec<i64>,
    default: ChatFields,
    chats: BTreeMap<i64, ChatFields>,
}

/// The settings of a chat, or those of all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ChatFields {
    workspace: Option<String>,
    model: Option<String>,
    #[serde(alias = "thinking")]
    effort: Option<String>,
    r#continue: Option<bool>,
    system_prompt: Option<String>,
    append_system_prompt: Option<String>,
    allowed_users: Option<Vec<u64>>,
    mention_only: Option<bool>,
}

/// What holds in a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChatSettings {
    /// Below the workspace root.
    pub(super) workspace: String,
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    /// Whether messages continue the chat's conversation.
    pub(super) continues: bool,
    pub(super) system_prompt: Option<String>,
    pub(super) append_system_prompt: Option<String>,
    /// In a group: only messages that name the bot or answer it.
    pub(super) mention_only: bool,
}

/// Why nobody can be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TelegramFileError {
    #[error("{path} cannot be read: {source}")]
    Read { path: String, source: io::Error },
    #[error("{path} is wrong: {what}")]
    Wrong { path: String, what: String },
    #[error(
        "nobody is allowed to talk to the bot: list chats under allowed_chats in {0}, or set TELEGRAM_CHAT_ID to the one \
         allowed chat (the log names the id of a chat that is refused)"
    )]
    Nobody(String),
}

impl TelegramFile {
    /// Reads the file, at most 1 MiB; `only` = the one allowed chat where the file is missing or names none. Blocks.
    ///
    /// # Errors
    /// When it is wrong, or nobody would be allowed.
    pub(crate) fn read(path: &Path, only: Option<i64>) -> Result<Self, TelegramFileError> {
        let named = || path.display().to_string();
        let read = regular_file::read_mounted(path, FILE_LIMIT)
            .and_then(|bytes| String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8")));
        let text = match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.map_err(|source| TelegramFileError::Read { path: named(), source })?,
        };
        let file = Self::parse(&text).map_err(|what| TelegramFileError::Wrong { path: named(), what })?;
        let allowed = if file.allowed.is_empty() { only.into_iter().collect() } else { file.allowed.clone() };
        if allowed.is_empty() {
            return Err(TelegramFileError::Nobody(named()));
        }
        Ok(Self { allowed, ..file })
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let Written { allowed_chats, default, chats } =
            serde_saphyr::from_str::<Option<Written>>(text).map_err(first_line)?.unwrap_or_default();
        for (chat, fields) in chats
            .iter()
            .map(|(chat, fields)| (chat.to_string(), fields))
            .chain([("default".into(), &default)])
        {
            let workspace = fields.workspace.as_deref().unwrap_or_default();
            if workspace.starts_with('/') || workspace.split('/').any(|part| part == "..") {
                return Err(format!("{chat}: workspace must be a path below the workspace root"));
            }
        }
        Ok(Self { allowed: allowed_chats, default, chats })
    }

    /// Whether the chat is one of the bot's, whoever may write there.
    pub(super) fn lists(&self, chat: i64) -> bool {
        self.allowed.contains(&chat)
    }

    /// Whether messages of this user in this chat are taken. Nobody is by default.
    pub(super) fn allows(&self, chat: i64, user: Option<u64>) -> bool {
        let own = self.chats.get(&chat).and_then(|fields| fields.allowed_users.as_ref());
        let users = own.or(self.default.allowed_users.as_ref());
        self.lists(chat) && users.is_none_or(|users| user.is_some_and(|user| users.contains(&user)))
    }

    /// What the file says for a chat.
    pub(super) fn chat(&self, chat: i64) -> ChatSettings {
        let none = ChatFields::default();
        let own = self.chats.get(&chat).unwrap_or(&none);
        let text = |of: fn(&ChatFields) -> &Option<String>| {
            of(own).clone().or_else(|| of(&self.default).clone()).filter(|text| !text.is_empty())
        };
        ChatSettings {
            // One for each chat: a default that all share would mix their files up.
            workspace: text(|fields| &fields.workspace)
                .unwrap_or_else(|| format!("chat_{}", chat.unsigned_abs())),
            model: text(|fields| &fields.model),
            effort: text(|fields| &fields.effort),
            continues: own.r#continue.or(self.default.r#continue).unwrap_or(true),
            system_prompt: text(|fields| &fields.system_prompt),
            append_system_prompt: text(|fields| &fields.append_system_prompt),
            mention_only: own.mention_only.or(self.default.mention_only).unwrap_or_default(),
        }
    }
}

fn first_line(error: serde_saphyr::Error) -> String {
    let line = error.location().map_or(1, |location| location.line());
    let text = error.to_string();
    let what = text.lines().next().unwrap_or_default();
    format!("line {line}: {}", what.strip_prefix("error: ").unwrap_or(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
allowed_chats: [5, -1001]
default:
  model: large
  append_system_prompt: Be kind.
chats:
  -1001:
    workspace: team
    thinking: high
    continue: false
    allowed_users: [7]
    mention_only: true
";

    #[test]
    fn a_chat_has_its_own_settings_else_those_of_all() {
        let file = TelegramFile::parse(FILE).unwrap();
        let (person, group) = (file.chat(5), file.chat(-1001));
        assert_eq!((person.workspace.as_str(), person.model.as_deref()), ("chat_5", Some("large")));
        assert!(person.continues && !person.mention_only);
        assert_eq!((group.workspace.as_str(), group.effort.as_deref()), ("team", Some("high")));
        assert_eq!(group.append_system_prompt.as_deref(), Some("Be kind."));
        assert!(!group.continues && group.mention_only);
    }

    #[test]
    fn nobody_is_allowed_who_is_not_listed() {
        let file = TelegramFile::parse(FILE).unwrap();
        assert!(file.allows(5, Some(99)) && file.allows(5, None));
        assert!(file.allows(-1001, Some(7)) && !file.allows(-1001, Some(8)) && !file.allows(-1001, None));
        assert!(!file.allows(6, Some(7)));
        let missing = Path::new("/nonexistent/telegram.yml");
        assert!(matches!(TelegramFile::read(missing, None), Err(TelegramFileError::Nobody(_))));
        assert!(TelegramFile::read(missing, Some(5)).unwrap().allows(5, Some(1)));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let wrong = TelegramFile::parse("allowed_chats: [5]\nchats:\n  5:\n    modle: x\n").unwrap_err();
        assert!(wrong.contains("line 4") && wrong.contains("modle"), "{wrong}");
        assert!(TelegramFile::parse("default: {workspace: ../x}").unwrap_err().contains("workspace"));
    }
}
