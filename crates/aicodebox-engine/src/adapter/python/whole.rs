use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    super::{
        clip::Clip,
        contract::{OutputReader, ReadError, Reading, TEXT_LIMIT},
    },
    adapter::Run,
    bridge::{Ask, CallError},
    reading::Said,
    usage::usage,
    wire::{Parsed, What},
};
use crate::{
    BoxFuture,
    process::{Flow, Stream},
    run::{EventSink, Exit, NativeRecord, Notice, RunEvent, SessionId},
};

/// Standard output that is kept for `parse_output`: 64 MiB from its beginning.
const KEPT: usize = 64 << 20;
/// The longest wait for `parse_output` and `parse_events` …
const LIMIT: Duration = Duration::from_secs(30);
/// … and for a run that was stopped, whose end nobody wants to wait for.
pub(super) const LIMIT_STOPPED: Duration = Duration::from_secs(1);

/// Keeps the output and has it read at its end.
pub(super) struct WholeReader {
    run: Run,
    request: Box<RawValue>,
    events: Arc<dyn EventSink>,
    stdout: Vec<u8>,
    /// Bytes that were not kept.
    dropped: u64,
}

impl WholeReader {
    pub(super) fn new(run: Run, request: Box<RawValue>, events: Arc<dyn EventSink>) -> Self {
        Self { run, request, events, stdout: Vec::new(), dropped: 0 }
    }
}

impl OutputReader for WholeReader {
    fn feed(&mut self, stream: Stream, bytes: &[u8]) -> Flow {
        if stream == Stream::Stdout {
            let (kept, rest) = bytes.split_at(bytes.len().min(KEPT - self.stdout.len()));
            self.stdout.extend_from_slice(kept);
            self.dropped += rest.len() as u64;
        }
        Flow::Go
    }

    fn finish(self: Box<Self>, exit: Exit) -> BoxFuture<'static, Result<Reading, ReadError>> {
        Box::pin(async move {
            let said = self.parse(if exit.ended_by.stopped() { LIMIT_STOPPED } else { LIMIT }).await;
            Ok(said.reading(exit))
        })
    }
}

impl WholeReader {
    async fn parse(self, limit: Duration) -> Said {
        if self.dropped > 0 {
            let message =
                format!("the last {} bytes of output were not read: {KEPT} is the most", self.dropped);
            self.events.push(RunEvent::Notice(Notice { code: "truncated".into(), message }));
        }
        let stdout = String::from_utf8_lossy(&self.stdout);
        let ask = Ask {
            what: What::Parse,
            run: self.run.number,
            request: &self.request,
            lines: None,
            stdout: Some(&stdout),
            limit,
        };
        match self.run.bridge.ask::<Parsed>(ask).await {
            Ok(parsed) => self.tell(parsed),
            Err(CallError::Refused(why) | CallError::Failed(why)) => {
                Said { broken: Some(why), ..Said::default() }
            }
        }
    }

    fn tell(&self, parsed: Parsed) -> Said {
        let mut text = Clip::new(TEXT_LIMIT);
        text.push(&parsed.text);
        let said = Said {
            text: text.into_text(),
            session: Some(parsed.session_id).filter(|id| !id.is_empty()).map(SessionId),
            usage: parsed.usage,
            structured: parsed.parsed,
            parse_error: parsed.parse_error,
            provider_error: parsed.provider_error,
            ..Said::default()
        };
        for (event_type, line) in parsed.events {
            let record = NativeRecord { event_type, line: Bytes::from(line), json: true };
            self.events.push(RunEvent::Native(record));
        }
        if parsed.events_dropped > 0 {
            let message = format!("{} records of parse_events were left out", parsed.events_dropped);
            self.events.push(RunEvent::Notice(Notice { code: "truncated".into(), message }));
        }
        if let Some(session) = &said.session {
            self.events.push(RunEvent::Session(session.clone()));
        }
        if !said.text.is_empty() {
            self.events.push(RunEvent::Message { text: said.text.clone(), streamed: false });
        }
        if let Some(native) = &said.usage {
            self.events.push(RunEvent::Usage(usage(native.clone())));
        }
        said
    }
}
