//! What an answer has to pass, made before anything else is made for its run: a directory would stay behind a refusal.

use std::sync::Arc;

use aicodebox_engine::{engine::Schema, run::AnswerCheck};
use serde_json::Value;
use tokio::task::spawn_blocking;

/// The check by a schema, if there is one; compiled off the reactor, since it may be large.
///
/// # Errors
/// What is wrong with the schema.
pub(crate) async fn by_schema(source: Option<&Value>) -> Result<Option<Arc<dyn AnswerCheck>>, String> {
    let Some(source) = source.cloned() else { return Ok(None) };
    let compiled = spawn_blocking(move || Schema::compile(source)).await;
    match compiled.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(schema) => Ok(Some(Arc::new(schema))),
        Err(wrong) => Err(format!("the JSON Schema is not usable: {wrong}")),
    }
}
