use std::{
    fmt,
    io::{self, IsTerminal, Write},
    time::Instant,
};

use aicodebox_engine::run::{Notice, RunOutcome, ToolEvent, ToolPhase};

/// Longest line about a tool, in characters.
const WIDTH: usize = 100;

/// Tells a person at a terminal on standard error what goes on; tells nobody anything when that is no terminal.
pub(crate) struct Progress {
    on: bool,
    colour: bool,
    begun: Instant,
    /// The line with the seconds is shown and must go before anything else is written.
    ticking: bool,
}

impl Progress {
    pub(crate) fn new(colour: bool) -> Self {
        let on = io::stderr().is_terminal();
        Self { on, colour: colour && on, begun: Instant::now(), ticking: false }
    }

    /// Shows how long it takes already.
    pub(crate) fn tick(&mut self) {
        if self.on {
            self.ticking = true;
            self.write(format_args!(
                "\r\x1b[K{}",
                self.dim(format_args!("{} s", self.begun.elapsed().as_secs()))
            ));
        }
    }

    /// Clears the line with the seconds; to be called before anything is written to standard output.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.ticking) {
            self.write(format_args!("\r\x1b[K"));
        }
    }

    pub(crate) fn tool(&mut self, tool: &ToolEvent) {
        let name = tool.name.as_deref().unwrap_or("tool");
        let input = tool.input.as_ref().map(ToString::to_string).unwrap_or_default();
        let line = match (tool.phase, tool.failed) {
            (ToolPhase::Start, _) | (ToolPhase::Both, Some(false) | None) => format!("> {name} {input}"),
            (ToolPhase::Both, Some(true)) => format!("> {name} {input} failed"),
            (ToolPhase::End, Some(true)) => format!("> {name} failed"),
            (ToolPhase::End, Some(false) | None) => return,
        };
        self.line(&clip(&line));
    }

    pub(crate) fn notice(&mut self, notice: &Notice) {
        let retries = if notice.code == "retry" { "the agent tries again: " } else { "" };
        self.line(&format!("! {retries}{}", notice.message));
    }

    /// The last line: how long, how many tokens, which session.
    pub(crate) fn done(&mut self, outcome: &RunOutcome) {
        let mut line = format!("{:.1} s", self.begun.elapsed().as_secs_f64());
        if let Some(usage) = &outcome.usage {
            let counts = [("in", usage.tokens.input), ("out", usage.tokens.output)];
            for (way, count) in counts {
                line.extend(count.map(|count| format!(", {count} tokens {way}")));
            }
            line.extend(usage.tokens.cost_usd.map(|cost| format!(", ${cost:.4}")));
        }
        line.extend(outcome.session.as_ref().map(|session| format!(", session {}", session.0)));
        self.line(&line);
    }

    fn line(&mut self, text: &str) {
        self.clear();
        if self.on {
            self.write(format_args!("{}\n", self.dim(format_args!("{text}"))));
        }
    }

    fn dim(&self, text: fmt::Arguments<'_>) -> String {
        if self.colour { format!("\x1b[2m{text}\x1b[0m") } else { text.to_string() }
    }

    /// A terminal that is gone is no reason to stop.
    fn write(&self, text: fmt::Arguments<'_>) {
        let mut stderr = io::stderr().lock();
        if stderr.write_fmt(text).and_then(|()| stderr.flush()).is_err() {
            tracing::trace!("nobody reads the progress");
        }
    }
}

/// One line without control characters, cut at [`WIDTH`].
fn clip(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = clean.clone().take(WIDTH).collect();
    if clean.count() > WIDTH {
        line.push('…');
    }
    line
}
