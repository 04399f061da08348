//! What an answer has to pass, made before anything else is made for its run: a directory would stay behind a refusal.

use std::sync::Arc;

use aicodebox_engine::{engine::Schema, run::AnswerCheck};
use serde_json::Value;

/// The check by a schema, if there is one.
///
/// # Errors
/// What is wrong with the schema.
pub(crate) async fn by_schema(source: Option<&Value>) -> Result<Option<Arc<dyn AnswerCheck>>, String> {
    let Some(source) = source.cloned() else { return Ok(None) };
    Ok(Some(Arc::new(Schema::compile_aside(source).await?)))
}
