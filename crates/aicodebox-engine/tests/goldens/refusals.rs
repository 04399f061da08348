//! What agents make of a provider that fails in words of its own, or in none: seen with the real ones.

use aicodebox_engine::{
    adapter::{Recording, replay},
    process::{Flow, Stream},
};
use serde_json::{Value, json};

use crate::{
    cases::{adapter_of, built_in, builtins, capture, cases},
    streams::{reader, request},
};

fn kind(agent: &str, stdout: &str, stderr: &str) -> Value {
    let recording = Recording {
        stdout: &[stdout.as_bytes()],
        stderr: &[stderr.as_bytes()],
        exit: 1,
        stopped: false,
        json_schema: None,
        resumes: false,
        baseline: None,
    };
    replay(&built_in(agent), &recording)["kind"].clone()
}

#[test]
fn what_real_agents_printed_when_a_provider_failed_is_told_as_what_it_was() {
    let (builtins, cases) = (builtins(), cases("providers.jsonl"));
    assert_eq!(cases.len(), 38);
    let mut wrong = Vec::new();
    for case in &cases {
        let recording = Recording {
            stdout: &[&capture(case, "stdout")],
            stderr: &[&capture(case, "stderr")],
            exit: case["exit"].as_i64().unwrap_or_default().try_into().unwrap_or_default(),
            ..Recording::default()
        };
        let got = replay(&builtins[adapter_of(case)], &recording);
        for key in ["kind", "abort", "retries", "message"] {
            if got[key] != case["want"][key] {
                let (got, want) = (&got[key], &case["want"][key]);
                wrong.push(format!("{}: {key}: got {got}, want {want}", case["capture"]));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn codex_is_not_waited_for_in_vain() {
    for (name, want) in [("html_401", 1), ("html_403", 1), ("cloudflare_403", 1), ("no_network", 4)] {
        let stdout = capture(&json!({ "capture": format!("providers/codex/{name}") }), "stdout");
        let request = request();
        let (mut reader, _) = reader(&built_in("codex"), &request);
        let mut retries = 0;
        for line in stdout.split_inclusive(|byte| *byte == b'\n') {
            retries += usize::from(line.windows(12).any(|words| words == b"Reconnecting"));
            if matches!(reader.feed(Stream::Stdout, line), Flow::Abort(_)) {
                break;
            }
        }
        assert_eq!(retries, want, "{name}");
    }
}

#[test]
fn opencode_names_a_provider_that_it_has_no_key_for() {
    let data = json!({ "providerID": "anthropic", "message": "who are you" });
    let error = json!({ "name": "ProviderAuthError", "data": data });
    let line = json!({ "type": "error", "sessionID": "s", "error": error }).to_string();
    assert_eq!(kind("opencode", &line, ""), "auth");
}

#[test]
fn opencodes_log_gives_the_providers_words_and_no_status() {
    for (said, want) in [
        ("AI_APICallError: Too Many Requests", "rate_limit"),
        ("AI_APICallError: rate_limit_error: slow down", "rate_limit"),
        ("AI_APICallError: Rate limit reached for mock-model.", "rate_limit"),
        ("AI_APICallError: Resource has been exhausted (e.g. check quota).", "rate_limit"),
        ("AI_APICallError: Overloaded", "overloaded"),
        ("AI_APICallError: Service Unavailable", "overloaded"),
        ("AI_APICallError: Cannot connect to API: Unable to connect.", "network"),
        ("AI_APICallError: Internal Server Error", "provider"),
    ] {
        let line =
            format!("timestamp=0 level=ERROR message=\"stream error\" small=false error.error=\"{said}\"\n");
        assert_eq!(kind("opencode", "", &line.repeat(3)), want, "{said}");
    }
}

#[test]
fn pi_puts_the_status_before_an_answer_that_is_no_json() {
    for (said, want) in [
        ("429 status code (no body)", "rate_limit"),
        ("429 slow down", "rate_limit"),
        ("401 who are you", "auth"),
        ("503 <h1>upstream</h1>", "overloaded"),
        ("500 words of a prompt", "provider"),
        ("120 words of a prompt", "provider"),
    ] {
        let message =
            json!({ "role": "assistant", "content": [], "stopReason": "error", "errorMessage": said });
        let line = json!({ "type": "message_end", "message": message }).to_string();
        assert_eq!(kind("pi", &line, ""), want, "{said}");
    }
}
