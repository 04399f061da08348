//! What is accepted is kept: over restarts, kills, damage, and disks that take nothing any more.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::signal::Signal,
};
use serde_json::{Value, json};

use crate::{
    harness::{Answer, EVENTS, Finished, Home, Running, SHELL, Server, eventually, try_open, try_send},
    sse::{Event, Events},
};

fn start(server: &Running, script: &str) -> String {
    server.run(json!({"prompt": script, "async": true})).status(200).text("/runId")
}

fn finished(server: &Running, id: &str) -> Value {
    eventually("the run ends", || {
        let record = server.get(&format!("/run/{id}")).status(200).json();
        (record["status"] != "running").then_some(record)
    })
}

#[test]
fn a_result_is_read_any_number_of_times_also_after_a_restart() {
    let server = Server::new().start();
    let id = start(&server, "echo hi");
    finished(&server, &id);
    let path = format!("/run/result?runId={id}");
    let first = server.get(&path).status(200).field("/text", "hi").body;
    assert_eq!(server.get(&path).status(200).body, first);
    let record = server.get(&format!("/run/{id}")).status(200).body;
    let server = server.restart();
    assert_eq!(server.get(&path).status(200).body, first);
    assert_eq!(server.get(&format!("/run/{id}")).status(200).body, record);
}

#[test]
fn only_the_owner_may_look_and_only_one_server_may_serve() {
    let server = Server::new().start();
    server.run(json!({"prompt": "echo hi"})).status(200);
    let private = server.home().path("home/.aicodebox/private");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&private), 0o700);
    for entry in fs::read_dir(&private).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    let second = Finished::of(&mut server.home().serve()).code(1);
    assert!(
        second.stderr().contains(&format!("another aicodebox (pid {})", server.pid())),
        "{}",
        second.stderr()
    );
    server.run(json!({"prompt": "echo hi"})).status(200);
}

#[test]
fn what_ran_when_the_server_was_killed_reads_interrupted() {
    let server = Server::new().start();
    let id = start(&server, "echo begun; sleep 600");
    eventually("it has begun", || {
        let events = server.open("GET", &format!("/run/{id}/events"), &[], None);
        Events::of(events).find(|event| event.name == "delta")
    });
    let server = server.restart();
    server.get(&format!("/run/{id}")).status(200).field("/status", "interrupted").field("/exitCode", 143);
    let events: Vec<_> = Events::of(server.open("GET", &format!("/run/{id}/events"), &[], None)).collect();
    assert_eq!(events.last().unwrap().json()["status"], "interrupted");
    assert!(events.iter().any(|event| event.name == "delta"));
    server.get("/status").field("/runs", json!([])).field("/busyWorkspaces", json!([]));
    // Its workspace is free.
    server.run(json!({"prompt": "echo hi"})).status(200);
}

/// What callers of one server life were told.
#[derive(Default)]
struct Told {
    /// Bytes of events by run.
    events: HashMap<String, String>,
    /// Answers to callers who waited.
    answers: HashMap<String, Value>,
}

/// How often the server is killed: `AICODEBOX_TEST_KILLS`.
#[expect(clippy::disallowed_methods, reason = "a test has no configuration that could have read it")]
fn kills() -> u32 {
    std::env::vars()
        .find(|(name, _)| name == "AICODEBOX_TEST_KILLS")
        .map_or(10, |(_, count)| count.parse().unwrap())
}

#[test]
fn whatever_moment_the_server_is_killed_at_nothing_told_is_lost() {
    let script = r#"i=0; while [ $i -lt 20 ]; do echo "{\"delta\":\"$i \"}"; i=$((i + 1)); [ $((i % 5)) = 0 ] && sleep 0.02; done; echo '{"done":"ok"}'"#;
    let body = |index: usize, wait: bool| {
        json!({"prompt": script, "workspace": format!("w{index}"), "async": !wait}).to_string()
    };
    let mut server = Server::new().adapter(EVENTS).start();
    let mut random = Random::new();
    for round in 0..kills() {
        let told = Arc::new(Mutex::new(Told::default()));
        let address = server.address;
        let accepted = Arc::new(AtomicU64::new(0));
        let clients: Vec<_> = (0..32)
            .map(|index| {
                let (told, accepted) = (told.clone(), accepted.clone());
                // One in four waits for its answers, the others read events.
                let wait = index % 4 == 0;
                let body = body(index, wait);
                thread::spawn(move || client(address, &body, wait, &told, &accepted))
            })
            .collect();
        eventually("work has begun", || (accepted.load(Ordering::Relaxed) >= 32).then_some(()));
        thread::sleep(Duration::from_millis(random.below(300)));
        server = server.restart();
        clients.into_iter().for_each(|client| client.join().unwrap());
        let told = told.lock().unwrap();
        for (id, bytes) in &told.events {
            let record = server.get(&format!("/run/{id}")).status(200).json();
            let status = record["status"].as_str().unwrap();
            assert!(["completed", "interrupted"].contains(&status), "round {round}, {id}: {record}");
            let all: Vec<Event> =
                Events::of(server.open("GET", &format!("/run/{id}/events"), &[], None)).collect();
            let now: String = all.iter().map(|event| event.bytes.as_str()).collect();
            assert!(now.starts_with(bytes), "round {round}, {id}:\n{bytes}\nand now\n{now}");
            assert!((1..).zip(&all).all(|(number, event)| event.id == number), "round {round}: {now}");
            // Who goes on from what it was given gets the rest, to the byte.
            let mut length = 0;
            let given = all.iter().take_while(|event| {
                length += event.bytes.len();
                length <= bytes.len()
            });
            let given = given.count().to_string();
            let rest = server.open("GET", &format!("/run/{id}/events"), &[("Last-Event-ID", &given)], None);
            let rest: String = Events::of(rest).map(|event| event.bytes).collect();
            assert_eq!(format!("{bytes}{rest}"), now, "round {round}, {id}, after {given}");
            assert_eq!(all.last().unwrap().json()["status"], status);
        }
        for (id, answer) in &told.answers {
            let record = server.get(&format!("/run/{id}")).status(200).json();
            assert_eq!((&record["status"], &record["text"]), (&json!("completed"), &answer["text"]));
        }
    }
}

/// Starts runs until the server is gone.
fn client(address: std::net::SocketAddr, body: &str, wait: bool, told: &Mutex<Told>, accepted: &AtomicU64) {
    while let Some((200, answer)) = try_send(address, "POST", "/run", body) {
        accepted.fetch_add(1, Ordering::Relaxed);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let id = answer["runId"].as_str().unwrap().to_owned();
        if wait {
            told.lock().unwrap().answers.insert(id, answer);
            continue;
        }
        told.lock().unwrap().events.insert(id.clone(), String::new());
        let Some(stream) = try_open(address, "GET", &format!("/run/{id}/events"), "") else { return };
        let mut bytes = String::new();
        for event in Events::of(stream) {
            bytes.push_str(&event.bytes);
        }
        told.lock().unwrap().events.insert(id, bytes);
    }
}

/// Numbers that differ from run to run; the seed is printed with a failure.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
        eprintln!("seed {seed}");
        Self(seed | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn lists_are_filtered_and_paged() {
    let server = Server::new().start();
    let ids: Vec<_> = (0..5)
        .map(|index| {
            let script = if index == 1 { "exit 3" } else { "echo hi" };
            server.run(json!({"prompt": script})).status(200).text("/runId")
        })
        .collect();
    let list = |query: &str| {
        let page = server.get(&format!("/runs?{query}")).status(200).json();
        let runs = page["runs"].as_array().unwrap();
        let places: Vec<_> =
            runs.iter().map(|run| ids.iter().position(|id| run["runId"] == **id).unwrap()).collect();
        (places, page["nextCursor"].as_str().map(str::to_owned))
    };
    let (first, next) = list("limit=3");
    assert_eq!(first, [4, 3, 2]);
    assert_eq!(list(&format!("limit=3&cursor={}", next.unwrap())), (vec![1, 0], None));
    assert_eq!(list("status=completed&surface=api").0.len(), 5);
    assert_eq!(list("surface=cron"), (vec![], None));
    for bad in [
        "status=nonsense",
        "surface=x",
        "limit=0",
        "limit=501",
        "limit=x",
        "cursor=x",
        "cursor=-1",
        "cursor=%2B5",
    ] {
        server.get(&format!("/runs?{bad}")).problem(422);
    }
}

#[test]
fn runs_go_when_their_time_is_over() {
    let server = Server::new().env("AICODEBOX_RUN_TTL", "1s").start();
    let id = start(&server, "echo hi");
    eventually("it is forgotten", || {
        let answer = server.get(&format!("/run/{id}"));
        answer.body.contains("run not found").then_some(())
    });
}

/// Its script prints lines of JSON; what it says of tokens are the counters of the whole session.
const COUNTERS: &str = r#"
schema = 1
name   = "counters"
binary = "/bin/sh"
[models]
list = ["m"]
[run]
argv  = ["-c", 'eval "$(cat)"', "counters", { when = "resume", args = ["{resume}"] }]
stdin = "{prompt}"
[output]
format = "jsonl"
[[event]]
match   = { "/session" = { exists = true } }
session = "/session"
[[event]]
match = { "/usage" = { exists = true } }
usage = "/usage"
[[event]]
match   = { "/message" = { exists = true } }
message = "/message"
done    = "ok"
[usage]
scope  = "session"
input  = "/input"
output = "/output"
"#;

#[test]
fn counters_of_a_session_are_taken_off_also_when_its_runs_are_forgotten() {
    let server = Server::new().adapter(COUNTERS).env("AICODEBOX_RUN_TTL", "1s").start();
    let run = |server: &Running, input: u64, output: u64| {
        let lines = [
            json!({"session": "s1"}),
            json!({"usage": {"input": input, "output": output}}),
            json!({"message": "well"}),
        ];
        let prompt = lines.map(|line| format!("echo '{line}'")).join("; ");
        server.run(json!({"prompt": prompt, "workspace": "w", "outputFormat": "json-verbose"})).status(200)
    };
    let first = run(&server, 10, 1).field("/tokens/input", 10);
    let path = format!("/run/{}", first.text("/runId"));
    eventually("its record is gone", || server.get(&path).body.contains("run not found").then_some(()));
    run(&server, 25, 4).field("/sessionId", "s1").field("/tokens/input", 15).field("/tokens/output", 3);
    let server = server.restart();
    run(&server, 27, 9).field("/usage/input", 2).field("/usage/output", 5);
}

#[test]
fn what_a_stopped_run_consumed_is_not_counted_as_the_next_one_s() {
    let mut server = Server::new().adapter(COUNTERS).start();
    let says = |input: u64| {
        format!(
            r#"echo '{{"session":"s1"}}'; echo '{{"usage":{{"input":{input}}}}}'; echo '{{"message":"well"}}'"#
        )
    };
    let run = |server: &Running, prompt: &str| {
        let body =
            json!({"prompt": prompt, "workspace": "w", "outputFormat": "json-verbose", "timeoutSeconds": 60});
        server.run(body).status(200)
    };
    let known = |answer: Answer, input: u64| answer.field("/tokens/input", input);
    let unknown = |answer: Answer| answer.field("/usage", Value::Null);
    let session = r#"echo '{"session":"s1"}'; "#;
    known(run(&server, &says(10)), 10);
    // It got so far, and no further: the next one only knows the sum of both.
    let ends = [
        (format!("{session} exit 5"), Value::from(5)),
        (format!("{session} kill -9 $$"), Value::from(137)),
        (format!("{}; kill -9 $$", says(11).replace("message", "thought")), Value::from(137)),
    ];
    for (at, (prompt, code)) in (1..).zip(ends) {
        run(&server, &prompt).field("/exitCode", code);
        let sum = run(&server, &says(100 * at));
        let notices = server.open("GET", &format!("/run/{}/events", sum.text("/runId")), &[], None);
        assert!(Events::of(notices).any(|event| event.name == "notice"), "{prompt}");
        unknown(sum);
        known(run(&server, &says(100 * at + 7)), 7);
    }
    // Nor when the server dies with it.
    let body =
        json!({"prompt": format!("{session} echo $$ > begun; sleep 300"), "workspace": "w", "async": true});
    server.run(body).status(200);
    server.wait_for_file("w/begun");
    server.signal(Signal::SIGKILL);
    server.ended();
    let server = server.restart();
    unknown(run(&server, &says(1_000)));
    known(run(&server, &says(1_003)), 3);
}

#[test]
fn a_newer_store_is_refused_and_a_damaged_one_set_aside() {
    let server = Server::new().start();
    server.run(json!({"prompt": "echo hi"})).status(200);
    let server = server.stopped();
    let path = server.home().path("home/.aicodebox/private/runs.db");
    let mut bytes = fs::read(&path).unwrap();
    let right = bytes.clone();
    // The file's user version (SQLite's file format, §1.3).
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&path, &bytes).unwrap();
    let refused = Finished::of(&mut server.home().serve()).code(1);
    assert!(refused.stderr().contains("written by a newer aicodebox"), "{}", refused.stderr());
    assert_eq!(fs::read(&path).unwrap(), bytes, "it is left alone");
    fs::write(&path, &right[..right.len() / 2]).unwrap();
    let server = server.start_again();
    let line = server.log.wait("the run store is damaged: it was set aside, and a new one begun");
    let kept = line["kept"].as_str().unwrap();
    assert_eq!(fs::read(kept).unwrap().len(), right.len() / 2);
    server.run(json!({"prompt": "echo hi"})).status(200);
}

/// A file system of its own over the state directory. `None` where the tests may not mount.
struct Disk(std::path::PathBuf);

impl Disk {
    fn mount(path: std::path::PathBuf) -> Option<Self> {
        fs::create_dir_all(&path).unwrap();
        let options = Some("size=8m");
        match mount(Some("tmpfs"), &path, Some("tmpfs"), MsFlags::empty(), options) {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                eprintln!("SKIP disks: file systems cannot be mounted here ({error})");
                None
            }
        }
    }

    fn fill(&self) {
        let mut filler = fs::File::create(self.0.join("filler")).unwrap();
        let error = std::io::copy(&mut std::io::repeat(1), &mut filler).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }

    fn read_only(&self, on: bool) {
        let flags = if on { MsFlags::MS_RDONLY } else { MsFlags::empty() };
        mount(None::<&str>, &self.0, None::<&str>, flags | MsFlags::MS_REMOUNT, None::<&str>).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        umount2(&self.0, MntFlags::MNT_DETACH).unwrap();
    }
}

#[test]
fn a_full_disk_refuses_runs_and_loses_no_answer() {
    let home = Arc::new(Home::new(SHELL));
    let Some(disk) = Disk::mount(home.path("home/.aicodebox")) else { return };
    let server = Server::new().start_in(&home);
    let waiting = server.open(
        "POST",
        "/run",
        &[],
        Some(
            json!({"prompt": "until [ -e go ]; do sleep 0.01; done; echo done", "workspace": "a"})
                .to_string(),
        ),
    );
    let fetched = server
        .run(json!({"prompt": "until [ -e go ]; do sleep 0.01; done; echo done", "workspace": "b", "async": true}))
        .text("/runId");
    eventually("both run", || (server.get("/status").json()["runs"].as_array()?.len() == 2).then_some(()));
    disk.fill();
    let begun = Instant::now();
    let detail = eventually("a run is refused", || {
        let answer = server.run(json!({"prompt": "echo hi", "noContinue": true}));
        answer.body.contains("disk is full").then(|| answer.problem(503))
    });
    assert!(begun.elapsed() < Duration::from_secs(10), "{detail}");
    for workspace in ["a", "b"] {
        fs::write(server.workspace().join(workspace).join("go"), "").unwrap();
    }
    Answer::read(waiting).status(200).field("/text", "done");
    // The outcome could not be written, but it is there.
    let record = finished(&server, &fetched);
    assert_eq!((&record["status"], &record["text"]), (&json!("completed"), &json!("done")));
    disk.free();
    eventually("runs are taken again", || {
        server.run(json!({"prompt": "echo hi"})).body.contains("exitCode").then_some(())
    });
    server.log.wait("outcomes that could not be stored are stored now");
    let server = server.restart();
    server.get(&format!("/run/{fetched}")).status(200).field("/status", "completed");
    drop(server);
}

#[test]
fn a_disk_that_became_read_only_refuses_runs() {
    let home = Arc::new(Home::new(SHELL));
    let Some(disk) = Disk::mount(home.path("home/.aicodebox")) else { return };
    let server = Server::new().start_in(&home);
    server.run(json!({"prompt": "echo hi"})).status(200);
    // Files that are open for writing keep a file system from becoming read-only.
    let server = server.stopped();
    disk.read_only(true);
    let refused = Finished::of(&mut server.home().serve()).code(1);
    assert!(refused.stderr().to_lowercase().contains("read-only"), "{}", refused.stderr());
    disk.read_only(false);
    let server = server.start_again();
    server.run(json!({"prompt": "echo hi"})).status(200);
    server.signal(Signal::SIGKILL);
}

#[test]
fn a_clean_end_leaves_one_file_that_can_be_copied() {
    let server = Server::new().start();
    let id = server.run(json!({"prompt": "echo hi"})).status(200).text("/runId");
    let server = server.stopped();
    let private = server.home().path("home/.aicodebox/private");
    let mut names: Vec<_> = fs::read_dir(&private)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["lock", "runs.db"]);
    let script = "import sqlite3, sys\n\
        print(sqlite3.connect(sys.argv[1]).execute('SELECT status FROM run WHERE hex(id) = upper(?)', (sys.argv[2],)).fetchone()[0])";
    let path = private.join("runs.db");
    let read = Command::new("python3").args(["-c", script]).arg(&path).arg(&id).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&read.stdout), "completed\n", "{read:?}");
}
