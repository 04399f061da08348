//! What these routes are, for the description of the API. Their form is OpenAI's, and bodies are read more leniently than
//! any type of ours could say: so it is written by hand.

use serde_json::{Value, json};

/// Whatever can go wrong with a chat, by status.
const FAILURES: &[(&str, &str)] = &[
    ("400", "`param` names the part that cannot be accepted, or the provider did not accept the request"),
    ("402", "The budget is used up"),
    ("404", "No such model"),
    ("409", "Somebody cancelled the run"),
    ("413", "The body is too long, or the prompt for this agent"),
    ("415", "The body is not declared as JSON"),
    ("422", "The schema cannot be used, or no answer met it"),
    ("429", "Too many runs wait, or the provider says so; `Retry-After` says when to ask again"),
    ("500", "The agent crashed: its exit code and the end of its stderr are in `detail`"),
    ("502", "The provider failed; `code` says how"),
    ("503", "The server goes down, its store cannot be read or written, or the provider is overloaded"),
    ("504", "The run reached a limit"),
];

/// Paths and components of an OpenAPI document. Every failure is an `OpenAiError`.
pub(crate) fn description() -> Value {
    let mut document: Value = serde_json::from_str(include_str!("description.json")).unwrap_or_default();
    for path in ["/v1/chat/completions", "/v1/responses"] {
        for (status, description) in FAILURES {
            document["paths"][path]["post"]["responses"][status] = json!({ "description": description });
        }
    }
    document
}
