//! Events as they lie in the database: several in one blob.

use std::sync::Arc;

use crate::store::LoggedEvent;

/// How the events of a block are written. Another way gets another number.
const ENCODING: u8 = 1;
/// A block is not begun anew before it has this many bytes.
const FULL: usize = 64 << 10;

/// A run of events as one blob.
pub(super) struct Block {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) bytes: Vec<u8>,
}

/// The events as blocks, one made after the other: there may be megabytes. Each has at most [`FULL`] bytes and one
/// event.
pub(super) fn encode(
    events: &[Arc<LoggedEvent>],
) -> impl Iterator<Item = Result<Block, postcard::Error>> + use<'_> {
    let mut rest = events.iter().peekable();
    std::iter::from_fn(move || {
        let first = rest.peek()?.sequence;
        Some(block(first, &mut rest))
    })
}

fn block<'a>(
    first: u64,
    rest: &mut impl Iterator<Item = &'a Arc<LoggedEvent>>,
) -> Result<Block, postcard::Error> {
    let mut block = Block { first, last: first, bytes: vec![ENCODING] };
    while block.bytes.len() < FULL
        && let Some(event) = rest.next()
    {
        block.last = event.sequence;
        block.bytes = postcard::to_extend(event.as_ref(), block.bytes)?;
    }
    Ok(block)
}

/// The events of a block.
///
/// # Errors
/// What is wrong with it.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Arc<LoggedEvent>>, String> {
    let (&encoding, mut rest) = bytes.split_first().ok_or("a block of events is empty")?;
    if encoding != ENCODING {
        return Err(format!("a block of events has encoding {encoding}, which this version does not know"));
    }
    let mut events = Vec::new();
    while !rest.is_empty() {
        let (event, after) = postcard::take_from_bytes(rest)
            .map_err(|error| format!("a block of events is damaged: {error}"))?;
        events.push(Arc::new(event));
        rest = after;
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::{
        LeftOut, NativeRecord, Notice, RunEvent, SessionId, Stage, Tokens, ToolEvent, ToolPhase, Usage,
    };

    fn all() -> Vec<RunEvent> {
        vec![
            RunEvent::Status(Stage::Queued),
            RunEvent::Session(SessionId("s-1".into())),
            RunEvent::Delta("é".into()),
            RunEvent::Message { text: "é€😀".into(), streamed: true },
            RunEvent::Thinking("hm".into()),
            RunEvent::Tool(ToolEvent {
                id: "1".into(),
                phase: ToolPhase::Both,
                name: Some("sh".into()),
                input: Some(json!({"b": [1, 2.5, null], "a": "x"})),
                output: None,
                failed: Some(false),
            }),
            RunEvent::Usage(Usage {
                native: json!({"in": 18_446_744_073_709_551_615_u64}),
                tokens: Tokens { cost_usd: Some(0.1), ..Tokens::default() },
            }),
            RunEvent::Notice(Notice { code: "retry".into(), message: "again".into() }),
            RunEvent::Native(NativeRecord {
                event_type: "raw".into(),
                line: bytes::Bytes::from_static(b"\xff\xfe"),
                json: false,
            }),
            RunEvent::Truncated(LeftOut { events: 3, bytes: 9 }),
        ]
    }

    fn logged(events: Vec<RunEvent>) -> Vec<Arc<LoggedEvent>> {
        (1..)
            .zip(events)
            .map(|(sequence, event)| {
                Arc::new(LoggedEvent { sequence, at: 1, attempt: 0, native_sequence: 0, event })
            })
            .collect()
    }

    #[test]
    fn every_event_comes_back_as_it_was() {
        let events = logged(all());
        let blocks: Vec<_> = encode(&events).map(Result::unwrap).collect();
        assert_eq!((blocks.len(), blocks[0].first, blocks[0].last), (1, 1, 10));
        assert_eq!(decode(&blocks[0].bytes).unwrap(), events);
    }

    #[test]
    fn a_large_event_ends_its_block() {
        let events = logged(vec![
            RunEvent::Delta("a".into()),
            RunEvent::Delta("x".repeat(FULL)),
            RunEvent::Delta("b".into()),
        ]);
        let spans: Vec<_> =
            encode(&events).map(Result::unwrap).map(|block| (block.first, block.last)).collect();
        assert_eq!(spans, [(1, 2), (3, 3)]);
    }

    #[test]
    fn damage_is_said() {
        let mut bytes = encode(&logged(all())).next().unwrap().unwrap().bytes;
        bytes.truncate(bytes.len() - 3);
        assert!(decode(&bytes).unwrap_err().contains("damaged"));
        assert!(decode(&[9]).unwrap_err().contains("encoding 9"));
        assert!(decode(&[]).is_err());
    }
}
