//! The log: to standard error, never a prompt, never a token.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt};

use crate::config::{LogFormat, Logging};

/// Starts logging; `usual` holds where the configuration does not say what to log.
pub(crate) fn start(config: &Logging, usual: &str) {
    // The filter was checked with the configuration.
    let wanted = config.filter.as_deref().unwrap_or(usual);
    let mut filter = EnvFilter::new(wanted);
    // It logs the ids of sessions from `info` on and whole messages, prompts among them, from `debug` on.
    if let (false, Ok(quiet)) = (wanted.contains("rmcp"), "rmcp=warn".parse()) {
        filter = filter.add_directive(quiet);
    }
    let lines = fmt().with_env_filter(filter).with_writer(io::stderr);
    match config.format {
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).init(),
        LogFormat::Text => {
            lines.with_ansi(config.colour && io::stderr().is_terminal()).with_target(false).init();
        }
    }
}
