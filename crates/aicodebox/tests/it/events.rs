//! `GET /run/{id}/events`: every reader sees the same bytes, live, later, and after a restart.

use std::io::Read;

use serde_json::json;

use crate::{
    harness::{EVENTS, Running, Server, eventually},
    sse::{Event, Events},
};

const SCRIPT: &str = r#"
echo '{"session":"s-1"}'
echo '{"delta":"Hel"}'
echo '{"delta":"lo"}'
echo 'no JSON'
echo '{"message":"Hello"}'
echo '{"done":"ok"}'
"#;

fn start(server: &Running, script: &str) -> String {
    server.run(json!({"prompt": script, "async": true})).status(200).text("/runId")
}

fn follow(server: &Running, id: &str, after: Option<u64>) -> Events {
    let after = after.map(|after| after.to_string());
    let headers: Vec<_> = after.iter().map(|after| ("Last-Event-ID", after.as_str())).collect();
    Events::of(server.open("GET", &format!("/run/{id}/events"), &headers, None))
}

fn all(server: &Running, id: &str) -> Vec<Event> {
    follow(server, id, None).collect()
}

fn text(events: &[Event]) -> String {
    events.iter().map(|event| event.bytes.as_str()).collect()
}

#[test]
fn all_that_happens_is_told_in_one_numbering() {
    let server = Server::new().adapter(EVENTS).start();
    let id = start(&server, SCRIPT);
    let events = all(&server, &id);
    let numbers: Vec<_> = events.iter().map(|event| event.id).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    let names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("status", "outcome"));
    for name in ["session", "delta", "message", "native"] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    let named = |name: &'static str| events.iter().filter(move |event| event.name == name).map(Event::json);
    assert_eq!(named("session").next().unwrap()["sessionId"], "s-1");
    let text: String = named("delta").map(|delta| delta["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(text, "Hello");
    let natives: Vec<_> = named("native").collect();
    assert!((1..).zip(&natives).all(|(number, native)| native["nativeSequence"] == number));
    assert!(natives.iter().any(|native| native["eventType"] == "raw" && native["event"] == "no JSON"));
    let outcome = named("outcome").next().unwrap();
    assert_eq!((&outcome["status"], &outcome["text"]), (&json!("completed"), &json!("Hello")));
    assert_eq!(outcome, server.get(&format!("/run/{id}")).status(200).json());
}

#[test]
fn who_comes_back_gets_exactly_the_rest_also_after_a_restart() {
    let server = Server::new().adapter(EVENTS).start();
    let id = start(&server, SCRIPT);
    let first = all(&server, &id);
    let last = first.last().unwrap().id;
    let check = |server: &Running| {
        for after in 0..last {
            let rest: Vec<_> = follow(server, &id, Some(after)).collect();
            assert_eq!(text(&rest), text(&first[after as usize..]), "after {after}");
        }
        let query = server.open("GET", &format!("/run/{id}/events?after=2"), &[], None);
        assert_eq!(text(&Events::of(query).collect::<Vec<_>>()), text(&first[2..]));
        // Nothing follows the outcome: a browser does not come back after a 204.
        assert_eq!(follow(server, &id, Some(last)).status, 204);
        assert_eq!(follow(server, &id, Some(u64::MAX)).status, 204);
    };
    check(&server);
    check(&server.restart());
}

#[test]
fn live_readers_see_events_while_the_agent_works() {
    let server = Server::new().adapter(EVENTS).start();
    let id = start(
        &server,
        r#"echo '{"delta":"a"}'; until [ -e go ]; do sleep 0.01; done
           echo '{"delta":"b"}'; echo '{"done":"ok"}'"#,
    );
    let mut readers: Vec<_> = (0..5).map(|_| follow(&server, &id, None)).collect();
    let mut seen: Vec<Vec<Event>> = Vec::new();
    for reader in &mut readers {
        let mut events = Vec::new();
        while events.last().is_none_or(|event: &Event| event.name != "delta") {
            events.push(reader.next().unwrap());
        }
        seen.push(events);
    }
    std::fs::write(server.workspace().join("go"), "").unwrap();
    for (reader, events) in readers.into_iter().zip(&mut seen) {
        events.extend(reader);
        assert_eq!(events.last().unwrap().name, "outcome");
    }
    let later = text(&all(&server, &id));
    assert!(seen.iter().all(|events| text(events) == later));
}

#[test]
fn a_queued_run_says_so() {
    let server = Server::new().env("AICODEBOX_MAX_CONCURRENT_RUNS", "1").start();
    let first = start(&server, "until [ -e go ]; do sleep 0.01; done");
    let second =
        server.run(json!({"prompt": "echo b", "workspace": "b", "async": true})).status(200).text("/runId");
    let mut events = follow(&server, &second, None);
    let status = events.next().unwrap();
    assert_eq!((status.name.as_str(), status.json()["queued"].clone()), ("status", json!(true)));
    server.get(&format!("/run/{second}")).status(200).field("/queued", true).field("/status", "running");
    std::fs::write(server.workspace().join("go"), "").unwrap();
    let rest: Vec<_> = events.collect();
    assert_eq!((rest[0].name.as_str(), rest[0].json()["queued"].clone()), ("status", json!(false)));
    assert_eq!(rest.last().unwrap().json()["status"], "completed");
    drop(first);
}

#[test]
fn a_run_that_is_cancelled_while_it_waits_never_had_its_place() {
    let server = Server::new().env("AICODEBOX_MAX_CONCURRENT_RUNS", "1").start();
    let _first = start(&server, "sleep 300");
    let second =
        server.run(json!({"prompt": "echo b", "workspace": "b", "async": true})).status(200).text("/runId");
    server.delete(&format!("/run/{second}")).status(200);
    let events: Vec<_> = follow(&server, &second, None).collect();
    let names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["status", "outcome"]);
    assert_eq!(events[0].json()["queued"], true);
}

#[test]
fn a_run_that_says_too_much_is_cut_and_keeps_its_outcome() {
    let server = Server::new().adapter(EVENTS).start();
    let script = r#"awk 'BEGIN { for (i = 0; i < 60000; i++) print "{\"delta\":\"" i " \"}"; print "{\"done\":\"ok\"}" }'"#;
    let id = start(&server, script);
    let events = all(&server, &id);
    let [.., truncated, outcome] = &events[..] else { panic!("{} events", events.len()) };
    assert_eq!((truncated.name.as_str(), outcome.name.as_str()), ("truncated", "outcome"));
    assert!(events.len() <= 50_002, "{}", events.len());
    let left_out = truncated.json()["events"].as_u64().unwrap();
    assert!(left_out > 0);
    assert!(outcome.json()["text"].as_str().unwrap().contains(" 59999"), "the answer is whole");
    assert!((1..).zip(&events).all(|(number, event)| event.id == number));
}

#[test]
fn a_reader_who_stops_reading_holds_up_nobody_and_costs_nothing() {
    let server = Server::new().adapter(EVENTS).start();
    // 12 MiB of events: more than the sockets hold. They are no part of the answer, which would be held as a whole.
    let script = r#"until [ -e go ]; do sleep 0.01; done
        awk 'BEGIN { t = sprintf("%01000d", 0); for (i = 0; i < 12000; i++) print "{\"other\":\"" t "\"}"; print "{\"done\":\"ok\"}" }'"#;
    let go = server.workspace().join("go");
    let memory_after = |readers: usize| {
        let id = start(&server, script);
        let stuck: Vec<_> =
            (0..readers).map(|_| server.open("GET", &format!("/run/{id}/events"), &[], None)).collect();
        std::fs::write(&go, "").unwrap();
        let events = all(&server, &id);
        assert_eq!(events.last().unwrap().name, "outcome");
        std::fs::remove_file(&go).unwrap();
        (memory(server.pid()), stuck, events)
    };
    // The first run also shows what the allocator and the store keep.
    let (alone, ..) = memory_after(0);
    let (together, stuck, events) = memory_after(16);
    let grown = together.saturating_sub(alone);
    assert!(grown < 32 << 20, "{} MiB for readers who do not read", grown >> 20);
    // One of them wakes up and misses nothing.
    let late: Vec<_> = Events::of(stuck.into_iter().next().unwrap()).collect();
    assert_eq!(text(&late), text(&events));
}

/// Resident memory in bytes.
fn memory(pid: i32) -> u64 {
    let mut status = String::new();
    std::fs::File::open(format!("/proc/{pid}/status")).unwrap().read_to_string(&mut status).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn bad_numbers_and_unknown_runs_are_refused() {
    let server = Server::new().start();
    let id = start(&server, "echo a");
    eventually("the run ends", || {
        (server.get(&format!("/run/{id}")).json()["status"] == "completed").then_some(())
    });
    for after in ["x", "-1", "1.5"] {
        let answer = server.send("GET", &format!("/run/{id}/events"), &[("Last-Event-ID", after)], None);
        assert!(answer.problem(422).starts_with("Last-Event-ID"));
        server.get(&format!("/run/{id}/events?after={after}")).problem(422);
    }
    server.get("/run/0123456789abcdef0123456789abcdef/events").problem(404);
    server.get("/run/nonsense/events").problem(404);
    server.delete(&format!("/run/{id}?purge=1")).status(200).field("/status", "completed");
    server.get(&format!("/run/{id}/events")).problem(404);
    server.get(&format!("/run/{id}")).problem(404);
    server.get(&format!("/run/result?runId={id}")).problem(404);
}

#[test]
fn nothing_is_left_out_behind_a_large_record() {
    let server = Server::new().adapter(EVENTS).start();
    let script = r#"large() { printf '{"message":"'; head -c 5000000 /dev/zero | tr '\0' x; echo '"}'; }
        large; large; echo '{"session":"s"}'; echo '{"message":"last"}'; echo '{"done":"ok"}'"#;
    let answer = server.run(json!({"prompt": script, "eventMode": "full"})).status(200);
    assert_eq!(answer.json().get("eventsTruncated"), None);
    let id = answer.text("/runId");
    let names: Vec<_> = Events::of(server.open("GET", &format!("/run/{id}/events"), &[], None))
        .map(|event| event.name)
        .filter(|name| !["native", "status", "notice"].contains(&name.as_str()))
        .collect();
    assert_eq!(names, ["message", "message", "session", "message", "outcome"]);
}
