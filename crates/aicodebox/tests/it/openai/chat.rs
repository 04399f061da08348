//! Whole answers.

use serde_json::{Value, json};

use super::support::{CHANNELS, chat, chat_with, content, says, with};
use crate::harness::{EVENTS, Server};

#[test]
fn models_are_at_both_prefixes() {
    let server = Server::new().start();
    for prefix in ["/v1", "/openai/v1"] {
        // M13: the original had them at one of the two.
        let list = server.get(&format!("{prefix}/models")).status(200).field("/object", "list").json();
        let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
        assert_eq!(ids, ["small", "large"]);
        let small = server.get(&format!("{prefix}/models/small")).status(200).json();
        assert_eq!((&small["object"], &small["owned_by"]), (&json!("model"), &json!("shell")));
        let body = says("echo hi").to_string();
        server.send("POST", &format!("{prefix}/chat/completions"), &[], Some(body)).status(200);
    }
}

#[test]
fn an_id_may_hold_slashes() {
    let server = Server::new().env("AICODEBOX_AVAILABLE_MODELS", "a/b/c,d").start();
    server.get("/v1/models/a/b/c").status(200).field("/id", "a/b/c");
    server.get("/v1/models/a/b").status(404).field("/error/code", "model_not_found");
}

#[test]
fn an_answer_has_the_shape_that_clients_know() {
    let server = Server::new().start();
    let answer = chat(&server, says("echo hi")).status(200);
    let id = answer.header("x-aicodebox-run-id").unwrap().to_owned();
    let json = answer
        .field("/object", "chat.completion")
        .field("/model", "small")
        .field("/choices/0/index", 0)
        .field("/choices/0/finish_reason", "stop")
        .field("/choices/0/logprobs", Value::Null)
        .field(
            "/choices/0/message",
            json!({"role": "assistant", "content": "hi", "refusal": null, "annotations": []}),
        )
        .json();
    assert_eq!(json["id"], format!("chatcmpl-{id}"));
    let usage = &json["usage"];
    let sum = usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap();
    assert_eq!((&usage["total_tokens"], &usage["estimated"]), (&json!(sum), &json!(true)));
    server.get(&format!("/run/result?runId={id}")).status(200).field("/text", "hi");
}

#[test]
fn usage_is_what_the_agent_counted() {
    let server = Server::new().adapter(&format!("{EVENTS}system_prompt = \"drop\"\n")).start();
    let script = r#"echo '{"usage":{"input":100,"output":7,"cache_read":40,"reasoning":3}}'
                    echo '{"message":"hi"}'; echo '{"done":"ok"}'"#;
    let usage = chat(&server, says(script)).status(200).json()["usage"].clone();
    let expected = json!({"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107,
        "prompt_tokens_details": {"cached_tokens": 40}, "completion_tokens_details": {"reasoning_tokens": 3}});
    assert_eq!(usage, expected);
}

#[test]
fn the_agent_is_told_what_the_client_says() {
    let server = Server::new().adapter(CHANNELS).start();
    let script = r#"echo "model=$1"; echo "effort=$EFFORT"; echo "system:"; cat "${SYSTEM:-/dev/null}"; echo
                    echo "append:"; cat "${APPEND:-/dev/null}""#;
    // M9: `developer` is `system`, not a turn of the conversation.
    let body = json!({"model": "provider/large", "reasoning_effort": "high", "messages": [
        {"role": "developer", "content": "Be brief."}, {"role": "user", "content": script}]});
    let answer = chat_with(&server, &[("x-claude-append-system-prompt", "And kind.")], body).status(200);
    let answer = answer.field("/model", "provider/large");
    let text = content(answer);
    assert!(text.starts_with("model=large\neffort=high\nsystem:\nBe brief.\n\n"), "{text}");
    assert!(text.ends_with("append:\nAnd kind."), "{text}");

    let text = content(chat(&server, says(script)));
    assert!(text.contains("system:\n\nappend:\nThe prompt is a conversation."), "{text}");
}

#[test]
fn names_of_models_pass_through_unless_they_must_be_known() {
    // M29.
    let script = "echo \"model=$1\"";
    let any = Server::new().adapter(CHANNELS).start();
    for (asked, told) in [("other", "other"), ("x/other", "other"), ("channels", ""), ("box/channels", "")] {
        let mut body = says(script);
        body["model"] = json!(asked);
        let answer = chat(&any, body).status(200).field("/model", asked);
        assert_eq!(content(answer), format!("model={told}"));
    }
    // A provider is cut once, and not at all from a model that is listed with it, also where nobody chats.
    let listed =
        Server::new().adapter(CHANNELS).env("AICODEBOX_AVAILABLE_MODELS", "anthropic/claude").start();
    for (asked, told) in [("anthropic/claude", "anthropic/claude"), ("a/b/c", "b/c")] {
        let mut body = says(script);
        body["model"] = json!(asked);
        assert_eq!(content(chat(&listed, body)), format!("model={told}"));
        let run = listed.run(json!({"prompt": script, "model": asked})).status(200);
        assert_eq!(run.text("/text").trim(), format!("model={told}"));
    }
    let strict = Server::new().env("AICODEBOX_API_MODE_STRICT_MODELS", "1").start();
    let mut body = says("echo hi");
    chat(&strict, body.clone()).status(200);
    body["model"] = json!("other");
    chat(&strict, body).status(404).field("/error/code", "model_not_found").field("/error/param", "model");
}

#[test]
fn content_may_be_missing_anywhere() {
    // M8, O13: the original answered 500.
    let server = Server::new().start();
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    for content in [json!(null), json!(""), json!([]), json!([{"type": "text", "text": ""}])] {
        let messages = json!([
            {"role": "user", "content": "echo ok; exit"},
            {"role": "assistant", "content": content, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": content},
            {"role": "assistant", "content": content},
            {"role": "system", "content": content},
            {"role": "user", "content": content},
        ]);
        let answer = chat(&server, json!({"model": "small", "messages": messages}));
        assert_eq!(answer.status(200).text("/choices/0/message/content"), "ok");
    }
}

#[test]
fn what_has_no_effect_is_named() {
    // O6: what we do not know is no error.
    let server = Server::new().start();
    let body = with(
        "echo hi",
        json!({"temperature": 0.1, "brand_new": {}, "stream_options": {"new": 1},
        "reasoning_effort": "high", "n": 1, "logprobs": false}),
    );
    let answer = chat(&server, body).status(200);
    assert_eq!(answer.header("x-aicodebox-ignored"), Some("brand_new, temperature, reasoning_effort"));
    assert_eq!(chat(&server, says("echo hi")).header("x-aicodebox-ignored"), None);
}

#[test]
fn headers_say_the_rest() {
    let server = Server::new().start();
    let text = |headers: &[(&str, &str)], script: &str| content(chat_with(&server, headers, says(script)));
    assert!(text(&[("x-claude-workspace", "a/b")], "pwd").ends_with("/workspace/a/b"));
    assert!(text(&[("X-Aicodebox-Extra-Args", "[\"x y\"]")], "echo \"$2\"").ends_with("x y"));
    assert!(text(&[], "pwd").ends_with("/workspace"));
    let error = chat_with(&server, &[("x-aicodebox-timeout-seconds", "0.3")], says("sleep 60"));
    error.status(504).field("/error/code", "timeout");
    let error = chat_with(&server, &[("x-aicodebox-workspace", "../x")], says("pwd"));
    error.status(400).field("/error/param", "x-aicodebox-workspace");
}

#[test]
fn a_chat_works_in_the_root_or_in_a_place_of_its_own() {
    let server = Server::new().env("AICODEBOX_API_MODE_CHAT_WORKSPACE", "ephemeral").start();
    let place = content(chat(&server, says("touch x; pwd")));
    assert!(!place.starts_with(server.workspace().to_str().unwrap()), "{place}");
    crate::harness::eventually("it is removed", || (!std::path::Path::new(&place).exists()).then_some(()));
}

#[test]
fn a_session_can_be_continued() {
    let server = Server::new()
        .adapter(&format!("{EVENTS}system_prompt = \"drop\"\nappend_system_prompt = \"drop\"\n"))
        .start();
    let script = r#"echo '{"session":"s1"}'; echo "{\"message\":\"$1\"}"; echo '{"done":"ok"}'"#;
    let turn = |text: &str| content(chat_with(&server, &[("x-aicodebox-continue", "1")], says(text)));
    let first = r#"echo '{"session":"s1"}'; echo '{"message":"fresh"}'; echo '{"done":"ok"}'"#;
    assert_eq!(turn(first), "fresh");
    assert_eq!(turn(script), "resumed:s1");
    let resumed = chat_with(&server, &[("x-aicodebox-resume", "s9")], says(script));
    assert_eq!(content(resumed), "resumed:s9");
    // Without the header a chat has nothing to do with it.
    assert_eq!(content(chat(&server, says(first))), "fresh");
    // What the session has seen is not said again.
    let body = json!({"model": "small", "messages": [{"role": "user", "content": "exit 9"},
        {"role": "assistant", "content": "x"}, {"role": "user", "content": script}]});
    assert_eq!(content(chat_with(&server, &[("x-aicodebox-continue", "1")], body)), "resumed:s1");
}

#[test]
fn a_conversation_that_the_agent_does_not_know_is_told_as_a_whole() {
    let server = Server::new()
        .adapter(&format!("{EVENTS}system_prompt = \"drop\"\nappend_system_prompt = \"drop\"\n"))
        .start();
    let say = |text: &str| {
        format!(r#"echo '{{"session":"s1"}}'; echo '{{"message":"{text}"}}'; echo '{{"done":"ok"}}'; exit"#)
    };
    let turn = |workspace: &str| {
        let headers = [("x-aicodebox-continue", "1"), ("x-aicodebox-workspace", workspace)];
        let body = json!({"model": "small", "messages": [{"role": "user", "content": say("all of it")},
            {"role": "assistant", "content": "x"}, {"role": "user", "content": say("the rest")}]});
        content(chat_with(&server, &headers, body))
    };
    assert_eq!(turn("new"), "all of it", "there is no session yet");
    assert_eq!(turn("new"), "the rest", "now there is one");
    // One that began without the header left none.
    let plain = chat_with(&server, &[("x-aicodebox-workspace", "plain")], says(&say("alone")));
    assert_eq!(content(plain), "alone");
    assert_eq!(turn("plain"), "all of it");
}
