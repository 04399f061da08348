//! A bot for a test: the real program in front of the fake server.

use std::{
    fs,
    path::PathBuf,
    process::{Child, ExitStatus, Stdio},
    thread,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::fake::{FakeTelegram, TOKEN};
use crate::harness::{Home, Log, SHELL, eventually};

/// The script that is its prompt prints lines of JSON, tool calls among them.
pub(crate) const TOOLS: &str = r#"
schema = 1
name   = "tools"
binary = "/bin/sh"
[models]
list = ["haiku", "opus"]
[run]
argv  = ["-c", 'eval "$(cat)"', "tools", { when = "resume", args = ["resumed:{resume}"] }]
stdin = "{prompt}"
[output]
format = "jsonl"
[[event]]
match   = { "/session" = { exists = true } }
session = "/session"
[[event]]
match = { "/tool" = { exists = true } }
tool  = { phase = "start", id = "/tool/id", name = "/tool/name", input = "/tool/input" }
[[event]]
match = { "/usage" = { exists = true } }
usage = "/usage"
[[event]]
match   = { "/message" = { exists = true } }
message = "/message"
[[event]]
match = { "/done" = "ok" }
done  = "ok"
[usage]
input  = "/input"
output = "/output"
[fallback]
model = "drop"
effort = "drop"
"#;

/// The chat of most tests.
pub(crate) const CHAT: i64 = 5;

/// What a test wants of its bot.
pub(crate) struct BotSetup {
    adapter: String,
    env: Vec<(String, String)>,
    yaml: Option<String>,
    jobs: Option<String>,
}

impl BotSetup {
    pub(crate) fn new() -> Self {
        Self { adapter: SHELL.to_owned(), env: Vec::new(), yaml: None, jobs: None }
    }

    pub(crate) fn adapter(self, toml: &str) -> Self {
        Self { adapter: toml.to_owned(), ..self }
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// `telegram.yml`; without one, [`CHAT`] is the one allowed chat.
    pub(crate) fn yaml(self, yaml: &str) -> Self {
        Self { yaml: Some(yaml.to_owned()), ..self }
    }

    /// The jobs of the scheduler, which then runs as well.
    pub(crate) fn jobs(self, jobs: &str) -> Self {
        Self { jobs: Some(jobs.to_owned()), ..self }
    }

    pub(crate) fn start(self) -> TestBot {
        self.start_with(FakeTelegram::start())
    }

    pub(crate) fn start_with(self, fake: FakeTelegram) -> TestBot {
        let bot = self.spawn(fake);
        bot.log.wait("the bot is ready");
        bot
    }

    /// Starts it and does not wait.
    pub(crate) fn spawn(self, fake: FakeTelegram) -> TestBot {
        let home = Home::new(&self.adapter);
        if let Some(yaml) = &self.yaml {
            fs::write(home.path("telegram.yml"), yaml).unwrap();
        }
        if let Some(jobs) = &self.jobs {
            fs::write(home.path("cron.yml"), jobs).unwrap();
        }
        let (child, log) = launch(&self, &home, &fake);
        TestBot { setup: self, child, home, log, fake }
    }
}

fn launch(setup: &BotSetup, home: &Home, fake: &FakeTelegram) -> (Child, Log) {
    let mut command = home.command("serve");
    command
        .env("AICODEBOX_TELEGRAM_MODE", "1")
        .env("AICODEBOX_TELEGRAM_MODE_TOKEN", TOKEN)
        .env("AICODEBOX_TELEGRAM_MODE_API_URL", fake.url())
        .env("LOG_FORMAT", "json")
        .env("RUST_LOG", "debug");
    match &setup.yaml {
        Some(_) => command.env("AICODEBOX_TELEGRAM_MODE_CONFIG", home.path("telegram.yml")),
        None => command.env("TELEGRAM_CHAT_ID", CHAT.to_string()),
    };
    if setup.jobs.is_some() {
        command.env("AICODEBOX_CRON_MODE", "1").env("AICODEBOX_CRON_MODE_FILE", home.path("cron.yml"));
    }
    command.envs(setup.env.iter().map(|(name, value)| (name, value)));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let log = Log::follow(child.stderr.take().unwrap());
    (child, log)
}

/// A bot that runs. Dropped, it is killed.
pub(crate) struct TestBot {
    setup: BotSetup,
    child: Child,
    pub(crate) home: Home,
    pub(crate) log: Log,
    pub(crate) fake: FakeTelegram,
}

impl TestBot {
    /// The directory of a chat.
    pub(crate) fn workspace(&self, chat: i64) -> PathBuf {
        self.home.path("workspace").join(format!("chat_{}", chat.unsigned_abs()))
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.home.path("home").join(".aicodebox")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        eventually("the bot ends", || self.child.try_wait().unwrap())
    }

    /// Ends it by this signal and starts it again.
    pub(crate) fn restart(&mut self, signal: Signal) {
        self.signal(signal);
        self.ended();
        self.start_again();
    }

    /// Starts it once more, with everything that it has kept.
    pub(crate) fn start_again(&mut self) {
        (self.child, self.log) = launch(&self.setup, &self.home, &self.fake);
        self.log.wait("the bot is ready");
    }
}

impl Drop for TestBot {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.child.kill();
        self.child.wait().unwrap();
        if thread::panicking() {
            eprintln!("log of the bot:\n{}", self.log.text());
        }
    }
}
