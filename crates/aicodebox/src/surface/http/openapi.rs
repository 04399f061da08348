//! The description of the API, made from the handlers and their types, and a page that shows it.

use std::sync::LazyLock;

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde_json::{Value, json};
use utoipa::OpenApi;

use super::{files, problem::Document, routes};
use crate::surface::{openai, run_event::EventBody, run_record::RunRecordAnswer};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "aicodebox",
        description = "Puts an AI coding agent CLI on the network: runs, their events, and their results.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    tags(
        (name = "runs", description = "Start agents, follow them, and fetch their answers"),
        (name = "files", description = "The workspaces' files"),
        (name = "openai", description = "Chat completions, as clients of OpenAI know them"),
        (name = "cron", description = "Scheduled jobs"),
        (name = "health", description = "Probes, numbers, documentation"),
    ),
    // The router takes any number of names in the place of `{path}`, which a description cannot say.
    paths(files::root, files::get, files::put, files::delete),
    components(schemas(Document<'_>, EventBody<'_>, RunRecordAnswer<'_>)),
)]
struct Description;

/// The document as it is sent. Made when it is first asked for.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());

/// Shows the document to people. It brings everything along: nothing is loaded from elsewhere.
const PAGE: &str = include_str!("docs.html");

/// This document
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getDescription",
    tag = "health",
    responses((status = 200, description = "OpenAPI 3.1", body = Value)),
)]
pub(crate) async fn show() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], DOCUMENT.clone()).into_response()
}

/// The same for people
#[utoipa::path(
    get,
    path = "/docs",
    operation_id = "getDocs",
    tag = "health",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(crate) async fn docs() -> Response {
    let policy = "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                  base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy)),
        (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
    ];
    (headers, PAGE).into_response()
}

/// Puts together what the handlers say, and what is true for all of them.
fn document() -> Value {
    let guarded = [routes::guarded(), routes::measured()].map(|routes| routes.split_for_parts().1);
    let mut all = Description::openapi();
    for part in guarded {
        all.merge(part);
    }
    let mut document = json!(all);
    each_operation(&mut document, guard);
    let open = json!(routes::probes().merge(routes::described()).split_for_parts().1);
    add(&mut document, &open);
    each_operation(&mut document, |operation| {
        describe_errors(operation, "application/problem+json", "Problem")
    });
    let mut chats = openai::description();
    each_operation(&mut chats, guard);
    each_operation(&mut chats, |operation| describe_errors(operation, "application/json", "OpenAiError"));
    add(&mut document, &chats);
    each_operation(&mut document, |operation| {
        // One that is not sent is left out; there is no null in a header or a query.
        let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            if let Some(types) = parameter.pointer_mut("/schema/type").and_then(Value::as_array_mut) {
                types.retain(|name| name != "null");
            }
        }
        // A schema would be taken for that of one event.
        if let Some(stream) = operation.pointer_mut("/responses/200/content/text~1event-stream") {
            *stream = json!({});
        }
    });
    document["components"]["securitySchemes"] = json!({
        "bearer": { "type": "http", "scheme": "bearer", "description": "AICODEBOX_API_MODE_TOKEN" }
    });
    any_of(&mut document);
    document
}

fn guard(operation: &mut Value) {
    operation["security"] = json!([{ "bearer": [] }]);
    operation["responses"]["401"] = json!({ "description": "No token, or a wrong one" });
}

/// Says in what form errors come, where the operation itself does not.
fn describe_errors(operation: &mut Value, media_type: &str, schema: &str) {
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    for (status, response) in responses {
        if status.starts_with(['4', '5']) && response.get("content").is_none() {
            response["content"] =
                json!({ media_type: { "schema": { "$ref": format!("#/components/schemas/{schema}") } } });
        }
    }
}

/// Adds the paths and components of another document.
fn add(document: &mut Value, other: &Value) {
    for part in ["paths", "components"] {
        merge(&mut document[part], &other[part]);
    }
}

/// Where an answer may be of several shapes, one may well be another with more in it.
fn any_of(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(variants) = object.remove("oneOf") {
                object.insert("anyOf".to_owned(), variants);
            }
            object.values_mut().for_each(any_of);
        }
        Value::Array(values) => values.iter_mut().for_each(any_of),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn each_operation(document: &mut Value, change: impl Fn(&mut Value)) {
    let paths = document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    for operation in paths.filter_map(Value::as_object_mut).flat_map(|methods| methods.values_mut()) {
        change(operation);
    }
}

/// Adds what `from` has and `to` has not, at any depth.
fn merge(to: &mut Value, from: &Value) {
    match (to, from) {
        (Value::Object(to), Value::Object(from)) => {
            for (name, value) in from {
                merge(to.entry(name).or_insert(Value::Null), value);
            }
        }
        (to @ Value::Null, from) => *to = from.clone(),
        (_, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_operation_is_described_and_every_reference_leads_somewhere() {
        let document = document();
        assert_eq!(document["openapi"], "3.1.0");
        let paths = document["paths"].as_object().unwrap();
        for path in [
            "/run",
            "/run/result",
            "/run/{id}",
            "/run/{id}/events",
            "/runs",
            "/status",
            "/files/{path}",
            "/metrics",
            "/healthz",
            "/v1/models",
            "/v1/models/{id}",
            "/v1/chat/completions",
            "/v1/responses",
        ] {
            assert!(paths.contains_key(path), "{path}");
        }
        let mut ids = HashSet::new();
        for (path, methods) in paths {
            for (method, operation) in methods.as_object().unwrap() {
                let what = format!("{method} {path}");
                assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{what}: its id");
                assert!(operation["summary"].is_string(), "{what} has no summary");
                assert!(operation["tags"].is_array(), "{what} has no tag");
                let is_guarded = operation["responses"].get("401").is_some();
                assert_eq!(operation.get("security").is_some(), is_guarded, "{what}");
            }
        }
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
