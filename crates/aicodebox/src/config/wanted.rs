use super::{Environment, parse, variable::*};

/// Whether a mode is on that listens on a port, where a health check can ask.
pub(crate) fn listens(environment: &Environment) -> bool {
    is_on(environment, &API_MODE) || is_on(environment, &MCP_MODE)
}

/// A value that is none counts as on: the server says what is wrong with it.
pub(super) fn is_on(environment: &Environment, mode: &Variable) -> bool {
    let value = environment.value(mode).map(|value| value.to_string_lossy());
    value.is_some_and(|value| parse::boolean(value.trim()) != Some(false))
}

/// What the first process of a box starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The server, with the modes of the environment.
    Server,
    /// The agent's own command line.
    Agent,
    /// The same, and the MCP server beside it.
    AgentBesideServer,
}

impl Wanted {
    /// What the environment asks for, given whether there are arguments for the agent, and a terminal.
    pub(crate) fn of(environment: &Environment, arguments: bool, terminal: bool) -> Self {
        let on = |mode: &Variable| is_on(environment, mode);
        match ([API_MODE, TELEGRAM_MODE, CRON_MODE].iter().any(on), on(&MCP_MODE)) {
            (true, _) => Self::Server,
            (false, false) => Self::Agent,
            (false, true) if arguments || terminal => Self::AgentBesideServer,
            (false, true) => Self::Server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(variables: &[(&str, &str)], arguments: bool, terminal: bool) -> Wanted {
        Wanted::of(&variables.iter().copied().collect(), arguments, terminal)
    }

    #[test]
    fn modes_in_the_foreground_win_over_the_agent() {
        for mode in ["AICODEBOX_API_MODE", "AICODEBOX_TELEGRAM_MODE", "AICODEBOX_CRON_MODE"] {
            assert_eq!(wanted(&[(mode, "1")], true, true), Wanted::Server);
            assert_eq!(wanted(&[(mode, "maybe")], true, true), Wanted::Server);
            assert_eq!(wanted(&[(mode, "off")], false, false), Wanted::Agent);
        }
        assert_eq!(wanted(&[], true, false), Wanted::Agent);
    }

    #[test]
    fn mcp_is_beside_an_agent_that_somebody_uses() {
        let mcp = [("AICODEBOX_MCP_MODE", "1")];
        assert_eq!(wanted(&mcp, true, false), Wanted::AgentBesideServer);
        assert_eq!(wanted(&mcp, false, true), Wanted::AgentBesideServer);
        assert_eq!(wanted(&mcp, false, false), Wanted::Server);
        assert_eq!(wanted(&[mcp[0], ("AICODEBOX_API_MODE", "1")], true, true), Wanted::Server);
    }
}
