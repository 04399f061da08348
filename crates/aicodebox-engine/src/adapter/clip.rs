use std::collections::VecDeque;

/// Text that keeps its beginning and its end when it outgrows a limit. Holds at most about the limit in memory.
#[derive(Debug)]
pub(super) struct Clip {
    half: usize,
    head: String,
    /// UTF-8, but its first character may be cut.
    tail: VecDeque<u8>,
    dropped: u64,
}

/// Room for the mark between the two parts.
const MARK: usize = 64;

impl Clip {
    /// At most `limit` bytes come out, the mark included.
    pub(super) fn new(limit: usize) -> Self {
        let half = limit.saturating_sub(MARK) / 2;
        Self { half, head: String::new(), tail: VecDeque::new(), dropped: 0 }
    }

    pub(super) fn push(&mut self, text: &str) {
        let mut rest = text;
        if self.tail.is_empty() {
            let mut end = rest.len().min(self.half - self.head.len());
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            self.head.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        let mut bytes = rest.as_bytes();
        let excess = (self.tail.len() + bytes.len()).saturating_sub(self.half);
        self.dropped += excess as u64;
        let from_tail = excess.min(self.tail.len());
        self.tail.drain(..from_tail);
        bytes = bytes.get(excess - from_tail..).unwrap_or_default();
        self.tail.extend(bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty()
    }

    /// Whether something is missing in the middle.
    pub(super) fn is_cut(&self) -> bool {
        self.dropped > 0
    }

    pub(super) fn clear(&mut self) {
        *self = Self { half: self.half, head: String::new(), tail: VecDeque::new(), dropped: 0 };
    }

    /// The text, with a mark where something is missing.
    pub(super) fn into_text(self) -> String {
        let (mut text, mut tail) = (self.head, self.tail);
        let mut dropped = self.dropped;
        if dropped > 0 {
            while tail.front().is_some_and(|byte| byte & 0xC0 == 0x80) {
                tail.pop_front();
                dropped += 1;
            }
            text.push_str(&format!("\n[… {dropped} bytes left out …]\n"));
        }
        text.push_str(&String::from_utf8_lossy(tail.make_contiguous()));
        text
    }

    /// As [`Clip::into_text`], from a copy.
    pub(super) fn to_text(&self) -> String {
        Self { half: self.half, head: self.head.clone(), tail: self.tail.clone(), dropped: self.dropped }
            .into_text()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_text_is_kept_whole() {
        let mut clip = Clip::new(100);
        ["", "häl", "lo", ""].iter().for_each(|part| clip.push(part));
        assert_eq!((clip.is_cut(), clip.into_text()), (false, "hällo".to_owned()));
    }

    #[test]
    fn a_long_text_keeps_both_ends_and_says_what_is_missing() {
        let mut clip = Clip::new(MARK + 8);
        clip.push("abcd0123456789wxyz");
        assert_eq!(clip.into_text(), "abcd\n[… 10 bytes left out …]\nwxyz");
    }

    proptest! {
        #[test]
        fn prop_cut_anywhere_is_cut_nowhere(text in "[aé€😀]{0,60}", cut in 0_usize..60, half in 3_usize..40) {
            let mut cut = cut.min(text.len());
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            let mut whole = Clip::new(MARK + 2 * half);
            whole.push(&text);
            let mut parts = Clip::new(MARK + 2 * half);
            parts.push(&text[..cut]);
            parts.push(&text[cut..]);
            let (whole, parts) = (whole.into_text(), parts.into_text());
            prop_assert!(whole.len() <= MARK + 2 * half);
            let bad = char::REPLACEMENT_CHARACTER;
            prop_assert!(!whole.contains(bad) && !parts.contains(bad));
            if text.len() <= half {
                prop_assert_eq!(&whole, &text);
            }
            prop_assert_eq!(whole, parts);
        }
    }
}
