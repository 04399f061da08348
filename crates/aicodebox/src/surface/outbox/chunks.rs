use std::ops::Range;

use teloxide_core::types::MessageEntity;
use unicode_segmentation::UnicodeSegmentation;

use super::rich::{RichText, Span, Style};

/// UTF-16 units of a message.
pub(crate) const MESSAGE_LIMIT: usize = 4096;
/// Entities of a message; Telegram drops what comes after.
const ENTITY_LIMIT: usize = 100;

/// One message: a text that Telegram takes as it is, with its styles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) text: String,
    /// Offsets and lengths in UTF-16 units.
    pub(crate) entities: Vec<MessageEntity>,
}

impl RichText {
    /// Cuts it into messages of at most `limit` UTF-16 units, each valid by itself: at a paragraph, else a line, else a
    /// word, never within a grapheme unless that alone is too long. A style that is cut goes on in the next message.
    /// Blank ones, which Telegram refuses, are left out. Only what is asked for is cut.
    pub(crate) fn chunks(&self, limit: usize) -> impl Iterator<Item = Chunk> {
        self.pieces(limit).filter_map(|piece| piece.chunk(&self.text))
    }

    /// The parts, which together are the whole text.
    pub(super) fn pieces(&self, limit: usize) -> impl Iterator<Item = Piece<'_>> {
        Cutter { text: &self.text, limit, start: 0, open: Vec::new(), later: &self.spans }
    }
}

/// A part of a text, and the styles on it, some of which go beyond it.
pub(super) struct Piece<'a> {
    pub(super) range: Range<usize>,
    spans: Vec<&'a Span>,
}

/// Cuts a text from its begin to its end. The styles are gone through once, however many pieces there are: looking at
/// all of them for each piece took minutes for an answer with many.
struct Cutter<'a> {
    text: &'a str,
    limit: usize,
    /// Where the next piece begins.
    start: usize,
    /// Styles that begin before that and go on; few, for none is within one of its kind.
    open: Vec<&'a Span>,
    /// Those that begin there or later.
    later: &'a [Span],
}

impl<'a> Iterator for Cutter<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let start = self.start;
        if start >= self.text.len() {
            return None;
        }
        let end = self.cut();
        let (begun, later) = self.later.split_at(self.later.partition_point(|span| span.range.start < end));
        self.open.extend(begun);
        let spans = self.open.clone();
        self.open.retain(|span| span.range.end > end);
        (self.start, self.later) = (end, later);
        Some(Piece { range: start..end, spans })
    }
}

impl Cutter<'_> {
    /// Where the piece that begins at `start` ends; always after `start`.
    fn cut(&self) -> usize {
        let start = self.start;
        let rest = &self.text[start..];
        // A unit has at most three bytes, so more than fits is in here. One grapheme may have megabytes.
        let mut near = (0..4).find_map(|less| rest.get(..self.limit * 3 + 8 - less)).unwrap_or(rest);
        if let Some(first_too_many) = self.later.get(ENTITY_LIMIT.saturating_sub(self.open.len())) {
            let one = rest.chars().next().map_or(1, char::len_utf8);
            near = near.get(..(first_too_many.range.start - start).max(one)).unwrap_or(near);
        }
        let mut units = 0;
        let fits = near.graphemes(true).take_while(|grapheme| {
            units += grapheme.encode_utf16().count();
            units <= self.limit
        });
        let mut end = start + fits.map(str::len).sum::<usize>();
        if end == start {
            // One grapheme, thousands of marks on one letter: it has to be broken.
            let mut units = 0;
            let fits = near.chars().take_while(|c| {
                units += c.len_utf16();
                units <= self.limit
            });
            end = start + fits.map(char::len_utf8).sum::<usize>();
        }
        if end == self.text.len() {
            return end;
        }
        let window = &self.text[start..end];
        let half = window.len() / 2;
        let after = |found: Option<usize>, length: usize| found.map(|at| at + length).filter(|at| *at > half);
        let break_at = after(window.rfind("\n\n"), 2)
            .or_else(|| after(window.rfind('\n'), 1))
            .or_else(|| after(window.rfind(' '), 1));
        break_at.map_or(end, |at| start + at)
    }
}

impl Piece<'_> {
    fn chunk(self, whole: &str) -> Option<Chunk> {
        let text = whole[self.range.clone()].trim_end();
        let lead = text.len() - text.trim_start_matches('\n').len();
        let text = &text[lead..];
        if text.trim().is_empty() {
            return None;
        }
        let begin = self.range.start + lead;
        let end = begin + text.len();
        let entities = self.spans.into_iter().filter_map(|span| {
            let range = span.range.start.max(begin)..span.range.end.min(end);
            (range.start < range.end).then(|| entity(span, whole, begin, range))
        });
        Some(Chunk { text: text.to_owned(), entities: entities.collect() })
    }
}

fn entity(span: &Span, text: &str, begin: usize, range: Range<usize>) -> MessageEntity {
    let units = |range: Range<usize>| text[range].encode_utf16().count();
    let (offset, length) = (units(begin..range.start), units(range));
    match &span.style {
        Style::Bold => MessageEntity::bold(offset, length),
        Style::Italic => MessageEntity::italic(offset, length),
        Style::Strikethrough => MessageEntity::strikethrough(offset, length),
        Style::Code => MessageEntity::code(offset, length),
        Style::Pre { language } => MessageEntity::pre(language.clone(), offset, length),
        Style::Link(url) => MessageEntity::text_link(url.clone(), offset, length),
        Style::Quote => {
            MessageEntity::new(teloxide_core::types::MessageEntityKind::Blockquote, offset, length)
        }
    }
}
