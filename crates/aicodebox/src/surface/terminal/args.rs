use std::{io, path::PathBuf, time::Duration};

use aicodebox_engine::{
    adapter::AdapterInfo,
    run::{Origin, RunRequest, SessionChoice, SessionId, ToolPolicy, Workspace},
};

use crate::config::parse;

/// A prompt from standard input may have this many bytes.
const MAX_PROMPT: u64 = 64 << 20;

/// What `aicodebox run` is told.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// The task; `-` reads it from standard input
    prompt: String,
    /// Adapter: a built-in one or a file, instead of AICODEBOX_ADAPTER
    #[arg(short, long)]
    pub(crate) adapter: Option<String>,
    /// Directory to work in [default: AICODEBOX_WORKSPACE if set, else the current directory]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Work in a temporary directory that is removed afterwards
    #[arg(long, conflicts_with = "workspace")]
    pub(crate) ephemeral: bool,
    /// Model
    #[arg(short, long)]
    model: Option<String>,
    /// How hard to think, in the agent's words
    #[arg(short, long)]
    effort: Option<String>,
    /// Replace the agent's system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system_prompt: Option<String>,
    /// Add to the agent's system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    append_system_prompt: Option<String>,
    /// Go on with this session
    #[arg(long, value_name = "ID", conflicts_with = "continue_last")]
    resume: Option<String>,
    /// Go on with the agent's newest session here; for agents that do not name their sessions
    #[arg(long = "continue")]
    continue_last: bool,
    /// Tools that the agent may use, comma separated
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Vec<String>,
    /// Let the agent use no tools at all
    #[arg(long, conflicts_with = "tools")]
    no_tools: bool,
    /// Show the agent this image; may be given several times
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// One more word for the agent's command line; may be given several times
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    extra_arg: Vec<String>,
    /// Longest time for the whole run, e.g. 10m [default: AICODEBOX_RUN_TIMEOUT]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Longest time without output, e.g. 2m [default: AICODEBOX_IDLE_TIMEOUT]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    idle_timeout: Option<Duration>,
    /// Print one JSON object at the end instead of the answer's text
    #[arg(long, conflicts_with = "events")]
    pub(crate) json: bool,
    /// Print every event as a line of JSON as it happens
    #[arg(long)]
    pub(crate) events: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse::duration(text).ok_or_else(|| "expected a duration such as 30s, 5m, 2h or 7d".to_owned())
}

impl RunArgs {
    /// The request.
    ///
    /// # Errors
    /// A sentence about what cannot be used.
    pub(crate) fn request(&self, workspace: Workspace, agent: &AdapterInfo) -> Result<RunRequest, String> {
        let prompt = if self.prompt == "-" { read_prompt()? } else { self.prompt.clone() };
        if prompt.trim().is_empty() {
            return Err("the prompt is empty".to_owned());
        }
        let session = match (&self.resume, self.continue_last) {
            (Some(id), _) => SessionChoice::Resume(SessionId(id.clone())),
            // Which session was the last one is remembered by a server, not between two calls of this command.
            (None, true) if agent.capabilities.sessions => {
                return Err(format!(
                    "{} names its sessions: use --resume with the id that the last run printed",
                    agent.name
                ));
            }
            (None, true) => SessionChoice::Continue,
            (None, false) => SessionChoice::Fresh { keep: true },
        };
        let images = self.image.iter().map(|image| {
            image.canonicalize().map_err(|error| format!("cannot use the image {}: {error}", image.display()))
        });
        Ok(RunRequest {
            session,
            model: self.model.clone(),
            effort: self.effort.clone(),
            system_prompt: self.system_prompt.clone(),
            append_system_prompt: self.append_system_prompt.clone(),
            tools: match (self.no_tools, self.tools.is_empty()) {
                (true, _) => ToolPolicy::None,
                (false, true) => ToolPolicy::All,
                (false, false) => ToolPolicy::Only(self.tools.clone()),
            },
            images: images.collect::<Result<_, _>>()?,
            extra_args: self.extra_arg.clone(),
            deadline: self.timeout,
            idle: self.idle_timeout,
            stream: !self.json,
            natives: self.events,
            ..RunRequest::new(prompt, workspace, Origin::Cli)
        })
    }
}

fn read_prompt() -> Result<String, String> {
    let mut prompt = String::new();
    let read = io::Read::take(io::stdin().lock(), MAX_PROMPT + 1);
    io::read_to_string(read)
        .map(|text| prompt = text)
        .map_err(|error| format!("the prompt cannot be read from standard input: {error}"))?;
    if prompt.len() as u64 > MAX_PROMPT {
        return Err(format!("the prompt is longer than {MAX_PROMPT} bytes"));
    }
    Ok(prompt)
}
