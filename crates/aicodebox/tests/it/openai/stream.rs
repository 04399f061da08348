//! Answers that come while they are written.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{Event, Events, chunks, finishes, says, streamed, with};
use crate::{
    harness::{EVENTS, Server},
    python::fixture::python_path,
};

/// Our own event lines, with nothing refused that a chat may send.
fn events() -> Server {
    Server::new().adapter(&format!("{EVENTS}append_system_prompt = \"drop\"\n"))
}

#[test]
fn text_comes_as_it_is_written() {
    let server = Server::new().start();
    let script = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two";
    let mut stream = Events::open(&server, &[], says(script));
    assert_eq!(stream.status, 200);
    for header in
        ["content-type: text/event-stream; charset=utf-8", "cache-control: no-cache", "x-accel-buffering: no"]
    {
        assert!(stream.headers.iter().any(|sent| sent == header), "{header} {:?}", stream.headers);
    }
    assert_eq!(stream.text(), "one\n");
    std::fs::write(server.workspace().join("go"), "").unwrap();
    assert_eq!(stream.text(), "two\n");
    let rest = stream.rest();
    assert_eq!(finishes(&rest), ["stop"]);
}

#[test]
fn also_that_of_a_python_class() {
    let server = Server::new()
        .env("AICODEBOX_ADAPTER", "lines:Scripted")
        .env("AICODEBOX_AVAILABLE_MODELS", "small")
        .env("PYTHONPATH", python_path())
        .start();
    let script = r#"printf '{"type":"text","text":"%s"}\n' 'one ' two; until [ -e go ]; do sleep 0.01; done
        echo '{"type":"text","text":" three"}'; echo '{"type":"usage","usage":{"input_tokens":3,"output_tokens":2}}'"#;
    let wanted = with(script, json!({"stream_options": {"include_usage": true}}));
    let mut stream = Events::open(&server, &[], wanted);
    assert_eq!((stream.text(), stream.text()), ("one ".into(), "two".into()));
    std::fs::write(server.workspace().join("go"), "").unwrap();
    assert_eq!(stream.text(), " three");
    let rest = stream.rest();
    assert_eq!(finishes(&rest), ["stop"]);
    assert_eq!(chunks(&rest).last().unwrap()["usage"]["total_tokens"], 5);

    let failing = r#"echo '{"type":"error","text":"","message":"no credit"}'; exit 1"#;
    let before = Events::open(&server, &[], says(failing));
    assert!(before.status >= 500, "{}", before.status);
    let late = format!("echo '{{\"type\":\"text\",\"text\":\"half\"}}'; {failing}");
    let events = Events::open(&server, &[], says(&late)).rest();
    assert_eq!((streamed(&events).as_str(), finishes(&events).len()), ("half", 0));
    let error = &chunks(&events).last().unwrap()["error"];
    assert!(error["message"].as_str().unwrap().contains("no credit"), "{error}");
}

#[test]
fn the_chunks_are_those_of_openai() {
    let server = Server::new().start();
    let events = Events::open(&server, &[], says("echo hi")).rest();
    let chunks = chunks(&events);
    let first = chunks[0];
    assert_eq!(first["choices"][0]["delta"], json!({"role": "assistant", "content": "", "refusal": null}));
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!((&chunk["id"], &chunk["model"]), (&first["id"], &json!("small")));
        assert!(chunk.get("usage").is_none());
    }
    assert_eq!((streamed(&events).as_str(), finishes(&events).len()), ("hi\n", 1));
}

#[test]
fn usage_comes_last_where_it_is_wanted() {
    // M10, O5.
    let server = events().start();
    let script = r#"echo '{"usage":{"input":5,"output":2}}'; echo '{"delta":"hi"}'; echo '{"done":"ok"}'"#;
    let wanted = with(script, json!({"stream_options": {"include_usage": true}}));
    let events = Events::open(&server, &[], wanted).rest();
    let chunks = chunks(&events);
    let (last, others) = chunks.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"], json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}));
    assert!(others.iter().all(|chunk| chunk["usage"] == Value::Null && chunk.get("usage").is_some()));
    assert_eq!(others.last().unwrap()["choices"][0]["finish_reason"], "stop");
}

#[test]
fn every_message_comes_with_a_blank_line_between() {
    let server = events().start();
    let script = r#"echo '{"message":"one"}'; echo '{"delta":"tw"}'; echo '{"delta":"o"}'; echo '{"message":"two"}'
                    echo '{"message":"three"}'; echo '{"done":"ok"}'"#;
    let events = Events::open(&server, &[], says(script)).rest();
    assert_eq!(streamed(&events), "one\n\ntwo\n\nthree");
}

#[test]
fn records_of_the_provider_come_where_they_are_wanted() {
    let server = events().start();
    let script = r#"echo '{"delta":"hi"}'; echo '{"done":"ok"}'"#;
    let events = Events::open(&server, &[], with(script, json!({"include_aicodebox_events": true}))).rest();
    let natives: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Data(Some(name), data) if name == "aicodebox.native" => Some(data),
            _ => None,
        })
        .collect();
    assert_eq!(natives.len(), 2, "{events:?}");
    assert_eq!(natives[0]["event"], json!({"delta": "hi"}));
    assert_eq!((&natives[1]["sequence"], &natives[1]["backend"]), (&json!(2), &json!("events")));
    assert_eq!(streamed(&events), "hi");
}

#[test]
fn a_failure_before_any_text_is_a_status_and_a_later_one_an_error() {
    // M11, O4: no apology in the content, no fake end.
    let server = Server::new().start();
    assert_eq!(Events::open(&server, &[], says("echo oops >&2; exit 3")).status, 500);
    let stream = Events::open(&server, &[], says("echo half; exit 3"));
    assert_eq!(stream.status, 200);
    let events = stream.rest();
    assert_eq!((streamed(&events).as_str(), finishes(&events).len()), ("half\n", 0));
    let error = &chunks(&events).last().unwrap()["error"];
    assert_eq!(error["type"], "server_error");
    assert!(error["message"].as_str().unwrap().contains("exit code 3"));
}

#[test]
fn a_long_line_is_no_problem() {
    // M3: the original cut the connection.
    let server = Server::new().start();
    let events = Events::open(&server, &[], says("head -c 200000 /dev/zero | tr '\\0' x; echo")).rest();
    assert_eq!(streamed(&events).len(), 200_001);
    assert_eq!(finishes(&events), ["stop"]);
}

#[test]
fn nothing_is_lost_of_many_pieces_also_by_a_slow_reader() {
    let server = events().start();
    let script = r#"i=0; while [ $i -lt 20000 ]; do echo '{"delta":"0123456789"}'; i=$((i+1)); done; echo '{"done":"ok"}'"#;
    let mut stream = Events::open(&server, &[], says(script));
    stream.text();
    // The agent is done long before its reader goes on.
    crate::harness::eventually("the run is over", || {
        (server.get("/status").json()["runs"] == json!([])).then_some(())
    });
    let events = stream.rest();
    assert_eq!(streamed(&events).len(), 199_990);
    assert_eq!(finishes(&events), ["stop"]);
}

#[test]
fn a_silent_stream_shows_that_it_lives() {
    // O7: headers 10 s after the spawn, a sign of life 15 s later.
    let server = Server::new().start();
    let begun = Instant::now();
    let mut stream = Events::open(&server, &[], says("sleep 26; echo done"));
    let headers = begun.elapsed();
    assert!((Duration::from_secs(9)..Duration::from_secs(13)).contains(&headers), "{headers:?}");
    let Some(Event::Data(None, role)) = stream.next() else { panic!("no first chunk") };
    assert_eq!(role["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(stream.next(), Some(Event::Comment("keep-alive".into())));
    assert_eq!(stream.text(), "done\n");
}
