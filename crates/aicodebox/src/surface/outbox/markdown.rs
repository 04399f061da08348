use std::mem::discriminant;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use unicode_segmentation::UnicodeSegmentation;
use url::Url;

use super::rich::{RichText, Span, Style, clean};

/// Longest word that is taken for the language of a code block, in bytes.
const LANGUAGE_LIMIT: usize = 32;
/// Lists within lists that are shown further to the right than those around them. One line may begin thousands, and each
/// line after it belongs to the innermost.
const INDENT_LIMIT: usize = 16;
/// Characters up to which the cells of a column are made equally wide: one long cell would be paid for in each row.
const CELL_LIMIT: usize = 100;

/// Renders Markdown as Telegram can show it: a heading is bold, a list has bullets, a table is a block of code with
/// aligned columns, a link that leads nowhere outside is its text alone, and HTML is shown as it is written.
pub(crate) fn render(markdown: &str) -> RichText {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut renderer = Renderer::default();
    for event in Parser::new_ext(markdown, options) {
        renderer.event(event);
    }
    renderer.finish()
}

#[derive(Default)]
struct Renderer {
    out: String,
    spans: Vec<Span>,
    /// Styles that have begun, innermost last.
    open: Vec<Open>,
    /// Line breaks that are due before the next text.
    gap: usize,
    /// The number of the next item, of each list around us; `None` = bullets.
    lists: Vec<Option<u64>>,
    /// What stands before the text of an item that has none yet.
    marker: Option<String>,
    quotes: usize,
    in_code: bool,
    /// The table that is being read.
    table: Option<Vec<Vec<String>>>,
}

/// A style that has begun; `None` = it is within one of its kind, or not to be shown.
struct Open {
    begin: usize,
    style: Option<Style>,
}

impl Renderer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(text) => {
                self.begin(Some(Style::Code));
                self.text(&text);
                self.close();
            }
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text(&text)
            }
            Event::SoftBreak | Event::HardBreak => self.text("\n"),
            Event::Rule => {
                self.gap(2);
                self.text("———");
                self.gap(2);
            }
            Event::TaskListMarker(done) => self.marker = Some(if done { "☑ " } else { "☐ " }.to_owned()),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => {}
            Tag::Heading { .. } => {
                self.gap(2);
                self.begin(Some(Style::Bold));
            }
            Tag::BlockQuote(_) => {
                self.gap(2);
                self.quotes += 1;
                let outermost = self.quotes == 1;
                self.begin(outermost.then_some(Style::Quote));
            }
            Tag::CodeBlock(kind) => {
                self.gap(1);
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.split([' ', ',', '{']).next().map(str::to_owned),
                    CodeBlockKind::Indented => None,
                };
                let language = language.filter(|word| !word.is_empty() && word.len() <= LANGUAGE_LIMIT);
                self.begin(Some(Style::Pre { language }));
                self.in_code = true;
            }
            Tag::List(first) => {
                self.gap(1);
                self.lists.push(first);
            }
            Tag::Item => {
                self.gap(1);
                self.marker = Some(match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    Some(None) | None => "• ".to_owned(),
                });
            }
            Tag::Table(_) => {
                self.gap(2);
                self.table = Some(Vec::new());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(rows) = &mut self.table {
                    rows.push(Vec::new());
                }
            }
            Tag::TableCell => {
                if let Some(row) = self.table.as_mut().and_then(|rows| rows.last_mut()) {
                    row.push(String::new());
                }
            }
            Tag::Emphasis => self.begin(Some(Style::Italic)),
            Tag::Strong => self.begin(Some(Style::Bold)),
            Tag::Strikethrough => self.begin(Some(Style::Strikethrough)),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.begin(address(&dest_url).map(Style::Link))
            }
            Tag::Superscript
            | Tag::Subscript
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.gap(if self.lists.is_empty() { 2 } else { 1 }),
            TagEnd::Heading(_) => {
                self.close();
                self.gap(2);
            }
            TagEnd::BlockQuote(_) => {
                self.quotes -= 1;
                self.close();
                self.gap(2);
            }
            TagEnd::CodeBlock => {
                self.in_code = false;
                let begin = self.open.last().map_or(0, |open| open.begin);
                // The line break before the closing fence is none of the code's.
                if self.out.len() > begin && self.out.ends_with('\n') {
                    self.out.pop();
                }
                self.close();
                self.gap(if self.lists.is_empty() { 2 } else { 1 });
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.gap(if self.lists.is_empty() { 2 } else { 1 });
            }
            TagEnd::Item => {
                if self.marker.is_some() {
                    self.text("");
                }
                self.gap(1);
            }
            TagEnd::Table => {
                if let Some(rows) = self.table.take() {
                    self.begin(Some(Style::Pre { language: None }));
                    self.in_code = true;
                    self.text(&aligned(&rows));
                    self.in_code = false;
                    self.close();
                }
                self.gap(2);
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image => {
                self.close()
            }
            TagEnd::TableHead
            | TagEnd::TableRow
            | TagEnd::TableCell
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    /// At least this many line breaks come before the next text.
    fn gap(&mut self, breaks: usize) {
        self.gap = self.gap.max(breaks);
    }

    fn text(&mut self, text: &str) {
        if let Some(cell) = self.table.as_mut().and_then(|rows| rows.last_mut()?.last_mut()) {
            cell.push_str(&clean(text).replace('\n', " "));
            return;
        }
        self.lead();
        if self.in_code {
            self.out.push_str(&clean(text));
        } else {
            self.out.push_str(&clean(text).replace('\n', &format!("\n{}", self.indent())));
        }
    }

    /// Writes what is due before text.
    fn lead(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        if !self.out.is_empty() {
            self.out.extend(std::iter::repeat_n('\n', gap));
        }
        let begins_a_line = gap > 0 || self.out.is_empty();
        if let Some(marker) = self.marker.take() {
            self.out.push_str(&"  ".repeat(self.lists.len().saturating_sub(1).min(INDENT_LIMIT)));
            self.out.push_str(&marker);
        } else if begins_a_line && !self.in_code {
            self.out.push_str(&self.indent());
        }
    }

    /// Under the text of the item that we are in.
    fn indent(&self) -> String {
        "  ".repeat(self.lists.len().min(INDENT_LIMIT))
    }

    fn begin(&mut self, style: Option<Style>) {
        if self.table.is_none() {
            self.lead();
        }
        // Two styles of one kind are never nested.
        let again = style.as_ref().is_some_and(|style| {
            self.open
                .iter()
                .flat_map(|open| &open.style)
                .any(|open| discriminant(open) == discriminant(style))
        });
        self.open.push(Open { begin: self.out.len(), style: style.filter(|_| !again) });
    }

    fn close(&mut self) {
        let Some(Open { begin, style }) = self.open.pop() else { return };
        if let Some(style) = style
            && begin < self.out.len()
        {
            self.spans.push(Span { range: begin..self.out.len(), style });
        }
    }

    fn finish(mut self) -> RichText {
        let end = self.out.trim_end().len();
        self.out.truncate(end);
        let spans = apart(self.spans, end);
        RichText { text: self.out, spans }
    }
}

/// Brings spans into the form that Telegram takes: code has no other style, except that it may be in a quote; code
/// within a link is just the link's text.
fn apart(spans: Vec<Span>, end: usize) -> Vec<Span> {
    let is_code = |span: &Span| matches!(span.style, Style::Code | Style::Pre { .. });
    let links: Vec<_> = spans
        .iter()
        .filter(|span| matches!(span.style, Style::Link(_)))
        .map(|span| span.range.clone())
        .collect();
    let in_link = |span: &Span| {
        let after = links.partition_point(|link| link.start <= span.range.start);
        after > 0 && span.range.end <= links[after - 1].end
    };
    let mut code: Vec<_> =
        spans.iter().filter(|span| is_code(span) && !in_link(span)).map(|span| span.range.clone()).collect();
    code.sort_by_key(|range| range.start);
    let mut result = Vec::with_capacity(spans.len());
    for span in spans {
        match span.style {
            Style::Link(_) | Style::Quote => result.push(span),
            Style::Code | Style::Pre { .. } if in_link(&span) => {}
            Style::Code | Style::Pre { .. } => result.push(span),
            Style::Bold | Style::Italic | Style::Strikethrough => {
                let mut begin = span.range.start;
                let first = code.partition_point(|code| code.end <= begin);
                for code in code[first..].iter().take_while(|code| code.start < span.range.end) {
                    result.push(Span { range: begin..code.start, style: span.style.clone() });
                    begin = code.end;
                }
                result.push(Span { range: begin..span.range.end.max(begin), style: span.style });
            }
        }
    }
    for span in &mut result {
        span.range.end = span.range.end.min(end);
    }
    result.retain(|span| span.range.start < span.range.end);
    result.sort_by_key(|span| (span.range.start, std::cmp::Reverse(span.range.end)));
    result
}

/// The address of a link, where Telegram can open it.
fn address(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| {
        let web =
            matches!(url.scheme(), "http" | "https") && url.host_str().is_some_and(|host| !host.is_empty());
        (web || url.scheme() == "tg" || url.scheme() == "mailto") && url.as_str().len() <= 2048
    })
}

/// The table in columns.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |cell: &str| cell.graphemes(true).count();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns)
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| width(cell))
                .max()
                .unwrap_or(0)
                .min(CELL_LIMIT)
        })
        .collect();
    let mut lines = Vec::with_capacity(rows.len() + 1);
    for (index, row) in rows.iter().enumerate() {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, column)| format!("{cell}{}", " ".repeat(column.saturating_sub(width(cell)))));
        lines.push(cells.collect::<Vec<_>>().join(" | ").trim_end().to_owned());
        if index == 0 {
            lines.push(widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("-+-"));
        }
    }
    lines.join("\n")
}
