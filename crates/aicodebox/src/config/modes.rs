use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::http::HeaderValue;
use secrecy::SecretString;

use super::{
    ConfigError, Environment, McpConfig, Reader,
    variable::{Variable, *},
};

/// What `serve` serves.
#[derive(Debug)]
pub(crate) enum Foreground {
    /// The HTTP API, MCP beside it at `/mcp` where that is on.
    Api(ApiConfig, Option<McpConfig>),
    /// MCP alone, on its own port.
    Mcp(SocketAddr, McpConfig),
}

/// The HTTP API.
#[derive(Debug)]
pub(crate) struct ApiConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) access: Access,
    /// Largest request body, in bytes.
    pub(crate) max_body: usize,
    pub(crate) cors: Cors,
    /// Whether chats may only name models that are offered.
    pub(crate) strict_models: bool,
    /// Where a chat works that names no workspace.
    pub(crate) chat_workspace: ChatWorkspace,
    /// Which chats are questions beside the conversation.
    pub(crate) chat_asides: ChatAsides,
    /// Whether `/metrics` is for everybody.
    pub(crate) metrics_public: bool,
}

/// Where a chat works that names no workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChatWorkspace {
    /// In the root.
    Root,
    /// In a temporary one of its own.
    Ephemeral,
}

/// Which chats are what a client asks for itself about a conversation: its title, tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChatAsides {
    /// Those that name such a task, and those that begin with known words.
    Known,
    /// Those that name such a task.
    Named,
    /// All.
    Always,
    /// None.
    Never,
}

/// Who may call.
#[derive(Debug)]
pub(crate) enum Access {
    /// Whoever reaches the port.
    Open,
    /// Whoever knows this.
    Token(SecretString),
}

/// Which web pages may call.
#[derive(Debug)]
pub(crate) enum Cors {
    /// None.
    Off,
    /// All.
    Any,
    /// Those of these origins.
    Origins(Vec<HeaderValue>),
}

impl Foreground {
    /// Reads the configuration of what listens: the API, MCP, or both. `None` when neither does.
    pub(super) fn read(reader: &mut Reader<'_>, api: bool, mcp: bool) -> Option<Self> {
        // Both, although at most one is used: a wrong value is told wherever it stands.
        let (api_host, api_port) = (reader.address(&API_HOST), reader.port(&API_PORT));
        let (mcp_host, mcp_port) = (reader.address(&MCP_HOST), reader.port(&MCP_PORT));
        let (host, port) = if api { (api_host, api_port) } else { (mcp_host, mcp_port) };
        // A host that is wrong is told by the reader, and nobody listens.
        let listen = SocketAddr::new(host.unwrap_or(Ipv4Addr::LOCALHOST.into()), port);
        let api = api.then(|| ApiConfig::read(reader, host, listen));
        let mcp = mcp.then(|| McpConfig::read(reader, host));
        match (api, mcp) {
            (Some(api), mcp) => Some(Self::Api(api, mcp)),
            (None, mcp) => mcp.map(|mcp| Self::Mcp(listen, mcp)),
        }
    }

    /// Where it listens.
    pub(crate) fn listen(&self) -> SocketAddr {
        match self {
            Self::Api(api, _) => api.listen,
            Self::Mcp(listen, _) => *listen,
        }
    }

    /// Whether a surface lets everybody in who reaches it.
    pub(crate) fn open(&self) -> bool {
        let (api, mcp) = match self {
            Self::Api(api, mcp) => (Some(&api.access), mcp.as_ref()),
            Self::Mcp(_, mcp) => (None, Some(mcp)),
        };
        api.into_iter().chain(mcp.map(|mcp| &mcp.access)).any(|access| matches!(access, Access::Open))
    }
}

impl ApiConfig {
    fn read(reader: &mut Reader<'_>, host: Option<IpAddr>, listen: SocketAddr) -> Self {
        let chat_workspaces = [("root", ChatWorkspace::Root), ("ephemeral", ChatWorkspace::Ephemeral)];
        let chat_asides = [
            ("known", ChatAsides::Known),
            ("named", ChatAsides::Named),
            ("always", ChatAsides::Always),
            ("never", ChatAsides::Never),
        ];
        Self {
            listen,
            access: Access::read(reader, host, &API_TOKEN, &API_ALLOW_UNAUTHENTICATED),
            max_body: max_body(reader),
            cors: Cors::read(reader),
            strict_models: reader.boolean(&API_STRICT_MODELS),
            chat_workspace: reader.word(&API_CHAT_WORKSPACE, &chat_workspaces).unwrap_or(ChatWorkspace::Root),
            chat_asides: reader.word(&API_CHAT_ASIDES, &chat_asides).unwrap_or(ChatAsides::Known),
            metrics_public: reader.boolean(&API_METRICS_PUBLIC),
        }
    }
}

impl Access {
    /// By the token, if there is one. None is a fault where others reach the host, unless that is allowed.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        host: Option<IpAddr>,
        token: &Variable,
        allow: &Variable,
    ) -> Self {
        let secret = reader.secret(token);
        // A token that could not be read is one fault; that there is no token would be a second, wrong one.
        let given = secret.is_some() || reader.is_set(token) || reader.has_file(token);
        let allowed = reader.boolean(allow);
        if let Some(host) = host.filter(|host| !host.is_loopback())
            && !given
            && !allowed
        {
            reader.fault(
                token,
                format_args!(
                    "expected a token, because {host} can be reached from outside; \
                     set {}=1 to let anybody who reaches the port run commands",
                    allow.name
                ),
            );
        }
        secret.map_or(Self::Open, Self::Token)
    }
}

pub(super) fn max_body(reader: &mut Reader<'_>) -> usize {
    usize::try_from(reader.size(&API_MAX_BODY)).unwrap_or(usize::MAX)
}

pub(super) fn is_origin(text: &str) -> bool {
    text.contains("://") && !text.ends_with('/')
}

impl Cors {
    fn read(reader: &mut Reader<'_>) -> Self {
        let origins = reader.list(&API_CORS_ORIGINS);
        if origins.is_empty() {
            return Self::Off;
        }
        if origins == ["*"] {
            return Self::Any;
        }
        let mut values = Vec::with_capacity(origins.len());
        for origin in origins {
            match HeaderValue::try_from(&origin) {
                Ok(value) if is_origin(&origin) => values.push(value),
                Ok(_) | Err(_) => reader.fault(
                    &API_CORS_ORIGINS,
                    format_args!("expected * or origins such as https://example.org, found {origin:?}"),
                ),
            }
        }
        Self::Origins(values)
    }
}

/// Where the server of this box is reached from inside it.
///
/// # Errors
/// When its address or port is wrong.
pub(crate) fn local_port(environment: &Environment) -> Result<SocketAddr, ConfigError> {
    let mut reader = Reader::new(environment);
    let alone = reader.boolean(&MCP_MODE) && !reader.boolean(&API_MODE);
    let (host, port) = if alone { (&MCP_HOST, &MCP_PORT) } else { (&API_HOST, &API_PORT) };
    let port = reader.port(port);
    let host = reader.address(host).map(|host| match host {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V4(_) | IpAddr::V6(_) => host,
    });
    reader.finish(host.map(|host| SocketAddr::new(host, port)))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn foreground(variables: &[(&str, &str)]) -> Result<Foreground, ConfigError> {
        let environment = variables.iter().copied().collect();
        let mut reader = Reader::new(&environment);
        let [api, mcp] = [&API_MODE, &MCP_MODE].map(|mode| reader.boolean(mode));
        let foreground = Foreground::read(&mut reader, api, mcp);
        reader.finish(foreground)
    }

    fn read(variables: &[(&str, &str)]) -> Result<ApiConfig, ConfigError> {
        foreground(variables).map(|foreground| match foreground {
            Foreground::Api(api, None) => api,
            other @ (Foreground::Api(_, Some(_)) | Foreground::Mcp(..)) => panic!("{other:?}"),
        })
    }

    const ON: (&str, &str) = ("AICODEBOX_API_MODE", "1");

    #[test]
    fn an_address_that_others_reach_needs_a_token_or_a_clear_word() {
        let error = read(&[ON]).unwrap_err();
        assert_eq!(error.0.len(), 1, "{error}");
        assert!(error.0[0].contains("AICODEBOX_API_MODE_ALLOW_UNAUTHENTICATED=1"), "{error}");
        // An empty token is no token, not the wish to have none.
        assert!(read(&[ON, ("AICODEBOX_API_MODE_TOKEN", "")]).is_err());

        let open = read(&[ON, ("AICODEBOX_API_MODE_ALLOW_UNAUTHENTICATED", "1")]).unwrap();
        assert!(matches!(open.access, Access::Open));
        let local = read(&[ON, ("AICODEBOX_API_MODE_HOST", "::1")]).unwrap();
        assert_eq!(local.listen.to_string(), "[::1]:8080");
        let token = read(&[ON, ("AICODEBOX_API_MODE_TOKEN", "t")]).unwrap();
        assert!(matches!(token.access, Access::Token(token) if token.expose_secret() == "t"));
        assert_eq!(token.listen.to_string(), "0.0.0.0:8080");
    }

    #[test]
    fn a_secret_comes_from_a_file_too_and_its_faults_do_not_show_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, "from a file\r\n").unwrap();
        let path = file.to_str().unwrap();

        let api = read(&[ON, ("AICODEBOX_API_MODE_TOKEN_FILE", path)]).unwrap();
        assert!(matches!(api.access, Access::Token(token) if token.expose_secret() == "from a file"));

        let both = read(&[ON, ("AICODEBOX_API_MODE_TOKEN_FILE", path), ("AICODEBOX_API_MODE_TOKEN", "hush")]);
        let error = both.unwrap_err().to_string();
        assert!(error.contains("not both") && !error.contains("hush"), "{error}");

        let missing = read(&[ON, ("AICODEBOX_API_MODE_TOKEN_FILE", "/nowhere/token")]).unwrap_err();
        assert_eq!(missing.0.len(), 1, "{missing}");
        assert!(
            missing.0[0].contains("AICODEBOX_API_MODE_TOKEN_FILE: cannot read /nowhere/token"),
            "{missing}"
        );

        std::fs::write(&file, "\n").unwrap();
        assert!(read(&[ON, ("AICODEBOX_API_MODE_TOKEN_FILE", path)]).is_err());
    }

    #[test]
    fn mcp_goes_beside_the_api_or_alone_and_takes_nobody_elses_token() {
        let mcp = ("AICODEBOX_MCP_MODE", "1");
        let alone = foreground(&[mcp, ("AICODEBOX_MCP_MODE_TOKEN", "t")]).unwrap();
        assert_eq!(alone.listen().to_string(), "0.0.0.0:8081");
        assert!(matches!(alone, Foreground::Mcp(..)) && !alone.open());

        let token = ("AICODEBOX_API_MODE_TOKEN", "t");
        let error = foreground(&[ON, mcp, token]).unwrap_err();
        assert_eq!(error.0.len(), 1, "{error}");
        assert!(error.0[0].contains("AICODEBOX_MCP_MODE_ALLOW_UNAUTHENTICATED=1"), "{error}");
        let open = foreground(&[ON, mcp, token, ("AICODEBOX_MCP_MODE_ALLOW_UNAUTHENTICATED", "1")]).unwrap();
        assert!(matches!(open, Foreground::Api(_, Some(_))) && open.open());
        assert_eq!(open.listen().to_string(), "0.0.0.0:8080");
        // The address is that of the API, and so is the need of a token.
        assert!(foreground(&[ON, mcp, ("AICODEBOX_API_MODE_HOST", "127.0.0.1")]).is_ok());
        assert!(foreground(&[mcp, ("AICODEBOX_API_MODE_HOST", "127.0.0.1")]).is_err());
    }

    #[test]
    fn origins_are_checked() {
        let open = ("AICODEBOX_API_MODE_ALLOW_UNAUTHENTICATED", "1");
        let cors = |value| read(&[ON, open, ("AICODEBOX_API_MODE_CORS_ORIGINS", value)]).map(|api| api.cors);
        assert!(matches!(cors("*"), Ok(Cors::Any)));
        assert!(matches!(cors(""), Ok(Cors::Off)));
        assert!(matches!(cors("https://a.org, http://b.org:81"), Ok(Cors::Origins(list)) if list.len() == 2));
        for wrong in ["a.org", "https://a.org/", "https://a.org,*"] {
            assert!(cors(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_health_check_finds_the_port_from_inside() {
        let find = |variables: &[(&str, &str)]| {
            local_port(&variables.iter().copied().collect()).map(|address| address.to_string())
        };
        assert_eq!(find(&[]).as_deref(), Ok("127.0.0.1:8080"));
        let set = [("AICODEBOX_API_MODE_HOST", "::"), ("AICODEBOX_API_MODE_PORT", "81")];
        assert_eq!(find(&set).as_deref(), Ok("[::1]:81"));
        assert!(find(&[("AICODEBOX_API_MODE_PORT", "http")]).is_err());
        assert_eq!(find(&[("AICODEBOX_MCP_MODE", "1")]).as_deref(), Ok("127.0.0.1:8081"));
        assert_eq!(find(&[("AICODEBOX_MCP_MODE", "1"), ON]).as_deref(), Ok("127.0.0.1:8080"));
    }
}
