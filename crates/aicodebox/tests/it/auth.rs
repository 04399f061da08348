//! Who may call.

use serde_json::json;

use crate::harness::Server;

#[test]
fn all_but_the_probes_needs_the_token() {
    let server = Server::new().token("t0ken").start();
    let bare = |method, path| server.send(method, path, &[("Authorization", "")], None);
    for (method, path) in [
        ("GET", "/status"),
        ("POST", "/run"),
        ("GET", "/run/result?runId=0"),
        ("DELETE", "/run/0"),
        ("GET", "/no/such/path"),
        // Which methods there are is nobody's business either.
        ("HEAD", "/run"),
        ("PUT", "/run"),
        ("PATCH", "/files/x"),
        ("POST", "/metrics"),
        ("DELETE", "/v1/models"),
    ] {
        let answer = bare(method, path).status(401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{method} {path}");
        if method != "HEAD" && !path.starts_with("/v1") {
            answer.problem(401);
        }
    }
    for path in ["/healthz", "/livez", "/readyz"] {
        bare("GET", path).status(200);
    }
    server.get("/status").status(200);
    server.run(json!({"prompt": "echo hi"})).status(200).field("/text", "hi");
}

#[test]
fn the_scheme_is_read_in_any_case_and_the_token_to_the_letter() {
    let server = Server::new().token("t0ken").start();
    let with = |value| server.send("GET", "/status", &[("Authorization", value)], None);
    // M14: the original refused a lower-case scheme.
    for right in ["Bearer t0ken", "bearer t0ken", "BEARER t0ken"] {
        with(right).status(200);
    }
    for wrong in ["Bearer T0KEN", "Bearer t0ke", "Bearer t0ken1", "Bearer", "Basic t0ken", "t0ken"] {
        with(wrong).problem(401);
    }
    // The token belongs in the header, not in the address, which ends up in logs.
    server.send("GET", "/status?token=t0ken", &[("Authorization", "")], None).problem(401);
}

#[test]
fn pages_of_other_origins_are_let_in_only_where_that_is_configured() {
    let asking =
        [("Origin", "https://a.example"), ("Access-Control-Request-Method", "POST"), ("Authorization", "")];
    let open =
        Server::new().token("t0ken").env("AICODEBOX_API_MODE_CORS_ORIGINS", "https://a.example").start();
    let answer = open.send("OPTIONS", "/run", &asking, None).status(200);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://a.example"));
    let seen = open.send("GET", "/status", &[("Origin", "https://a.example")], None).status(200);
    let seen = seen.header("access-control-expose-headers").unwrap().to_ascii_lowercase();
    for needed in ["etag", "content-range", "accept-ranges", "x-request-id", "retry-after", "x-should-retry"]
    {
        assert!(seen.split(',').any(|name| name.trim() == needed), "{needed}: {seen}");
    }
    let closed = Server::new().token("t0ken").start();
    let answer = closed.send("OPTIONS", "/run", &asking, None);
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[test]
fn a_page_that_was_given_our_address_gets_nothing_where_there_is_no_token() {
    // F3: DNS rebinding, and a page that just calls.
    let pages = "https://a.example";
    let server = Server::new().env("AICODEBOX_API_MODE_CORS_ORIGINS", pages).start();
    let body = json!({"prompt": "touch never"}).to_string();
    let strangers = [
        (("Host", "evil.example"), 421),
        (("Host", "localhost.evil.example:8080"), 421),
        (("Origin", "http://evil.example"), 403),
        (("Origin", "null"), 403),
    ];
    for (header, status) in strangers {
        for (method, path) in
            [("POST", "/run"), ("GET", "/status"), ("GET", "/files"), ("GET", "/no/such/path")]
        {
            server.send(method, path, &[header], Some(body.clone())).problem(status);
        }
        for path in ["/v1/models", "/openai/v1/models", "/v1/no/such/path"] {
            let answer = server.send("GET", path, &[header], None).status(status);
            assert!(!answer.text("/error/message").is_empty());
        }
        for path in ["/healthz", "/livez", "/readyz"] {
            server.send("GET", path, &[header], None).status(200);
        }
    }
    assert!(!server.workspace().join("never").exists());
    for header in [
        ("Host", "localhost"),
        ("Host", "LOCALHOST:1"),
        ("Host", "127.1.2.3:80"),
        ("Host", "[::1]:80"),
        ("Origin", "http://localhost:3000"),
        ("Origin", pages),
    ] {
        server.send("GET", "/status", &[header], None).status(200);
        server.send("GET", "/v1/models", &[header], None).status(200);
    }
}

#[test]
fn names_and_pages_do_not_matter_where_there_is_a_token_or_others_are_meant_to_call() {
    let guarded = Server::new().token("t").start();
    let public = Server::new()
        .env("AICODEBOX_API_MODE_HOST", "0.0.0.0")
        .env("AICODEBOX_API_MODE_ALLOW_UNAUTHENTICATED", "1")
        .start();
    for server in [guarded, public] {
        for header in [("Host", "box.example"), ("Origin", "https://other.example")] {
            server.send("GET", "/status", &[header], None).status(200);
            server.send("GET", "/v1/models", &[header], None).status(200);
        }
    }
}
