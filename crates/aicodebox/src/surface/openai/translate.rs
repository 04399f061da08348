use std::path::PathBuf;

use aicodebox_engine::{
    adapter::{AdapterInfo, Capability},
    run::{Origin, RunRequest, SessionChoice, SessionId, ToolPolicy, Workspace},
};

use super::{
    error::ApiError, headers::Headers, images::SavedImage, message::Message, prompt, request::ChatRequest,
};
use crate::surface::run_answer;

/// What the agent is told about the form of the prompt, the same on every turn.
const CONTINUE: &str = "The prompt is a conversation. A line such as [USER], [ASSISTANT], [TOOL CALL name (id)] or \
                        [TOOL RESULT name (id)] says whose words follow it; what comes before the first such line are \
                        the user's. [IMAGE path] stands for the image file at that path. Continue the conversation: \
                        answer with the assistant's next message alone, without such a line.";

/// What the answer has to be made into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The text as it is.
    Text,
    /// The JSON value that met the schema.
    Json,
    /// Calls, or text.
    Tools,
}

impl Shape {
    /// What this request wants.
    pub(crate) fn of(request: &ChatRequest) -> Self {
        match (&request.schema, request.tools.callable()) {
            (_, true) => Self::Tools,
            (Some(_), false) => Self::Json,
            (None, false) => Self::Text,
        }
    }
}

/// Whether the chat gets a temporary workspace when it names none: what agents write while they answer by a form
/// is in nobody's interest, and the retries may go on with the session.
pub(crate) fn wants_temporary_workspace(request: &ChatRequest) -> bool {
    request.aside || request.schema.is_some() || !request.tools.offered.is_empty()
}

/// The run that a chat asks for, without the check of its answer.
///
/// # Errors
/// 400 for what the agent has no way for.
pub(crate) fn translate(
    request: &ChatRequest,
    headers: Headers,
    agent: &AdapterInfo,
    model: Option<String>,
    workspace: Workspace,
    images: &[SavedImage],
) -> Result<RunRequest, ApiError> {
    let headers = if request.aside { headers.aside() } else { headers };
    let capability =
        |field: &str| agent.capabilities.fields.get(field).copied().unwrap_or(Capability::Refuse);
    let shows_images = has_channel(capability("images"));
    let image = |index: usize| {
        let saved = images.get(index).filter(|_| !shows_images)?;
        Some(format!("IMAGE {}", saved.relative))
    };
    let session = match (headers.resume, headers.continues) {
        (Some(id), _) => SessionChoice::Resume(SessionId(id)),
        (None, true) => SessionChoice::Continue,
        (None, false) => SessionChoice::Fresh { keep: false },
    };
    let whole = prompt::render(&request.messages, image);
    // From here on the agent has to be told.
    let new =
        if matches!(session, SessionChoice::Fresh { .. }) { 0 } else { prompt::unseen(&request.messages) };
    let mut run = match session {
        SessionChoice::Fresh { .. } => RunRequest::new(whole, workspace, Origin::OpenAi),
        SessionChoice::Continue | SessionChoice::Resume(_) => {
            let prompt = prompt::render_since(&request.messages, new, image);
            let whole_prompt = Some(whole).filter(|whole| *whole != prompt);
            RunRequest { whole_prompt, ..RunRequest::new(prompt, workspace, Origin::OpenAi) }
        }
    };

    let callable = request.tools.callable();
    let asked = prompt::system(&request.messages).filter(|text| !text.trim().is_empty());
    let has_tools = !request.tools.offered.is_empty();
    if asked.is_some() || has_tools {
        let directive = callable.then(|| request.tools.directive(request.schema.as_ref()));
        let text = [asked, directive, Some(CONTINUE.to_owned())].into_iter().flatten().collect::<Vec<_>>();
        let text = text.join("\n\n");
        if capability("system_prompt") == Capability::Refuse {
            for prompt in [&mut run.prompt].into_iter().chain(&mut run.whole_prompt) {
                prompt.insert_str(0, &format!("{text}\n\n"));
            }
        } else {
            run.system_prompt = Some(text);
        }
        run.append_system_prompt = headers.append_system_prompt;
    } else {
        let told = has_channel(capability("append_system_prompt")).then(|| CONTINUE.to_owned());
        let parts: Vec<_> = headers.append_system_prompt.into_iter().chain(told).collect();
        run.append_system_prompt = Some(parts.join("\n\n")).filter(|text| !text.is_empty());
    }

    let can_do_without = capability("no_tools") != Capability::Refuse;
    run.tools = match (headers.no_tools, headers.tools) {
        (Some(true), _) => ToolPolicy::None,
        (_, Some(names)) if names.is_empty() => {
            if !can_do_without {
                let detail = format_args!("{} cannot be left without tools", agent.name);
                return Err(ApiError::invalid("x-aicodebox-tools-allowlist", detail));
            }
            ToolPolicy::None
        }
        (_, Some(names)) => ToolPolicy::Only(names),
        // Its own tools would be in the way of the client's. Where they cannot be taken away, nobody asked for it.
        (None, None) if (has_tools || request.aside) && can_do_without => ToolPolicy::None,
        (None | Some(false), None) => ToolPolicy::All,
    };
    if Shape::of(request) != Shape::Text {
        // For those who fetch the result of a chat that they left.
        run.note = run_answer::Shape { verbose: true, schema: true, ..Default::default() }.to_note();
    }
    if !callable {
        run.json_schema = request.schema.clone();
    }
    if shows_images {
        run.images = shown(request.messages.get(new..).unwrap_or_default(), images);
        run.whole_images = shown(&request.messages, images);
    }
    run.session = session;
    run.model = model;
    run.effort = request.effort.clone();
    run.extra_args = headers.extra_args;
    run.deadline = headers.timeout;
    run.stream = request.stream.is_some() && Shape::of(request) == Shape::Text;
    run.natives = request.stream.is_some_and(|stream| stream.natives);
    Ok(run)
}

fn has_channel(capability: Capability) -> bool {
    match capability {
        Capability::Flag | Capability::Env | Capability::File => true,
        Capability::Prefix | Capability::Drop | Capability::Refuse => false,
    }
}

/// The images of these messages, each once, in the order of the conversation.
fn shown(messages: &[Message], images: &[SavedImage]) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for saved in messages.iter().flat_map(Message::images).filter_map(|index| images.get(index)) {
        if !paths.contains(&saved.path) {
            paths.push(saved.path.clone());
        }
    }
    paths
}
