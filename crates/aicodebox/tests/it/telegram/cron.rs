//! The bot and the scheduler in one process.

use std::{
    fs,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{
    fake::{FakeTelegram, Fault, TOKEN, message},
    support::{BotSetup, CHAT},
};
use crate::harness::{SHELL, Server, eventually};

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
    eventually("the messages are remembered", || {
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
    let jobs = "telegram_chat_id: 5\njobs:\n  - name: fails\n    schedule: '* * * * * *'\n    instruction: echo broken pipe >&2; exit 4\n  - name: half\n    schedule: '* * * * * *'\n    instruction: 'echo data > a.txt; echo \"as **far** as it came [SEND_FILE: a.txt]\"; exit 4'\n  - name: silent\n    schedule: '* * * * * *'\n    instruction: 'true'\n  - name: unheard\n    schedule: '* * * * * *'\n    instruction: 'echo unheard'\n    telegram_chat_id: 0\n";
    let bot = BotSetup::new().jobs(jobs).start();
    let failed = bot.fake.said(CHAT, "⏰ fails");
    assert!(failed.text.contains("broken pipe"), "{}", failed.text);
    bot.fake.said(CHAT, "⏰ silent");
    let half = bot.fake.said(CHAT, "⏰ half");
    assert!(half.text.contains("as far as it came\n\n⚠"), "{}", half.text);
    assert_eq!(half.entities.iter().filter(|entity| entity["type"] == "bold").count(), 2, "rendered");
    bot.fake.wait("its file", |state| state.sent.iter().find(|sent| sent.kind == "document").cloned());
    assert!(!bot.fake.shown(CHAT).iter().any(|sent| sent.text.contains("unheard")));
}

#[test]
fn a_notice_that_telegram_holds_up_holds_up_neither_the_job_nor_the_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let jobs = "jobs:\n  - name: report\n    schedule: '0 0 1 1 *'\n    instruction: echo done\n    telegram_chat_id: 5\n";
    fs::write(at("jobs.yml"), jobs).unwrap();
    let fake = FakeTelegram::start();
    let pause = json!({ "retry_after": 60 });
    fake.fault("sendMessage", &Fault::Answer(429, "Too Many Requests: retry after 60", pause), 1);
    let mut server = Server::new()
        .env("AICODEBOX_CRON_MODE", "1")
        .env("AICODEBOX_CRON_MODE_FILE", at("jobs.yml").to_str().unwrap())
        .env("AICODEBOX_CRON_MODE_HISTORY_DIR", at("cron").to_str().unwrap())
        .env("AICODEBOX_TELEGRAM_MODE_TOKEN", TOKEN)
        .env("AICODEBOX_TELEGRAM_MODE_API_URL", fake.url())
        .start();
    let run_once_more = |number: usize| {
        server.send("POST", "/cron/report/run", &[], None).status(200);
        eventually("the run is over", || {
            let lines = fs::read_to_string(at("cron/report.jsonl")).ok()?;
            let running = server.get("/cron").json()["jobs"][0]["running"].clone();
            (lines.lines().count() == number && running == false).then_some(())
        });
    };
    run_once_more(1);
    server.log.wait("Telegram wants a pause");
    run_once_more(2);
    let asked = Instant::now();
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
    assert!(asked.elapsed() < Duration::from_secs(6), "{:?}", asked.elapsed());
    for run in fs::read_dir(at("cron/history/root")).unwrap() {
        let told = fs::read(run.unwrap().path().join("telegram.json")).unwrap();
        let told: Value = serde_json::from_slice(&told).unwrap();
        assert!(told["failure"].as_str().unwrap().contains("the server went down"), "{told}");
    }
    server.log.wait("the notice of a job is not delivered");
}

#[test]
fn chats_and_jobs_share_workspaces_by_the_same_gate() {
    let jobs = "jobs:\n  - name: shares\n    schedule: '0 0 1 1 *'\n    instruction: echo x\n    workspace: chat_5\n    telegram_chat_id: 5\n";
    let bot = BotSetup::new().jobs(&jobs.replace("'0 0 1 1 *'", "'* * * * * *'")).start();
    bot.fake.writes(CHAT, "echo $$ > ../held; while [ ! -e ../go ]; do sleep 0.05; done; echo freed");
    eventually("the chat has it", || bot.home.path("workspace/held").exists().then_some(()));
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
