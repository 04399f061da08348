use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// TLS with the certificates that the system trusts; they are read when they are first needed.
#[derive(Debug, Default)]
pub(super) struct Tls(OnceLock<Result<Arc<ClientConfig>, String>>);

impl Tls {
    /// A TLS connection over this one.
    ///
    /// # Errors
    /// Says what is wrong with the other side's certificate, or that the system has none to trust.
    pub(super) async fn connect(
        &self,
        host: String,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let config = self.0.get_or_init(configure).clone()?;
        let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
        TlsConnector::from(config).connect(name, stream).await.map_err(|error| error.to_string())
    }
}

fn configure() -> Result<Arc<ClientConfig>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _unreadable) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err("this system trusts no certificates; install its ca-certificates".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
