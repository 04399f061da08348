use std::{io, net::IpAddr};

use aicodebox_engine::BoxFuture;

/// Finds the addresses of a host's name. A trait, so that tests can be a name server that lies.
pub(crate) trait Resolve: Send + Sync {
    /// All addresses of the name.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(
            async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|found| found.ip()).collect()) },
        )
    }
}
