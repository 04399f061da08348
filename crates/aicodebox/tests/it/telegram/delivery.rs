//! What gets in the way of an answer.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    fake::Fault,
    support::{BotSetup, CHAT},
};

#[test]
fn t1_a_message_whose_styles_are_refused_comes_as_plain_text() {
    let bot = BotSetup::new().start();
    let refusal = "Bad Request: can't parse entities: Can't find end of the entity starting at byte offset 1";
    bot.fake.fault("sendmessage", &Fault::Answer(400, refusal, Value::Null), 1);
    bot.fake.writes(CHAT, "echo '**bold** text'");
    let said = bot.fake.said(CHAT, "bold text");
    assert!(said.entities.is_empty());
}

#[test]
fn t6_a_pause_that_telegram_wants_is_kept() {
    let bot = BotSetup::new().start();
    let wait = Fault::Answer(429, "Too Many Requests: retry after 2", json!({ "retry_after": 2 }));
    bot.fake.fault("sendmessage", &wait, 1);
    let begun = Instant::now();
    bot.fake.writes(CHAT, "echo late");
    bot.fake.said(CHAT, "late");
    assert!(begun.elapsed() >= Duration::from_secs(2));
    let tries = bot.fake.state().calls.iter().filter(|call| call.method == "sendmessage").count();
    assert_eq!(tries, 2, "not one call meanwhile");
}

#[test]
fn a_broken_connection_loses_nothing() {
    let bot = BotSetup::new().start();
    bot.fake.fault("sendmessage", &Fault::Reset, 2);
    bot.fake.writes(CHAT, "echo there");
    bot.fake.said(CHAT, "there");
}

#[test]
fn t18_what_cannot_be_delivered_is_recorded() {
    let bot = BotSetup::new().start();
    bot.fake.block(CHAT);
    bot.fake.writes(CHAT, "echo nobody hears this");
    bot.log.wait("a message could not be delivered");
    let database = bot.state().join("private").join("runs.db");
    let recorded = crate::harness::eventually("the delivery is on record", || {
        let found = deliveries(&database);
        found.into_iter().next()
    });
    assert!(recorded["failure"].as_str().unwrap().contains("blocked"), "{recorded}");
}

#[test]
fn a_very_long_answer_comes_whole_and_as_a_file_too() {
    let bot = BotSetup::new().start();
    bot.fake.writes(CHAT, "seq -f 'This is line number %.0f of a long answer.' 1 700");
    let file = bot.fake.wait("the file of the answer", |state| {
        state.sent.iter().find(|sent| sent.kind == "document").cloned()
    });
    let file = file.file.unwrap();
    assert_eq!(file.name, "answer.md");
    assert_eq!(String::from_utf8(file.bytes).unwrap().lines().count(), 700);
    let shown = bot.fake.shown(CHAT);
    let lines: Vec<_> =
        shown.iter().filter(|sent| sent.kind == "text").flat_map(|sent| sent.text.lines()).collect();
    assert_eq!(lines.len(), 700);
    assert!(shown.len() > 6 && bot.fake.state().floods.is_empty(), "{:?}", bot.fake.state().floods);
}

#[test]
fn a_pause_in_one_chat_is_none_in_the_others() {
    let bot = BotSetup::new().yaml("allowed_chats: [5, 6, 8]\n").start();
    let wait = Fault::Answer(429, "Too Many Requests: retry after 60", json!({ "retry_after": 60 }));
    bot.fake.fault("sendmessage", &wait, 1);
    bot.fake.writes(CHAT, "echo held");
    bot.fake.met("sendmessage");
    bot.log.wait("Telegram wants a pause");
    for chat in [6, 8] {
        bot.fake.writes(chat, "echo answered");
        bot.fake.said(chat, "answered");
    }
    assert!(bot.fake.shown(CHAT).is_empty());
}

#[test]
fn a_file_that_is_refused_costs_no_other_and_is_said() {
    let bot = BotSetup::new().start();
    bot.fake.fault("senddocument", &Fault::Answer(400, "Bad Request: wrong file", Value::Null), 1);
    bot.fake.writes(CHAT, "echo 1 > one; echo 2 > two; echo '[SEND_FILE: one] [SEND_FILE: two]'");
    let said = bot.fake.said(CHAT, "could not be delivered completely");
    assert!(said.text.contains("one could not be sent") && !said.text.contains("two"), "{}", said.text);
    let files: Vec<_> = bot.fake.shown(CHAT).into_iter().filter_map(|sent| Some(sent.file?.name)).collect();
    assert_eq!(files, ["two"]);
}

#[test]
fn a_progress_message_that_has_to_wait_is_left_out() {
    let bot = BotSetup::new().start();
    let wait = Fault::Answer(429, "Too Many Requests: retry after 7", json!({ "retry_after": 7 }));
    bot.fake.fault("sendmessage", &wait, 1);
    bot.fake.writes(CHAT, "while [ ! -e ../go ]; do sleep 0.05; done; echo ready");
    bot.fake.met("sendmessage");
    std::fs::write(bot.home.path("workspace/go"), "").unwrap();
    bot.fake.said(CHAT, "ready");
    assert_eq!(bot.fake.shown(CHAT).len(), 1, "{:?}", bot.fake.shown(CHAT));
}

#[test]
fn a_progress_message_is_taken_back_when_that_has_to_wait_too() {
    let bot = BotSetup::new().start();
    let wait = Fault::Answer(429, "Too Many Requests: retry after 1", json!({ "retry_after": 1 }));
    bot.fake.fault("deletemessage", &wait, 1);
    bot.fake.writes(CHAT, "while [ ! -e ../go ]; do sleep 0.05; done; echo ready");
    let working = bot.fake.said(CHAT, "Working");
    std::fs::write(bot.home.path("workspace/go"), "").unwrap();
    bot.fake.wait("the progress message is gone", |state| {
        state.sent.iter().any(|sent| sent.id == working.id && sent.deleted).then_some(())
    });
}

#[test]
fn cancel_stops_the_delivery_of_an_answer() {
    let bot = BotSetup::new().start();
    bot.fake.writes(CHAT, "seq -f 'This is line number %.0f of a long answer.' 1 1500");
    bot.fake.wait("it is being delivered", |state| (state.sent.len() >= 4).then_some(()));
    bot.fake.writes(CHAT, "/cancel");
    bot.fake.writes(CHAT, "echo next");
    bot.fake.said(CHAT, "could not be delivered completely: it was stopped");
    bot.fake.said(CHAT, "next");
    let shown = bot.fake.shown(CHAT);
    let parts = shown.iter().filter(|sent| sent.text.contains("of a long answer")).count();
    assert!(parts < 10 && !shown.iter().any(|sent| sent.kind == "document"), "{parts} parts");
}

/// The deliveries in a run store, as JSON.
fn deliveries(database: &std::path::Path) -> Vec<Value> {
    let found = rusqlite::Connection::open(database).and_then(|connection| {
        let mut statement = connection.prepare("SELECT delivery FROM run WHERE delivery IS NOT NULL")?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        rows.collect::<Result<Vec<_>, _>>()
    });
    found.unwrap_or_default().iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}
