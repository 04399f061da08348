//! `callbackUrl`: the record is sent when the run is over, signed, and only to where it may go.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    process::Command,
    sync::mpsc::{Receiver, channel},
    thread,
};

use serde_json::{Value, json};

use crate::harness::{LIMIT, Server, eventually};

const SECRET: &str = "callback-key";

/// A request that a receiver got.
struct Got {
    head: String,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        let line = self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.head)).split_once(": ").unwrap().1
    }
}

/// A receiver that takes everything.
fn receiver() -> (SocketAddr, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, got) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).unwrap() == 0 {
                    break;
                }
            }
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")
                    .map(|length| length.parse::<u64>().unwrap())
            });
            let mut body = String::new();
            (&mut reader).take(length.unwrap_or_default()).read_to_string(&mut body).unwrap();
            reader.into_inner().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            if send.send(Got { head, body }).is_err() {
                return;
            }
        }
    });
    (address, got)
}

fn server() -> Server {
    Server::new()
        .env("AICODEBOX_CALLBACK_SECRET", SECRET)
        .env("AICODEBOX_CALLBACK_ALLOWED_HOSTS", "127.0.0.1")
        .env("RUST_LOG", "info,aicodebox=debug")
}

#[test]
fn the_record_is_sent_and_its_signature_is_the_documented_one() {
    let (address, got) = receiver();
    let server = server().start();
    let url = format!("http://{address}/hook?x=1");
    let id = server
        .run(json!({"prompt": "echo hi", "callbackUrl": url, "async": true}))
        .status(200)
        .text("/runId");
    let got = got.recv_timeout(LIMIT).unwrap();
    assert!(got.head.starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{}", got.head);
    assert_eq!(got.header("content-type"), "application/json");
    let body: Value = serde_json::from_str(&got.body).unwrap();
    assert_eq!(
        (&body["runId"], &body["status"], &body["text"]),
        (&json!(id), &json!("completed"), &json!("hi"))
    );
    assert_eq!(body, server.get(&format!("/run/{id}")).json());
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md")).unwrap();
    let code = docs.split("```python\n").find(|part| part.contains("def signed_by_us")).unwrap();
    let code = code.split("```").next().unwrap();
    assert!(code.lines().count() <= 10, "{code}");
    let verify = |secret: &str, body: &str| {
        let call = format!(
            "{code}\nimport sys\nprint(signed_by_us(*[arg.encode() for arg in sys.argv[1:3]], sys.argv[3]))"
        );
        let signature = got.header("x-aicodebox-signature");
        let output = Command::new("python3").args(["-c", &call, secret, body, signature]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(verify(SECRET, &got.body), "True");
    assert_eq!(verify("another", &got.body), "False");
    assert_eq!(verify(SECRET, &got.body.replace("hi", "ho")), "False");
}

#[test]
fn a_run_that_a_killed_server_leaves_calls_back_after_the_restart() {
    let (address, got) = receiver();
    let server = server().start();
    let url = format!("http://{address}/");
    let id = server
        .run(json!({"prompt": "echo x > begun; sleep 600", "callbackUrl": url, "async": true}))
        .status(200)
        .text("/runId");
    server.wait_for_file("begun");
    let _server = server.restart();
    let body: Value = serde_json::from_str(&got.recv_timeout(LIMIT).unwrap().body).unwrap();
    assert_eq!((&body["runId"], &body["status"]), (&json!(id), &json!("interrupted")));
}

#[test]
fn a_receiver_that_hangs_holds_up_no_other() {
    // It takes the connection, and never answers.
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, got) = receiver();
    let server = server().start();
    let run =
        |url: String| server.run(json!({"prompt": "echo hi", "callbackUrl": url})).status(200).text("/runId");
    run(format!("http://{}/", hanging.local_addr().unwrap()));
    let _held = hanging.accept().unwrap();
    let second = run(format!("http://{address}/"));
    let body: Value = serde_json::from_str(&got.recv_timeout(LIMIT).unwrap().body).unwrap();
    assert_eq!(body["runId"], json!(second));
    // The first is on its way still, and was not sent again meanwhile.
    hanging.set_nonblocking(true).unwrap();
    assert!(hanging.accept().is_err());
}

#[test]
fn without_a_key_there_are_none() {
    let server = Server::new().start();
    let detail = server.run(json!({"prompt": "echo hi", "callbackUrl": "https://example.org/"})).problem(422);
    assert!(detail.starts_with("callbackUrl: ") && detail.contains("AICODEBOX_CALLBACK_SECRET"), "{detail}");
}

#[test]
fn addresses_that_are_not_public_are_refused_or_never_reached() {
    let (address, got) = receiver();
    let server = Server::new()
        .env("AICODEBOX_CALLBACK_SECRET", SECRET)
        .env("RUST_LOG", "info,aicodebox=debug")
        .start();
    for url in [
        format!("http://{address}/"),
        format!("http://[::ffff:127.0.0.1]:{}/", address.port()),
        "http://169.254.169.254/latest/meta-data".into(),
        "http://10.0.0.1/".into(),
        "http://0x7f000001/".into(),
        "file:///etc/passwd".into(),
        "http://user:password@example.org/".into(),
        "nonsense".into(),
    ] {
        let detail = server.run(json!({"prompt": "echo hi", "callbackUrl": url})).problem(422);
        assert!(detail.starts_with("callbackUrl: "), "{url}: {detail}");
    }
    // What a name leads to is known only when it is asked for.
    let url = format!("http://localhost:{}/", address.port());
    server.run(json!({"prompt": "echo hi", "callbackUrl": url})).status(200);
    let line = server.log.wait("callback not taken");
    assert!(line["reason"].as_str().unwrap().contains("not a public address"), "{line}");
    assert!(got.try_recv().is_err());
    eventually("the run is there", || server.get("/runs").json()["runs"].as_array()?.first().cloned());
}
