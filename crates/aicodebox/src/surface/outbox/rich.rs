use std::ops::Range;

use url::Url;

/// Text with styles: what an answer looks like, before it is cut into messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RichText {
    pub(super) text: String,
    /// Sorted by start, the longer first; any two are nested or apart, as Telegram wants entities.
    pub(super) spans: Vec<Span>,
}

/// A style on a part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Bytes.
    pub(super) range: Range<usize>,
    pub(super) style: Style,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Bold,
    Italic,
    Strikethrough,
    Code,
    Pre { language: Option<String> },
    Link(Url),
    Quote,
}

impl RichText {
    /// Text without styles.
    pub(crate) fn plain(text: &str) -> Self {
        Self { text: clean(text), spans: Vec::new() }
    }

    /// Text in bold.
    pub(crate) fn bold(text: &str) -> Self {
        let text = clean(text);
        let spans = vec![Span { range: 0..text.len(), style: Style::Bold }];
        Self { text, spans }
    }

    /// This, then that.
    pub(crate) fn then(mut self, next: Self) -> Self {
        let shift = self.text.len();
        self.text.push_str(&next.text);
        self.spans.extend(
            next.spans.into_iter().map(|span| Span {
                range: span.range.start + shift..span.range.end + shift,
                style: span.style,
            }),
        );
        self
    }

    /// The text alone.
    #[cfg(test)]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether there is nothing to see.
    pub(crate) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// What Telegram does to a text by itself, done before anything is counted: control characters become spaces. A tab
/// would become one of them, which ruins code that is indented by tabs.
pub(super) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\r' => {}
            '\t' => clean.push_str("    "),
            '\n' => clean.push('\n'),
            c if c.is_control() || matches!(c, '\u{2028}'..='\u{202e}') => clean.push(' '),
            c => clean.push(c),
        }
    }
    clean
}
