use std::collections::VecDeque;

use crate::run::Capture;

/// How much of a stream's beginning is kept, and as much of its end.
pub const KEPT: usize = 1 << 20;

/// Keeps the beginning and the end of a stream: at most [`KEPT`] bytes of each, however much passes.
#[derive(Debug, Default)]
pub(super) struct Tail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(KEPT - self.head.len()));
        self.head.extend_from_slice(first);
        let skipped = rest.len().saturating_sub(KEPT);
        let last = rest.get(skipped..).unwrap_or_default();
        let excess = (self.tail.len() + last.len()).saturating_sub(KEPT);
        self.tail.drain(..excess);
        self.tail.extend(last);
        self.dropped += (skipped + excess) as u64;
    }

    pub(super) fn finish(self) -> Capture {
        Capture { head: self.head, tail: self.tail.into(), dropped: self.dropped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(length: usize, chunk: usize) -> (Vec<u8>, Capture) {
        let all: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let mut tail = Tail::default();
        for chunk in all.chunks(chunk) {
            tail.push(chunk);
        }
        (all, tail.finish())
    }

    #[test]
    fn nothing_is_lost_up_to_both_limits() {
        let (all, capture) = capture(2 * KEPT, 65_521);
        assert_eq!(capture.dropped, 0);
        assert!([capture.head, capture.tail].concat() == all);
    }

    #[test]
    fn the_middle_is_dropped_and_counted() {
        for chunk in [1000, 65_536, 5 * KEPT] {
            let (all, capture) = capture(4 * KEPT + 17, chunk);
            assert_eq!(capture.dropped, 2 * KEPT as u64 + 17);
            assert!(capture.head == all[..KEPT]);
            assert!(capture.tail == all[all.len() - KEPT..]);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut tail = Tail::default();
        for _ in 0..100 {
            tail.push(&[7; 65_536]);
        }
        assert!(tail.head.capacity() <= KEPT && tail.tail.capacity() <= KEPT + 65_536);
    }
}
