//! The chat that the documents show, as it really was. `UPDATE_DOCS=1` writes it again.

use std::{fs, path::Path};

use serde_json::json;

use super::{
    fake::Sent,
    support::{BotSetup, CHAT, TOOLS},
};

/// An agent with a few lines of text.
const SCRIPT: &str = r#"prompt=$(cat)
printf "%s\n" "{\"session\":\"s\"}"
case "$prompt" in
*test*)
  printf "%s\n" "{\"tool\":{\"id\":\"1\",\"name\":\"Bash\",\"input\":{\"command\":\"cargo test\"}}}"
  printf "%s\n" "{\"tool\":{\"id\":\"2\",\"name\":\"Read\",\"input\":{\"file_path\":\"src/answer.rs\"}}}"
  printf "%s\n" "{\"usage\":{\"input\":2300,\"output\":180}}"
  while [ ! -e ../go ]; do sleep 0.05; done
  printf "%s\n" "{\"message\":\"All **42 tests** pass. The last one was missing:\n\n\`\`\`rust\nassert_eq!(answer(), 42);\n\`\`\`\n- added to \`src/answer.rs\`\n- see [the book](https://doc.rust-lang.org/book/)\"}" ;;
*plot*) echo png > plot.png; printf "%s\n" "{\"message\":\"Here it is. [SEND_FILE: plot.png]\"}" ;;
*file*) printf "%s\n" "{\"message\":\"Two columns: \`day\` and \`visitors\`.\"}" ;;
esac
printf "%s\n" "{\"done\":\"ok\"}""#;

#[test]
fn the_documents_show_a_chat_as_it_was() {
    // In a file of an adapter, braces are for placeholders.
    let script = SCRIPT.replace('{', "{{").replace('}', "}}");
    let adapter = TOOLS.replace(r#"'eval "$(cat)"'"#, &format!("'''{script}'''"));
    let bot = BotSetup::new().adapter(&adapter).start();
    let mut shown = Vec::new();
    shown.push(you(
        bot.fake.writes(CHAT, "Run the tests, and add what is missing."),
        "Run the tests, and add what is missing.",
    ));
    let working = bot.fake.wait("the progress", |state| {
        state
            .sent
            .iter()
            .find(|sent| sent.text.contains("src/answer.rs") && sent.text.contains("tokens"))
            .cloned()
    });
    shown.push(them(&working, "edited while it works, and gone when the answer is there"));
    let second = "Then plot the visitors.";
    shown.push(you(bot.fake.writes(CHAT, second), second));
    shown.push(them(&bot.fake.said(CHAT, "Queued"), ""));
    fs::write(bot.home.path("workspace/go"), "").unwrap();
    shown.push(them(&bot.fake.said(CHAT, "42 tests"), ""));
    shown.push(them(&bot.fake.said(CHAT, "Here it is."), "answers “Then plot the visitors.”"));
    let photo =
        bot.fake.wait("the picture", |state| state.sent.iter().find(|sent| sent.kind == "photo").cloned());
    shown.push(them(&photo, "plot.png, as a photo"));
    bot.fake.file("d", b"day,visitors\n".to_vec());
    let document = json!({ "document": { "file_id": "d", "file_unique_id": "d", "file_name": "visitors.csv", "file_size": 13 },
        "caption": "What is in this file?" });
    bot.fake.message(CHAT, document);
    shown.push(row("👤", "📎 visitors.csv<br>What is in this file?", ""));
    shown.push(them(&bot.fake.said(CHAT, "Two columns"), ""));
    bot.fake.writes(CHAT, "/model");
    shown.push(row("👤", "/model", ""));
    shown.push(them(&bot.fake.said(CHAT, "Model: default"), ""));

    let table = format!("<table>\n{}</table>\n", shown.concat());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/telegram.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("<!-- transcript:begin -->\n").unwrap();
    let (there, after) = rest.split_once("<!-- transcript:end -->").unwrap();
    if update() {
        fs::write(path, format!("{before}<!-- transcript:begin -->\n{table}<!-- transcript:end -->{after}"))
            .unwrap();
    } else {
        assert_eq!(there, table, "UPDATE_DOCS=1 writes it again");
    }
}

#[expect(clippy::disallowed_methods, reason = "a switch of the test, not of the program")]
fn update() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

fn you(_message: i32, text: &str) -> String {
    row("👤", &escaped(text), "")
}

/// A message of the bot, with its styles and buttons.
fn them(sent: &Sent, note: &str) -> String {
    let units: Vec<u16> = sent.text.encode_utf16().collect();
    let mut marks: Vec<(u64, i64, String)> = Vec::new();
    for entity in &sent.entities {
        let (open, close) = match entity["type"].as_str().unwrap() {
            "bold" => ("<b>".to_owned(), "</b>"),
            "italic" => ("<i>".to_owned(), "</i>"),
            "code" => ("<code>".to_owned(), "</code>"),
            "pre" => ("<pre>".to_owned(), "</pre>"),
            "text_link" => (format!("<a href=\"{}\">", entity["url"].as_str().unwrap()), "</a>"),
            other => panic!("{other} is not in the transcript"),
        };
        let (begin, length) = (entity["offset"].as_u64().unwrap(), entity["length"].as_u64().unwrap());
        marks.push((begin, 1, open));
        marks.push((begin + length, 0, close.to_owned()));
    }
    marks.sort();
    let mut html = String::new();
    let mut at = 0;
    for (place, _, mark) in marks {
        html.push_str(&escaped(&String::from_utf16(&units[at..place as usize]).unwrap()));
        html.push_str(&mark);
        at = place as usize;
    }
    html.push_str(&escaped(&String::from_utf16(&units[at..]).unwrap()));
    let buttons: Vec<_> =
        sent.buttons.iter().map(|(label, _)| format!("<kbd>{}</kbd>", escaped(label))).collect();
    if !buttons.is_empty() {
        html.push_str(&format!("<br>{}", buttons.join(" ")));
    }
    row("🤖", html.trim(), note)
}

fn row(who: &str, html: &str, note: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!("<i>({note})</i>") };
    let between = if html.is_empty() || note.is_empty() { "" } else { "<br>" };
    format!("<tr><td>{who}</td><td>{html}{between}{note}</td></tr>\n")
}

/// As HTML; how long it has worked is different every time.
fn escaped(text: &str) -> String {
    let text = match text.split_once("Working · ") {
        Some((before, rest)) => {
            format!("{before}Working · 0:03{}", &rest[rest.find(' ').unwrap_or(rest.len())..])
        }
        None => text.to_owned(),
    };
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\n', "<br>")
}
