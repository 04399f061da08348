use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::http::HeaderValue;
use secrecy::SecretString;

use super::{Config, ConfigError, Environment, Reader, variable::*};

/// What `serve` serves.
#[derive(Debug)]
pub(crate) enum Foreground {
    /// The HTTP API.
    Api(ApiConfig),
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
    /// Reads which modes are on and the configuration of the one in the foreground; `None` when that is wrong.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        // The one place that knows which modes this version does not have.
        for (mode, name) in [(TELEGRAM_MODE, "Telegram"), (CRON_MODE, "cron"), (MCP_MODE, "MCP")] {
            if reader.boolean(&mode) {
                reader.fault(&mode, format_args!("this version has no {name} mode; leave it unset"));
            }
        }
        if reader.boolean(&API_MODE) {
            return ApiConfig::read(reader).map(Self::Api);
        }
        reader.fault(&API_MODE, "no mode is on, so there is nothing to serve; set it to 1");
        None
    }
}

impl ApiConfig {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let token = reader.secret(&API_TOKEN);
        // A token that could not be read is one fault; that there is no token would be a second, wrong one.
        let token_given = token.is_some() || reader.is_set(&API_TOKEN) || reader.has_file(&API_TOKEN);
        let allowed = reader.boolean(&API_ALLOW_UNAUTHENTICATED);
        let host = reader.address(&API_HOST);
        if let Some(host) = host.filter(|host| !host.is_loopback())
            && !token_given
            && !allowed
        {
            reader.fault(
                &API_TOKEN,
                format_args!(
                    "expected a token, because {host} can be reached from outside; \
                     set {}=1 to let anybody who reaches the port run commands",
                    API_ALLOW_UNAUTHENTICATED.name
                ),
            );
        }
        let chat_workspaces = [("root", ChatWorkspace::Root), ("ephemeral", ChatWorkspace::Ephemeral)];
        Some(Self {
            listen: SocketAddr::new(host?, reader.port(&API_PORT)),
            access: token.map_or(Access::Open, Access::Token),
            max_body: usize::try_from(reader.size(&API_MAX_BODY)).unwrap_or(usize::MAX),
            cors: Cors::read(reader),
            strict_models: reader.boolean(&API_STRICT_MODELS),
            chat_workspace: reader.word(&API_CHAT_WORKSPACE, &chat_workspaces).unwrap_or(ChatWorkspace::Root),
            metrics_public: reader.boolean(&API_METRICS_PUBLIC),
        })
    }
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
            let shaped = origin.contains("://") && !origin.ends_with('/');
            match HeaderValue::try_from(&origin) {
                Ok(value) if shaped => values.push(value),
                Ok(_) | Err(_) => reader.fault(
                    &API_CORS_ORIGINS,
                    format_args!("expected * or origins such as https://example.org, found {origin:?}"),
                ),
            }
        }
        Self::Origins(values)
    }
}

/// Where the API of this box is reached from inside it.
///
/// # Errors
/// When its address or port is wrong.
pub(crate) fn local_api(environment: &Environment) -> Result<SocketAddr, ConfigError> {
    let mut reader = Reader::new(environment);
    let port = reader.port(&API_PORT);
    let host = reader.address(&API_HOST).map(|host| match host {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V4(_) | IpAddr::V6(_) => host,
    });
    reader.finish(host.map(|host| SocketAddr::new(host, port)))
}

/// Everything that `serve` needs.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn for_serving(environment: &Environment) -> Result<(Config, Foreground), ConfigError> {
    let mut reader = Reader::new(environment);
    let config = Config::read(&mut reader);
    let foreground = Foreground::read(&mut reader);
    reader.finish(foreground.map(|foreground| (config, foreground)))
}

/// Finds what is wrong: with everything if a mode is on, else with what commands need.
///
/// # Errors
/// Everything that is wrong.
pub(crate) fn check(environment: &Environment) -> Result<(), ConfigError> {
    let modes = [API_MODE, TELEGRAM_MODE, CRON_MODE, MCP_MODE];
    if modes.iter().any(|mode| environment.value(mode).is_some()) {
        for_serving(environment).map(|_| ())
    } else {
        Config::from_env(environment).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<ApiConfig, ConfigError> {
        let environment = variables.iter().copied().collect();
        let mut reader = Reader::new(&environment);
        let foreground = Foreground::read(&mut reader);
        reader.finish(foreground).map(|Foreground::Api(api)| api)
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
    fn modes_that_are_not_there_are_refused_by_name_and_so_is_no_mode_at_all() {
        let error = read(&[("AICODEBOX_CRON_MODE", "yes"), ("AICODEBOX_MCP_MODE", "1")]).unwrap_err();
        let expected = [
            "AICODEBOX_CRON_MODE: this version has no cron mode; leave it unset",
            "AICODEBOX_MCP_MODE: this version has no MCP mode; leave it unset",
            "AICODEBOX_API_MODE: no mode is on, so there is nothing to serve; set it to 1",
        ];
        assert_eq!(error.0, expected);
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
            local_api(&variables.iter().copied().collect()).map(|address| address.to_string())
        };
        assert_eq!(find(&[]).as_deref(), Ok("127.0.0.1:8080"));
        let set = [("AICODEBOX_API_MODE_HOST", "::"), ("AICODEBOX_API_MODE_PORT", "81")];
        assert_eq!(find(&set).as_deref(), Ok("[::1]:81"));
        assert!(find(&[("AICODEBOX_API_MODE_PORT", "http")]).is_err());
    }
}
