//! `/metrics`, in the text format of Prometheus. Every label's value is one of a few words of ours.

use std::fmt::{self, Write};

use aicodebox_engine::engine::{Counted, Engine, SECONDS};
use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};

use super::{Api, Problem};

/// Numbers for a monitoring system
///
/// In the text format of Prometheus. Needs the token unless `AICODEBOX_API_MODE_METRICS_PUBLIC` is set.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "getMetrics",
    tag = "health",
    responses(
        (status = 200, description = "The numbers", body = String, content_type = "text/plain"),
    ),
)]
pub(crate) async fn show(State(api): State<Api>) -> Result<Response, Problem> {
    let mut text = String::new();
    // Writing to a string does not fail.
    _ = write(&mut text, api.engine());
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

fn write(out: &mut String, engine: &Engine) -> fmt::Result {
    let Counted { runs, durations, seconds, tokens, stops, swept } = engine.counted();
    let active = engine.active();
    let queued = active.iter().filter(|run| run.queued).count();

    family(out, "runs_total", "counter", "Runs that ended, by surface and by how.")?;
    for ((origin, reason), count) in &runs {
        writeln!(out, "aicodebox_runs_total{{origin=\"{origin}\",reason=\"{reason}\"}} {count}")?;
    }
    family(out, "run_seconds", "histogram", "How long runs took, waiting included.")?;
    let mut below = 0;
    for (bound, count) in SECONDS.iter().zip(durations) {
        below += count;
        writeln!(out, "aicodebox_run_seconds_bucket{{le=\"{bound}\"}} {below}")?;
    }
    let all: u64 = runs.values().sum();
    writeln!(out, "aicodebox_run_seconds_bucket{{le=\"+Inf\"}} {all}")?;
    writeln!(out, "aicodebox_run_seconds_sum {seconds}")?;
    writeln!(out, "aicodebox_run_seconds_count {all}")?;
    family(out, "runs_active", "gauge", "Runs whose agent runs.")?;
    writeln!(out, "aicodebox_runs_active {}", active.len() - queued)?;
    family(out, "runs_queued", "gauge", "Runs that wait for their place.")?;
    writeln!(out, "aicodebox_runs_queued {queued}")?;
    family(out, "tokens_total", "counter", "Tokens, as far as agents tell them.")?;
    for (kind, count) in &tokens {
        writeln!(out, "aicodebox_tokens_total{{kind=\"{kind}\"}} {count}")?;
    }
    family(out, "stop_total", "counter", "Agents that were stopped, and whether they had to be killed.")?;
    for ((reason, escalated), count) in &stops {
        writeln!(out, "aicodebox_stop_total{{reason=\"{reason}\",escalated=\"{escalated}\"}} {count}")?;
    }
    family(out, "swept_total", "counter", "Processes that agents left behind and that were killed.")?;
    writeln!(out, "aicodebox_swept_total {swept}")
}

fn family(out: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# HELP aicodebox_{name} {help}\n# TYPE aicodebox_{name} {kind}")
}
