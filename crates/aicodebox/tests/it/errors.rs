//! Every error is a problem document with a request id.

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
};

use serde_json::{Value, json};

use crate::harness::{Answer, SHELL, Server};

fn send(server: &crate::harness::Running, body: &str) -> crate::harness::Answer {
    server.send("POST", "/run", &[], Some(body.to_owned()))
}

#[test]
fn a_field_that_cannot_be_accepted_is_named() {
    let server = Server::new().start();
    for (body, field) in [
        (json!({}), "prompt"),
        (json!({"prompt": ""}), "prompt"),
        (json!({"prompt": " \n"}), "prompt"),
        (json!({"prompt": 7}), "prompt"),
        (json!({"prompt": "x", "noContinue": "yes"}), "noContinue"),
        (json!({"prompt": "x", "timeoutSeconds": 0}), "timeoutSeconds"),
        (json!({"prompt": "x", "timeoutSeconds": -1}), "timeoutSeconds"),
        (json!({"prompt": "x", "timeoutSeconds": 1e300}), "timeoutSeconds"),
        (json!({"prompt": "x", "idleTimeoutSeconds": "5"}), "idleTimeoutSeconds"),
        (json!({"prompt": "x", "toolsAllowlist": ["a", 1]}), "toolsAllowlist[1]"),
        (json!({"prompt": "x", "outputFormat": "xml"}), "outputFormat"),
        (json!({"prompt": "x", "eventMode": "some"}), "eventMode"),
        (json!({"prompt": "x", "workspace": "a", "ephemeral": true}), "ephemeral"),
        (json!({"prompt": "x", "model": "--help"}), "model"),
        (json!([]), "body"),
        (json!(null), "body"),
        (json!(5), "body"),
    ] {
        refused(&server, &body.to_string(), field);
    }
    refused(&server, r#"{"prompt":"x","system_prompt":"a","systemPrompt":"b"}"#, "systemPrompt");
    refused(&server, r#"{"prompt":"x","prompt":"y"}"#, "prompt");
}

fn refused(server: &crate::harness::Running, body: &str, field: &str) {
    let answer = send(server, body).status(422);
    assert_eq!(answer.json()["field"], field, "{body}");
    let detail = answer.problem(422);
    assert!(detail.starts_with(&format!("{field}: ")), "{detail}");
    for ours in [" at line ", "RunBody", "duplicate field"] {
        assert!(!detail.contains(ours), "{detail}");
    }
}

#[test]
fn an_encoded_body_is_refused_wherever_one_is_read() {
    let server = Server::new().env("AICODEBOX_MCP_MODE", "1").start();
    let body = json!({"prompt": "true"}).to_string();
    for (method, path) in [
        ("POST", "/run"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/responses"),
        ("POST", "/mcp"),
        ("PUT", "/files/f"),
    ] {
        let answer =
            server.send(method, path, &[("Content-Encoding", "gzip")], Some(body.clone())).status(415);
        assert!(answer.body.contains("Content-Encoding"), "{path}: {}", answer.body);
    }
    assert!(!server.workspace().join("f").exists());
    server.send("POST", "/run", &[("Content-Encoding", "identity")], Some(body)).status(200);
}

#[test]
fn a_part_of_the_query_that_cannot_be_accepted_is_named() {
    let server = Server::new().start();
    let id = server.run(json!({"prompt": "true"})).text("/runId");
    let events = format!("/run/{id}/events");
    for (method, path, field) in [
        ("GET", "/runs?limit=abc", "limit"),
        ("GET", "/runs?limit=0", "limit"),
        ("GET", "/runs?limit=1&limit=2", "limit"),
        ("GET", "/runs?status=gone", "status"),
        ("GET", &format!("{events}?after=-1"), "after"),
        ("GET", "/run/result?runId=a&runId=b", "runId"),
        ("DELETE", &format!("/run/{id}?purge=perhaps"), "purge"),
        ("DELETE", &format!("/run/{id}?purge=1&purge=1"), "purge"),
    ] {
        let answer = server.send(method, path, &[], None).field("/field", field);
        let detail = answer.problem(422);
        assert!(detail.starts_with(&format!("{field}: ")), "{detail}");
    }
}

#[test]
fn a_path_out_of_the_root_is_a_bad_request() {
    let server = Server::new().start();
    fs::write(server.workspace().join("file"), "").unwrap();
    for workspace in ["/etc", "..", "a/../../b", "file"] {
        let detail = server.run(json!({"prompt": "true", "workspace": workspace})).problem(400);
        assert!(detail.starts_with("workspace: "), "{detail}");
    }
}

#[test]
fn what_is_refused_leaves_no_directory() {
    let server = Server::new().start();
    let nonsense = json!({"type": "nonsense"});
    for (more, status) in [
        (json!({"jsonSchema": nonsense}), 422),
        (json!({"images": ["a.png"]}), 400),
        (json!({"timeoutSeconds": 0}), 422),
    ] {
        let mut body = json!({"prompt": "true", "workspace": "new/ghost"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.run(body).problem(status);
        assert!(!server.workspace().join("new").exists(), "{more}");
    }
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": nonsense}});
    let tool = json!({"type": "function", "function": {"name": "x", "parameters": nonsense}});
    for more in [json!({"response_format": format}), json!({"tools": [tool]})] {
        let mut body = json!({"model": "small", "messages": [{"role": "user", "content": "true"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let named = [("x-aicodebox-workspace", "new/ghost")];
        server.send("POST", "/v1/chat/completions", &named, Some(body.to_string())).status(400);
        assert!(!server.workspace().join("new").exists(), "{more}");
    }
}

#[test]
fn a_body_that_is_no_json_or_too_long_is_refused() {
    let server = Server::new().env("AICODEBOX_API_MODE_MAX_BODY", "100KiB").start();
    for body in ["", "{", "[1", "5 5", "{\"prompt\": \"x\"} more", "prompt=x"] {
        send(&server, body).problem(400);
    }
    let plain = [("Content-Type", "text/plain")];
    server.send("POST", "/run", &plain, Some(json!({"prompt": "x"}).to_string())).problem(415);
    let json = [("Content-Type", "application/json; charset=utf-8")];
    server.send("POST", "/run", &json, Some(json!({"prompt": "echo x"}).to_string())).status(200);
    // A client that sends all of it before it reads gets an answer, not a broken connection.
    send(&server, &json!({"prompt": "x".repeat(50 << 20)}).to_string()).problem(413);
    // Without a declared length too.
    let chunked = [("Transfer-Encoding", "chunked"), ("Content-Type", "application/json")];
    let chunk = format!("{:x}\r\n{}\r\n0\r\n\r\n", 200 << 10, "x".repeat(200 << 10));
    let mut stream = server.open("POST", "/run", &chunked, None);
    std::io::Write::write_all(&mut stream, chunk.as_bytes()).unwrap();
    crate::harness::Answer::read(stream).problem(413);
}

#[test]
fn who_sends_everything_before_it_reads_is_told_why_it_is_refused() {
    let server =
        Server::new().token("t").env("AICODEBOX_MCP_MODE", "1").env("AICODEBOX_MCP_MODE_TOKEN", "m").start();
    fs::create_dir(server.workspace().join("directory")).unwrap();
    let nobody = [("Authorization", "Bearer x")];
    let plain = [("Content-Type", "text/plain")];
    let client = [("Authorization", "Bearer m"), ("Content-Type", "text/plain")];
    let bad = [("x-aicodebox-continue", "maybe")];
    let changed = [("If-Match", "*")];
    // More than both kernels keep: whoever writes it waits until somebody reads.
    let body = "x".repeat(24 << 20);
    for (method, path, headers, status) in [
        ("POST", "/run", &nobody[..], 401),
        ("POST", "/run", &plain, 415),
        ("PUT", "/run", &[], 405),
        ("POST", "/no/such/path", &[], 404),
        ("PUT", "/files/directory", &[], 400),
        ("PUT", "/files/file", &changed, 412),
        ("POST", "/v1/chat/completions", &nobody, 401),
        ("POST", "/v1/chat/completions", &bad, 400),
        ("POST", "/v1/no/such/path", &[], 404),
        ("POST", "/v1/models", &[], 405),
        ("POST", "/mcp", &nobody, 401),
        ("POST", "/mcp", &client, 415),
        ("POST", "/mcp", &[("Host", "evil.example")], 421),
    ] {
        server.send(method, path, headers, Some(body.clone())).status(status);
    }
}

#[test]
fn who_asks_first_need_not_send_what_is_refused() {
    let server = Server::new().token("t").start();
    let asking = [("Authorization", ""), ("Expect", "100-continue"), ("Content-Length", "1000")];
    Answer::read(server.open("POST", "/run", &asking, None)).problem(401);
}

#[test]
fn a_connection_can_be_used_again_after_a_refusal() {
    let server = Server::new().start();
    let mut stream = std::net::TcpStream::connect(server.address).unwrap();
    let body = "x".repeat(1 << 20);
    let refused =
        format!("POST /run HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(refused.as_bytes()).unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    let statuses: Vec<_> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["415", "200"], "{answers}");
}

#[test]
fn unknown_paths_and_methods_are_told_in_json() {
    let server = Server::new().start();
    server.get("/no/such/path").problem(404);
    for (method, path, allow) in
        [("GET", "/run", "POST"), ("POST", "/healthz", "GET,HEAD"), ("POST", "/run/abc", "GET,HEAD,DELETE")]
    {
        let answer = server.send(method, path, &[], None).status(405);
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
        answer.problem(405);
    }
    server.get("/run/result").problem(422);
}

#[test]
fn an_agent_that_cannot_be_started_is_an_answer_and_frees_its_workspace() {
    let missing = Server::new().adapter(&SHELL.replace("/bin/sh", "/no/such/program")).start();
    for _ in 0..2 {
        let answer = missing
            .run(json!({"prompt": "x", "workspace": "w"}))
            .status(200)
            .field("/exitCode", 127)
            .field("/text", "");
        assert!(answer.text("/stderr").contains("/no/such/program"));
    }
    for probe in ["/healthz", "/readyz"] {
        let answer = missing.get(probe).status(503).field("/ok", false);
        assert_eq!(answer.header("retry-after"), Some("5"));
    }
    missing.get("/livez").status(200);

    let home = tempfile::tempdir().unwrap();
    let program = home.path().join("agent");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o644)).unwrap();
    let forbidden = Server::new().adapter(&SHELL.replace("/bin/sh", program.to_str().unwrap())).start();
    forbidden.run(json!({"prompt": "x", "workspace": "w"})).status(200).field("/exitCode", 126);
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    forbidden.run(json!({"prompt": "x", "workspace": "w"})).status(200).field("/exitCode", 127);
    fs::write(&program, "#!/bin/sh\necho works\n").unwrap();
    forbidden.run(json!({"prompt": "x", "workspace": "w"})).status(200).field("/text", "works");
}

#[test]
fn when_the_queue_is_full_the_next_one_is_told_to_come_back() {
    let server =
        Server::new().env("AICODEBOX_MAX_CONCURRENT_RUNS", "1").env("AICODEBOX_MAX_QUEUED_RUNS", "1").start();
    let slow = |workspace| {
        server.run(json!({"prompt": "sleep 300", "workspace": workspace, "async": true})).status(200);
    };
    slow("a");
    slow("b");
    let full = server.run(json!({"prompt": "true", "workspace": "c"}));
    assert!(full.header("retry-after").is_some());
    full.problem(429);
}

#[test]
fn a_request_id_is_taken_or_made_and_stands_in_the_log() {
    let server = Server::new().env("RUST_LOG", "debug").start();
    let id = |value: &str| {
        let answer = server.send("GET", "/status", &[("X-Request-Id", value)], None).status(200);
        answer.header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(id("caller-7"), "caller-7");
    let made = id("not; acceptable");
    assert!(made.len() == 32, "{made}");
    assert_ne!(id(&"x".repeat(129)), "x".repeat(129));
    let body = json!({"prompt": "echo hi"}).to_string();
    server.send("POST", "/run", &[("X-Request-Id", "caller-8")], Some(body)).status(200);
    for (message, id) in [("answered", "caller-7"), ("run ended", "caller-8"), ("answered", "caller-8")] {
        crate::harness::eventually("the log has the id", || {
            let log = server.log.text();
            log.lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                .find(|line| line["spans"][0]["request_id"] == id && line["message"] == message)
        });
    }
}
