use std::time::Duration;

use aicodebox_engine::run::{FailureKind, Origin, SessionChoice, SessionId, ToolPolicy};

use super::fixture::{Box_, failure};

#[tokio::test]
async fn the_agent_gets_what_the_class_says_and_the_prompt_on_its_input() {
    let box_ = Box_::new("plain:Telling").await;
    let text = box_.ask("the prompt").await.text.clone();
    let expected =
        format!("default None text new None False\nkey|key|gone\n{}\nthe prompt", box_.path().display());
    assert_eq!(text, expected);
}

#[tokio::test]
async fn every_field_of_the_request_reaches_the_class() {
    let box_ = Box_::new("plain:Telling").await;
    let mut request = box_.request("x", Origin::OpenAi);
    request.model = Some("large".into());
    request.effort = Some("high".into());
    request.session = SessionChoice::Resume(SessionId("s-1".into()));
    request.tools = ToolPolicy::Only(vec!["read".into(), "write".into()]);
    request.extra_args = vec!["--verbose".into()];
    request.deadline = Some(Duration::from_secs(30));
    let text = box_.run(request).await.0.text.clone();
    let first = text.lines().next().unwrap();
    assert_eq!(first, "large high json resume s-1 ['read', 'write'] False --verbose");
}

#[tokio::test]
async fn a_long_prompt_and_every_character_come_through() {
    let box_ = Box_::new("plain:Plain").await;
    let prompt = "äöü€😀 \u{200d} ".repeat(60_000);
    assert!(prompt.len() > 1 << 20);
    assert!(box_.ask(&prompt).await.text == prompt.trim());
}

#[tokio::test]
async fn what_validate_refuses_is_refused_with_its_text() {
    let box_ = Box_::new("unruly:Unruly").await;
    let refused = box_.refused(box_.request("refuse", Origin::Api)).await;
    assert_eq!(refused.kind, FailureKind::Invalid { field: "request".into() });
    assert_eq!(refused.message, "thinking='wild' is not for this agent: ü");
}

#[tokio::test]
async fn images_are_refused_and_a_long_argument_is_too_long() {
    let box_ = Box_::new("unruly:Unruly").await;
    let mut request = box_.request("x", Origin::Api);
    request.images = vec![box_.path().join("a.png")];
    assert_eq!(box_.refused(request).await.kind, FailureKind::Invalid { field: "images".into() });
    let prompt = format!("long argument {}", "x".repeat(200_000));
    let refused = box_.refused(box_.request(&prompt, Origin::Api)).await;
    assert_eq!(refused.kind, FailureKind::TooLong { field: "prompt".into() });
}

#[tokio::test]
async fn a_missing_program_is_an_outcome() {
    let box_ = Box_::new("unruly:Unruly").await;
    let outcome = box_.ask("no such program").await;
    assert_eq!(failure(&outcome).0, FailureKind::Spawn { code: 127 });
    assert_eq!(outcome.exit_code, 127);
}
