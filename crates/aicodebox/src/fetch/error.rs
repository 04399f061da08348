use std::{io, net::IpAddr};

/// Why an address that somebody named gave nothing. The text names the host, never the query.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// It is no URL, or not of the web.
    #[error("not a URL of http or https")]
    NotAWebUrl,
    /// It carries a user name or a password.
    #[error("a URL with a user name or a password is not accepted")]
    Credentials,
    /// The name has no address.
    #[error("{host} cannot be resolved: {source}")]
    Unresolved { host: String, source: io::Error },
    /// The address is not of the public internet.
    #[error("{host} leads to {address}, which is not a public address")]
    NotPublic { host: String, address: IpAddr },
    /// No connection, or it broke.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable { host: String, reason: String },
    /// More than a few hops.
    #[error("redirected more than {0} times")]
    TooManyRedirects(usize),
    /// A status that is no success.
    #[error("{host} answered {status}")]
    Status { host: String, status: u16 },
    /// More than the caller takes.
    #[error("longer than {0} bytes")]
    TooLong(usize),
    /// Not done in time.
    #[error("not done within {0} s")]
    TimedOut(u64),
}
