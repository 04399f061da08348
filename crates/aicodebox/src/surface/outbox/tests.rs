//! The renderer before the judge that the fake Bot API server is, too.

#[path = "../../../tests/it/telegram/rules.rs"]
mod rules;

use proptest::prelude::*;
use serde_json::json;

use super::{Address, Chunk, Letter, MESSAGE_LIMIT, RichText, render};

/// Puts chunks before the judge, and gives what it shows.
fn accepted(chunks: &[Chunk], limit: usize) -> Vec<rules::Shown> {
    let show = |chunk: &Chunk| {
        let params = json!({ "text": chunk.text, "entities": chunk.entities });
        rules::accept(&params, "text", "entities", limit, false)
            .unwrap_or_else(|error| panic!("{error}\n{:?}", chunk.text))
    };
    chunks.iter().map(show).collect()
}

fn kinds(chunk: &Chunk) -> Vec<(String, &str)> {
    let units: Vec<u16> = chunk.text.encode_utf16().collect();
    let mut kinds = Vec::new();
    for entity in &chunk.entities {
        let text = String::from_utf16(&units[entity.offset..entity.offset + entity.length]).unwrap();
        let json = serde_json::to_value(entity).unwrap();
        let kind = match json["language"].as_str() {
            Some(language) => format!("pre:{language}"),
            None => json["type"].as_str().unwrap().to_owned(),
        };
        let text: &str = text.leak();
        kinds.push((kind, text));
    }
    kinds
}

fn chunks(markdown: &str) -> Vec<Chunk> {
    render(markdown).chunks(MESSAGE_LIMIT).collect()
}

fn one(markdown: &str) -> Chunk {
    let mut chunks = chunks(markdown);
    accepted(&chunks, MESSAGE_LIMIT);
    assert_eq!(chunks.len(), 1);
    chunks.remove(0)
}

#[test]
fn an_answer_looks_as_it_was_meant() {
    let chunk = one(
        "# Title\n\nSome **bold *both*** and `code`.\n\n- one\n- two\n  1. deep\n\n> quoted\n\n```rust\nfn main() {}\n```\n[site](https://example.org) [file](./a.md) ~~gone~~\n\n| a | bb |\n|---|---|\n| 1 | 2 |\n\n- [x] done\n- [ ] open",
    );
    assert_eq!(
        chunk.text,
        "Title\n\nSome bold both and code.\n\n• one\n• two\n  1. deep\n\nquoted\n\nfn main() {}\n\nsite file gone\n\na | bb\n--+---\n1 | 2\n\n☑ done\n☐ open"
    );
    let expected = [
        ("bold", "Title"),
        ("bold", "bold both"),
        ("italic", "both"),
        ("code", "code"),
        ("blockquote", "quoted"),
        ("pre:rust", "fn main() {}"),
        ("text_link", "site"),
        ("strikethrough", "gone"),
        ("pre", "a | bb\n--+---\n1 | 2"),
    ];
    let kinds = kinds(&chunk);
    let kinds: Vec<_> = kinds.iter().map(|(kind, text)| (kind.as_str(), *text)).collect();
    assert_eq!(kinds, expected);
}

#[test]
fn m19_what_looks_like_a_placeholder_is_text() {
    let chunk = one("CB0 and CB7 and `code` and \u{0}CB0\u{0}");
    assert_eq!(chunk.text, "CB0 and CB7 and code and  CB0");
}

#[test]
fn m20_a_long_block_of_code_goes_on_in_the_next_message_with_its_language() {
    let code: String = (0..200).map(|line| format!("let variable_number_{line} = {line};\n")).collect();
    let chunks = chunks(&format!("Look:\n\n```rust\n{code}```\nDone"));
    accepted(&chunks, MESSAGE_LIMIT);
    assert_eq!(chunks.len(), 2);
    for chunk in &chunks {
        assert_eq!(kinds(chunk).iter().filter(|(kind, _)| kind == "pre:rust").count(), 1);
    }
    assert!(chunks[0].text.ends_with(';') && chunks[1].text.starts_with("let variable"), "cut between lines");
}

#[test]
fn m21_emoji_are_counted_as_telegram_does_and_stay_whole() {
    let family = "👩‍👩‍👧‍👦";
    for text in ["😀".repeat(3000), family.repeat(900), "a\u{300}".repeat(5000), "\u{300}".repeat(9000)] {
        let chunks = chunks(&format!("**{text}**"));
        accepted(&chunks, MESSAGE_LIMIT);
        let together: String = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        assert_eq!(together, text);
        assert!(!text.starts_with('👩') || chunks.iter().all(|chunk| chunk.text.starts_with(family)));
    }
}

#[test]
fn t5_links_that_lead_nowhere_are_their_text() {
    assert!(one("[f](./a) [g](#x) [h](javascript:alert(1)) [i](file:///etc/passwd)").entities.is_empty());
}

#[test]
fn code_in_bold_and_in_a_link_is_told_apart() {
    let chunk = one("**a `b` c** [see `d`](https://example.org)");
    let kinds = kinds(&chunk);
    let kinds: Vec<_> = kinds.iter().map(|(kind, text)| (kind.as_str(), *text)).collect();
    assert_eq!(kinds, [("bold", "a "), ("code", "b"), ("bold", " c"), ("text_link", "see d")]);
}

#[test]
fn more_styles_than_a_message_may_have_make_more_messages() {
    let chunks = chunks(&"`x` ".repeat(450));
    accepted(&chunks, MESSAGE_LIMIT);
    assert!(chunks.len() >= 5);
    assert_eq!(chunks.iter().map(|chunk| chunk.entities.len()).sum::<usize>(), 450);
}

/// A word that Markdown takes as it is, in the scripts of the world.
fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "plain",
        "naïve",
        "漢字かな",
        "한국어",
        "שלום",
        "مرحبا",
        "😀",
        "👩‍👩‍👧‍👦",
        "🇩🇪",
        "e\u{301}",
        "CB0",
        "a&b",
        "x>y",
        "ＷＩＤＥ",
        "नमस्ते",
        "12",
    ])
    .prop_map(str::to_owned)
}

/// Markdown, and the words that must be seen, in order.
type Piece = (String, Vec<String>);

fn inline() -> impl Strategy<Value = Piece> {
    let leaf = prop_oneof![
        4 => word().prop_map(|word| (word.clone(), vec![word])),
        1 => word().prop_map(|word| (format!("`{word}`"), vec![word])),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        (prop::sample::select(vec!["**", "*", "~~", "link", "file"]), prop::collection::vec(inner, 1..4))
            .prop_map(|(around, parts)| {
                let (text, words) = joined(parts, " ");
                let text = match around {
                    "link" => format!("[{text}](https://example.org/a?b=c)"),
                    "file" => format!("[{text}](./relative)"),
                    // Four tildes would be a fence of code.
                    "~~" if text.starts_with('~') || text.ends_with('~') => text,
                    mark => format!("{mark}{text}{mark}"),
                };
                (text, words)
            })
    })
}

fn joined(parts: Vec<Piece>, between: &str) -> Piece {
    let (texts, words): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    (texts.join(between), words.concat())
}

fn block() -> impl Strategy<Value = Piece> {
    let paragraph = prop::collection::vec(inline(), 1..30).prop_map(|parts| joined(parts, " ")).boxed();
    let code = prop::collection::vec(prop::collection::vec(word(), 0..12), 1..60).prop_map(|lines| {
        let text: String = lines.iter().map(|line| format!("{}\n", line.join(" "))).collect();
        (format!("```python\n{text}```"), lines.concat())
    });
    let leaf = prop_oneof![
        3 => paragraph.clone(),
        1 => paragraph.clone().prop_map(|(text, words)| (format!("## {text}"), words)),
        1 => code,
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        (prop::sample::select(vec!["> ", "- ", "1. "]), prop::collection::vec(inner, 1..4)).prop_map(
            |(prefix, parts)| {
                let (text, words) = joined(parts, "\n\n");
                let rest = if prefix == "> " { "> " } else { "   " };
                let indented: Vec<_> = text.lines().map(|line| format!("{rest}{line}")).collect();
                let text = indented.join("\n");
                (format!("{prefix}{}", &text[rest.len()..]), words)
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_document_is_accepted_and_says_all_its_words_in_order(blocks in prop::collection::vec(block(), 1..24)) {
        let (markdown, words) = joined(blocks, "\n\n");
        let rich = render(&markdown);
        let shown = accepted(&rich.chunks(MESSAGE_LIMIT).collect::<Vec<_>>(), MESSAGE_LIMIT);
        let together: String = shown.iter().map(|shown| shown.text.as_str()).collect::<Vec<_>>().join("\n");
        let mut rest = together.as_str();
        for word in &words {
            let at = rest.find(word.as_str());
            prop_assert!(at.is_some(), "{word:?} is missing in {together:?} of {markdown:?}");
            rest = &rest[at.unwrap() + word.len()..];
        }
    }

    #[test]
    fn the_pieces_of_any_text_are_the_text(text in "[ \\n\\t*_`~>#\\[\\]()|a-z0-9<&😀👩‍漢שmé-]{0,6000}", limit in 16_usize..4096) {
        for rich in [render(&text), RichText::plain(&text), RichText::bold("x").then(render(&text))] {
            let together: String = rich.pieces(limit).map(|piece| &rich.text()[piece.range]).collect();
            prop_assert_eq!(&together, rich.text());
            let shown = accepted(&rich.chunks(limit).collect::<Vec<_>>(), limit);
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            let seen: String = shown.iter().map(|shown| bare(&shown.text)).collect();
            prop_assert_eq!(seen, bare(rich.text()));
        }
    }

    #[test]
    fn any_markdown_at_all_is_accepted(text in any::<String>(), times in 1_usize..40) {
        accepted(&chunks(&text.repeat(times)), MESSAGE_LIMIT);
    }
}

#[test]
fn a_hundred_kilobytes_take_no_time() {
    let markdown =
        "Some **bold** text with `code` and [links](https://example.org) 😀, a line.\n".repeat(1400);
    let begun = std::time::Instant::now();
    let chunks = chunks(&markdown);
    accepted(&chunks, MESSAGE_LIMIT);
    assert!(chunks.len() > 10 && begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

#[test]
fn styles_without_number_and_one_endless_grapheme_are_cut_in_no_time() {
    let styles = "`a`  ".repeat(100_000);
    for (markdown, at_least) in
        [(styles.clone(), 1_000), (format!("> **x** {styles}"), 1_000), ("\u{300}".repeat(1_000_000), 200)]
    {
        let rich = render(&markdown);
        let begun = std::time::Instant::now();
        assert!(rich.chunks(MESSAGE_LIMIT).count() >= at_least);
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }
}

#[test]
fn what_is_shown_of_lists_and_tables_stays_in_proportion() {
    let deep = format!("{}a\n{}", "- ".repeat(500), "b\n".repeat(2_000));
    let wide = format!("|a|b|\n|-|-|\n|{}|x|\n{}", "y".repeat(4_000), "|1|2|\n".repeat(1_000));
    for markdown in [deep, wide] {
        let shown = render(&markdown).text().len();
        assert!(shown < 40 * markdown.len(), "{shown} for {}", markdown.len());
    }
}

#[test]
fn an_answer_of_many_messages_is_a_file_as_well_and_of_too_many_only_there_whole() {
    for (lines, messages, in_file) in [(100, 1, false), (400, 5, false), (700, 8, true), (9_000, 20, true)] {
        let text = "This is one line of a long answer, of fifty or so.\n".repeat(lines);
        for source in [Some(text.clone()), None] {
            let to = Address { chat: 5, topic: None };
            let letter = Letter { source: source.clone(), ..Letter::new(to, RichText::plain(&text)) };
            let (chunks, file) = letter.messages();
            accepted(&chunks, MESSAGE_LIMIT);
            assert!(chunks.len().abs_diff(messages) <= 1 && chunks.len() <= 20, "{lines}: {}", chunks.len());
            // Without its source only what is cut needs a file.
            assert_eq!(file.is_some(), in_file && (source.is_some() || lines == 9_000), "{lines}");
            assert!(file.is_none_or(|file| file.name == "answer.md" && file.bytes == text));
        }
    }
}
