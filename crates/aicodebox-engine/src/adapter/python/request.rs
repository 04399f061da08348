use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::run::{Origin, RunRequest, SessionChoice, ToolPolicy};

/// Whether the output is read line by line while it comes. As in the original only where deltas are shown: in a
/// streamed chat (and at the terminal); everything else has the whole output read at its end.
pub(super) fn is_streamed(request: &RunRequest) -> bool {
    request.stream && request.json_schema.is_none() && matches!(request.origin, Origin::OpenAi | Origin::Cli)
}

/// The fields of the class's `RunRequest`, as JSON; `model` is the one that the class is told.
pub(super) fn fields(request: &RunRequest, model: Option<&str>) -> Box<RawValue> {
    let (no_continue, resume) = match &request.session {
        SessionChoice::Fresh { keep } => (!keep, None),
        // Only an adapter that reports no id gets here: the agent continues by itself.
        SessionChoice::Continue => (false, None),
        SessionChoice::Resume(session) => (false, Some(session.0.as_str())),
    };
    let (no_tools, tools_allowlist) = match &request.tools {
        ToolPolicy::All => (false, None),
        ToolPolicy::None => (true, None),
        ToolPolicy::Only(tools) => (false, Some(tools.as_slice())),
    };
    let fields = Fields {
        prompt: &request.prompt,
        workspace: request.workspace.path.to_string_lossy(),
        model,
        system_prompt: request.system_prompt.as_deref(),
        append_system_prompt: request.append_system_prompt.as_deref(),
        json_schema: request.json_schema.as_ref(),
        output_format: output_format(request),
        no_continue,
        resume,
        extra_args: &request.extra_args,
        timeout_seconds: request.deadline.map(whole_seconds),
        thinking: request.effort.as_deref(),
        tools_allowlist,
        no_tools,
        event_mode: if request.natives { "full" } else { "none" },
    };
    // Text, numbers, lists and JSON: nothing in it can fail to be JSON.
    serde_json::value::to_raw_value(&fields).unwrap_or_default()
}

fn output_format(request: &RunRequest) -> &'static str {
    if is_streamed(request) {
        "text"
    } else if request.json_schema.is_some() || request.natives {
        "json-verbose"
    } else if request.origin == Origin::OpenAi {
        "json"
    } else {
        "text"
    }
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[derive(Serialize)]
struct Fields<'a> {
    prompt: &'a str,
    workspace: std::borrow::Cow<'a, str>,
    model: Option<&'a str>,
    system_prompt: Option<&'a str>,
    append_system_prompt: Option<&'a str>,
    json_schema: Option<&'a Value>,
    output_format: &'static str,
    no_continue: bool,
    resume: Option<&'a str>,
    extra_args: &'a [String],
    timeout_seconds: Option<u64>,
    thinking: Option<&'a str>,
    tools_allowlist: Option<&'a [String]>,
    no_tools: bool,
    event_mode: &'static str,
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;
    use crate::run::{SessionId, Workspace};

    fn request(origin: Origin) -> RunRequest {
        let workspace = Workspace { path: PathBuf::from("/w"), root: true, guard: None };
        RunRequest::new("hi", workspace, origin)
    }

    fn json(request: &RunRequest) -> Value {
        serde_json::from_str(fields(request, request.model.as_deref().or(Some("default"))).get()).unwrap()
    }

    #[test]
    fn what_nobody_asked_for_has_the_values_of_the_original() {
        assert_eq!(
            json(&request(Origin::Api)),
            json!({
                "prompt": "hi", "workspace": "/w", "model": "default", "system_prompt": null,
                "append_system_prompt": null, "json_schema": null, "output_format": "text", "no_continue": true,
                "resume": null, "extra_args": [], "timeout_seconds": null, "thinking": null,
                "tools_allowlist": null, "no_tools": false, "event_mode": "none",
            })
        );
    }

    #[test]
    fn everything_is_passed_on() {
        let mut full = request(Origin::Api);
        full.model = Some("m".into());
        full.effort = Some("high".into());
        full.system_prompt = Some("s".into());
        full.append_system_prompt = Some("a".into());
        full.json_schema = Some(json!({"type": "object"}));
        full.tools = ToolPolicy::Only(vec!["read".into()]);
        full.extra_args = vec!["-v".into()];
        full.deadline = Some(Duration::from_millis(1500));
        full.natives = true;
        full.session = SessionChoice::Resume(SessionId("s1".into()));
        assert_eq!(
            json(&full),
            json!({
                "prompt": "hi", "workspace": "/w", "model": "m", "system_prompt": "s",
                "append_system_prompt": "a", "json_schema": {"type": "object"}, "output_format": "json-verbose",
                "no_continue": false, "resume": "s1", "extra_args": ["-v"], "timeout_seconds": 2,
                "thinking": "high", "tools_allowlist": ["read"], "no_tools": false, "event_mode": "full",
            })
        );
    }

    #[test]
    fn a_session_that_is_kept_is_one_that_the_agent_may_continue() {
        let mut asked = request(Origin::Api);
        for (session, no_continue) in [
            (SessionChoice::Fresh { keep: false }, true),
            (SessionChoice::Fresh { keep: true }, false),
            (SessionChoice::Continue, false),
        ] {
            asked.session = session;
            assert_eq!(json(&asked)["no_continue"], json!(no_continue), "{:?}", asked.session);
        }
    }

    #[test]
    fn the_output_format_goes_by_surface() {
        let format = |origin: Origin, change: fn(&mut RunRequest)| {
            let mut asked = request(origin);
            change(&mut asked);
            (output_format(&asked), is_streamed(&asked))
        };
        let telegram = Origin::Telegram { chat: 1, topic: None };
        let cron = Origin::Cron { job: "j".into() };
        for origin in [Origin::Api, Origin::Mcp, Origin::Cli, telegram.clone(), cron.clone()] {
            assert_eq!(format(origin.clone(), |_| ()), ("text", false), "{origin:?}");
            assert_eq!(format(origin.clone(), |r| r.natives = true), ("json-verbose", false), "{origin:?}");
        }
        for origin in [Origin::Api, Origin::Mcp, telegram, cron] {
            assert_eq!(format(origin.clone(), |r| r.stream = true), ("text", false), "{origin:?}");
        }
        assert_eq!(format(Origin::OpenAi, |_| ()), ("json", false));
        assert_eq!(format(Origin::OpenAi, |r| r.stream = true), ("text", true));
        assert_eq!(format(Origin::Cli, |r| r.stream = true), ("text", true));
        let schema = |r: &mut RunRequest| (r.stream, r.json_schema) = (true, Some(json!({})));
        assert_eq!(format(Origin::OpenAi, schema), ("json-verbose", false));
    }
}
