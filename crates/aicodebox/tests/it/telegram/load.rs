//! Thirty chats at once.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::support::BotSetup;

const CHATS: i64 = 30;
const MESSAGES: usize = 3;

#[test]
fn thirty_chats_lose_nothing_keep_their_order_and_can_cancel() {
    let chats: Vec<_> = (1..=CHATS).map(|chat| chat.to_string()).collect();
    let bot = BotSetup::new().yaml(&format!("allowed_chats: [{}]\n", chats.join(", "))).start();
    for number in 0..MESSAGES {
        for chat in 1..=CHATS {
            bot.fake.writes(chat, &format!("sleep 0.4; echo 'answer {number} for {chat}.'"));
        }
    }
    // One that would run for ever, in the midst of it.
    bot.fake.writes(CHATS, "echo ready > ../endless; sleep 300");
    crate::harness::eventually("the endless one runs", || {
        bot.home.path("workspace/endless").exists().then_some(())
    });
    let asked = Instant::now();
    bot.fake.writes(CHATS, "/cancel");
    bot.fake.said(CHATS, "⏹ Stopping");
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    let answers = bot.fake.wait("all are answered", |state| {
        let mut answers: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for sent in state.sent.iter().filter(|sent| sent.text.starts_with("answer ")) {
            answers.entry(sent.chat).or_default().push(sent.text.trim().to_owned());
        }
        let all: usize = answers.values().map(Vec::len).sum();
        (all >= CHATS as usize * MESSAGES).then_some(answers)
    });
    for chat in 1..=CHATS {
        let expected: Vec<_> = (0..MESSAGES).map(|number| format!("answer {number} for {chat}.")).collect();
        assert_eq!(answers[&chat], expected);
    }
    assert!(bot.fake.state().floods.is_empty(), "{:?}", bot.fake.state().floods);
}
