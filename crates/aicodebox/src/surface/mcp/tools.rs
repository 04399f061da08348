use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// The tools, in the order in which clients see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolName {
    RunPrompt,
    ListFiles,
    ReadFile,
    WriteFile,
    DeleteFile,
    StartRun,
    GetRun,
    CancelRun,
}

impl ToolName {
    const ALL: [Self; 8] = [
        Self::RunPrompt,
        Self::ListFiles,
        Self::ReadFile,
        Self::WriteFile,
        Self::DeleteFile,
        Self::StartRun,
        Self::GetRun,
        Self::CancelRun,
    ];

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::RunPrompt => "run_prompt",
            Self::ListFiles => "list_files",
            Self::ReadFile => "read_file",
            Self::WriteFile => "write_file",
            Self::DeleteFile => "delete_file",
            Self::StartRun => "start_run",
            Self::GetRun => "get_run",
            Self::CancelRun => "cancel_run",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::RunPrompt => "Run the agent",
            Self::ListFiles => "List files",
            Self::ReadFile => "Read a file",
            Self::WriteFile => "Write a file",
            Self::DeleteFile => "Delete a file",
            Self::StartRun => "Start a run in the background",
            Self::GetRun => "Look at a run",
            Self::CancelRun => "Cancel a run",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::RunPrompt => {
                "Give the coding agent a task and wait for its answer. It works in the workspace: it can read and \
                 change files there and run commands. Cancelling this call, or losing its connection, stops the agent."
            }
            Self::ListFiles => {
                "List a directory of the workspace, sorted by name. Links are shown, not followed."
            }
            Self::ReadFile => {
                "Read a file of the workspace, at most 10 MiB. What is not UTF-8 text comes as base64."
            }
            Self::WriteFile => {
                "Write a text file in the workspace, replacing what is there; missing directories are made."
            }
            Self::DeleteFile => "Delete a file of the workspace, or a link (not what it leads to).",
            Self::StartRun => {
                "Give the coding agent a task and return at once. The run goes on by itself; get_run tells how it \
                 stands and gives the answer, cancel_run stops it."
            }
            Self::GetRun => {
                "How a run stands and, when it has ended, its answer. Can be asked any number of times."
            }
            Self::CancelRun => "Stop a run. Returns when nothing of it is left.",
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let hints = ToolAnnotations::with_title(self.title());
        match self {
            // An agent can do anything, also outside.
            Self::RunPrompt | Self::StartRun => {
                hints.read_only(false).destructive(true).idempotent(false).open_world(true)
            }
            Self::ListFiles | Self::ReadFile | Self::GetRun => hints.read_only(true).open_world(false),
            Self::WriteFile | Self::DeleteFile | Self::CancelRun => {
                hints.read_only(false).destructive(true).idempotent(true).open_world(false)
            }
        }
    }

    fn input(self) -> Value {
        let path = |what: &str| json!({"type": "string", "description": what});
        match self {
            Self::RunPrompt | Self::StartRun => object(
                json!({
                    "prompt": {"type": "string", "minLength": 1, "description": "The task, in plain words."},
                    "workspace": path("Directory to work in, below the workspace root; made if missing. Default: the root."),
                    "model": {"type": "string", "description": "Model to use. Default: the agent's own."},
                    "system_prompt": {"type": "string", "description": "Replaces the agent's system prompt."},
                    "append_system_prompt": {"type": "string", "description": "Added to the agent's system prompt."},
                    "no_continue": {
                        "type": "boolean", "default": true,
                        "description": "true: a conversation of its own. false: go on with the last one of this workspace."
                    },
                    "resume": {"type": "string", "description": "Session id of a conversation to go on with."},
                    "thinking": {"type": "string", "description": "How hard to think, in the agent's words (e.g. low, high)."},
                    "json_schema": {
                        "type": "object",
                        "description": "JSON Schema of the answer. It is checked, and asked for again where it does not fit."
                    },
                }),
                &["prompt"],
            ),
            Self::ListFiles => {
                object(json!({"path": path("Directory below the workspace root. Default: the root.")}), &[])
            }
            Self::ReadFile | Self::DeleteFile => {
                object(json!({"path": path("File, below the workspace root.")}), &["path"])
            }
            Self::WriteFile => object(
                json!({
                    "path": path("File, below the workspace root."),
                    "content": {"type": "string", "description": "All of the new content."},
                }),
                &["path", "content"],
            ),
            Self::GetRun | Self::CancelRun => {
                let id =
                    json!({"type": "string", "pattern": "^[0-9a-f]{32}$", "description": "The run's id."});
                object(json!({"run_id": id}), &["run_id"])
            }
        }
    }

    /// What comes back, as far as it is promised; more may come.
    fn output(self) -> Value {
        let (text, count) = (json!({"type": "string"}), json!({"type": "integer", "minimum": 0}));
        let status =
            json!({"enum": ["running", "completed", "failed", "cancelled", "timed_out", "interrupted"]});
        let (properties, required): (Value, &[&str]) = match self {
            Self::RunPrompt => (
                json!({
                    "runId": text, "workspace": text, "status": status, "exitCode": {"type": "integer"},
                    "text": text, "sessionId": {"type": ["string", "null"]}, "json": {},
                }),
                &["runId", "workspace", "status", "exitCode", "text"],
            ),
            Self::GetRun => (
                json!({
                    "runId": text, "workspace": text, "status": status, "exitCode": {"type": "integer"},
                    "text": text, "sessionId": {"type": ["string", "null"]}, "json": {},
                }),
                &["runId", "workspace", "status"],
            ),
            Self::StartRun => (
                json!({"runId": text, "workspace": text, "status": status}),
                &["runId", "workspace", "status"],
            ),
            Self::CancelRun => (json!({"runId": text, "status": status}), &["runId", "status"]),
            Self::ListFiles => {
                let entry = json!({
                    "type": "object",
                    "properties": {"name": text, "type": {"enum": ["file", "dir", "link"]}, "size": count},
                    "required": ["name", "type"],
                });
                let entries = json!({"type": "array", "items": entry});
                (
                    json!({"path": text, "entries": entries, "truncated": {"type": "boolean"}}),
                    &["path", "entries"],
                )
            }
            Self::ReadFile => (
                json!({"path": text, "size": count, "content": text, "encoding": {"enum": ["utf-8", "base64"]}}),
                &["path", "size", "content", "encoding"],
            ),
            Self::WriteFile => {
                (json!({"status": {"const": "ok"}, "path": text, "size": count}), &["status", "path", "size"])
            }
            Self::DeleteFile => (json!({"status": {"const": "ok"}, "path": text}), &["status", "path"]),
        };
        json!({"type": "object", "properties": properties, "required": required})
    }

    fn tool(self) -> Tool {
        let schema = |value: Value| match value {
            Value::Object(schema) => Arc::new(schema),
            _ => Arc::new(JsonObject::new()),
        };
        Tool::new(self.name(), self.description(), schema(self.input()))
            .with_title(self.title())
            .with_raw_output_schema(schema(self.output()))
            .with_annotations(self.annotations())
    }
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    })
}

/// All tools as clients see them.
pub(super) fn all() -> &'static [Tool] {
    static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| ToolName::ALL.map(ToolName::tool).into());
    &TOOLS
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::Map;

    use super::{
        super::arguments::{FileName, ListArguments, RunArguments, RunName, WriteArguments},
        *,
    };

    /// Arguments of every type that the schema names, some of them left out.
    fn made(tool: ToolName, required_only: bool) -> Value {
        let schema = tool.input();
        let required: Vec<_> = schema["required"].as_array().unwrap().iter().collect();
        let made: Map<_, _> = schema["properties"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| !required_only || required.contains(&&json!(name)))
            .map(|(name, property)| {
                let value = match property["type"].as_str().unwrap() {
                    "string" => json!("x"),
                    "boolean" => json!(false),
                    "object" => json!({}),
                    other => panic!("{other}"),
                };
                (name.clone(), value)
            })
            .collect();
        made.into()
    }

    fn accepts<T: DeserializeOwned>(arguments: &Value) -> bool {
        serde_json::from_value::<T>(arguments.clone()).is_ok()
    }

    #[test]
    fn schemas_and_arguments_agree() {
        for tool in ToolName::ALL {
            let accepts = match tool {
                ToolName::RunPrompt | ToolName::StartRun => accepts::<RunArguments>,
                ToolName::GetRun | ToolName::CancelRun => accepts::<RunName>,
                ToolName::ListFiles => accepts::<ListArguments>,
                ToolName::ReadFile | ToolName::DeleteFile => accepts::<FileName>,
                ToolName::WriteFile => accepts::<WriteArguments>,
            };
            let (all, fewest) = (made(tool, false), made(tool, true));
            assert!(accepts(&all) && accepts(&fewest), "{tool:?}");
            let mut nulls = fewest.clone();
            for name in all.as_object().unwrap().keys().filter(|name| fewest.get(name).is_none()) {
                nulls[name] = Value::Null;
            }
            assert!(accepts(&nulls), "{tool:?}: {nulls}");
            let mut more = all.clone();
            more["surprise"] = json!(1);
            assert!(!accepts(&more), "{tool:?}");
            for required in fewest.as_object().unwrap().keys() {
                let mut less = all.clone();
                less.as_object_mut().unwrap().remove(required);
                assert!(!accepts(&less), "{tool:?} without {required}");
            }
        }
    }
}
