use std::time::{Duration, Instant};

use aicodebox_engine::{
    adapter::TEXT_LIMIT,
    process::{Flow, Stream},
};

use crate::{
    cases::built_in,
    streams::{ended, reader, request},
};

/// Memory that this process has in use, in MiB.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4 / 1024
}

#[test]
fn an_answer_without_end_is_kept_at_both_ends() {
    let request = request();
    let (mut reader, events) = reader(&built_in("text"), &request);
    let before = resident();
    reader.feed(Stream::Stdout, "the beginning ".as_bytes());
    let chunk = "é".repeat(32 << 10);
    for _ in 0..3200 {
        assert_eq!(reader.feed(Stream::Stdout, chunk.as_bytes()), Flow::Go);
        events.take();
    }
    reader.feed(Stream::Stdout, " the end\n".as_bytes());
    let grown = resident().saturating_sub(before);
    assert!(grown < 24, "{grown} MiB more for 200 MiB of output");
    let reading = ended(reader, 0);
    assert!(reading.text.len() <= TEXT_LIMIT && reading.text.len() > TEXT_LIMIT - 200);
    assert!(reading.text.starts_with("the beginning é") && reading.text.ends_with("é the end"));
    assert!(reading.text.contains("bytes left out"));
    assert_eq!(events.notices(), ["truncated: the answer was too long: its middle was left out"]);
}

#[test]
fn a_line_without_end_does_not_fill_the_memory() {
    let request = request();
    let (mut reader, events) = reader(&built_in("codex"), &request);
    let before = resident();
    reader.feed(Stream::Stdout, b"{\"type\":\"item.completed\",\"x\":\"");
    let chunk = [b'x'; 64 << 10];
    for _ in 0..3200 {
        reader.feed(Stream::Stdout, &chunk);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 24, "{grown} MiB more for a line of 200 MiB");
    reader.feed(Stream::Stdout, b"\"}\n{\"type\":\"turn.completed\"}\n");
    assert_eq!(events.notices(), ["truncated: a line of more than 8388608 bytes was not read"]);
}

#[test]
fn a_line_nested_without_end_is_read_all_the_same() {
    let request = request();
    let (mut reader, events) = reader(&built_in("pi"), &request);
    let deep = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    let lines = format!(
        "{{\"type\":\"message_end\",\"message\":{{\"role\":\"assistant\",\"content\":[{{\"text\":\"hi\"}},{{\"arguments\":{deep}}}]}}}}\n\
         {{\"type\":\"agent_settled\"}}\n"
    );
    reader.feed(Stream::Stdout, lines.as_bytes());
    assert!(events.notices().is_empty());
    assert_eq!(ended(reader, 0).text, "hi");
}

#[test]
fn a_line_that_was_too_long_is_said_where_the_answer_is_read() {
    let long = format!("{{\"type\":\"item.completed\",\"x\":\"{}\"}}\n", "x".repeat(9 << 20));
    let said = "{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"hello\"}}\n";
    let end = "{\"type\":\"turn.completed\"}\n";
    let why = "a line of more than 8 MiB in the agent's output could not be read";
    let read = |output: &str| {
        let (mut reader, events) = reader(&built_in("codex"), &request());
        reader.feed(Stream::Stdout, output.as_bytes());
        (ended(reader, 0), events.take())
    };
    // Another answer: it is marked, also for those who read it as it comes.
    let (reading, events) = read(&format!("{said}{long}{end}"));
    assert_eq!(reading.text, format!("hello\n\n[{why}: something may be missing here]"));
    assert!(events.contains(&format!("message \n[{why}: something may be missing here]")), "{events:?}");
    // None: the error says why.
    for output in [format!("{long}{end}"), long.clone()] {
        let aicodebox_engine::run::Verdict::Failed(failure) = read(&output).0.verdict else {
            panic!("it is ok")
        };
        assert!(failure.message.ends_with(why), "{failure}");
    }
    assert_eq!(read(&format!("{said}{end}")).0.text, "hello");
}

#[test]
fn errors_without_end_are_kept_at_both_ends() {
    let request = request();
    let (mut reader, _) = reader(&built_in("text"), &request);
    reader.feed(Stream::Stderr, b"first words\n");
    let before = resident();
    let line = [b"y".repeat(999), b"\n".to_vec()].concat();
    for _ in 0..50_000 {
        reader.feed(Stream::Stderr, &line);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 8, "{grown} MiB more for 50 MB of errors");
    reader.feed(Stream::Stderr, b"last words");
    let aicodebox_engine::run::Verdict::Failed(failure) = ended(reader, 1).verdict else {
        panic!("it is ok")
    };
    assert!(failure.message.starts_with("first words") && failure.message.ends_with("last words"));
    assert!(failure.message.chars().count() < 700);
}

#[test]
fn usage_without_end_is_left_out_and_said_once() {
    let request = request();
    let (mut reader, events) = reader(&built_in("opencode"), &request);
    let wide: String = (0..100_000).map(|number| format!(",\"k{number}\":1")).collect();
    let line = |more: &str| {
        format!("{{\"type\":\"step_finish\",\"part\":{{\"tokens\":{{\"input\":1,\"output\":2{more}}}}}}}\n")
    };
    reader.feed(Stream::Stdout, line(&wide).as_bytes());
    let begin = Instant::now();
    for _ in 0..200 {
        reader.feed(Stream::Stdout, line("").as_bytes());
    }
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!(events.notices(), ["usage: the provider's own usage is too large to be kept"]);
    let usage = ended(reader, 0).usage.unwrap();
    assert_eq!((usage.tokens.output, usage.native), (Some(402), serde_json::Value::Null));
}

#[test]
fn a_line_with_as_many_keys_as_items_is_read_in_no_time() {
    let (mut reader, _events) = reader(&built_in("claude"), &request());
    let items = vec!["{}"; 10_000].join(",");
    let keys: String = (0..10_000).map(|number| format!(",\"k{number}\":1")).collect();
    let line = format!("{{\"type\":\"assistant\",\"message\":{{\"content\":[{items}]}}{keys}}}\n");
    let begin = Instant::now();
    reader.feed(Stream::Stdout, line.as_bytes());
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[test]
fn tools_with_names_without_end_take_no_memory() {
    let (mut reader, events) = reader(&built_in("claude"), &request());
    let long = "x".repeat(1 << 20);
    let before = resident();
    for number in 0..200 {
        let line = format!(
            "{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"tool_use\",\"id\":\"{number}{long}\",\"name\":\"t\"}}]}}}}\n"
        );
        reader.feed(Stream::Stdout, line.as_bytes());
        assert_eq!(events.take().len(), 1);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 64, "{grown} MiB more for 200 open tools");
}

/// Generous, since it is not built for speed here: what this catches is work per byte that was read before.
#[test]
fn twenty_thousand_lines_are_read_in_no_time() {
    let request = request();
    let (mut reader, events) = reader(&built_in("pi"), &request);
    let line = "{\"type\":\"message_update\",\"assistantMessageEvent\":{\"type\":\"text_delta\",\"delta\":\"word \"}}\n";
    let start = Instant::now();
    for _ in 0..20_000 {
        reader.feed(Stream::Stdout, line.as_bytes());
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(events.take().len(), 20_000);
    assert_eq!(ended(reader, 143).text.len(), 100_000);
}
