use std::{net::IpAddr, time::Duration};

use axum::http::uri::Authority;

use super::{
    Access, Reader,
    modes::{is_origin, max_body},
    variable::{Variable, *},
};

/// The tools for MCP clients.
#[derive(Debug)]
pub(crate) struct McpConfig {
    pub(crate) access: Access,
    /// The names that a client may call this server by.
    pub(crate) hosts: Names,
    /// The web pages that may call.
    pub(crate) origins: Names,
    /// How long a session stays without an open call or stream.
    pub(crate) session_idle: Duration,
    /// Largest request body, in bytes.
    pub(crate) max_body: usize,
}

/// Names that are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Those of this machine for itself.
    Loopback,
    /// All.
    Any,
    /// These.
    These(Vec<String>),
}

impl McpConfig {
    /// `host` is the address that it is reached at.
    pub(super) fn read(reader: &mut Reader<'_>, host: Option<IpAddr>) -> Self {
        Self {
            access: Access::read(reader, host, &MCP_TOKEN, &MCP_ALLOW_UNAUTHENTICATED),
            hosts: Names::read(
                reader,
                &MCP_ALLOWED_HOSTS,
                "names such as box.example or box.example:8080",
                |host| host.parse::<Authority>().is_ok(),
            ),
            origins: Names::read(
                reader,
                &MCP_ALLOWED_ORIGINS,
                "origins such as https://example.org",
                is_origin,
            ),
            session_idle: reader.duration(&MCP_SESSION_IDLE),
            max_body: max_body(reader),
        }
    }
}

impl Names {
    fn read(reader: &mut Reader<'_>, variable: &Variable, expected: &str, shaped: fn(&str) -> bool) -> Self {
        let names = reader.list(variable);
        if names.is_empty() {
            return Self::Loopback;
        }
        if names == ["*"] {
            return Self::Any;
        }
        for name in names.iter().filter(|name| !shaped(name)) {
            reader.fault(variable, format_args!("expected * or {expected}, found {name:?}"));
        }
        Self::These(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let read = |name: &str, value: &str| {
            let environment = [(name, value)].into_iter().collect();
            let mut reader = Reader::new(&environment);
            let config = McpConfig::read(&mut reader, None);
            reader.finish(Some(config))
        };
        let hosts = |value| read("AICODEBOX_MCP_MODE_ALLOWED_HOSTS", value).map(|config| config.hosts);
        assert_eq!(hosts(""), Ok(Names::Loopback));
        assert_eq!(hosts("*"), Ok(Names::Any));
        assert_eq!(
            hosts("a.example, [::1]:81"),
            Ok(Names::These(vec!["a.example".into(), "[::1]:81".into()]))
        );
        assert!(hosts("http://a.example").is_err());
        let origins = |value| read("AICODEBOX_MCP_MODE_ALLOWED_ORIGINS", value).map(|config| config.origins);
        assert_eq!(origins("https://a.example"), Ok(Names::These(vec!["https://a.example".into()])));
        assert!(origins("a.example").is_err() && origins("https://a.example/").is_err());
    }
}
