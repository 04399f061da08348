//! The bot and the scheduler in one process.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::json;

use super::{
    fake::message,
    support::{BotSetup, CHAT},
};
use crate::harness::SHELL;

/// Prints its prompt.
fn echoes() -> String {
    SHELL.replace(r#"eval "$(cat)""#, "cat")
}

#[test]
fn c10_a_long_result_arrives_whole_and_any_part_of_it_can_be_answered() {
    let lines = "**Line** with `code` and 😀 to fill the space of a message.\\n";
    let jobs = format!(
        "telegram_chat_id: 5\njobs:\n  - name: long_report\n    schedule: '* * * * * *'\n    instruction: \"{}\"\n",
        lines.repeat(170)
    );
    let bot = BotSetup::new().adapter(&echoes()).jobs(&jobs).start();
    let parts = bot.fake.wait("the notice", |state| {
        let parts: Vec<_> = state.sent.iter().filter(|sent| sent.chat == CHAT).cloned().collect();
        (parts.iter().map(|part| part.text.matches("Line with code").count()).sum::<usize>() >= 170)
            .then_some(parts)
    });
    assert!(parts[0].text.starts_with("⏰ long_report") && parts.len() >= 3, "{}", parts[0].text);
    assert_eq!(parts[0].entities.iter().find(|entity| entity["offset"] == 2).unwrap()["type"], "bold");
    let messages = bot.state().join("cron/telegram_messages.json");
    crate::harness::eventually("the messages are remembered", || {
        let text = fs::read_to_string(&messages).ok()?;
        text.contains(&parts[2].id.to_string()).then_some(())
    });
    let own = message(
        CHAT,
        parts[2].id,
        json!({ "text": parts[2].text, "from": { "id": 424242, "is_bot": true, "first_name": "B" } }),
    );
    bot.fake.message(CHAT, json!({ "text": "Why is that?", "reply_to_message": own }));
    let said = bot.fake.wait("an answer with the job's context", |state| {
        state.sent.iter().find(|sent| sent.text.contains("scheduled job long_report")).cloned()
    });
    assert!(said.text.contains("Its instruction:"), "{}", said.text);
    bot.fake.wait("the question", |state| {
        state.sent.iter().find(|sent| sent.text.contains("Why is that?")).cloned()
    });
    assert!(bot.fake.state().sent.iter().any(|sent| sent.text.contains("Its history directory: /")));
}

#[test]
fn a_failed_job_and_an_empty_one_are_told_too() {
    let jobs = "telegram_chat_id: 5\njobs:\n  - name: fails\n    schedule: '* * * * * *'\n    instruction: echo broken pipe >&2; exit 4\n  - name: silent\n    schedule: '* * * * * *'\n    instruction: 'true'\n  - name: unheard\n    schedule: '* * * * * *'\n    instruction: 'echo unheard'\n    telegram_chat_id: 0\n";
    let bot = BotSetup::new().jobs(jobs).start();
    let failed = bot.fake.said(CHAT, "⏰ fails");
    assert!(failed.text.contains("broken pipe"), "{}", failed.text);
    bot.fake.said(CHAT, "⏰ silent");
    assert!(!bot.fake.shown(CHAT).iter().any(|sent| sent.text.contains("unheard")));
}

#[test]
fn chats_and_jobs_share_workspaces_by_the_same_gate() {
    let jobs = "jobs:\n  - name: shares\n    schedule: '0 0 1 1 *'\n    instruction: echo x\n    workspace: chat_5\n    telegram_chat_id: 5\n";
    let bot = BotSetup::new().jobs(&jobs.replace("'0 0 1 1 *'", "'* * * * * *'")).start();
    bot.fake.writes(CHAT, "echo $$ > ../held; while [ ! -e ../go ]; do sleep 0.05; done; echo freed");
    crate::harness::eventually("the chat has it", || bot.home.path("workspace/held").exists().then_some(()));
    // The next times of the job wait, and are counted as skipped.
    bot.log.wait("the job still runs: this time is skipped");
    fs::write(bot.home.path("workspace/go"), "").unwrap();
    bot.fake.said(CHAT, "freed");
    bot.fake.wait("the job runs again", |state| {
        let freed = state.sent.iter().position(|sent| sent.text.contains("freed"))?;
        state.sent[freed..].iter().any(|sent| sent.text.contains("⏰ shares")).then_some(())
    });
}

#[test]
fn hangup_reads_the_jobs_again_while_people_talk() {
    let jobs =
        "telegram_chat_id: 5\njobs:\n  - name: old\n    schedule: '0 0 1 1 *'\n    instruction: echo old\n";
    let bot = BotSetup::new().jobs(jobs).start();
    fs::write(bot.home.path("cron.yml"), "jobs:\n  - name: broken\n    schedul: x\n").unwrap();
    bot.signal(Signal::SIGHUP);
    bot.log.wait("the file of jobs is wrong: the old jobs stay");
    fs::write(bot.home.path("cron.yml"), jobs.replace("0 0 1 1 *", "* * * * * *").replace("old", "new"))
        .unwrap();
    bot.signal(Signal::SIGHUP);
    bot.fake.said(CHAT, "⏰ new");
    bot.fake.writes(CHAT, "echo hello");
    bot.fake.said(CHAT, "hello");
}
