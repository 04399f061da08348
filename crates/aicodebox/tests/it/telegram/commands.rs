//! What begins with a slash, and what is pressed.

use std::{
    fs,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use super::support::{BotSetup, CHAT};
use crate::harness::{SHELL, gone};

/// Its answer is the model, the effort and the system prompt that it was given.
const TELLS: &str = r#"
schema = 1
name   = "tells"
binary = "/bin/sh"
[models]
list = ["small", "large"]
efforts = ["low", "high"]
[run]
argv  = ["-c", 'cat > /dev/null; printf "%s " "$@"', "tells", { when = "model", args = ["model={model}"] }, { when = "effort", args = ["effort={effort}"] }, { when = "system_prompt", args = ["system={system_prompt}"] }, { when = "append_system_prompt", args = ["append={append_system_prompt}"] }, "end"]
stdin = "{prompt}"
[output]
format = "text"
"#;

#[test]
fn cancel_gets_through_at_once_and_stops_everything() {
    let bot = BotSetup::new().start();
    bot.fake.writes(CHAT, "setsid sleep 300 & echo $! > ../child; echo $$ > ../agent; wait");
    let pid = |name: &str| {
        crate::harness::eventually("the agent runs", || {
            fs::read_to_string(bot.home.path("workspace").join(name)).ok()?.trim().parse::<i32>().ok()
        })
    };
    let (child, agent) = (pid("child"), pid("agent"));
    bot.fake.writes(CHAT, "echo dropped");
    bot.fake.said(CHAT, "Queued as number 1");
    let asked = Instant::now();
    bot.fake.writes(CHAT, "/cancel all");
    bot.fake.said(CHAT, "⏹ Stopping, and 1 dropped.");
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    bot.fake.said(CHAT, "⏹ Cancelled.");
    gone(child);
    gone(agent);
    bot.fake.writes(CHAT, "/cancel@box_bot");
    // A turn ends when its last word is delivered, a moment after that can be seen.
    crate::harness::eventually("the second cancel is answered", || {
        let answers = ["Nothing is running.", "⏹ Stopping."];
        bot.fake.shown(CHAT).iter().any(|sent| answers.contains(&sent.text.as_str())).then_some(())
    });
    bot.fake.writes(CHAT, "/cancel@other_bot");
    bot.fake.writes(CHAT, "echo next");
    bot.fake.said(CHAT, "next");
    assert!(!bot.fake.shown(CHAT).iter().any(|sent| sent.text.contains("dropped\n")));
}

#[test]
fn settings_are_picked_typed_kept_and_cleared() {
    let mut bot = BotSetup::new().adapter(TELLS).start();
    bot.fake.writes(CHAT, "/model");
    let picker = bot.fake.said(CHAT, "Model: default");
    let labels: Vec<_> = picker.buttons.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["small", "large", "Default"]);
    bot.fake.presses(&picker, 7, "model:large");
    bot.fake.said(CHAT, "Model: large");
    bot.fake.writes(CHAT, "/effort high");
    bot.fake.said(CHAT, "Effort: high");
    bot.fake.writes(CHAT, "/system_prompt Be short.");
    bot.fake.said(CHAT, "System prompt: Be short.");
    bot.fake.writes(CHAT, "/append_system_prompt Thanks.");
    bot.fake.said(CHAT, "Appended system prompt: Thanks.");
    bot.restart(Signal::SIGKILL);
    bot.fake.writes(CHAT, "tell");
    bot.fake.said(CHAT, "model=large effort=high system=Be short. append=Thanks. end");
    for knob in ["model default", "effort reset", "system_prompt clear", "append_system_prompt none"] {
        bot.fake.writes(CHAT, &format!("/{knob}"));
    }
    bot.fake.said(CHAT, "Appended system prompt: default");
    bot.fake.writes(CHAT, "tell");
    bot.fake.wait("an answer without settings", |state| {
        state.sent.iter().any(|sent| sent.text.trim() == "end").then_some(())
    });
}

#[test]
fn an_effort_that_is_called_none_is_one_on_a_button() {
    let adapter = TELLS.replace(r#"["low", "high"]"#, r#"["none", "high"]"#);
    let bot = BotSetup::new().adapter(&adapter).start();
    bot.fake.writes(CHAT, "/effort");
    let picker = bot.fake.said(CHAT, "Effort: default");
    bot.fake.presses(&picker, 7, "effort:none");
    bot.fake.said(CHAT, "Effort: none");
    bot.fake.writes(CHAT, "tell");
    bot.fake.said(CHAT, "effort=none end");
    bot.fake.presses(&picker, 7, "effort:default");
    bot.fake.said(CHAT, "Effort: default");
    bot.fake.writes(CHAT, "/effort high");
    bot.fake.said(CHAT, "Effort: high");
    // Typed, it is one of the words that clear.
    bot.fake.writes(CHAT, "/effort none");
    bot.fake.wait("the effort is cleared again", |state| {
        (state.sent.iter().filter(|sent| sent.text.starts_with("Effort: default")).count() >= 2).then_some(())
    });
}

#[test]
fn who_may_not_write_may_not_press_either() {
    let bot = BotSetup::new()
        .yaml("allowed_chats: [5]\nchats:\n  5:\n    allowed_users: [7]\n")
        .adapter(TELLS)
        .start();
    bot.fake.writes(CHAT, "/model");
    let picker = bot.fake.said(CHAT, "Model: default");
    bot.fake.presses(&picker, 8, "model:large");
    // Updates are taken in their order: by the time of this answer the press has been dealt with.
    bot.fake.writes(CHAT, "tell");
    bot.fake.said(CHAT, "end");
    assert!(
        !bot.fake.shown(CHAT).iter().any(|sent| sent.text.contains("large")),
        "{:?}",
        bot.fake.shown(CHAT)
    );
    bot.fake.presses(&picker, 7, "model:small");
    bot.fake.said(CHAT, "Model: small");
}

#[test]
fn the_chat_is_told_what_holds_and_a_wrong_file_changes_nothing() {
    let bot = BotSetup::new().yaml("allowed_chats: [5]\ndefault:\n  model: large\n").start();
    bot.fake.writes(CHAT, "/start");
    assert!(bot.fake.said(CHAT, "Hello!").text.contains("/cancel"));
    bot.fake.writes(CHAT, "/config");
    assert!(bot.fake.said(CHAT, "Workspace: chat_5").text.contains("Model: large"));
    bot.fake.writes(CHAT, "/status");
    bot.fake.said(CHAT, "Nothing is running here.");
    bot.fake.writes(CHAT, "/dance");
    bot.fake.said(CHAT, "I know no /dance");
    let path = bot.home.path("telegram.yml");
    fs::write(&path, "allowed_chats: [5]\ndefault:\n  modle: x\n").unwrap();
    bot.fake.writes(CHAT, "/reload");
    assert!(bot.fake.said(CHAT, "old settings stay").text.contains("line 3"));
    fs::write(&path, "allowed_chats: [5]\ndefault:\n  workspace: elsewhere\n").unwrap();
    bot.fake.writes(CHAT, "/reload");
    bot.fake.said(CHAT, "Read again.");
    bot.fake.writes(CHAT, "pwd");
    bot.fake.said(CHAT, "/workspace/elsewhere");
}

#[test]
fn the_token_is_nowhere_and_the_menu_is_set() {
    let bot = BotSetup::new().adapter(SHELL).start();
    bot.fake.writes(CHAT, "env; echo '<end>'");
    let said = bot.fake.said(CHAT, "<end>");
    let secret = super::fake::TOKEN.split_once(':').unwrap().1;
    assert!(!said.text.contains(secret));
    // T16: an error of the network names the address, and with it the token.
    bot.fake.fault("sendmessage", &super::fake::Fault::Reset, 1);
    bot.fake.fault("getupdates", &super::fake::Fault::Reset, 1);
    bot.fake.writes(CHAT, "echo after");
    bot.fake.said(CHAT, "after");
    assert!(!bot.log.text().contains(secret), "the token is in the log");
    assert!(bot.fake.state().calls.iter().any(|call| call.method == "setmycommands" && call.error.is_none()));
}
