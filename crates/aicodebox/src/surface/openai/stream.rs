use std::time::Duration;

use aicodebox_engine::{
    engine::{Engine, LiveEvents, RunHandle},
    run::{RunEvent, RunOutcome},
    store::{LoggedEvent, StoreError},
};
use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    chats::lost,
    chunks::{self, Chunks},
    error::ApiError,
    request::StreamOptions,
    response::{Answer, Head, UsagePart},
    translate::Shape,
};
use crate::surface::{
    run_answer::Record,
    sse::{self, KEEP_ALIVE},
};

/// Headers go out at the latest this long after the agent has begun.
const HEADERS_LIMIT: Duration = Duration::from_secs(10);

/// An answer that is sent while it is written. It reads the run's log at the pace of its client and holds nothing
/// back for it; dropping it lets go of the run, which cancels it.
pub(crate) struct ChatStream {
    handle: RunHandle,
    events: LiveEvents,
    chunks: Chunks,
    options: StreamOptions,
    shape: Shape,
    prompt_bytes: usize,
    engine: Engine,
    place: Place,
}

/// Where the stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nothing was sent.
    Start,
    /// No text was sent.
    Silent,
    /// In a message.
    Text,
    /// After one: another begins with a blank line.
    Between,
    /// All was sent.
    End,
}

impl ChatStream {
    pub(crate) fn new(
        engine: Engine,
        handle: RunHandle,
        head: &Head,
        options: StreamOptions,
        shape: Shape,
        prompt_bytes: usize,
    ) -> Self {
        Self {
            events: handle.events().live(),
            handle,
            chunks: Chunks::new(head, options.usage),
            options,
            shape,
            prompt_bytes,
            engine,
            place: Place::Start,
        }
    }

    /// Waits for the first piece of the answer, for the end, or for the limit, so that what fails early is answered
    /// with a status of its own.
    ///
    /// # Errors
    /// The failure of a run that ended before it said anything.
    pub(crate) async fn until_first(&mut self) -> Result<(), ApiError> {
        let mut ahead = self.handle.events().live();
        let text_first = self.shape == Shape::Text;
        let first = async {
            loop {
                let events = ahead.next().await?;
                if events.is_empty() {
                    return Ok(true);
                }
                if text_first && events.iter().any(|logged| is_text(logged)) {
                    return Ok(false);
                }
            }
        };
        let limit = async {
            self.handle.begun().await;
            sleep(HEADERS_LIMIT).await;
        };
        let over = tokio::select! {
            over = first => over.map_err(|error: StoreError| ApiError::of_store(&error))?,
            () = limit => false,
        };
        if over {
            let outcome = self.handle.outcome().await.ok_or_else(lost)?;
            if let Some(error) = ApiError::of_outcome(&outcome, self.engine.adapter()) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// The pieces of the body.
    pub(crate) fn pieces(self) -> impl Stream<Item = Bytes> {
        stream::unfold(self, |mut this| async move {
            let piece = this.next().await?;
            Some((piece, this))
        })
    }

    /// What can be sent now, or after the next event, or a sign of life.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        match self.place {
            Place::End => return None,
            Place::Start => {
                self.chunks.role(&mut out);
                self.place = Place::Silent;
                return Some(out.into());
            }
            Place::Silent | Place::Text | Place::Between => {}
        }
        let silent_until = Instant::now() + KEEP_ALIVE;
        loop {
            let Ok(events) = timeout_at(silent_until, self.events.next()).await else {
                return Some(sse::KEEP_ALIVE_LINE.into());
            };
            let events = match events {
                Ok(events) => events,
                Err(error) => {
                    chunks::error(&mut out, &ApiError::of_store(&error));
                    self.write_done(&mut out);
                    return Some(out.into());
                }
            };
            if events.is_empty() {
                self.write_end(&mut out).await;
                return Some(out.into());
            }
            for logged in &events {
                self.write_event(&mut out, logged);
            }
            // Not everything is for the client.
            if !out.is_empty() {
                return Some(out.into());
            }
        }
    }

    fn write_event(&mut self, out: &mut Vec<u8>, logged: &LoggedEvent) {
        if self.options.natives
            && let Some(record) = Record::of(logged, &self.engine.adapter().name)
        {
            sse::event(out, None, "aicodebox.native", &record);
        }
        if self.shape != Shape::Text {
            return;
        }
        match &logged.event {
            RunEvent::Delta(text) => self.write_text(out, text),
            RunEvent::Message { text, streamed } => {
                if !streamed {
                    self.write_text(out, text);
                }
                self.end_segment();
            }
            RunEvent::Tool(_) => self.end_segment(),
            _ => {}
        }
    }

    fn write_text(&mut self, out: &mut Vec<u8>, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.place == Place::Between {
            self.chunks.text(out, "\n\n");
        }
        self.chunks.text(out, text);
        self.place = Place::Text;
    }

    fn end_segment(&mut self) {
        if self.place == Place::Text {
            self.place = Place::Between;
        }
    }

    /// The end: of a good answer with its reason, of a failed one with the error and without.
    async fn write_end(&mut self, out: &mut Vec<u8>) {
        match self.handle.outcome().await {
            Some(outcome) => match ApiError::of_outcome(&outcome, self.engine.adapter()) {
                None => self.write_answer(out, &outcome),
                Some(failure) => chunks::error(out, &failure),
            },
            None => chunks::error(out, &lost()),
        }
        self.write_done(out);
    }

    fn write_done(&mut self, out: &mut Vec<u8>) {
        chunks::done(out);
        self.place = Place::End;
    }

    fn write_answer(&mut self, out: &mut Vec<u8>, outcome: &RunOutcome) {
        let left_out = self.events.missed();
        if self.shape == Shape::Text && left_out > 0 {
            self.end_segment();
            self.write_text(
                out,
                &format!("[{left_out} pieces of this answer were left out: it was too long]"),
            );
        }
        let answer = Answer::new(outcome, self.shape);
        // An agent that told its answer only at the end.
        if self.shape != Shape::Text || self.place == Place::Silent {
            self.chunks.answer(out, &answer);
        } else {
            self.chunks.finish(out, answer.finish);
        }
        if self.options.usage {
            self.chunks.usage(out, &UsagePart::new(outcome, self.prompt_bytes, &answer));
        }
    }
}

fn is_text(logged: &LoggedEvent) -> bool {
    matches!(&logged.event, RunEvent::Delta(text) | RunEvent::Message { text, .. } if !text.is_empty())
}
