use super::overrides::Knob;

/// A command in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Start,
    Help,
    Status,
    /// `all` = also what waits.
    Cancel {
        all: bool,
    },
    Reload,
    Config,
    New,
    Fetch(String),
    /// A setting; without a value it is shown, with buttons where there is a choice.
    Set(Knob, Option<String>),
    /// One that there is not.
    Unknown(String),
    /// It names another bot.
    NotOurs,
}

/// What Telegram shows in its menu, and `/help` in its answer.
pub(super) const MENU: &[(&str, &str)] = &[
    ("new", "Begin a new conversation"),
    ("cancel", "Stop what is running; /cancel all also drops what waits"),
    ("status", "What runs, what waits"),
    ("model", "Show or choose the model"),
    ("effort", "Show or choose the effort"),
    ("system_prompt", "Show or set the system prompt"),
    ("append_system_prompt", "Show or set what is added to the system prompt"),
    ("fetch", "Send a file of the workspace: /fetch path"),
    ("config", "What holds in this chat"),
    ("reload", "Read telegram.yml again"),
    ("help", "This list"),
];

impl Command {
    /// Reads a command; `None` = it is none.
    pub(super) fn parse(text: &str, bot: &str) -> Option<Self> {
        let rest = text.trim_start().strip_prefix('/')?;
        let (word, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let arguments = arguments.trim();
        let (name, to) = word.split_once('@').unwrap_or((word, bot));
        // A path such as /etc/hosts is text.
        if name.is_empty() || !name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_') {
            return None;
        }
        if !to.eq_ignore_ascii_case(bot) {
            return Some(Self::NotOurs);
        }
        let value = (!arguments.is_empty()).then(|| arguments.to_owned());
        let name = name.to_ascii_lowercase();
        let knobs = [Knob::Model, Knob::Effort, Knob::SystemPrompt, Knob::AppendSystemPrompt];
        if let Some(knob) = knobs.into_iter().find(|knob| knob.command() == name) {
            return Some(Self::Set(knob, value));
        }
        Some(match name.as_str() {
            "start" => Self::Start,
            "help" => Self::Help,
            "status" => Self::Status,
            "cancel" | "stop" => Self::Cancel { all: arguments.eq_ignore_ascii_case("all") },
            "reload" => Self::Reload,
            "config" => Self::Config,
            "new" => Self::New,
            "fetch" => Self::Fetch(arguments.to_owned()),
            _ => Self::Unknown(name),
        })
    }
}

/// Whether a value means that the file's own is to hold again.
pub(super) fn clears(value: &str) -> bool {
    ["default", "reset", "clear", "none"].iter().any(|word| word.eq_ignore_ascii_case(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_ours_with_or_without_our_name() {
        let parse = |text| Command::parse(text, "box_bot");
        assert_eq!(parse("/cancel"), Some(Command::Cancel { all: false }));
        assert_eq!(parse("/Cancel@Box_Bot all"), Some(Command::Cancel { all: true }));
        assert_eq!(parse("/cancel@other_bot"), Some(Command::NotOurs));
        assert_eq!(parse("/model small"), Some(Command::Set(Knob::Model, Some("small".into()))));
        assert_eq!(parse("/model@box_bot"), Some(Command::Set(Knob::Model, None)));
        let two_lines = Command::Set(Knob::SystemPrompt, Some("You are\nshort".into()));
        assert_eq!(parse("/system_prompt You are\nshort"), Some(two_lines));
        assert_eq!(parse("/fetch a b.txt"), Some(Command::Fetch("a b.txt".into())));
        assert_eq!(parse("/dance"), Some(Command::Unknown("dance".into())));
        for text in ["hello", "/etc/hosts is gone", "/", "a /cancel"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_menu_is_as_telegram_wants_it() {
        for (name, about) in MENU {
            assert!(name.len() <= 32 && !about.is_empty() && about.len() <= 256, "{name}");
            assert!(
                !matches!(Command::parse(&format!("/{name}"), "b"), Some(Command::Unknown(_)) | None),
                "{name}"
            );
        }
    }
}
