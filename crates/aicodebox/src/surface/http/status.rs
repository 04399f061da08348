use std::path::PathBuf;

use aicodebox_engine::run::{RunId, RunStatus};
use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;

/// What goes on.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    /// Directories that a run has to itself.
    busy_workspaces: Vec<String>,
    /// The runs that are not over.
    runs: Vec<Run>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ActiveRun)]
struct Run {
    #[schema(value_type = String)]
    run_id: RunId,
    workspace: String,
    /// `running`, also while it waits.
    status: &'static str,
}

/// The runs that are not over, and the workspaces that one of them has to itself
#[utoipa::path(
    get,
    path = "/status",
    operation_id = "getStatus",
    tag = "runs",
    responses((status = 200, description = "What goes on", body = Status)),
)]
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
