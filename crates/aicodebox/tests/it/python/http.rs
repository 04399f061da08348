use serde_json::{Value, json};

use super::fixture::python_path;
use crate::harness::{Finished, Home, Running, Server};

fn serve(class: &str, env: &[(&str, &str)]) -> Running {
    let server =
        Server::new().token("s3cret").env("AICODEBOX_ADAPTER", class).env("PYTHONPATH", python_path());
    env.iter().fold(server, |server, (name, value)| server.env(name, *value)).start()
}

#[test]
fn a_class_answers_over_the_api() {
    let server = serve("plain:Plain", &[]);
    server.get("/healthz").status(200).field("/adapter", "plain");
    server.run(json!({"prompt": "grüß dich"})).status(200).field("/text", "grüß dich").field("/exitCode", 0);
}

#[test]
fn the_default_model_is_that_of_the_environment_and_the_gateways_token_is_not_in_it() {
    let env = [("ANTHROPIC_MODEL", "opus"), ("OURS", "key"), ("GONE", "1")];
    let server = serve("plain:Telling", &[&env[..], &[("AICODEBOX_AVAILABLE_MODELS", "opus")]].concat());
    let script = "noContinue goes to the class";
    let answer = server.run(json!({"prompt": script, "noContinue": false})).status(200);
    let text = answer.json()["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("opus None text continue None False\n"), "{text}");
}

#[test]
fn a_class_without_a_name_or_program_runs_what_its_command_line_says() {
    let env = [("AICODEBOX_AVAILABLE_MODELS", "m"), ("AICODEBOX_AGENT_BINARY", "/no/such/launcher")];
    let server = serve("plain:Nameless", &env);
    server.run(json!({"prompt": "hi"})).status(200).field("/text", "hi");
}

#[test]
fn what_the_class_refuses_is_a_422_with_its_text() {
    let server = serve("unruly:Unruly", &[("AICODEBOX_AVAILABLE_MODELS", "m")]);
    let refused = server.run(json!({"prompt": "refuse"})).status(422);
    refused.field("/detail", "thinking='wild' is not for this agent: ü");
    server.run(json!({"prompt": "well"})).status(200).field("/text", "well");
}

#[test]
fn what_a_class_does_wrong_fails_its_own_run_alone() {
    let server = serve("unruly:Unruly", &[("AICODEBOX_AVAILABLE_MODELS", "m")]);
    let begun = std::time::Instant::now();
    let hangs = server
        .run(json!({"prompt": "hang in parse", "workspace": "its-own", "async": true}))
        .status(200)
        .text("/runId");
    let raised = server.run(json!({"prompt": "raise in parse"})).status(200).field("/error/kind", "internal");
    let said = raised.text("/error/message");
    assert!(said.contains("parse_output") && said.contains("cannot read this"), "{said}");
    server.run(json!({"prompt": "exit"})).status(200).field("/exitCode", 3).field("/stderr", "trouble\n");
    server.run(json!({"prompt": "well"})).status(200).field("/text", "well");
    server.delete(&format!("/run/{hangs}")).status(200).field("/status", "cancelled");
    assert!(begun.elapsed().as_secs() < 20, "it took {:?}", begun.elapsed());
}

#[test]
fn events_and_usage_are_in_the_answer_when_they_are_asked_for() {
    let server = serve("lines:Lines", &[("AICODEBOX_AVAILABLE_MODELS", "m")]);
    let prompt = "{\"type\":\"text\",\"text\":\"hi\"}\n{\"type\":\"usage\",\"usage\":{\"input_tokens\":3}}\n";
    server
        .run(json!({"prompt": prompt, "outputFormat": "json-verbose"}))
        .status(200)
        .field("/text", "hi")
        .field("/usage", json!({"input_tokens": 3}))
        .field(
            "/events/0",
            json!({
                "sequence": 1, "attempt": 0, "backend": "lines", "eventType": "text",
                "event": {"type": "text", "text": "hi"},
            }),
        )
        .field("/events/1/eventType", "usage");
}

#[test]
fn a_class_is_asked_again_until_its_answer_meets_the_schema() {
    let server = serve("answers:Answers", &[]);
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let ask = |workspace: &str, answers: &str| {
        std::fs::create_dir(server.workspace().join(workspace)).unwrap();
        std::fs::write(server.workspace().join(workspace).join("answers"), answers).unwrap();
        server
            .run(json!({"prompt": "count to three", "workspace": workspace, "jsonSchema": schema}))
            .status(200)
    };
    let met = ask("met", "no idea\n{\"n\": \"x\"}\nSure: {\"n\": 3}\n")
        .field("/json", json!({"n": 3}))
        .field("/jsonRetries", 2)
        .field("/usage", json!({"input_tokens": 21}))
        .field(
            "/attempts/2",
            json!({"index": 2, "usage": {"input_tokens": 7}, "exitCode": 0, "parseError": null}),
        );
    assert!(met.text("/attempts/0/parseError").contains("no idea"));
    assert!(met.text("/attempts/1/parseError").contains("/n"));
    // The last start was told the task once, the bad answer, and what was wrong with it.
    let told = std::fs::read_to_string(server.workspace().join("met/prompt-3")).unwrap();
    assert_eq!(told.matches("count to three").count(), 1, "{told}");
    assert!(told.contains("{\"n\": \"x\"}") && told.contains("was not accepted: /n"), "{told}");

    let never =
        ask("never", "a\nb\nc\nd\n").field("/jsonRetries", 3).field("/exitCode", 0).field("/text", "d");
    assert!(never.text("/parseError").contains("no JSON was found"));
    assert!(never.json().get("json").is_none());
}

#[test]
fn a_class_that_cannot_be_loaded_ends_the_server_with_a_clear_word() {
    let home = Home::new("");
    let mut command = home.command("serve");
    command.env("AICODEBOX_API_MODE", "1").env("AICODEBOX_API_MODE_HOST", "127.0.0.1");
    command
        .env("AICODEBOX_API_MODE_PORT", "0")
        .env("AICODEBOX_ADAPTER", "no_such:Class")
        .env("PYTHONPATH", python_path());
    let finished = Finished::of(&mut command).code(78);
    assert!(finished.stderr().contains("No module named 'no_such'"), "{}", finished.stderr());
}

#[test]
fn a_class_answers_chats_whole_and_streamed() {
    let server = serve("lines:Lines", &[("AICODEBOX_AVAILABLE_MODELS", "m")]);
    let prompt = "{\"type\":\"text\",\"text\":\"one \"}\n{\"type\":\"text\",\"text\":\"two\"}\n\
                  {\"type\":\"usage\",\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}\n";
    let chat = |stream: bool| {
        let body = json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": prompt}]});
        server.send("POST", "/v1/chat/completions", &[], Some(body.to_string())).status(200)
    };
    let whole = chat(false).field("/choices/0/finish_reason", "stop").field("/usage/prompt_tokens", 3);
    assert_eq!(whole.text("/choices/0/message/content"), "one two");

    let streamed = chat(true).body;
    let chunks = streamed.lines().filter_map(|line| line.strip_prefix("data: "));
    let chunks: Vec<Value> = chunks.filter_map(|data| serde_json::from_str(data).ok()).collect();
    let texts: Vec<_> =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(texts.concat(), "one two");
    assert!(streamed.contains("\ndata: [DONE]\n"), "{streamed}");
}
