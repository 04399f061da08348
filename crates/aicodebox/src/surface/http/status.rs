use std::path::PathBuf;

use aicodebox_engine::run::{RunId, RunStatus};
use axum::{Json, extract::State};
use serde::Serialize;

use super::Api;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    busy_workspaces: Vec<String>,
    runs: Vec<Run>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    run_id: RunId,
    workspace: String,
    status: &'static str,
}

/// `GET /status`: the runs that have not ended, and the workspaces that one of them has for itself.
pub(crate) async fn show(State(api): State<Api>) -> Json<Status> {
    let shown = |path: PathBuf| path.display().to_string();
    let runs = api.engine().active().into_iter().map(|run| Run {
        run_id: run.id,
        workspace: shown(run.workspace),
        status: RunStatus::Running.name(),
    });
    let mut busy_workspaces: Vec<_> = api.engine().busy_workspaces().into_iter().map(shown).collect();
    busy_workspaces.sort_unstable();
    Json(Status { busy_workspaces, runs: runs.collect() })
}
