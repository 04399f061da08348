//! Updates: each once, whatever happens in between.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{
    fake::{FakeTelegram, Fault, message},
    support::{BotSetup, CHAT},
};

#[test]
fn t9_the_same_update_twice_is_one_run() {
    let bot = BotSetup::new().start();
    let update =
        json!({ "message": message(CHAT, 900, json!({ "text": "echo x >> ../count; echo counted" })) });
    bot.fake.push_as(5_000, update.clone());
    bot.fake.said(CHAT, "counted");
    bot.fake.push_as(5_000, update);
    bot.fake.writes(CHAT, "echo later");
    bot.fake.said(CHAT, "later");
    assert_eq!(fs::read_to_string(bot.home.path("workspace/count")).unwrap(), "x\n");
}

#[test]
fn t8_a_restart_repeats_nothing_and_tells_what_it_cut_short() {
    let mut bot = BotSetup::new().start();
    bot.fake.writes(CHAT, "echo x >> ../done; echo first");
    bot.fake.said(CHAT, "first");
    let cut = bot.fake.writes(CHAT, "echo x >> ../cut; sleep 300");
    let waits = bot.fake.writes(CHAT, "echo x >> ../waited; echo waited");
    bot.fake.said(CHAT, "Queued as number 1");
    crate::harness::eventually("it runs", || bot.home.path("workspace/cut").exists().then_some(()));
    bot.restart(Signal::SIGKILL);
    for message in [cut, waits] {
        bot.fake.wait("it is told that it was cut short", |state| {
            let mut sent = state.sent.iter();
            sent.any(|sent| sent.text.contains("restarted") && sent.reply_to == Some(i64::from(message)))
                .then_some(())
        });
    }
    bot.fake.writes(CHAT, "echo still well");
    bot.fake.said(CHAT, "still well");
    for name in ["done", "cut"] {
        assert_eq!(fs::read_to_string(bot.home.path("workspace").join(name)).unwrap(), "x\n", "{name}");
    }
    assert!(!bot.home.path("workspace/waited").exists());
}

#[test]
fn sigterm_ends_runs_in_time_and_the_next_start_says_so() {
    let mut bot = BotSetup::new().start();
    let cut = bot.fake.writes(CHAT, "echo x >> ../cut; sleep 300");
    crate::harness::eventually("it runs", || bot.home.path("workspace/cut").exists().then_some(()));
    let begun = std::time::Instant::now();
    bot.signal(Signal::SIGTERM);
    assert_eq!(bot.ended().code(), Some(0));
    assert!(begun.elapsed().as_secs() < 9, "{:?}", begun.elapsed());
    bot.start_again();
    assert_eq!(bot.fake.said(CHAT, "restarted").reply_to, Some(i64::from(cut)));
}

#[test]
fn t7_a_rival_and_a_broken_line_are_waited_for() {
    let bot = BotSetup::new().start();
    let conflict =
        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running";
    bot.fake.fault("getupdates", &Fault::Answer(409, conflict, Value::Null), 3);
    bot.fake.fault("getupdates", &Fault::Reset, 1);
    bot.fake.writes(CHAT, "echo back");
    bot.fake.said(CHAT, "back");
    bot.log.wait("no updates; trying again");
}

#[test]
fn a_gateway_that_fails_is_waited_for() {
    let bot = BotSetup::new().start();
    bot.fake.fault("getupdates", &Fault::Answer(502, "Bad Gateway", Value::Null), 1);
    bot.fake.writes(CHAT, "echo back");
    bot.fake.said(CHAT, "back");
}

#[test]
fn a_token_that_is_refused_ends_it_with_a_clear_word() {
    let mut bot = BotSetup::new().start();
    bot.fake.revoke();
    assert_eq!(bot.ended().code(), Some(78));
    assert!(bot.log.text().contains("AICODEBOX_TELEGRAM_MODE_TOKEN"), "{}", bot.log.text());
    let fake = FakeTelegram::start();
    fake.revoke();
    let mut never = BotSetup::new().spawn(fake);
    assert_eq!(never.ended().code(), Some(78));
}
