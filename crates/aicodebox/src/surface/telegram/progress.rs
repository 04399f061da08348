use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use aicodebox_engine::run::{RunEvent, Tokens, ToolEvent, ToolPhase};
use serde_json::Value;

use crate::surface::outbox::RichText;

/// Steps that are shown.
const STEPS: usize = 6;
/// Characters of a step.
const STEP_LENGTH: usize = 80;

/// What people see while an agent works on their message.
#[derive(Debug)]
pub(super) struct Progress {
    since: Instant,
    steps: VecDeque<String>,
    count: usize,
    tokens: Option<Tokens>,
    waiting: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), steps: VecDeque::new(), count: 0, tokens: None, waiting: false }
    }

    /// Takes up what happened.
    pub(super) fn note(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Tool(tool) if tool.phase != ToolPhase::End => {
                self.count += 1;
                self.steps.push_back(step(tool));
                if self.steps.len() > STEPS {
                    self.steps.pop_front();
                }
            }
            RunEvent::Usage(usage) => self.tokens = Some(usage.tokens),
            RunEvent::Tool(_)
            | RunEvent::Session(_)
            | RunEvent::Delta(_)
            | RunEvent::Message { .. }
            | RunEvent::Thinking(_)
            | RunEvent::Notice(_)
            | RunEvent::Native(_)
            | RunEvent::Truncated(_)
            | RunEvent::Status(_) => {}
        }
    }

    /// Whether the run still waits for its place.
    pub(super) fn waits(&mut self, waiting: bool) {
        self.waiting = waiting;
    }

    /// As a message.
    pub(super) fn shown(&self) -> RichText {
        let elapsed = self.since.elapsed();
        let mut head =
            if self.waiting { "⏳ Waiting for the workspace".to_owned() } else { "⏳ Working".to_owned() };
        head.push_str(&format!(" · {}", time(elapsed)));
        let tokens = self.tokens.map(|tokens| tokens.input.unwrap_or(0) + tokens.output.unwrap_or(0));
        if let Some(tokens) = tokens.filter(|tokens| *tokens > 0) {
            head.push_str(&format!(" · {} tokens", rounded(tokens)));
        }
        let hidden = self.count - self.steps.len();
        if hidden > 0 {
            head.push_str(&format!("\n… {hidden} steps before"));
        }
        let steps: String = self.steps.iter().map(|step| format!("\n• {step}")).collect();
        RichText::plain(&(head + &steps))
    }

    /// How long to wait between two looks of people: the longer it takes, the less often they look.
    pub(super) fn pause(&self) -> Duration {
        match self.since.elapsed().as_secs() {
            0..60 => Duration::from_millis(2_200),
            60..600 => Duration::from_secs(5),
            _ => Duration::from_secs(15),
        }
    }
}

/// The tool and what it works on, in one line.
fn step(tool: &ToolEvent) -> String {
    let name = tool.name.as_deref().unwrap_or("tool");
    let telling = ["command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt"];
    let input = tool.input.as_ref();
    let what = input.and_then(|input| telling.iter().find_map(|key| word(&input[*key])));
    let line = match what {
        Some(what) => format!("{name}: {what}"),
        None => name.to_owned(),
    };
    let line: String = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(STEP_LENGTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => None,
    }
}

fn time(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

fn rounded(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..1_000_000 => format!("{}.{}k", tokens / 1_000, tokens % 1_000 / 100),
        _ => format!("{}.{}M", tokens / 1_000_000, tokens % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_are_told_shortly_and_the_old_ones_counted() {
        let mut progress = Progress::new();
        for number in 0..8 {
            progress.note(&RunEvent::Tool(ToolEvent {
                id: number.to_string(),
                phase: ToolPhase::Start,
                name: Some("Bash".into()),
                input: Some(json!({ "command": format!("step {number}\n{}", "x".repeat(200)) })),
                output: None,
                failed: None,
            }));
        }
        let shown = progress.shown();
        let lines: Vec<_> = shown.text().lines().collect();
        assert_eq!(lines.len(), 2 + STEPS, "{lines:#?}");
        assert!(lines[0].starts_with("⏳ Working · 0:0") && lines[1] == "… 2 steps before");
        assert!(lines[2].starts_with("• Bash: step 2 xxx") && lines[2].ends_with('…'));
        assert_eq!(
            (rounded(999), rounded(1_234), rounded(2_500_000)),
            ("999".into(), "1.2k".into(), "2.5M".into())
        );
        assert_eq!(
            (time(Duration::from_secs(62)), time(Duration::from_secs(3_723))),
            ("1:02".into(), "1:02:03".into())
        );
    }
}
