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

/// The deliveries in a run store, as JSON.
fn deliveries(database: &std::path::Path) -> Vec<Value> {
    let found = rusqlite::Connection::open(database).and_then(|connection| {
        let mut statement = connection.prepare("SELECT delivery FROM run WHERE delivery IS NOT NULL")?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        rows.collect::<Result<Vec<_>, _>>()
    });
    found.unwrap_or_default().iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}
