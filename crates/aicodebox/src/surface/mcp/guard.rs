use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Query, Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header,
        uri::{Authority, PathAndQuery},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use super::router::refusal;
use crate::{
    config::{Access, McpConfig, Names},
    surface::token::{Token, bearer},
};

/// Who is let in: by the name under which this server was called, by the web page that calls, by the token.
///
/// A web page that an attacker gives the address of this machine (DNS rebinding) sends its own name as `Host`; one that
/// just calls sends its `Origin`. Neither must reach the tools, least of all where there is no token.
pub(super) struct Admission {
    hosts: Names,
    origins: Names,
    token: Option<Token>,
}

impl Admission {
    pub(super) fn new(config: &McpConfig) -> Self {
        let token = match &config.access {
            Access::Open => None,
            Access::Token(secret) => Some(Token::new(secret)),
        };
        Self { hosts: config.hosts.clone(), origins: config.origins.clone(), token }
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
        match &self.origins {
            Names::Loopback => origin
                .parse::<Uri>()
                .is_ok_and(|uri| uri.scheme().is_some() && uri.host().is_some_and(is_loopback)),
            Names::Any => true,
            Names::These(origins) => origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)),
        }
    }

    fn token_right(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        match bearer(headers) {
            Some(candidate) => token.matches(candidate),
            None => Query::<TokenQuery>::try_from_uri(uri)
                .ok()
                .and_then(|query| query.0.api_token)
                .is_some_and(|candidate| token.matches(candidate.as_bytes())),
        }
    }
}

/// For clients that cannot set headers.
#[derive(Deserialize)]
struct TokenQuery {
    #[serde(rename = "apiToken")]
    api_token: Option<String>,
}

/// Lets a request through, without the query that may have held the token.
pub(super) async fn admit(
    State(admission): State<Arc<Admission>>,
    mut request: Request,
    next: Next,
) -> Response {
    if !admission.host_allowed(request.uri(), request.headers()) {
        return refusal(
            StatusCode::MISDIRECTED_REQUEST,
            "this server does not go by that Host; AICODEBOX_MCP_MODE_ALLOWED_HOSTS lists the ones that it does",
        );
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    if origin.as_ref().is_some_and(|origin| !admission.origin_allowed(origin)) {
        return refusal(
            StatusCode::FORBIDDEN,
            "this Origin may not call; AICODEBOX_MCP_MODE_ALLOWED_ORIGINS lists the ones that may",
        );
    }
    let mut response = if request.method() == Method::OPTIONS {
        StatusCode::NO_CONTENT.into_response()
    } else if admission.token_right(request.uri(), request.headers()) {
        forget_query(&mut request);
        next.run(request).await
    } else {
        refusal(StatusCode::UNAUTHORIZED, "a bearer token is needed: send `Authorization: Bearer <token>`")
    };
    if let Some(origin) = origin {
        allow_page(response.headers_mut(), origin);
    }
    response
}

fn forget_query(request: &mut Request) {
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = request.uri().path().parse::<PathAndQuery>().ok();
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
}

/// Tells the browser that the page may see the answer.
fn allow_page(headers: &mut HeaderMap, origin: HeaderValue) {
    let fixed = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id",
        ),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, "mcp-session-id, www-authenticate"),
        (header::VARY, "origin"),
    ];
    for (name, value) in fixed {
        headers.insert::<HeaderName>(name, HeaderValue::from_static(value));
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(hosts: Names, origins: Names) -> Admission {
        Admission { hosts, origins, token: None }
    }

    fn these(names: &[&str]) -> Names {
        Names::These(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn hosts_are_compared_whole() {
        let asked = |admission: &Admission, host: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
            admission.host_allowed(&Uri::from_static("/mcp"), &headers)
        };
        let loopback = admission(Names::Loopback, Names::Loopback);
        for host in ["localhost", "LOCALHOST:8081", "127.0.0.1:1", "127.1.2.3", "[::1]:8081", "[::1]"] {
            assert!(asked(&loopback, host), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "a b", ""]
        {
            assert!(!asked(&loopback, host), "{host}");
        }
        let named = admission(these(&["box.example", "other.example:81"]), Names::Loopback);
        for host in ["box.example", "box.example:8081", "Box.Example", "other.example:81"] {
            assert!(asked(&named, host), "{host}");
        }
        for host in ["localhost", "other.example", "other.example:82", "xbox.example"] {
            assert!(!asked(&named, host), "{host}");
        }
        assert!(!loopback.host_allowed(&Uri::from_static("/mcp"), &HeaderMap::new()));
        assert!(loopback.host_allowed(&Uri::from_static("http://localhost/mcp"), &HeaderMap::new()));
    }

    #[test]
    fn origins_are_compared_whole() {
        let asked = |admission: &Admission, origin: &'static str| {
            admission.origin_allowed(&HeaderValue::from_static(origin))
        };
        let loopback = admission(Names::Loopback, Names::Loopback);
        for origin in ["http://localhost:6274", "https://127.0.0.1", "http://[::1]:1"] {
            assert!(asked(&loopback, origin), "{origin}");
        }
        for origin in ["http://evil.example", "null", "http://localhost.evil.example", "localhost", ""] {
            assert!(!asked(&loopback, origin), "{origin}");
        }
        let named = admission(Names::Loopback, these(&["https://app.example"]));
        assert!(asked(&named, "https://app.example"));
        for origin in ["http://app.example", "https://app.example:444", "http://localhost"] {
            assert!(!asked(&named, origin), "{origin}");
        }
    }
}
