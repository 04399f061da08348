//! Messages in, answers out.

use std::fs;

use serde_json::json;

use super::{
    fake::{BOT_NAME, message},
    support::{BotSetup, CHAT, TOOLS, TestBot},
};
use crate::harness::{EVENTS, eventually};

#[test]
fn a_message_is_answered_with_styles_in_the_chats_own_workspace() {
    let bot = BotSetup::new().start();
    bot.fake.writes(CHAT, "echo '**bold** and `code`'; pwd");
    let said = bot.fake.said(CHAT, "bold and code");
    assert!(said.text.contains("/workspace/chat_5"), "{}", said.text);
    assert_eq!(said.entities[0]["type"], "bold");
    assert_eq!(said.reply_to, None);
}

#[test]
fn a_conversation_goes_on_until_it_is_told_to_begin_anew_also_over_a_timeout() {
    let bot = BotSetup::new().adapter(EVENTS).env("AICODEBOX_RUN_TIMEOUT", "2s").start();
    let say = |id: &str| {
        format!(
            r#"echo '{{"session":"{id}"}}'; printf '{{"message":"%s"}}\n' "(${{1:-fresh}})"; echo '{{"done":"ok"}}'"#
        )
    };
    bot.fake.writes(CHAT, &say("s-1"));
    bot.fake.said(CHAT, "(fresh)");
    // T14: a limit ends the turn, not the conversation.
    bot.fake.writes(CHAT, r#"echo '{"session":"s-2"}'; sleep 60"#);
    let late = bot.fake.said(CHAT, "⌛");
    assert!(late.text.contains("conversation is kept"), "{}", late.text);
    bot.fake.writes(CHAT, &say("s-2"));
    bot.fake.said(CHAT, "(resumed:s-2)");
    bot.fake.writes(CHAT, "/new");
    bot.fake.said(CHAT, "new conversation");
    bot.fake.writes(CHAT, &say("s-3"));
    bot.fake.wait("a second fresh one", |state| {
        (state.sent.iter().filter(|sent| sent.text.contains("(fresh)")).count() == 2).then_some(())
    });
}

#[test]
fn a_conversation_that_is_forgotten_while_the_agent_works_stays_forgotten() {
    let bot = BotSetup::new().adapter(EVENTS).start();
    let done = r#"printf '{"message":"%s"}\n' "(${1:-fresh})"; echo '{"done":"ok"}'"#;
    let slow = "touch ../begun; while [ ! -e ../go ]; do sleep 0.05; done";
    bot.fake.writes(CHAT, &format!(r#"echo '{{"session":"s-1"}}'; {slow}; {done}"#));
    eventually("the agent works", || bot.home.path("workspace/begun").exists().then_some(()));
    bot.fake.writes(CHAT, "/new");
    bot.fake.said(CHAT, "new conversation");
    fs::write(bot.home.path("workspace/go"), "").unwrap();
    bot.fake.said(CHAT, "(fresh)");
    bot.fake.writes(CHAT, done);
    bot.fake.wait("a second fresh one", |state| {
        (state.sent.iter().filter(|sent| sent.text.contains("(fresh)")).count() == 2).then_some(())
    });
}

#[test]
fn nobody_is_answered_who_is_not_allowed() {
    let bot = BotSetup::new()
        .yaml("allowed_chats: [5, -100]\nchats:\n  -100:\n    allowed_users: [8]\n    mention_only: true\n")
        .start();
    bot.fake.writes(6, "touch ../stranger");
    // User 7 in a group where only 8 may write; then 8, first without naming the bot.
    bot.fake.writes(-100, "touch ../other-user");
    let from = json!({ "id": 8, "is_bot": false, "first_name": "E" });
    bot.fake.message(-100, json!({ "text": "touch ../unnamed", "from": from }));
    let text = format!("@{BOT_NAME} echo named");
    let entity = json!([{ "type": "mention", "offset": 0, "length": BOT_NAME.len() + 1 }]);
    bot.fake.message(-100, json!({ "text": text, "entities": entity, "from": from }));
    let said = bot.fake.said(-100, "named");
    assert!(said.reply_to.is_some(), "in a group it says to whom");
    // An answer to the bot's own message needs no name.
    let own = message(
        -100,
        said.id,
        json!({ "text": "named", "from": { "id": 424242, "is_bot": true, "first_name": "Box" } }),
    );
    bot.fake.message(-100, json!({ "text": "cat >/dev/null <<'x'\necho ok\nx\necho again", "from": from, "reply_to_message": own }));
    bot.fake.wait("a second answer in the group", |state| {
        (state.sent.iter().filter(|sent| sent.chat == -100).count() == 2).then_some(())
    });
    for name in ["stranger", "other-user", "unnamed"] {
        assert!(!bot.home.path("workspace").join(name).exists(), "{name}");
    }
    assert!(bot.fake.shown(6).is_empty());
    let error = BotSetup::new().yaml("default: {}\n").spawn(super::fake::FakeTelegram::start());
    let mut error = error;
    assert_eq!(error.ended().code(), Some(78));
    assert!(error.log.text().contains("TELEGRAM_CHAT_ID"), "{}", error.log.text());
}

#[test]
fn m23_t11_edits_and_channel_posts_start_nothing() {
    let bot = BotSetup::new().start();
    bot.fake.push(json!({ "edited_message": message(CHAT, 1, json!({ "text": "touch ../edited", "edit_date": 1_790_000_001 })) }));
    bot.fake.push(json!({ "channel_post": message(CHAT, 2, json!({ "text": "touch ../post" })) }));
    bot.fake.writes(CHAT, "echo done");
    bot.fake.said(CHAT, "done");
    assert!(!bot.home.path("workspace/edited").exists() && !bot.home.path("workspace/post").exists());
}

#[test]
fn t12_messages_wait_for_each_other_and_are_told_their_place() {
    let bot = BotSetup::new().start();
    bot.fake.writes(CHAT, "echo $$ > ../first; while [ ! -e ../go ]; do sleep 0.05; done; echo one");
    let second = bot.fake.writes(CHAT, "echo two");
    bot.fake.writes(CHAT, "echo three");
    assert_eq!(bot.fake.said(CHAT, "Queued as number 1").reply_to, Some(i64::from(second)));
    bot.fake.said(CHAT, "Queued as number 2");
    fs::write(bot.home.path("workspace/go"), "").unwrap();
    bot.fake.said(CHAT, "three");
    let shown = bot.fake.shown(CHAT);
    let answers: Vec<_> = shown
        .iter()
        .map(|sent| sent.text.trim())
        .filter(|text| ["one", "two", "three"].contains(text))
        .collect();
    assert_eq!(answers, ["one", "two", "three"]);
    let two = shown.iter().find(|sent| sent.text.trim() == "two").unwrap();
    assert_eq!(two.reply_to, Some(i64::from(second)), "which of the questions it answers");
}

#[test]
fn progress_is_shown_and_replaced_by_the_answer() {
    let bot = BotSetup::new().adapter(TOOLS).start();
    let script = r#"echo '{"tool":{"id":"1","name":"Bash","input":{"command":"make all"}}}'
echo '{"usage":{"input":1200,"output":34}}'
while [ ! -e ../go ]; do sleep 0.05; done
echo '{"message":"ready"}'; echo '{"done":"ok"}'"#;
    bot.fake.writes(CHAT, script);
    let working = bot.fake.said(CHAT, "⏳ Working");
    let edited = bot.fake.wait("the progress is edited", |state| {
        state.sent.iter().find(|sent| sent.id == working.id && !sent.edits.is_empty()).cloned()
    });
    assert!(edited.text.contains("Bash: make all"), "{}", edited.text);
    assert!(edited.text.contains("1.2k tokens"), "{}", edited.text);
    let calls = bot.fake.state().calls.clone();
    assert!(calls.iter().any(|call| call.method == "sendchataction"));
    // Nobody is woken by it: that is for the answer.
    let shown = calls.iter().find(|call| call.method == "sendmessage").unwrap();
    assert_eq!(shown.params["disable_notification"], true);
    fs::write(bot.home.path("workspace/go"), "").unwrap();
    bot.fake.said(CHAT, "ready");
    bot.fake.wait("the progress message is gone", |state| {
        state.sent.iter().any(|sent| sent.id == working.id && sent.deleted).then_some(())
    });
    assert_eq!(bot.fake.shown(CHAT).len(), 1);
    let edits: Vec<_> = bot
        .fake
        .state()
        .calls
        .iter()
        .filter(|call| call.method == "editmessagetext")
        .map(|call| call.at)
        .collect();
    assert!(edits.windows(2).all(|pair| pair[1] - pair[0] >= std::time::Duration::from_millis(1_950)));
}

#[test]
fn t13_a_topic_is_answered_where_it_was_asked_and_has_its_own_turn() {
    let bot = BotSetup::new().yaml("allowed_chats: [-100]\n").start();
    let root = message(
        -100,
        40,
        json!({ "forum_topic_created": { "name": "T", "icon_color": 7_322_096 }, "message_thread_id": 40 }),
    );
    let in_topic = |text: &str| json!({ "text": text, "message_thread_id": 40, "is_topic_message": true, "reply_to_message": root });
    bot.fake.message(
        -100,
        in_topic("while [ ! -e ../go ]; do sleep 0.05; done; cat > ../prompt <<'x'\nx\necho in topic"),
    );
    bot.fake.writes(-100, "echo outside");
    // Another topic of the same workspace waits for it, so it is the engine's queue that orders them.
    fs::write(bot.home.path("workspace/go"), "").unwrap();
    assert_eq!(bot.fake.said(-100, "in topic").topic, Some(40));
    assert_eq!(bot.fake.said(-100, "outside").topic, None);
}

#[test]
fn a_reply_brings_what_it_answers() {
    // The agent prints its prompt.
    let bot = BotSetup::new().adapter(&crate::harness::SHELL.replace(r#"eval "$(cat)""#, "cat")).start();
    let answered = message(CHAT, 77, json!({ "text": "The quoted words" }));
    bot.fake.message(CHAT, json!({ "text": "What is this?", "reply_to_message": answered }));
    let said = bot.fake.said(CHAT, "What is this?");
    assert!(said.text.contains("[This answers the message:\nThe quoted words]"), "{}", said.text);
    let photo = json!({ "photo": [{ "file_id": "p", "file_unique_id": "p", "width": 1, "height": 1, "file_size": 1 }], "caption": "Cap" });
    bot.fake.message(CHAT, json!({ "text": "And this?", "reply_to_message": message(CHAT, 78, photo) }));
    assert!(bot.fake.said(CHAT, "And this?").text.contains("a photo with the text:\nCap"));
}

#[test]
fn a_group_that_becomes_a_supergroup_keeps_its_place_and_its_settings() {
    let mut bot = BotSetup::new()
        .yaml("allowed_chats: [-100]\nchats:\n  -100:\n    workspace: team\n    allowed_users: [8]\n")
        .start();
    let member = json!({ "id": 8, "is_bot": false, "first_name": "E" });
    let writes = |bot: &TestBot, text: &str| {
        bot.fake.message(-100_999, json!({ "text": text, "from": member }));
    };
    // Whoever upgrades the group need not be one who may write to the bot.
    bot.fake.message(-100, json!({ "migrate_to_chat_id": -100_999 }));
    // A chat that is none of the bot's does not become one.
    bot.fake.message(-200, json!({ "migrate_to_chat_id": -200_999 }));
    bot.fake.writes(-200_999, "touch ../stranger");
    bot.fake.migrate(-100, -100_999);
    writes(&bot, "pwd");
    assert!(bot.fake.said(-100_999, "/workspace/").text.contains("/team"));
    assert!(!bot.home.path("workspace/stranger").exists());
    bot.restart(nix::sys::signal::Signal::SIGTERM);
    writes(&bot, "echo still here");
    bot.fake.said(-100_999, "still here");
}

#[test]
fn a_failure_is_told_with_what_the_agent_wrote() {
    let bot = BotSetup::new().start();
    bot.fake.writes(CHAT, "echo half; echo 'the disk is full' >&2; exit 3");
    let said = bot.fake.said(CHAT, "⚠");
    assert!(said.text.contains("half") && said.text.contains("the disk is full"), "{}", said.text);
}
