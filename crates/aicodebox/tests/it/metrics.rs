//! `/metrics`: what runs have done, in numbers.

use serde_json::json;

use crate::harness::{Server, eventually};

#[test]
fn runs_are_counted_by_how_they_ended() {
    let server = Server::new().token("t").start();
    server.run(json!({"prompt": "echo hi"})).status(200);
    server.run(json!({"prompt": "exit 3"})).status(200);
    server
        .run(json!({"prompt": "trap '' TERM; while :; do sleep 0.1; done", "timeoutSeconds": 0.2}))
        .status(200);
    server.run(json!({"prompt": "sleep 600 & echo hi"})).status(200);
    let active = server.run(json!({"prompt": "sleep 600", "async": true})).text("/runId");
    let text = eventually("the last one runs", || {
        let text = server.get("/metrics").status(200).body;
        text.contains("aicodebox_runs_active 1\n").then_some(text)
    });
    for line in [
        "# TYPE aicodebox_runs_total counter",
        "aicodebox_runs_total{origin=\"api\",reason=\"ok\"} 2",
        "aicodebox_runs_total{origin=\"api\",reason=\"exit\"} 1",
        "aicodebox_runs_total{origin=\"api\",reason=\"deadline\"} 1",
        "aicodebox_run_seconds_count 4",
        "aicodebox_run_seconds_bucket{le=\"+Inf\"} 4",
        "aicodebox_runs_queued 0",
        "aicodebox_stop_total{reason=\"deadline\",escalated=\"true\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
    let swept = text.lines().find_map(|line| line.strip_prefix("aicodebox_swept_total ")).unwrap();
    assert!(swept.parse::<u64>().unwrap() >= 1, "{text}");
    server.delete(&format!("/run/{active}")).status(200);
}

#[test]
fn they_need_the_token_unless_they_are_public() {
    let server = Server::new().token("t").start();
    server.send("GET", "/metrics", &[("Authorization", "Bearer wrong")], None).problem(401);
    let answer = server.get("/metrics").status(200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let open = Server::new().token("t").env("AICODEBOX_API_MODE_METRICS_PUBLIC", "1").start();
    open.send("GET", "/metrics", &[("Authorization", "Bearer wrong")], None).status(200);
    open.send("GET", "/status", &[("Authorization", "Bearer wrong")], None).problem(401);
}
