//! What a client asks for itself about a conversation: its title, tags, what to ask next. Such a question is no part of
//! the conversation and no work for an agent's tools.

use serde_json::Value;

use super::message::{Message, Part};
use crate::config::ChatAsides;

/// How Open WebUI begins each of its own questions.
const HEADING: &str = "### Task:";

/// What follows there, in lower case.
const OPENINGS: [&str; 7] = [
    "analyze the chat history to determine",
    "generate 1-3 broad tags",
    "generate a concise",
    "generate a detailed prompt for",
    "suggest 3-5 relevant follow-up questions",
    "you are an autocompletion system",
    "your task is to reflect the speaker's likely facial expression",
];

/// Whether a chat is such a question, by what the caller or else the configuration says.
pub(crate) fn holds(asides: ChatAsides, named: bool, messages: &[Message]) -> bool {
    match asides {
        ChatAsides::Known => named || is_known(messages),
        ChatAsides::Named => named,
        ChatAsides::Always => true,
        ChatAsides::Never => false,
    }
}

/// Whether `metadata.task` names such a question, as Open WebUI does: `title_generation`.
pub(crate) fn is_named(metadata: Option<&Value>) -> bool {
    let task = metadata.and_then(|metadata| metadata.get("task")).and_then(Value::as_str);
    task.is_some_and(|task| task.ends_with("_generation"))
}

/// Whether it is one by its words: nothing else was said, and it begins as one of the known ones.
fn is_known(messages: &[Message]) -> bool {
    let mut said = messages.iter().filter(|message| !matches!(message, Message::System(_)));
    let (Some(Message::User(parts)), None) = (said.next(), said.next()) else { return false };
    let Some(Part::Text(text)) = parts.first() else { return false };
    let Some(task) = text.trim_start().strip_prefix(HEADING) else { return false };
    let task: String = task.trim_start().chars().take(100).collect::<String>().to_lowercase();
    OPENINGS.iter().any(|opening| task.starts_with(opening))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(text: &str) -> Message {
        Message::User(vec![Part::Text(text.into())])
    }

    #[test]
    fn questions_about_a_conversation_are_known_by_their_name_or_their_words() {
        assert!(is_named(Some(&json!({"task": "title_generation"}))));
        assert!(!is_named(Some(&json!({"task": "refactor the parser"}))) && !is_named(None));
        let title =
            "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.";
        assert!(is_known(&[user(title)]));
        assert!(is_known(&[Message::System("x".into()), user("### Task: Generate a concise title")]));
        for other in
            ["### Task:\nWrite a parser", "Generate a concise title", "x\n### Task:\nGenerate a concise"]
        {
            assert!(!is_known(&[user(other)]), "{other}");
        }
        assert!(!is_known(&[user("hi"), user(title)]));
    }

    #[test]
    fn which_of_them_count_can_be_said() {
        let asked = [user("### Task:\nGenerate a concise title")];
        let plain = [user("hi")];
        let holds = |asides| {
            [(false, &plain), (false, &asked), (true, &plain)].map(|(named, said)| holds(asides, named, said))
        };
        assert_eq!(holds(ChatAsides::Known), [false, true, true]);
        assert_eq!(holds(ChatAsides::Named), [false, false, true]);
        assert_eq!(holds(ChatAsides::Always), [true; 3]);
        assert_eq!(holds(ChatAsides::Never), [false; 3]);
    }
}
