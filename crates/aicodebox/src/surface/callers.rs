//! By what name a server is called, and by which web page.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, Uri, header, uri::Authority};

use crate::config::Names;

/// Whom a server takes requests from, as far as a browser tells.
///
/// A web page that an attacker gives the address of this machine (DNS rebinding) sends its own name as `Host`; one that
/// just calls sends its `Origin`. Neither must reach an agent, least of all where there is no token.
pub(crate) struct Callers {
    /// The names that the server goes by.
    pub(crate) hosts: Names,
    /// The pages that may call: those of any of these.
    pub(crate) origins: Vec<Names>,
}

/// Who is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// Somebody who calls the server by another name.
    Host,
    /// Another web page.
    Origin,
}

impl Callers {
    /// # Errors
    /// What is wrong with the caller.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Stranger> {
        if !self.host_allowed(uri, headers) {
            return Err(Stranger::Host);
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        if origins.all(|origin| self.origin_allowed(origin)) { Ok(()) } else { Err(Stranger::Origin) }
    }

    fn host_allowed(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut named = headers.get_all(header::HOST).iter();
        let authority = match (named.next(), named.next()) {
            (Some(host), None) => host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()),
            // HTTP/2 has it in the address.
            (None, _) => uri.authority().cloned(),
            // Whoever is before us may have looked at the other one.
            (Some(_), Some(_)) => None,
        };
        let Some(authority) = authority else { return false };
        match &self.hosts {
            Names::Loopback => is_loopback(authority.host()),
            Names::Any => true,
            Names::These(hosts) => hosts.iter().any(|allowed| {
                allowed.eq_ignore_ascii_case(authority.as_str())
                    || allowed.eq_ignore_ascii_case(authority.host())
            }),
        }
    }

    fn origin_allowed(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        self.origins.iter().any(|names| match names {
            Names::Loopback => origin
                .parse::<Uri>()
                .is_ok_and(|uri| uri.scheme().is_some() && uri.host().is_some_and(is_loopback)),
            Names::Any => true,
            Names::These(origins) => origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)),
        })
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callers(hosts: Names, origins: Names) -> Callers {
        Callers { hosts, origins: vec![origins] }
    }

    fn these(names: &[&str]) -> Names {
        Names::These(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn hosts_are_compared_whole() {
        let asked = |callers: &Callers, host: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
            callers.check(&Uri::from_static("/mcp"), &headers)
        };
        let loopback = callers(Names::Loopback, Names::Loopback);
        for host in ["localhost", "LOCALHOST:8081", "127.0.0.1:1", "127.1.2.3", "[::1]:8081", "[::1]"] {
            assert_eq!(asked(&loopback, host), Ok(()), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "a b", ""]
        {
            assert_eq!(asked(&loopback, host), Err(Stranger::Host), "{host}");
        }
        let named = callers(these(&["box.example", "other.example:81"]), Names::Loopback);
        for host in ["box.example", "box.example:8081", "Box.Example", "other.example:81"] {
            assert_eq!(asked(&named, host), Ok(()), "{host}");
        }
        for host in ["localhost", "other.example", "other.example:82", "xbox.example"] {
            assert_eq!(asked(&named, host), Err(Stranger::Host), "{host}");
        }
        let bare = HeaderMap::new();
        assert_eq!(loopback.check(&Uri::from_static("/mcp"), &bare), Err(Stranger::Host));
        assert_eq!(loopback.check(&Uri::from_static("http://localhost/mcp"), &bare), Ok(()));
    }

    #[test]
    fn origins_are_compared_whole() {
        let asked = |callers: &Callers, sent: &[&'static str]| {
            let sent = sent.iter().map(|&origin| (header::ORIGIN, HeaderValue::from_static(origin)));
            let host = (header::HOST, HeaderValue::from_static("localhost"));
            let mut headers = HeaderMap::new();
            for (name, value) in sent.chain([host]) {
                headers.append(name, value);
            }
            callers.check(&Uri::from_static("/mcp"), &headers).is_ok()
        };
        let loopback = callers(Names::Loopback, Names::Loopback);
        for origin in ["http://localhost:6274", "https://127.0.0.1", "http://[::1]:1"] {
            assert!(asked(&loopback, &[origin]), "{origin}");
        }
        for origin in ["http://evil.example", "null", "http://localhost.evil.example", "localhost", ""] {
            assert!(!asked(&loopback, &[origin]), "{origin}");
        }
        assert!(!asked(&loopback, &["http://localhost", "http://evil.example"]));
        let named = callers(Names::Loopback, these(&["https://app.example"]));
        assert!(asked(&named, &["https://app.example"]));
        for origin in ["http://app.example", "https://app.example:444", "http://localhost"] {
            assert!(!asked(&named, &[origin]), "{origin}");
        }
        let both = Callers {
            hosts: Names::Loopback,
            origins: vec![Names::Loopback, these(&["https://app.example"])],
        };
        assert!(asked(&both, &["https://app.example"]) && asked(&both, &["http://localhost"]));
    }
}
