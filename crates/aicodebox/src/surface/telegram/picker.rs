use teloxide_core::types::{InlineKeyboardButton, InlineKeyboardMarkup};

use super::overrides::Knob;

/// Buttons of a picker; more are to be typed.
const BUTTONS: usize = 40;
/// Bytes that a button may carry.
const DATA_LIMIT: usize = 64;
/// The button that lets the file's value hold again.
const DEFAULT: &str = "default";

/// Buttons for a choice, the current one marked. `None` = there is nothing to choose from.
pub(super) fn buttons(knob: Knob, choices: &[String], current: Option<&str>) -> Option<InlineKeyboardMarkup> {
    let button = |value: &str, label: String| {
        let data = format!("{}:{value}", knob.command());
        (data.len() <= DATA_LIMIT).then(|| InlineKeyboardButton::callback(label, data))
    };
    let mut all: Vec<_> = choices
        .iter()
        .take(BUTTONS)
        .filter_map(|choice| {
            let mark = if current == Some(choice) { "✓ " } else { "" };
            button(choice, format!("{mark}{choice}"))
        })
        .collect();
    if all.is_empty() {
        return None;
    }
    all.extend(button(DEFAULT, "Default".to_owned()));
    Some(InlineKeyboardMarkup::new(all.chunks(2).map(<[_]>::to_vec).collect::<Vec<_>>()))
}

/// What a pressed button chooses: the knob, and a value or the default.
pub(super) fn chosen(data: &str, choices: impl Fn(Knob) -> Vec<String>) -> Option<(Knob, Option<String>)> {
    let (name, value) = data.split_once(':')?;
    let knob = [Knob::Model, Knob::Effort].into_iter().find(|knob| knob.command() == name)?;
    if value == DEFAULT {
        return Some((knob, None));
    }
    // Buttons stay under old messages: what they name may be gone.
    choices(knob).contains(&value.to_owned()).then(|| (knob, Some(value.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_button_says_what_it_chooses_and_only_what_there_is() {
        let choices: Vec<String> = vec!["large".into(), "small".into(), "x".repeat(80)];
        let markup = buttons(Knob::Model, &choices, Some("small")).unwrap();
        let labels: Vec<_> =
            markup.inline_keyboard.iter().flatten().map(|button| button.text.as_str()).collect();
        assert_eq!(labels, ["large", "✓ small", "Default"]);
        let of = |_| choices.clone();
        assert_eq!(chosen("model:large", of), Some((Knob::Model, Some("large".into()))));
        assert_eq!(chosen("model:default", of), Some((Knob::Model, None)));
        assert_eq!(
            (chosen("model:gone", of), chosen("system_prompt:x", of), chosen("x", of)),
            (None, None, None)
        );
        assert!(buttons(Knob::Effort, &[], None).is_none());
    }
}
