use std::{
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use aicodebox_engine::{
    engine::{Engine, RunHandle, WhenBusy},
    run::{FailureKind, RunEvent, RunOutcome, RunRequest},
    store::LoggedEvent,
};
use serde::Serialize;
use tokio::time::interval;

use super::{interrupt::Interrupts, progress::Progress};
use crate::surface::{
    records::Records,
    run_answer::{RunAnswer, Shape},
    run_event::EventLine,
};

/// What goes to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// The answer's text as it comes.
    Text,
    /// One JSON object at the end.
    Json,
    /// One JSON object per event.
    Events,
}

/// Carries out one run and gives the exit code: 0 when all is well, else the agent's if that is not 0, else 1.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) async fn run(
    engine: &Engine,
    request: RunRequest,
    output: Output,
    colour: bool,
) -> io::Result<u8> {
    let mut interrupts = Interrupts::new()?;
    let mut handle = match engine.start(request, WhenBusy::Refuse).await {
        Ok(handle) => handle,
        Err(failure) => {
            complain(&failure.message);
            return Ok(1);
        }
    };
    let mut view = View { output, progress: Progress::new(colour), text: Text::default() };
    let outcome = follow(&mut handle, &mut interrupts, &mut view).await?;
    let Some(outcome) = outcome else {
        complain("the run was lost");
        return Ok(1);
    };
    view.end(engine, &handle, &outcome)?;
    let Some(failure) = outcome.failure() else { return Ok(0) };
    complain(&failure.message);
    if let FailureKind::Agent(fault) = failure.kind
        && let Some(hint) = engine.adapter().hint(fault)
    {
        complain(hint);
    }
    Ok(u8::try_from(outcome.exit_code).ok().filter(|code| *code != 0).unwrap_or(1))
}

/// Shows events until the run has ended. The first signal asks it to end, the second ends it at once.
async fn follow(
    handle: &mut RunHandle,
    interrupts: &mut Interrupts,
    view: &mut View,
) -> io::Result<Option<Arc<RunOutcome>>> {
    let mut events = handle.events().live();
    let mut over = false;
    let mut seconds = interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            batch = events.next(), if !over => {
                let batch = batch.map_err(io::Error::other)?;
                over = batch.is_empty();
                view.events(&batch)?;
            }
            outcome = handle.outcome(), if over => return Ok(outcome),
            () = interrupts.next() => handle.cancel(),
            _ = seconds.tick() => view.tick(),
        }
    }
}

/// What the user sees of a run.
struct View {
    output: Output,
    progress: Progress,
    text: Text,
}

impl View {
    /// Shows what is new.
    fn events(&mut self, batch: &[Arc<LoggedEvent>]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        for logged in batch {
            self.event(&mut stdout, logged)?;
        }
        stdout.flush()
    }

    fn event(&mut self, stdout: &mut impl Write, logged: &LoggedEvent) -> io::Result<()> {
        match self.output {
            Output::Events => {
                self.progress.clear();
                json_line(stdout, &EventLine::new(logged))?;
            }
            Output::Text | Output::Json => {}
        }
        match &logged.event {
            RunEvent::Delta(text) | RunEvent::Message { text, streamed: false } => {
                if self.output == Output::Text {
                    self.progress.clear();
                    self.text.write(stdout, text)?;
                }
                if matches!(logged.event, RunEvent::Message { .. }) {
                    self.text.boundary();
                }
            }
            RunEvent::Message { streamed: true, .. } => self.text.boundary(),
            RunEvent::Tool(tool) => {
                self.text.boundary();
                self.text.finish_line(stdout)?;
                self.progress.tool(tool);
            }
            RunEvent::Notice(notice) => {
                self.text.finish_line(stdout)?;
                self.progress.notice(notice);
            }
            RunEvent::Session(_)
            | RunEvent::Thinking(_)
            | RunEvent::Usage(_)
            | RunEvent::Native(_)
            | RunEvent::Status(_)
            | RunEvent::Truncated(_) => {}
        }
        Ok(())
    }

    fn tick(&mut self) {
        // Never in the middle of a line of the answer.
        if self.text.at_line_start {
            self.progress.tick();
        }
    }

    fn end(&mut self, engine: &Engine, handle: &RunHandle, outcome: &RunOutcome) -> io::Result<()> {
        self.progress.clear();
        let mut stdout = io::stdout().lock();
        match self.output {
            Output::Text => {
                // A file may name the answer in its closing line alone.
                if self.text.is_empty() {
                    self.text.write(&mut stdout, &outcome.text)?;
                }
                self.text.finish_line(&mut stdout)?;
            }
            Output::Json | Output::Events => {
                let shape = Shape { verbose: true, ..Shape::default() };
                let backend = &engine.adapter().name;
                let records = Records::default();
                let answer = RunAnswer::new(&handle.workspace, outcome, &records, backend, shape)
                    .with_status(outcome.status());
                match self.output {
                    Output::Events => json_line(&mut stdout, &Last { event: "outcome", data: answer })?,
                    Output::Text | Output::Json => json_line(&mut stdout, &answer)?,
                }
            }
        }
        stdout.flush()?;
        drop(stdout);
        self.progress.done(outcome);
        Ok(())
    }
}

/// The line after the last event.
#[derive(Serialize)]
struct Last<'a> {
    event: &'static str,
    data: RunAnswer<'a>,
}

/// The answer's text on its way to standard output: segments are parted by a blank line.
struct Text {
    written: bool,
    at_line_start: bool,
    boundary: bool,
}

impl Default for Text {
    fn default() -> Self {
        Self { written: false, at_line_start: true, boundary: false }
    }
}

impl Text {
    fn is_empty(&self) -> bool {
        !self.written
    }

    /// What follows is a new segment.
    fn boundary(&mut self) {
        self.boundary = self.written;
    }

    fn write(&mut self, to: &mut impl Write, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.boundary) {
            self.finish_line(to)?;
            to.write_all(b"\n")?;
        }
        self.written = true;
        self.at_line_start = text.ends_with('\n');
        to.write_all(text.as_bytes())
    }

    /// Ends the line that was begun, if one was.
    fn finish_line(&mut self, to: &mut impl Write) -> io::Result<()> {
        if std::mem::replace(&mut self.at_line_start, true) { Ok(()) } else { to.write_all(b"\n") }
    }
}

fn json_line(to: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, value)?;
    to.write_all(b"\n")
}

fn complain(message: &str) {
    // Where standard error is gone, the exit code has to do.
    _ = writeln!(io::stderr(), "aicodebox: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_parted_by_a_blank_line_and_the_last_line_is_ended() {
        let mut text = Text::default();
        let mut out = Vec::new();
        text.boundary();
        for part in ["Hel", "lo\n"] {
            text.write(&mut out, part).unwrap();
        }
        text.boundary();
        text.boundary();
        text.write(&mut out, "").unwrap();
        text.write(&mut out, "again").unwrap();
        text.finish_line(&mut out).unwrap();
        text.finish_line(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "Hello\n\nagain\n");
    }
}
