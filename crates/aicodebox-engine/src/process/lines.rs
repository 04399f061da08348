/// The longest line that a reader gets whole: 8 MiB. Of a longer one it gets this much.
pub const MAX_LINE: usize = 8 << 20;

/// A buffer that grew beyond this is given back after its line.
const KEPT_BUFFER: usize = 64 << 10;

/// One line, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its bytes, not decoded; one `\r` before the end of line is removed.
    pub bytes: &'a [u8],
    /// The line was longer than the limit: these are its first bytes, the rest was skipped.
    pub truncated: bool,
}

/// Splits a stream that arrives in chunks into lines, before anything is decoded: where a chunk was cut never
/// shows in a line. Holds at most the limit in memory, however long a line is.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    /// The beginning of a line whose end has not arrived.
    partial: Vec<u8>,
    /// Bytes of that line beyond the limit were skipped.
    truncated: bool,
}

impl Lines {
    /// A splitter whose lines are at most `limit` bytes long (a `\r` at the end counts).
    pub fn new(limit: usize) -> Self {
        Self { limit, partial: Vec::new(), truncated: false }
    }

    /// Takes the next bytes and calls `line` for each line that they complete.
    pub fn feed(&mut self, mut bytes: &[u8], mut line: impl FnMut(Line<'_>)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (first, rest) = bytes.split_at(end);
            if self.partial.is_empty() && !self.truncated && first.len() <= self.limit {
                line(Line { bytes: without_cr(first), truncated: false });
            } else {
                self.keep(first);
                self.finish(&mut line);
            }
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.keep(bytes);
    }

    /// The stream is over: bytes after the last `\n` are a line too.
    pub fn end(&mut self, mut line: impl FnMut(Line<'_>)) {
        if !self.partial.is_empty() || self.truncated {
            self.finish(&mut line);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = self.limit - self.partial.len();
        self.truncated |= bytes.len() > room;
        self.partial.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    fn finish(&mut self, line: &mut impl FnMut(Line<'_>)) {
        let bytes = if self.truncated { &self.partial } else { without_cr(&self.partial) };
        line(Line { bytes, truncated: self.truncated });
        self.truncated = false;
        self.partial.clear();
        self.partial.shrink_to(KEPT_BUFFER);
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Owned = (Vec<u8>, bool);

    fn split<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Owned> {
        let mut found = Vec::new();
        let mut lines = Lines::new(limit);
        for chunk in chunks {
            lines.feed(chunk, |line| found.push((line.bytes.to_vec(), line.truncated)));
            assert!(lines.partial.len() <= limit);
        }
        lines.end(|line| found.push((line.bytes.to_vec(), line.truncated)));
        lines.end(|_| panic!("ended twice"));
        found
    }

    fn whole(text: &[u8]) -> Owned {
        (text.to_vec(), false)
    }

    #[test]
    fn ends_of_line() {
        let found = split(100, [b"a\r\n\n\r\nb\rc\r\r\nlast".as_slice()]);
        assert_eq!(found, [whole(b"a"), whole(b""), whole(b""), whole(b"b\rc\r"), whole(b"last")]);
    }

    #[test]
    fn nothing_after_the_last_end_is_no_line() {
        assert_eq!(split(100, [b"a\n".as_slice()]), [whole(b"a")]);
        assert_eq!(split(100, [b"".as_slice()]), []);
    }

    #[test]
    fn a_long_line_keeps_its_beginning() {
        let found = split(3, [b"abc\nabcd\nab".as_slice(), b"cdefgh", b"\nx"]);
        assert_eq!(found, [whole(b"abc"), (b"abc".to_vec(), true), (b"abc".to_vec(), true), whole(b"x")]);
    }

    #[test]
    fn a_long_last_line_is_marked() {
        assert_eq!(split(3, [b"abc".as_slice(), b"d"]), [(b"abc".to_vec(), true)]);
    }

    #[test]
    fn memory_of_a_long_line_is_given_back() {
        let mut lines = Lines::new(MAX_LINE);
        lines.feed(&vec![b'x'; MAX_LINE + 1], |_| panic!("not ended"));
        lines.feed(b"\n", |line| assert!(line.truncated && line.bytes.len() == MAX_LINE));
        assert!(lines.partial.capacity() <= KEPT_BUFFER);
    }

    proptest! {
        #[test]
        fn prop_cut_anywhere_is_cut_nowhere(
            bytes in prop::collection::vec(prop::sample::select(b"\n\n\r\rab\xff".to_vec()), 0..200),
            cuts in prop::collection::vec(0_usize..200, 0..20),
            limit in 1_usize..12,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < bytes.len()).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(split(limit, chunks), split(limit, [bytes.as_slice()]));
        }
    }
}
