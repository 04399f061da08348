//! The files of the workspaces, over HTTP.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::symlink,
};

use nix::sys::stat::Mode;
use serde_json::json;

use crate::harness::{Answer, LIMIT, Running, Server};

impl Running {
    fn put(&self, path: &str, body: &str) -> Answer {
        self.send("PUT", path, &[], Some(body.to_owned()))
    }

    fn get_with(&self, path: &str, header: (&str, &str)) -> Answer {
        self.send("GET", path, &[header], None)
    }
}

#[test]
fn files_are_written_listed_read_and_deleted() {
    let server = Server::new().start();
    server.get("/files").status(200).field("/path", "/").field("/entries", json!([]));
    let put = server.put("/files/a/b/h%C3%A9.txt", "h\u{e9}").status(200);
    assert_eq!(put.json(), json!({"status": "ok", "path": "a/b/h\u{e9}.txt", "size": 3}));
    server.put("/files/a/z", "").status(200);
    symlink("b", server.workspace().join("a/link")).unwrap();

    let listing = server.get("/files/a/").status(200);
    let entries = json!([
        {"name": "b", "type": "dir"},
        {"name": "link", "type": "link"},
        {"name": "z", "type": "file", "size": 0},
    ]);
    assert_eq!(listing.json(), json!({"path": "a", "entries": entries}));
    assert_eq!(server.get("/files/").body, server.get("/files").body);

    let read = server.get("/files/a/link/h%C3%A9.txt").status(200);
    assert_eq!(read.body, "h\u{e9}");
    assert_eq!(read.header("content-length"), Some("3"));
    assert_eq!(read.header("content-type"), Some("text/plain; charset=utf-8"));

    let deleted = server.delete("/files/a/link").status(200);
    assert_eq!(deleted.json(), json!({"status": "ok", "path": "a/link"}));
    assert!(server.workspace().join("a/b").is_dir());
    assert_eq!(server.delete("/files/a/b").problem(400), "is a directory: a/b");
    assert_eq!(server.put("/files/a", "x").problem(400), "is a directory: a");
    for method in ["GET", "HEAD", "DELETE"] {
        let answer = server.send(method, "/files/no/where", &[], None).status(404);
        assert!(method == "HEAD" || answer.text("/detail") == "not found: no/where");
    }
    assert_eq!(
        server.send("POST", "/files/a", &[], None).status(405).header("allow"),
        Some("GET,HEAD,PUT,DELETE")
    );
}

#[test]
fn no_link_and_no_dots_lead_out_of_the_root() {
    let server = Server::new().start();
    let root = server.workspace();
    // F10: a sibling whose name begins with that of the root.
    let evil = root.with_file_name("workspace-evil");
    fs::create_dir(&evil).unwrap();
    fs::write(evil.join("secret"), "secret").unwrap();
    symlink(&evil, root.join("sibling")).unwrap();
    symlink("../workspace-evil/secret", root.join("leaf")).unwrap();
    symlink("../workspace-evil/made", root.join("dangling")).unwrap();
    for path in
        ["sibling", "sibling/secret", "leaf", "%2e%2e/workspace-evil/secret", "a/../../x", "/etc/hostname"]
    {
        let path = format!("/files/{path}");
        let problem = server.get(&path).problem(400);
        assert!(problem.contains("root"), "{path}: {problem}");
    }
    // A link above the file leads nowhere; one in its place is replaced.
    for path in ["sibling/new", "sibling/secret", "dangling/x"] {
        server.put(&format!("/files/{path}"), "x").problem(400);
        server.delete(&format!("/files/{path}")).problem(400);
    }
    server.put("/files/leaf", "mine").status(200);
    server.put("/files/dangling", "mine").status(200);
    assert_eq!(server.get("/files/dangling").status(200).body, "mine");
    server.delete("/files/sibling").status(200);
    assert_eq!(fs::read_to_string(evil.join("secret")).unwrap(), "secret");
    assert_eq!(fs::read_dir(&evil).unwrap().count(), 1);
}

#[test]
fn a_fifo_or_device_holds_nobody_up() {
    let server = Server::new().start();
    let fifo = server.workspace().join("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(server.workspace().join("socket")).unwrap();
    for name in ["fifo", "socket"] {
        let path = format!("/files/{name}");
        let refused = format!("not a regular file: {name}");
        assert_eq!(server.get(&path).problem(400), refused);
        // M26: this froze the whole of the original, for ever.
        assert_eq!(server.put(&path, "x").problem(400), refused);
        server.send("HEAD", &path, &[], None).status(400);
    }
    server.get("/healthz").status(200);
    server.run(json!({"prompt": "echo still here"})).status(200).field("/text", "still here");
    server.get("/files").field("/entries/0", json!({"name": "fifo", "type": "file"}));
    server.delete("/files/fifo").status(200);
    assert!(!fifo.exists());
}

#[test]
fn a_reader_can_ask_for_a_part_and_whether_it_has_changed() {
    let server = Server::new().start();
    let tag = server.put("/files/f", "0123456789").status(200).header("etag").unwrap().to_owned();
    let whole = server.get("/files/f").status(200);
    assert_eq!(whole.header("etag"), Some(tag.as_str()));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));

    let part = server.get_with("/files/f", ("Range", "bytes=2-4")).status(206);
    assert_eq!((part.body.as_str(), part.header("content-range")), ("234", Some("bytes 2-4/10")));
    assert_eq!(part.header("content-length"), Some("3"));
    assert_eq!(server.get_with("/files/f", ("Range", "bytes=-3")).status(206).body, "789");
    let beyond = server.get_with("/files/f", ("Range", "bytes=10-"));
    assert_eq!(beyond.header("content-range"), Some("bytes */10"));
    beyond.problem(416);
    let other = [("Range", "bytes=2-4"), ("If-Range", "\"other\"")];
    assert_eq!(server.send("GET", "/files/f", &other, None).status(200).body, "0123456789");

    let head = server.send("HEAD", "/files/f", &[], None).status(200);
    assert_eq!((head.body.as_str(), head.header("content-length")), ("", Some("10")));
    let known = server.get_with("/files/f", ("If-None-Match", &format!("\"x\", W/{tag}"))).status(304);
    assert_eq!((known.body.as_str(), known.header("etag")), ("", Some(tag.as_str())));
    for method in ["GET", "HEAD"] {
        let known = server.send(method, "/files/f", &[("If-None-Match", &tag)], None).status(304);
        assert!(known.body.is_empty());
        // It is about the file, not about an answer that has no body anyhow.
        assert!(known.header("content-length").is_none_or(|length| length == "10"), "{method}");
    }
    server.get_with("/files/f", ("If-Match", "\"x\"")).problem(412);
    assert_eq!(server.get_with("/files/f", ("If-Match", &tag)).status(200).body, "0123456789");
}

#[test]
fn a_writer_can_insist_on_what_it_has_seen() {
    let server = Server::new().start();
    let put = |text: &str, condition: (&str, &str)| {
        server.send("PUT", "/files/f", &[condition], Some(text.to_owned()))
    };
    put("x", ("If-Match", "*")).problem(412);
    server.send("PUT", "/files/new/f", &[("If-Match", "*")], Some("x".into())).problem(412);
    assert!(!server.workspace().join("new").exists());
    let first = put("1", ("If-None-Match", "*")).status(200).header("etag").unwrap().to_owned();
    put("x", ("If-None-Match", "*")).problem(412);
    let second = put("2", ("If-Match", &first)).status(200).header("etag").unwrap().to_owned();
    put("x", ("If-Match", &first)).problem(412);
    assert_eq!(server.get("/files/f").body, "2");
    server.send("DELETE", "/files/f", &[("If-Match", &first)], None).problem(412);
    server.send("DELETE", "/files/f", &[("If-Match", &second)], None).status(200);
}

#[test]
fn a_part_does_not_become_the_file() {
    let server = Server::new().start();
    server.put("/files/f", "0123456789").status(200);
    let part = [("Content-Range", "bytes 2-3/10")];
    let answer = server.send("PUT", "/files/f", &part, Some("xx".into()));
    assert!(answer.field("/field", "Content-Range").problem(400).starts_with("Content-Range: "));
    assert_eq!(server.get("/files/f").body, "0123456789");
}

#[test]
fn what_is_too_large_or_cut_short_leaves_nothing() {
    let server = Server::new().env("AICODEBOX_API_MODE_MAX_BODY", "1KiB").start();
    let large = "x".repeat(1_025);
    assert!(server.put("/files/d/f", &large).problem(413).ends_with("1024 bytes: d/f"));
    assert!(!server.workspace().join("d").exists());
    let mut stream = server.open("PUT", "/files/d/f", &[("Transfer-Encoding", "chunked")], None);
    write!(stream, "401\r\n{large}\r\n0\r\n\r\n").unwrap();
    assert!(Answer::read(stream).problem(413).ends_with("1024 bytes: d/f"));
    assert_eq!(fs::read_dir(server.workspace().join("d")).unwrap().count(), 0);

    let mut stream = server.open("PUT", "/files/d/f", &[("Content-Length", "10")], None);
    stream.write_all(b"12345").unwrap();
    crate::harness::eventually("the upload has begun", || {
        (fs::read_dir(server.workspace().join("d")).ok()?.count() == 1).then_some(())
    });
    drop(stream);
    crate::harness::eventually("nothing is left", || {
        (fs::read_dir(server.workspace().join("d")).ok()?.count() == 0).then_some(())
    });
    server.put("/files/d/f", &large[1..]).status(200).field("/size", 1_024);
}

#[test]
fn a_large_file_costs_no_memory() {
    const SIZE: usize = 192 << 20;
    let server = Server::new().env("AICODEBOX_API_MODE_MAX_BODY", "1GiB").start();
    let before = peak_kib(&server);
    let chunk = vec![b'x'; 1 << 20];
    let mut stream = server.open("PUT", "/files/big", &[("Content-Length", &SIZE.to_string())], None);
    for _ in 0..SIZE / chunk.len() {
        stream.write_all(&chunk).unwrap();
    }
    Answer::read(stream).status(200).field("/size", SIZE);

    let mut stream = server.open("GET", "/files/big", &[], None);
    let received = drain(&mut stream);
    assert!(received > SIZE && received < SIZE + 2_000, "{received}");
    let grown = peak_kib(&server) - before;
    assert!(grown < 32 << 10, "{grown} KiB more");
}

fn drain(stream: &mut TcpStream) -> usize {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut received = 0;
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return received,
            read => received += read,
        }
    }
}

/// The most memory that the server ever had.
fn peak_kib(server: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
