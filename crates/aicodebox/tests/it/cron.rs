//! The scheduler beside the HTTP API, by the real clock.

use std::{fs, path::PathBuf};

use nix::{
    sys::{signal::Signal, stat::Mode},
    unistd::mkfifo,
};
use serde_json::{Value, json};

use crate::harness::{Finished, Home, Running, SHELL, Server, eventually};

fn with_jobs(jobs: &str) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.yml");
    fs::write(&file, jobs).unwrap();
    let server = Server::new()
        .env("AICODEBOX_CRON_MODE", "1")
        .env("AICODEBOX_CRON_MODE_FILE", file.to_str().unwrap())
        .env("AICODEBOX_CRON_MODE_HISTORY_DIR", folder.path().join("cron").to_str().unwrap());
    (folder, server)
}

fn job(server: &Running, name: &str) -> Value {
    let list = server.get("/cron").status(200).json();
    list["jobs"].as_array().unwrap().iter().find(|job| job["name"] == name).cloned().unwrap_or_default()
}

fn runs(folder: &tempfile::TempDir) -> Vec<(PathBuf, Value)> {
    let mut found: Vec<_> = fs::read_dir(folder.path().join("cron/history/root"))
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some((path.clone(), serde_json::from_slice(&fs::read(path.join("meta.json")).ok()?).ok()?))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[test]
fn c8_a_job_runs_by_itself_and_leaves_everything_behind() {
    let jobs = "jobs:\n  - name: tick\n    schedule: '* * * * * *'\n    instruction: \"echo 'at {system_datetime} for {job_name}'; echo warned >&2\"\n";
    let (folder, server) = with_jobs(jobs);
    // What the scheduler adds at the end is no part of the script.
    let script = r#"script=$(cat); printf "%s" "$script" > prompt; eval "${{script%%\[History*}}""#;
    let server = server.adapter(&SHELL.replace(r#"eval "$(cat)""#, script)).start();
    let runs = eventually("two runs are over", || {
        let runs: Vec<_> =
            runs(&folder).into_iter().filter(|(_, meta)| meta["status"] == "completed").collect();
        (runs.len() >= 2).then_some(runs)
    });
    let (path, meta) = &runs[0];
    assert_eq!((&meta["job"], &meta["exitCode"]), (&json!("tick"), &json!(0)));
    let result = fs::read_to_string(path.join("result.txt")).unwrap();
    assert!(result.starts_with("at 20") && result.contains("UTC for tick"), "{result}");
    assert_eq!(fs::read_to_string(path.join("stderr.log")).unwrap(), "warned\n");
    let told = eventually("a later run is told of an earlier one", || {
        let prompt = fs::read_to_string(server.workspace().join("prompt")).ok()?;
        prompt.contains("History of this job").then_some(prompt)
    });
    assert!(told.contains("/history/root/20") && told.contains("/????????-??????-tick]"), "{told}");
    let line = fs::read_to_string(folder.path().join("cron/tick.jsonl")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(line.lines().next().unwrap()).unwrap()["status"], "completed");
    assert!(job(&server, "tick")["next"].as_str().unwrap().starts_with("20"));
}

#[test]
fn a_job_that_still_runs_is_skipped_and_counted_and_orders_are_obeyed() {
    let jobs = "jobs:\n  - name: slow\n    schedule: '* * * * * *'\n    instruction: sleep 300\n  - name: idle\n    schedule: '0 0 1 1 *'\n    instruction: echo by hand\n";
    let (folder, server) = with_jobs(jobs);
    let server = server.start();
    eventually("two times are skipped", || (job(&server, "slow")["skipped"].as_u64()? >= 2).then_some(()));
    assert_eq!(job(&server, "slow")["running"], true);
    let post = |path: &str| server.send("POST", path, &[], None);
    assert_eq!(post("/cron/slow/run").problem(409), "the job is running");
    assert_eq!(post("/cron/none/run").problem(404), "there is no such job");
    assert_eq!(post("/cron/none/pause").problem(404), "there is no such job");
    post("/cron/slow/pause").status(200).field("/status", "paused");
    let paused = job(&server, "slow");
    assert_eq!((&paused["paused"], &paused["next"]), (&json!(true), &Value::Null));
    post("/cron/idle/run").status(200).field("/status", "started");
    let last = eventually("the other one has run", || {
        let last = job(&server, "idle")["last"].clone();
        (last["status"] == "completed").then_some(last)
    });
    assert!(last["historyDir"].as_str().unwrap().contains("idle"));
    assert_eq!(runs(&folder).iter().filter(|(path, _)| path.to_str().unwrap().ends_with("slow")).count(), 1);
    post("/cron/slow/resume").status(200);
    assert_eq!(job(&server, "slow")["paused"], false);
}

#[test]
fn without_a_scheduler_there_are_no_jobs_and_a_wrong_file_is_told() {
    let server = Server::new().start();
    assert!(server.get("/cron").problem(404).contains("AICODEBOX_CRON_MODE=1"));
    let home = Home::new(SHELL);
    fs::write(home.path("jobs.yml"), "jobs:\n  - name: a\n    schedule: 61 * * * *\n    instruction: x\n")
        .unwrap();
    let mut serve = home.command("serve");
    serve.env("AICODEBOX_CRON_MODE", "1").env("AICODEBOX_CRON_MODE_FILE", home.path("jobs.yml"));
    let told = Finished::of(&mut serve).code(78).stderr();
    assert!(told.contains("line 3: job a: schedule: minute"), "{told}");
    let check = Finished::of(home.command("cron").arg("check").arg(home.path("jobs.yml"))).code(1);
    assert!(check.stderr().contains("line 3: job a"), "{}", check.stderr());
    fs::write(
        home.path("jobs.yml"),
        "jobs:\n  - name: a\n    schedule: 0 9 * * mon\n    timezone: Europe/Berlin\n    instruction: x\n",
    )
    .unwrap();
    let check = Finished::of(home.command("cron").arg("check").arg(home.path("jobs.yml"))).code(0);
    assert!(check.stdout().contains("1 jobs"), "{}", check.stdout());
    let next =
        Finished::of(home.command("cron").arg("next").arg(home.path("jobs.yml")).args(["-n", "2"])).code(0);
    assert_eq!(
        next.stdout().lines().filter(|line| line.contains("Mon 20") && line.contains("09:00:00 +0")).count(),
        2,
        "{}",
        next.stdout()
    );
}

#[test]
fn c7_a_job_killed_with_the_server_reads_interrupted_and_runs_again() {
    let jobs =
        "jobs:\n  - name: long\n    schedule: '* * * * * *'\n    instruction: echo x >> ran; sleep 300\n";
    let (folder, server) = with_jobs(jobs);
    let state = tempfile::tempdir().unwrap();
    let with_state = |server: Server| server.env("AICODEBOX_STATE_DIR", state.path().to_str().unwrap());
    let mut first = with_state(server).start();
    eventually("it runs", || first.workspace().join("ran").exists().then_some(()));
    first.signal(Signal::SIGKILL);
    first.ended();
    let (_again, server) = with_jobs(jobs);
    let server = server.env("AICODEBOX_CRON_MODE_HISTORY_DIR", folder.path().join("cron").to_str().unwrap());
    let second = with_state(server).start();
    eventually("the first run is interrupted and another one runs", || {
        let statuses: Vec<_> =
            runs(&folder).iter().map(|(_, meta)| meta["status"].as_str().unwrap().to_owned()).collect();
        (statuses == ["interrupted", "running"]).then_some(())
    });
    drop(second);
}

#[test]
fn c7_a_time_that_the_server_did_not_come_to_start_is_not_lost() {
    let jobs = "missed: run_once\njobs:\n  - name: stored\n    schedule: '0 0 1 1 *'\n    instruction: echo ran\n  - name: made\n    schedule: '0 0 1 1 *'\n    instruction: echo ran\n  - name: empty\n    schedule: '0 0 1 1 *'\n    instruction: echo ran\n";
    let (folder, server) = with_jobs(jobs);
    let state = tempfile::tempdir().unwrap();
    let history = folder.path().join("cron");
    let with_state = |server: Server| server.env("AICODEBOX_STATE_DIR", state.path().to_str().unwrap());
    let mut first = with_state(server).start();
    assert_eq!(job(&first, "stored")["missed"], 0);
    first.signal(Signal::SIGKILL);
    first.ended();

    // What a server leaves that dies after the time was stored, before that, and before there is a `meta.json`.
    let directory = |job: &str| history.join(format!("history/root/20260101-000000-{job}"));
    for name in ["stored", "made", "empty"] {
        fs::create_dir_all(directory(name)).unwrap();
        if name != "empty" {
            let meta = json!({ "job": name, "status": "running" });
            fs::write(directory(name).join("meta.json"), meta.to_string()).unwrap();
        }
    }
    let database = rusqlite::Connection::open(state.path().join("private/runs.db")).unwrap();
    let stored = "UPDATE cron_job SET state = json_set(state, '$.running', ?1) WHERE name = 'stored'";
    database.execute(stored, [directory("stored").to_str()]).unwrap();
    let long_ago = "UPDATE cron_job SET state = json_set(state, '$.decided', 0) WHERE name != 'stored'";
    assert_eq!(database.execute(long_ago, []).unwrap(), 2);
    drop(database);

    let (_again, server) = with_jobs(jobs);
    let server = server.env("AICODEBOX_CRON_MODE_HISTORY_DIR", history.to_str().unwrap());
    let _second = with_state(server).start();
    let statuses = |job: &str| -> Vec<_> {
        let of_job = runs(&folder).into_iter().filter(|(_, meta)| meta["job"] == job);
        of_job.map(|(_, meta)| meta["status"].as_str().unwrap().to_owned()).collect()
    };
    eventually("what was not stored is decided again, and runs", || {
        ["made", "empty"].iter().all(|job| statuses(job) == ["interrupted", "completed"]).then_some(())
    });
    assert_eq!(statuses("stored"), ["interrupted"]);
}

#[test]
fn the_jobs_follow_their_file_and_stay_when_it_is_wrong() {
    let jobs = |minute: &str| {
        format!(
            "jobs:\n  - name: a\n    schedule: '{minute} 0 1 1 *'\n    timezone: UTC\n    instruction: x\n"
        )
    };
    let (folder, server) = with_jobs(&jobs("1"));
    let file = folder.path().join("jobs.yml");
    let server = server.start();
    let next = |name: &str| job(&server, name)["next"].as_str().unwrap_or_default().to_owned();
    assert!(next("a").contains("T00:01:00"), "{}", next("a"));

    fs::write(&file, jobs("2") + "  - name: b\n    schedule: '@yearly'\n    instruction: x\n").unwrap();
    eventually("another time and another job", || {
        (next("a").contains("T00:02:00") && !next("b").is_empty()).then_some(())
    });

    fs::write(&file, jobs("61")).unwrap();
    let told =
        eventually("the file is wrong", || server.get("/cron").json()["error"].as_str().map(str::to_owned));
    assert!(told.contains("job a: schedule: minute"), "{told}");
    assert!(next("a").contains("T00:02:00") && !next("b").is_empty(), "the old jobs stay");

    // As editors and mounts do: another file in its place.
    fs::write(folder.path().join("new.yml"), jobs("3")).unwrap();
    fs::rename(folder.path().join("new.yml"), &file).unwrap();
    eventually("it is right again, and b is gone", || {
        (next("a").contains("T00:03:00") && job(&server, "b").is_null()).then_some(())
    });
    assert_eq!(server.get("/cron").json()["error"], Value::Null);

    let paused = || job(&server, "a")["paused"].clone();
    server.send("POST", "/cron/a/pause", &[], None).status(200);
    fs::write(&file, jobs("3").replace("name: a", "name: other")).unwrap();
    eventually("a is gone", || paused().is_null().then_some(()));
    fs::write(&file, jobs("3")).unwrap();
    assert!(eventually("a is back", || paused().as_bool()), "it was paused, and nobody has let it go on");
}

#[test]
fn a_job_that_cannot_be_started_is_not_said_to_be() {
    let jobs = "jobs:\n  - name: a\n    schedule: '0 0 1 1 *'\n    instruction: touch ran\n";
    let (folder, server) = with_jobs(jobs);
    fs::create_dir(folder.path().join("cron")).unwrap();
    fs::write(folder.path().join("cron/history"), "in the way").unwrap();
    let server = server.start();
    let told = server.send("POST", "/cron/a/run", &[], None).problem(500);
    assert!(told.contains("the job was not started: its history cannot be written"), "{told}");
    assert_eq!(job(&server, "a")["running"], false);
    fs::remove_file(folder.path().join("cron/history")).unwrap();
    server.send("POST", "/cron/a/run", &[], None).status(200);
    eventually("it runs", || server.workspace().join("ran").exists().then_some(()));
}

#[test]
fn f11_pipes_in_the_history_stop_nothing() {
    let jobs = "jobs:\n  - name: tick\n    schedule: '* * * * * *'\n    instruction: echo x >> ran\n";
    let (folder, server) = with_jobs(jobs);
    let planted = folder.path().join("cron/history/root/20991130-000000-tick");
    fs::create_dir_all(&planted).unwrap();
    for pipe in [planted.join("meta.json"), folder.path().join("cron/tick.jsonl")] {
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    }
    let server = server.start();
    assert_eq!(job(&server, "tick")["last"], Value::Null);
    eventually("it runs, and runs again", || {
        let ran = fs::read_to_string(server.workspace().join("ran")).ok()?;
        (ran.lines().count() >= 2).then_some(())
    });
    server.stopped();
}
