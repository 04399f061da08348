use aicodebox_engine::{
    adapter::{Adapter, FileAdapter, ReaderContext, Reading},
    run::{RunRequest, SessionTotals},
};
use serde_json::{Value, json};

use crate::{
    cases::{built_in, capture, load},
    streams::{Events, ended, request},
};

fn turn(
    adapter: &FileAdapter,
    request: &RunRequest,
    stdout: &[u8],
    resumes: bool,
    baseline: Option<SessionTotals>,
) -> (Reading, Vec<String>) {
    let events = Events::new();
    let context = ReaderContext { request, resumes, baseline, ticket: None, events: events.clone() };
    let mut reader = adapter.reader(context);
    reader.feed(aicodebox_engine::process::Stream::Stdout, stdout);
    let reading = ended(reader, 0);
    (reading, events.notices().into_iter().filter(|notice| notice.starts_with("usage")).collect())
}

#[test]
fn each_turn_of_a_codex_thread_is_billed_once() {
    let adapter = built_in("codex");
    let request = request();
    let mut before: Option<SessionTotals> = None;
    for (number, name) in
        ["sess1", "sess_resume", "sess_resume_flagsbefore", "sess_resume_last"].iter().enumerate()
    {
        let stdout = capture(&json!({ "capture": format!("captures/codex/{name}") }), "stdout");
        let (reading, notices) = turn(&adapter, &request, &stdout, number > 0, before);
        let usage = reading.usage.expect(name);
        assert_eq!((usage.tokens.input, usage.tokens.output), (Some(111), Some(22)), "{name}");
        assert_eq!(usage.native["input_tokens"], 111, "{name}");
        assert_eq!(usage.native["output_tokens"], 22, "{name}");
        let totals = reading.totals.expect(name);
        assert_eq!(totals.tokens.input, Some(111 * (number as u64 + 1)), "{name}");
        assert!(notices.is_empty(), "{name}: {notices:?}");
        before = Some(totals);
    }
}

#[test]
fn a_thread_whose_counters_are_not_known_is_not_billed_at_all() {
    let adapter = built_in("codex");
    let stdout = capture(&json!({ "capture": "captures/codex/sess_resume" }), "stdout");
    let higher = SessionTotals {
        native: json!({ "input_tokens": 999 }),
        tokens: aicodebox_engine::run::Tokens { input: Some(999), ..Default::default() },
    };
    for baseline in [None, Some(higher)] {
        let (reading, notices) = turn(&adapter, &request(), &stdout, true, baseline);
        assert_eq!(reading.usage, None);
        assert_eq!(notices, ["usage: usage of this session before this run is not known"]);
        assert_eq!(reading.totals.and_then(|totals| totals.tokens.input), Some(222));
    }
}

#[test]
fn the_providers_own_object_follows_the_scope() {
    let file = |scope: &str| {
        load(&format!(
            "schema = 1\nname = \"x\"\n[run]\nstdin = \"{{prompt}}\"\n[output]\nformat = \"jsonl\"\n\
             [[event]]\nmessage = \"/t\"\nusage = \"\"\n\
             [usage]\ninput = \"/u/in\"\ncache_read = \"/u/deep/cached\"\ncost = \"/cost\"\nscope = \"{scope}\"\n\
             input_includes_cache = false\n"
        ))
    };
    let lines = b"{\"t\":\"a\",\"cost\":0.5,\"u\":{\"in\":1,\"tier\":\"x\",\"deep\":{\"cached\":10}}}\n\
                  {\"t\":\"b\",\"cost\":0.25,\"u\":{\"in\":2,\"tier\":\"y\",\"deep\":{\"cached\":20},\"new\":7}}\n";
    let read = |scope: &str| {
        let usage = turn(&file(scope), &request(), lines, false, None).0.usage.expect(scope);
        (usage.native, usage.tokens.input, usage.tokens.cost_usd)
    };
    let own = |n: u64, tier: &str, cached: u64| json!({ "in": n, "tier": tier, "deep": { "cached": cached }, "new": 7 });
    assert_eq!(read("run"), (own(2, "y", 20), Some(22), Some(0.25)));
    assert_eq!(read("sum"), (own(3, "x", 30), Some(33), Some(0.75)));
    assert_eq!(read("session"), (own(2, "y", 20), Some(22), Some(0.25)));
}

#[test]
fn a_document_without_numbers_is_no_usage() {
    let adapter = built_in("gemini");
    let stdout = b"{\"type\":\"result\",\"status\":\"success\",\"stats\":{}}\n";
    let (reading, _) = turn(&adapter, &request(), stdout, false, None);
    assert_eq!((reading.usage, reading.totals), (None, None::<SessionTotals>));
    assert_eq!(reading.structured, None::<Value>);
}
