/// Decodes a stream that arrives in chunks, for text that is passed on before its line is complete: a character
/// cut by the end of a chunk is held back (at most 3 bytes) until the rest of it arrives. What is not UTF-8
/// becomes U+FFFD.
#[derive(Debug, Default)]
pub struct Utf8Chunks {
    held: Vec<u8>,
}

impl Utf8Chunks {
    /// Takes the next bytes and returns the text that is complete, possibly empty.
    pub fn feed(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let complete = self.held.len() - incomplete_tail(&self.held);
        let tail = self.held.split_off(complete);
        let text = String::from_utf8(std::mem::replace(&mut self.held, tail));
        text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// The stream is over: what was held back never became a character.
    pub fn end(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}

/// How many bytes at the end are the beginning of a character.
fn incomplete_tail(bytes: &[u8]) -> usize {
    let lead = bytes.iter().rev().take(3).position(|byte| *byte >= 0xC0);
    let tail = lead.map(|back| &bytes[bytes.len() - back - 1..]).unwrap_or_default();
    match std::str::from_utf8(tail) {
        Err(error) if error.error_len().is_none() => tail.len(),
        Err(_) | Ok(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cut_character_waits_for_its_rest() {
        let bytes = "é€😀".as_bytes();
        let mut text = Utf8Chunks::default();
        assert_eq!(text.feed(&bytes[..3]), "é");
        assert_eq!(text.feed(&bytes[3..8]), "€");
        assert_eq!(text.feed(&bytes[8..]), "😀");
        assert_eq!(text.end(), "");
    }

    #[test]
    fn what_never_becomes_a_character_is_replaced() {
        let mut text = Utf8Chunks::default();
        assert_eq!(text.feed(b"caf\xe9 "), "caf\u{fffd} ");
        assert_eq!(text.feed(b"\xf0\x9f"), "");
        assert_eq!(text.end(), "\u{fffd}");
    }

    proptest! {
        #[test]
        fn prop_cut_anywhere_is_cut_nowhere(
            bytes in prop::collection::vec(prop::sample::select(b"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xed\xff".to_vec()), 0..60),
            cut in 0_usize..60,
            second in 0_usize..60,
        ) {
            let (low, high) = (cut.min(second).min(bytes.len()), cut.max(second).min(bytes.len()));
            let mut text = Utf8Chunks::default();
            let mut found = text.feed(&bytes[..low]);
            found += &text.feed(&bytes[low..high]);
            found += &text.feed(&bytes[high..]);
            found += &text.end();
            prop_assert_eq!(found, String::from_utf8_lossy(&bytes).into_owned());
            prop_assert!(text.held.len() <= 3);
        }
    }
}
