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
    /// Blank ones, which Telegram refuses, are left out.
    pub(crate) fn chunks(&self, limit: usize) -> Vec<Chunk> {
        let pieces = self.pieces(limit);
        pieces.into_iter().filter_map(|piece| self.chunk(piece)).collect()
    }

    /// The parts, which together are the whole text.
    pub(super) fn pieces(&self, limit: usize) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < self.text.len() {
            let end = self.cut(start, limit);
            pieces.push(start..end);
            start = end;
        }
        pieces
    }

    /// Where the piece that begins at `start` ends; always after `start`.
    fn cut(&self, start: usize, limit: usize) -> usize {
        let rest = &self.text[start..];
        let mut units = 0;
        let fits = rest.graphemes(true).take_while(|grapheme| {
            units += grapheme.encode_utf16().count();
            units <= limit
        });
        let mut end = start + fits.map(str::len).sum::<usize>();
        if end == start {
            // One grapheme, thousands of marks on one letter: it has to be broken.
            let mut units = 0;
            let fits = rest.chars().take_while(|c| {
                units += c.len_utf16();
                units <= limit
            });
            end = start + fits.map(char::len_utf8).sum::<usize>();
        }
        let covering = self.spans.iter().filter(|span| span.range.start < end && span.range.end > start);
        if let Some(first_too_many) = covering.clone().nth(ENTITY_LIMIT) {
            // Styles of one kind are not nested: among so many, most begin later than the piece does.
            end = end
                .min(first_too_many.range.start.max(start + rest.chars().next().map_or(1, char::len_utf8)));
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

    fn chunk(&self, piece: Range<usize>) -> Option<Chunk> {
        let text = self.text[piece.clone()].trim_end();
        let lead = text.len() - text.trim_start_matches('\n').len();
        let text = &text[lead..];
        if text.trim().is_empty() {
            return None;
        }
        let (begin, end) = (piece.start + lead, piece.start + lead + text.len());
        let touching = self.spans.iter().take_while(|span| span.range.start < end);
        let entities = touching.filter_map(|span| {
            let range = span.range.start.max(begin)..span.range.end.min(end);
            (range.start < range.end).then(|| entity(span, &self.text, begin, range))
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
