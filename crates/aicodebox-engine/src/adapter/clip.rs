/// Text that keeps its beginning and its end when it outgrows a limit. Holds at most about the limit in memory, also while
/// it is made into one text.
#[derive(Clone, Debug)]
pub(super) struct Clip {
    half: usize,
    /// The beginning, and behind it the end.
    bytes: Vec<u8>,
    /// Where the end begins; none = everything is still the beginning. Its first character may be cut.
    end: Option<usize>,
    /// The end goes round in its place when it is full: this is its oldest byte.
    oldest: usize,
    dropped: u64,
}

/// Room for the mark between the two parts.
const MARK: usize = 64;

impl Clip {
    /// At most `limit` bytes come out, the mark included.
    pub(super) fn new(limit: usize) -> Self {
        let half = limit.saturating_sub(MARK) / 2;
        Self { half, bytes: Vec::new(), end: None, oldest: 0, dropped: 0 }
    }

    pub(super) fn push(&mut self, text: &str) {
        let mut rest = text;
        if self.end.is_none() {
            let mut fits = rest.len().min(self.half - self.bytes.len());
            while !rest.is_char_boundary(fits) {
                fits -= 1;
            }
            let (begins, ends) = rest.split_at(fits);
            self.bytes.extend_from_slice(begins.as_bytes());
            rest = ends;
        }
        if rest.is_empty() {
            return;
        }
        let end = *self.end.get_or_insert(self.bytes.len());
        let skipped = rest.len().saturating_sub(self.half);
        let rest = rest.as_bytes().get(skipped..).unwrap_or_default();
        let room = end + self.half - self.bytes.len();
        let (fresh, mut over) = rest.split_at(rest.len().min(room));
        self.bytes.extend_from_slice(fresh);
        self.dropped += (skipped + over.len()) as u64;
        while !over.is_empty() {
            let (now, later) = over.split_at(over.len().min(self.half - self.oldest));
            let at = end + self.oldest;
            self.bytes[at..at + now.len()].copy_from_slice(now);
            self.oldest = (self.oldest + now.len()) % self.half;
            over = later;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether something is missing in the middle.
    pub(super) fn is_cut(&self) -> bool {
        self.dropped > 0
    }

    pub(super) fn clear(&mut self) {
        *self = Self { half: self.half, ..Self::new(0) };
    }

    /// The text, with a mark where something is missing.
    pub(super) fn into_text(mut self) -> String {
        if let Some(end) = self.end.filter(|_| self.dropped > 0) {
            self.bytes[end..].rotate_left(self.oldest);
            let cut = self.bytes[end..].iter().take_while(|byte| *byte & 0xC0 == 0x80).count();
            let mark = format!("\n[… {} bytes left out …]\n", self.dropped + cut as u64);
            self.bytes.splice(end..end + cut, mark.into_bytes());
        }
        String::from_utf8(self.bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// As [`Clip::into_text`], from a copy.
    pub(super) fn to_text(&self) -> String {
        self.clone().into_text()
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

        #[test]
        fn prop_many_pieces_leave_what_one_leaves(pieces in prop::collection::vec("[a-zé€]{0,9}", 0..40), half in 0_usize..40) {
            let mut parts = Clip::new(MARK + 2 * half);
            pieces.iter().for_each(|piece| parts.push(piece));
            let mut whole = Clip::new(MARK + 2 * half);
            whole.push(&pieces.concat());
            prop_assert_eq!(whole.into_text(), parts.into_text());
        }
    }
}
