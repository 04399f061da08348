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
    ] {
        let answer = bare(method, path).status(401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{path}");
        answer.problem(401);
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
    let closed = Server::new().token("t0ken").start();
    let answer = closed.send("OPTIONS", "/run", &asking, None);
    assert_eq!(answer.header("access-control-allow-origin"), None);
}
