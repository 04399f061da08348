use aicodebox_engine::run::{AgentFault, FailureKind, Finish, Origin, RunEvent, RunRequest, Verdict};
use serde_json::json;

use super::fixture::{Box_, failure};

const GOOD: &str = r#"{"type":"session","id":"s1"}
{"type":"text","text":"Grüße, "}
{"type":"text","text":"Welt"}
{"type":"usage","usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":5}}
"#;

#[tokio::test]
async fn a_result_has_text_session_and_usage() {
    let box_ = Box_::new("lines:Lines").await;
    let (outcome, events) = box_.run(box_.request(GOOD, Origin::Api)).await;
    assert_eq!(outcome.verdict, Verdict::Ok);
    assert_eq!(outcome.text, "Grüße, Welt");
    assert_eq!(outcome.session.as_ref().map(|id| id.0.as_str()), Some("s1"));
    let usage = outcome.usage.clone().unwrap();
    assert_eq!(usage.native, json!({"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 5}));
    assert_eq!((usage.tokens.input, usage.tokens.output), (Some(7), Some(5)));
    assert!(
        events.iter().any(|event| matches!(event, RunEvent::Message { text, .. } if text == "Grüße, Welt"))
    );
}

#[tokio::test]
async fn records_are_kept_untouched_when_they_are_wanted() {
    let box_ = Box_::new("lines:Lines").await;
    let mut request = box_.request(GOOD, Origin::Api);
    request.natives = true;
    let (_, events) = box_.run(request).await;
    let natives: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::Native(record) => Some((record.event_type.clone(), record.line.clone())),
            _ => None,
        })
        .collect();
    let types: Vec<_> = natives.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(types, ["session", "text", "text", "usage"]);
    assert_eq!(natives[1].1, r#"{"type":"text","text":"Grüße, "}"#);
}

#[tokio::test]
async fn a_complaint_of_the_provider_fails_the_run_and_keeps_the_text() {
    let box_ = Box_::new("lines:Lines").await;
    let prompt = format!("{GOOD}{}", r#"{"type":"error","message":"429 too many requests"}"#);
    let outcome = box_.ask(&prompt).await;
    let expected = (FailureKind::Agent(AgentFault::RateLimit), "429 too many requests".to_owned());
    assert_eq!(failure(&outcome), expected);
    assert_eq!((outcome.text.as_str(), outcome.exit_code), ("Grüße, Welt", 0));
}

#[tokio::test]
async fn an_empty_answer_is_an_answer() {
    let box_ = Box_::new("lines:Lines").await;
    let outcome = box_.ask("\n").await;
    assert_eq!((&outcome.verdict, outcome.text.as_str()), (&Verdict::Ok, ""));
}

#[tokio::test]
async fn the_classs_own_reading_of_a_schema_counts() {
    let box_ = Box_::new("lines:Lines").await;
    let mut request = box_.request(r#"{"type":"text","text":"Sure: {\"n\": 1}"}"#, Origin::Api);
    request.json_schema = Some(json!({"type": "object", "required": ["n"]}));
    let (outcome, _) = box_.run(request.clone()).await;
    assert_eq!((&outcome.verdict, &outcome.parsed), (&Verdict::Ok, &Some(json!({"n": 1}))));
    request.prompt = r#"{"type":"text","text":"no json"}"#.into();
    let (outcome, _) = box_.run(request).await;
    let told = outcome.attempts[0].parse_error.clone().unwrap();
    assert!(told.starts_with("the answer is not valid JSON"), "{told}");
    // The task is restated in the next prompt, which is no JSON line: the class raises, and nothing is asked again.
    assert_eq!(outcome.attempts.len(), 2);
}

#[tokio::test]
async fn what_was_too_long_is_said() {
    let box_ = Box_::new("lines:Lenient").await;
    let script = r#"head -c 9000000 /dev/zero | tr '\0' x; echo
        for half in 1 2; do printf '{"type":"text","text":"'; head -c 5000000 /dev/zero | tr '\0' y; echo '"}'; done"#;
    let request = RunRequest { stream: true, ..box_.request(script, Origin::OpenAi) };
    let (outcome, events) = box_.run(request).await;
    assert!(
        outcome.text.starts_with("yy")
            && outcome.text.contains("bytes left out")
            && outcome.text.ends_with("yy")
    );
    let notices = events.iter().filter_map(|event| match event {
        RunEvent::Notice(notice) if notice.code == "truncated" => Some(notice.message.as_str()),
        _ => None,
    });
    let expected =
        ["1 lines of more than 8 MiB lost their end", "the answer was too long: its middle was left out"];
    assert_eq!(notices.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_stream_gives_its_deltas() {
    let box_ = Box_::new("lines:Lines").await;
    let mut request = box_.request(GOOD, Origin::OpenAi);
    request.stream = true;
    let (outcome, events) = box_.run(request).await;
    assert_eq!((&outcome.verdict, outcome.text.as_str()), (&Verdict::Ok, "Grüße, Welt"));
    assert_eq!(outcome.session.as_ref().map(|id| id.0.as_str()), Some("s1"));
    assert_eq!(outcome.usage.clone().unwrap().tokens.output, Some(5));
    let deltas: String = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::Delta(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(deltas, "Grüße, Welt");
}

#[tokio::test]
async fn in_a_stream_an_error_stands_until_a_stop_follows() {
    let box_ = Box_::new("lines:Lines").await;
    let mut request = box_.request("", Origin::OpenAi);
    request.stream = true;
    let text = r#"{"type":"text","text":"a"}"#;
    let error = r#"{"type":"error","message":"HTTP 503"}"#;
    let stop = r#"{"type":"usage","usage":{"n":1},"reason":"max_tokens"}"#;
    request.prompt = format!("{text}\n{error}\n");
    let (outcome, _) = box_.run(request.clone()).await;
    assert_eq!(failure(&outcome).0, FailureKind::Agent(AgentFault::Overloaded));
    assert_eq!(outcome.text, "a");
    request.prompt = format!("{error}\n{text}\n{stop}\n");
    let (outcome, events) = box_.run(request).await;
    assert_eq!((&outcome.verdict, outcome.finish), (&Verdict::Ok, Finish::Length));
    assert!(
        events.iter().any(|event| matches!(event, RunEvent::Notice(notice) if notice.message == "HTTP 503"))
    );
}

#[tokio::test]
async fn a_long_stream_loses_nothing() {
    let box_ = Box_::new("plain:Plain").await;
    let prompt: String = (0..20_000).map(|line| format!("line {line}\n")).collect();
    let mut request = box_.request(&prompt, Origin::OpenAi);
    request.stream = true;
    let (outcome, _) = box_.run(request).await;
    assert!(outcome.text == prompt);
}
