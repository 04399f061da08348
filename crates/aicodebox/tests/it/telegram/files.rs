//! Files in both directions.

use std::{fs, os::unix::fs::symlink};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{
    fake::{BOT_NAME, Fault},
    support::{BotSetup, CHAT},
};
use crate::harness::SHELL;

fn document(id: &str, name: &str, size: u64) -> Value {
    json!({ "document": { "file_id": id, "file_unique_id": id, "file_name": name, "file_size": size } })
}

fn with(mut parts: Value, more: Value) -> Value {
    parts.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    parts
}

#[test]
fn files_are_saved_under_safe_names_and_told() {
    let bot = BotSetup::new().adapter(&SHELL.replace(r#"eval "$(cat)""#, "cat")).start();
    for (id, text) in [
        ("d1", "one"),
        ("d2", "two"),
        ("v1", "voice"),
        ("p1", "small"),
        ("p2", "large"),
        ("a1", "anim"),
        ("s1", "song"),
    ] {
        bot.fake.file(id, text.into());
    }
    bot.fake.message(CHAT, document("d1", "../../evil name.txt", 3));
    bot.fake.said(CHAT, "saved evil name.txt");
    bot.fake.message(CHAT, document("d2", "evil name.txt", 3));
    bot.fake.said(CHAT, "saved evil name_2.txt");
    let place = bot.workspace(CHAT);
    assert_eq!(fs::read_to_string(place.join("evil name.txt")).unwrap(), "one");
    assert_eq!(fs::read_to_string(place.join("evil name_2.txt")).unwrap(), "two");
    let voice = json!({ "voice": { "file_id": "v1", "file_unique_id": "v1", "mime_type": "audio/ogg", "duration": 1, "file_size": 5 } });
    bot.fake.message(CHAT, voice);
    bot.fake.said(CHAT, "saved voice_");
    let size = |id: &str, width: u32| json!({ "file_id": id, "file_unique_id": id, "width": width, "height": 1, "file_size": 5 });
    bot.fake.message(CHAT, json!({ "photo": [size("p1", 1), size("p2", 9)], "caption": "What is it?" }));
    let said = bot.fake.said(CHAT, "What is it?");
    let name = said.text.split('\'').nth(1).unwrap().to_owned();
    assert!(
        said.text.starts_with(&format!("I saved a file '{name}' to the workspace. What is it?")),
        "{}",
        said.text
    );
    assert_eq!(fs::read_to_string(place.join(name)).unwrap(), "large");
    let animation = json!({ "animation": { "file_id": "a1", "file_unique_id": "a1", "mime_type": "video/mp4", "width": 1, "height": 1, "duration": 1, "file_size": 4 }});
    bot.fake.message(CHAT, animation);
    bot.fake.said(CHAT, "saved animation_");
    let audio = json!({ "audio": { "file_id": "s1", "file_unique_id": "s1", "mime_type": "audio/mpeg", "duration": 1, "file_name": "song.mp3", "file_size": 4 }});
    bot.fake.message(CHAT, audio);
    bot.fake.said(CHAT, "saved song.mp3");
    // Clients of some makers send no MIME type.
    let bare = json!({ "file_id": "s1", "file_unique_id": "s1", "duration": 1, "file_size": 4 });
    for (kind, name) in [("voice", ".ogg"), ("audio", ".mp3"), ("video", ".mp4"), ("animation", ".mp4")] {
        let before = bot.fake.shown(CHAT).len();
        let media = with(bare.clone(), json!({ "width": 1, "height": 1 }));
        bot.fake.message(CHAT, json!({ kind: media }));
        let said = bot.fake.wait("it is saved", |state| {
            state
                .sent
                .iter()
                .skip(before)
                .find(|sent| sent.text.contains("saved"))
                .map(|sent| sent.text.clone())
        });
        assert!(said.starts_with(&format!("saved {kind}_")) && said.ends_with(name), "{said}");
    }
    bot.fake.message(CHAT, document("huge", "huge.bin", 30 << 20));
    bot.fake.said(CHAT, "huge.bin has 30 MB");
    bot.fake.message(CHAT, document("lost", "lost.bin", 5));
    bot.fake.said(CHAT, "lost.bin could not be saved");
}

#[test]
fn t10_an_album_is_one_prompt() {
    let bot = BotSetup::new().adapter(&SHELL.replace(r#"eval "$(cat)""#, "cat")).start();
    for number in 0..4 {
        bot.fake.file(&format!("f{number}"), format!("{number}").into_bytes());
        let caption = if number == 1 {
            json!({ "media_group_id": "g", "caption": "Compare" })
        } else {
            json!({ "media_group_id": "g" })
        };
        bot.fake.message(CHAT, with(document(&format!("f{number}"), &format!("{number}.txt"), 1), caption));
    }
    let said = bot.fake.said(CHAT, "Compare");
    assert!(
        said.text.contains("I saved 4 files") && said.text.contains("'0.txt', '1.txt', '2.txt', '3.txt'"),
        "{}",
        said.text
    );
    bot.fake.writes(CHAT, "next");
    bot.fake.said(CHAT, "next");
    // The next one may have come before the first was quite done.
    let answers = bot.fake.shown(CHAT).into_iter().filter(|sent| !sent.text.contains("Queued"));
    assert_eq!(answers.count(), 2, "one answer for the album");
}

#[test]
fn an_album_is_for_the_bot_when_one_part_of_it_names_it() {
    let bot = BotSetup::new()
        .adapter(&SHELL.replace(r#"eval "$(cat)""#, "cat"))
        .yaml("allowed_chats: [-100]\ndefault: { mention_only: true }\n")
        .start();
    let named = json!({
        "caption": format!("@{BOT_NAME} Compare"),
        "caption_entities": [{ "type": "mention", "offset": 0, "length": BOT_NAME.len() + 1 }],
    });
    for (album, caption) in [("unnamed", json!({ "caption": "Look" })), ("named", named)] {
        for number in 0..3 {
            let id = format!("{album}{number}");
            bot.fake.file(&id, b"x".to_vec());
            let part = with(document(&id, &format!("{id}.txt"), 1), json!({ "media_group_id": album }));
            bot.fake.message(-100, if number == 0 { with(part, caption.clone()) } else { part });
        }
    }
    let said = bot.fake.said(-100, "Compare");
    assert!(said.text.contains("'named0.txt', 'named1.txt', 'named2.txt'"), "{}", said.text);
    assert!(!bot.workspace(-100).join("unnamed0.txt").exists());
    assert_eq!(bot.fake.shown(-100).len(), 1);
}

#[test]
fn an_upload_that_a_restart_cuts_short_is_told() {
    let mut bot = BotSetup::new().start();
    bot.fake.fault("getfile", &Fault::Silence, 1);
    let upload = bot.fake.message(CHAT, document("slow", "slow.bin", 5));
    bot.fake.met("getfile");
    bot.restart(Signal::SIGTERM);
    assert_eq!(bot.fake.said(CHAT, "restarted").reply_to, Some(i64::from(upload)));
    // What was saved is done with.
    bot.fake.file("quick", b"12345".to_vec());
    bot.fake.message(CHAT, document("quick", "quick.bin", 5));
    bot.fake.said(CHAT, "saved quick.bin");
    bot.fake.writes(CHAT, "/fetch quick.bin");
    bot.fake.wait("it is fetched", |state| state.sent.iter().any(|sent| sent.file.is_some()).then_some(()));
    bot.restart(Signal::SIGTERM);
    bot.fake.writes(CHAT, "echo well");
    bot.fake.said(CHAT, "well");
    let told = bot.fake.shown(CHAT).into_iter().filter(|sent| sent.text.contains("restarted"));
    assert_eq!(told.count(), 1);
}

#[test]
fn cancel_stops_a_download_too() {
    let bot = BotSetup::new().start();
    bot.fake.fault("getfile", &Fault::Silence, 1);
    bot.fake.message(CHAT, with(document("slow", "slow.bin", 5), json!({ "caption": "echo read" })));
    bot.fake.met("getfile");
    bot.fake.writes(CHAT, "/cancel");
    bot.fake.said(CHAT, "⏹ Cancelled.");
    bot.fake.writes(CHAT, "echo next");
    bot.fake.said(CHAT, "next");
}

#[test]
fn files_are_sent_as_what_they_are_and_from_the_own_workspace_only() {
    let bot = BotSetup::new().yaml("allowed_chats: [5]\n").start();
    let place = bot.workspace(CHAT);
    fs::create_dir_all(&place).unwrap();
    fs::write(bot.home.path("workspace/secret.txt"), "secret").unwrap();
    symlink("/etc/hostname", place.join("link.txt")).unwrap();
    fs::write(place.join("plot.png"), "png").unwrap();
    fs::write(place.join("clip.mp4"), "mp4").unwrap();
    bot.fake.writes(CHAT, "mkdir out; echo data > out/data.csv; echo 'Done [SEND_FILE: out/data.csv] [SEND_FILE: plot.png][SEND_FILE:clip.mp4] [SEND_FILE: ../secret.txt] [SEND_FILE: link.txt]'");
    let said = bot.fake.said(CHAT, "Done");
    assert!(!said.text.contains("[SEND_FILE"), "{}", said.text);
    for refused in ["../secret.txt was not sent", "link.txt was not sent"] {
        assert!(said.text.contains(refused), "{}", said.text);
    }
    let kinds = bot.fake.wait("three files", |state| {
        let kinds: Vec<_> =
            state.sent.iter().filter(|sent| sent.file.is_some()).map(|sent| sent.kind).collect();
        (kinds.len() == 3).then_some(kinds)
    });
    assert_eq!(kinds, ["document", "photo", "video"]);
    // What Telegram will not show as a picture goes as a document.
    let refusal = Fault::Answer(400, "Bad Request: PHOTO_INVALID_DIMENSIONS", Value::Null);
    bot.fake.fault("sendphoto", &refusal, 1);
    bot.fake.writes(CHAT, "/fetch plot.png");
    bot.fake.wait("the picture as a document", |state| {
        let last = state.sent.last()?;
        (last.kind == "document" && last.file.as_ref()?.name == "plot.png").then_some(())
    });
    for (path, said) in [("../secret.txt", "leads out"), ("nothing", "not found"), ("", "say which file")] {
        bot.fake.writes(CHAT, &format!("/fetch {path}"));
        bot.fake.said(CHAT, said);
    }
}
