//! How fast output is read: lines of codex's JSON, and short lines of plain text, through rules to events. Prints
//! lines per second of processor time, so that other work on the machine counts little: the best of five rounds.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use aicodebox_engine::{
    adapter::{Adapter, ReaderContext, load_adapter},
    process::Stream,
    run::{EventSink, Origin, RunEvent, RunRequest, Workspace},
};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};

/// As a keeper's pipe gives them.
const CHUNK: usize = 64 << 10;
const LINES: usize = 200_000;

#[derive(Default)]
struct Count(AtomicUsize);

impl EventSink for Count {
    fn push(&self, event: RunEvent) {
        drop(event);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let codex = [
        r#"{"type":"item.started","item":{"id":"item_2","type":"command_execution","command":"/bin/bash -lc 'echo hi'","aggregated_output":"","exit_code":null,"status":"in_progress"}}"#,
        r#"{"type":"item.completed","item":{"id":"item_2","type":"command_execution","command":"/bin/bash -lc 'echo hi'","aggregated_output":"hi\n","exit_code":0,"status":"completed"}}"#,
        r#"{"type":"item.completed","item":{"id":"item_1","type":"reasoning","text":"Let me think about it. Yes."}}"#,
        r#"{"type":"item.completed","item":{"id":"item_3","type":"agent_message","text":"The command printed hi."}}"#,
    ];
    let mut out = std::io::stdout().lock();
    writeln!(out, "codex {:.0} lines/s", best("codex", &codex)?)?;
    writeln!(out, "text {:.0} lines/s", best("text", &["a short line of text"])?)?;
    Ok(())
}

fn best(name: &str, lines: &[&str]) -> Result<f64, Box<dyn std::error::Error>> {
    let adapter = load_adapter(name)?;
    let mut output = String::new();
    for line in lines.iter().cycle().take(LINES) {
        output.push_str(line);
        output.push('\n');
    }
    let workspace = Workspace { path: "/".into(), root: true, guard: None };
    let request = RunRequest::new("x", workspace, Origin::Cli);
    let round = || {
        let events = Arc::new(Count::default());
        let sink = Arc::clone(&events);
        let mut reader = adapter.reader(ReaderContext {
            request: &request,
            resumes: false,
            baseline: None,
            ticket: None,
            events: sink,
        });
        let start = processor_time();
        for chunk in output.as_bytes().chunks(CHUNK) {
            reader.feed(Stream::Stdout, chunk);
        }
        let rate = LINES as f64 / (processor_time() - start).as_secs_f64();
        assert!(events.0.load(Ordering::Relaxed) > 0);
        rate
    };
    Ok((0..5).map(|_| round()).fold(0.0, f64::max))
}

fn processor_time() -> Duration {
    let used = getrusage(UsageWho::RUSAGE_SELF).map(|usage| usage.user_time() + usage.system_time());
    let micros = used.map_or(0, |used| used.num_microseconds());
    Duration::from_micros(micros.unsigned_abs())
}
