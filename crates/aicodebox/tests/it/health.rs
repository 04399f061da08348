//! The probes.

use std::{
    os::unix::fs::PermissionsExt,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::harness::{Finished, Server, eventually};

#[test]
fn a_server_that_is_well_says_so() {
    let server = Server::new().start();
    server
        .get("/healthz")
        .status(200)
        .names(&["ok", "adapter"])
        .field("/ok", true)
        .field("/adapter", "shell");
    server.get("/livez").status(200);
    server.get("/readyz").status(200);
    let mut check = server.home().command("healthcheck");
    check.env("AICODEBOX_API_MODE", "1").env("AICODEBOX_API_MODE_PORT", server.address.port().to_string());
    let finished = Finished::of(&mut check).code(0);
    assert!(finished.stdout().contains("\"ok\":true"), "{}", finished.stdout());
    drop(server);
}

#[test]
fn the_health_check_fails_where_nobody_answers() {
    let server = Server::new().start();
    let port = server.address.port().to_string();
    let home = crate::harness::Home::new(crate::harness::SHELL);
    drop(server);
    let mut check = home.command("healthcheck");
    check.env("AICODEBOX_API_MODE", "1").env("AICODEBOX_API_MODE_PORT", port);
    Finished::of(&mut check).code(1);
    // A box without a port is well as long as it runs.
    Finished::of(&mut home.command("healthcheck")).code(0);
}

#[test]
fn a_directory_that_cannot_be_written_is_not_ready() {
    let server = Server::new().unprivileged().start();
    let workspace = server.workspace();
    std::fs::set_permissions(&workspace, PermissionsExt::from_mode(0o555)).unwrap();
    let answer = server.get("/readyz").status(503);
    assert!(answer.text("/detail").contains(workspace.to_str().unwrap()));
    server.get("/livez").status(200);
    std::fs::set_permissions(&workspace, PermissionsExt::from_mode(0o755)).unwrap();
    server.get("/readyz").status(200);
}

/// M17: the original answered after 2.7 s, because probes waited behind 45 runs.
#[test]
fn probes_do_not_wait_for_runs() {
    let server = Server::new().start();
    thread::scope(|scope| {
        for _ in 0..45 {
            scope.spawn(|| {
                let waits = "while [ ! -e go ]; do sleep 0.05; done; echo done";
                server.run(json!({"prompt": waits})).status(200).field("/text", "done");
            });
        }
        eventually("45 runs are in flight", || {
            (server.get("/status").json()["runs"].as_array().unwrap().len() == 45).then_some(())
        });
        for path in ["/healthz", "/livez", "/readyz"] {
            let begun = Instant::now();
            server.get(path).status(200);
            assert!(begun.elapsed() < Duration::from_secs(1), "{path} took {:?}", begun.elapsed());
        }
        std::fs::write(server.workspace().join("go"), "").unwrap();
    });
}
