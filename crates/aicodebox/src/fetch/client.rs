use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    body::Incoming,
    client::conn::http1,
    rt::{Read, Write},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};
use url::{Host, Url};

use super::{FetchError, Resolve, SystemResolver, is_public, tls::Tls};

/// A redirect after so many is not followed.
const MAX_REDIRECTS: usize = 5;
/// How long all of it may take, redirects and the body included.
const LIMIT: Duration = Duration::from_secs(30);
/// How long one address may take to answer a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Makes requests to addresses that others name. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Fetcher(Arc<Inner>);

struct Inner {
    resolver: Box<dyn Resolve>,
    tls: Tls,
    /// Hosts that may have any address.
    trusted: Vec<String>,
    /// Whether an address may be reached.
    allowed: fn(IpAddr) -> bool,
}

/// One request, which may be sent to several places, one after another.
struct Outgoing {
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    /// More than this many bytes of the answer are not read.
    most: usize,
}

impl Fetcher {
    /// One that asks the system for names; `trusted` = hosts that may have any address, private ones too.
    pub(crate) fn new(trusted: Vec<String>) -> Self {
        Self::with(Box::new(SystemResolver), trusted, is_public)
    }

    fn with(resolver: Box<dyn Resolve>, trusted: Vec<String>, allowed: fn(IpAddr) -> bool) -> Self {
        Self(Arc::new(Inner { resolver, tls: Tls::default(), trusted, allowed }))
    }

    /// Whether a request to this URL could be made at all, as far as that is known without asking for its name.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub(crate) fn check(&self, url: &str) -> Result<(), FetchError> {
        let url = web_url(url)?;
        let address = match url.host() {
            Some(Host::Ipv4(address)) => address.into(),
            Some(Host::Ipv6(address)) => address.into(),
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        self.allow(&host(&url), &[address])
    }

    /// What is at this URL, at most `most` bytes of it. Redirects are followed.
    ///
    /// # Errors
    /// See [`FetchError`]; also for a status that is no success.
    pub(crate) async fn get(&self, url: &str, most: usize) -> Result<Bytes, FetchError> {
        let request = Outgoing { method: Method::GET, headers: HeaderMap::new(), body: Bytes::new(), most };
        let work = async {
            let mut url = web_url(url)?;
            for _ in 0..=MAX_REDIRECTS {
                let answer = self.once(&url, &request).await?;
                let Some(next) = redirect(&url, &answer)? else {
                    let status = answer.status();
                    if status.is_success() {
                        return Ok(answer.into_body());
                    }
                    return Err(FetchError::Status { host: host(&url), status: status.as_u16() });
                };
                url = next;
            }
            Err(FetchError::TooManyRedirects(MAX_REDIRECTS))
        };
        timeout(LIMIT, work).await.unwrap_or(Err(FetchError::TimedOut(LIMIT.as_secs())))
    }

    /// Sends a body to this URL and gives the status of the answer, whatever it is. A redirect is not followed.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub(crate) async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<StatusCode, FetchError> {
        let request = Outgoing { method: Method::POST, headers, body, most: 64 << 10 };
        let work = async { self.once(&web_url(url)?, &request).await };
        let answer = timeout(LIMIT, work).await.unwrap_or(Err(FetchError::TimedOut(LIMIT.as_secs())))?;
        Ok(answer.status())
    }

    async fn once(&self, url: &Url, request: &Outgoing) -> Result<Response<Bytes>, FetchError> {
        let stream = self.connect(url).await?;
        let unreachable = |reason: String| FetchError::Unreachable { host: host(url), reason };
        if url.scheme() != "https" {
            return exchange(TokioIo::new(stream), url, request).await;
        }
        let stream = self.0.tls.connect(host(url), stream).await.map_err(unreachable)?;
        exchange(TokioIo::new(stream), url, request).await
    }

    /// A connection to one of the addresses that were looked at, and to no other.
    async fn connect(&self, url: &Url) -> Result<TcpStream, FetchError> {
        let host = host(url);
        let port = url.port_or_known_default().ok_or(FetchError::NotAWebUrl)?;
        let unreachable = |reason: String| FetchError::Unreachable { host: host.clone(), reason };
        let mut reason = "it took too long to answer".to_owned();
        for address in self.addresses(url).await? {
            match timeout(CONNECT_LIMIT, TcpStream::connect(SocketAddr::new(address, port))).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => reason = error.to_string(),
                Err(_) => {}
            }
        }
        Err(unreachable(reason))
    }

    /// The addresses of the URL's host. One that is not public refuses all: a name server that gives both kinds hopes
    /// for the other one.
    async fn addresses(&self, url: &Url) -> Result<Vec<IpAddr>, FetchError> {
        let host = host(url);
        let found = match url.host() {
            Some(Host::Ipv4(address)) => vec![address.into()],
            Some(Host::Ipv6(address)) => vec![address.into()],
            Some(Host::Domain(name)) => self
                .0
                .resolver
                .resolve(name)
                .await
                .and_then(|found| match found.is_empty() {
                    true => Err(io::Error::new(io::ErrorKind::NotFound, "it has no address")),
                    false => Ok(found),
                })
                .map_err(|source| FetchError::Unresolved { host: host.clone(), source })?,
            None => return Err(FetchError::NotAWebUrl),
        };
        self.allow(&host, &found)?;
        Ok(found)
    }

    fn allow(&self, host: &str, addresses: &[IpAddr]) -> Result<(), FetchError> {
        let trusted = self.0.trusted.iter().any(|trusted| trusted.eq_ignore_ascii_case(host));
        match addresses.iter().find(|address| !trusted && !(self.0.allowed)(**address)) {
            Some(&address) => Err(FetchError::NotPublic { host: host.to_owned(), address }),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("trusted", &self.0.trusted).finish_non_exhaustive()
    }
}

fn web_url(text: &str) -> Result<Url, FetchError> {
    let url = Url::parse(text.trim()).map_err(|_| FetchError::NotAWebUrl)?;
    check(&url)?;
    Ok(url)
}

fn check(url: &Url) -> Result<(), FetchError> {
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(FetchError::NotAWebUrl);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(FetchError::Credentials);
    }
    Ok(())
}

/// The host as text, an IPv6 address without its brackets.
fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned()
}

/// Where the answer sends us, if it does.
fn redirect(url: &Url, answer: &Response<Bytes>) -> Result<Option<Url>, FetchError> {
    let moved = matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = answer.headers().get(header::LOCATION).filter(|_| moved) else { return Ok(None) };
    let next = location.to_str().ok().and_then(|location| url.join(location).ok());
    let next = next.ok_or(FetchError::NotAWebUrl)?;
    check(&next)?;
    Ok(Some(next))
}

/// Sends the request over an open connection and reads the whole answer.
async fn exchange<T>(io: T, url: &Url, request: &Outgoing) -> Result<Response<Bytes>, FetchError>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let unreachable = |reason: String| FetchError::Unreachable { host: host(url), reason };
    let mut builder = Request::builder()
        .method(request.method.clone())
        .uri(&url[url::Position::BeforePath..url::Position::AfterQuery])
        .header(header::HOST, &url[url::Position::BeforeHost..url::Position::AfterPort])
        .header(header::USER_AGENT, concat!("aicodebox/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close");
    if let Some(headers) = builder.headers_mut() {
        headers.extend(request.headers.clone());
    }
    let outgoing =
        builder.body(Full::new(request.body.clone())).map_err(|error| unreachable(error.to_string()))?;
    let (mut sender, connection) =
        http1::handshake(io).await.map_err(|error| unreachable(error.to_string()))?;
    let mut connection = pin!(connection);
    let mut answer = pin!(async {
        let answer = sender.send_request(outgoing).await.map_err(|error| unreachable(error.to_string()))?;
        read(answer, request.most, unreachable).await
    });
    let mut open = true;
    loop {
        tokio::select! {
            answer = &mut answer => return answer,
            // The connection only has to be kept going; what it has read is taken out by the other side.
            _ended = &mut connection, if open => open = false,
        }
    }
}

async fn read(
    answer: Response<Incoming>,
    most: usize,
    unreachable: impl Fn(String) -> FetchError,
) -> Result<Response<Bytes>, FetchError> {
    let (parts, body) = answer.into_parts();
    match Limited::new(body, most).collect().await {
        Ok(whole) => Ok(Response::from_parts(parts, whole.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err(FetchError::TooLong(most)),
        Err(error) => Err(unreachable(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashMap,
        io::{Read as _, Write as _},
        net::TcpListener,
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        thread,
    };

    use aicodebox_engine::BoxFuture;

    use super::*;

    /// A name server with a list of answers for each name; the last one is given for ever.
    #[derive(Default)]
    struct Names(Mutex<HashMap<&'static str, Vec<Vec<IpAddr>>>>, AtomicUsize);

    impl Resolve for Arc<Names> {
        fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            let mut names = self.0.lock().unwrap();
            let answers = names.get_mut(host);
            let answer = answers.map(|answers| match answers.len() {
                1 => answers[0].clone(),
                _ => answers.remove(0),
            });
            Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
        }
    }

    /// A web server that gives these answers, one per connection, and counts them.
    fn server(answers: Vec<String>) -> (u16, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = Arc::new(AtomicUsize::new(0));
        let count = served.clone();
        thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let _length = stream.read(&mut request).unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                // The client may have heard enough before the end.
                let _written = stream.write_all(answer.as_bytes());
            }
        });
        (port, served)
    }

    fn ok(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    fn moved(to: &str) -> String {
        format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
    }

    /// Loopback stands for the internet: the server has to be somewhere.
    fn loopback_is_public(address: IpAddr) -> bool {
        address == IpAddr::from([127, 0, 0, 1])
    }

    fn fetcher(names: &[(&'static str, &[&[[u8; 4]]])]) -> (Fetcher, Arc<Names>) {
        let table = names.iter().map(|(name, answers)| {
            let answers = answers.iter().map(|ips| ips.iter().map(|ip| IpAddr::from(*ip)).collect());
            (*name, answers.collect())
        });
        let names = Arc::new(Names(Mutex::new(table.collect()), AtomicUsize::new(0)));
        (Fetcher::with(Box::new(names.clone()), Vec::new(), loopback_is_public), names)
    }

    const HERE: &[[u8; 4]] = &[[127, 0, 0, 1]];
    const METADATA: &[[u8; 4]] = &[[169, 254, 169, 254]];

    #[tokio::test]
    async fn a_name_is_resolved_once_and_the_answer_read() {
        let (port, _) = server(vec![ok("hello")]);
        let (fetcher, names) = fetcher(&[("good.test", &[HERE, METADATA])]);
        let got = fetcher.get(&format!("http://good.test:{port}/x?q=1"), 100).await.unwrap();
        assert_eq!((&got[..], names.1.load(Ordering::Relaxed)), (b"hello".as_slice(), 1));
    }

    #[tokio::test]
    async fn addresses_that_are_not_public_are_never_reached() {
        let (port, served) = server(vec![ok("secret")]);
        let (lying, _) =
            fetcher(&[("both.test", &[&[[127, 0, 0, 1], [10, 0, 0, 1]]]), ("meta.test", &[METADATA])]);
        for url in [format!("http://both.test:{port}/"), "http://meta.test/latest/".into()] {
            assert!(matches!(lying.get(&url, 9).await, Err(FetchError::NotPublic { .. })), "{url}");
        }
        let strict = Fetcher::new(Vec::new());
        for host in
            ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "localhost"]
        {
            let got = strict.get(&format!("http://{host}:{port}/"), 9).await;
            assert!(matches!(got, Err(FetchError::NotPublic { .. })), "{host}: {got:?}");
        }
        assert_eq!(served.load(Ordering::Relaxed), 0);
        let trusting = Fetcher::new(vec!["127.0.0.1".into()]);
        assert_eq!(&trusting.get(&format!("http://127.0.0.1:{port}/"), 9).await.unwrap()[..], b"secret");
    }

    #[tokio::test]
    async fn every_hop_is_looked_at_again() {
        // O14: the first hop is fine; the next is the metadata service, by address and by a name that flips.
        for target in ["http://169.254.169.254/latest/", "http://flips.test:{port}/", "file:///etc/passwd"] {
            let listener_target = target.to_owned();
            let (next, served) = server(vec![ok("secret")]);
            let (port, _) = server(vec![moved(&listener_target.replace("{port}", &next.to_string()))]);
            let (fetcher, _) = fetcher(&[("good.test", &[HERE]), ("flips.test", &[METADATA, HERE])]);
            let got = fetcher.get(&format!("http://good.test:{port}/"), 100).await;
            assert!(
                matches!(got, Err(FetchError::NotPublic { .. } | FetchError::NotAWebUrl)),
                "{target}: {got:?}"
            );
            assert_eq!(served.load(Ordering::Relaxed), 0);
        }
        let (port, _) = server(vec![moved("/b"), ok("there")]);
        let (following, _) = fetcher(&[("good.test", &[HERE])]);
        assert_eq!(&following.get(&format!("http://good.test:{port}/a"), 100).await.unwrap()[..], b"there");
        let (port, _) = server(vec![moved("/"); 9]);
        let got = following.get(&format!("http://good.test:{port}/"), 100).await;
        assert!(matches!(got, Err(FetchError::TooManyRedirects(_))), "{got:?}");
    }

    #[tokio::test]
    async fn only_so_much_is_read() {
        let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1 << 20));
        let (port, _) = server(vec![endless, ok("12345")]);
        let (fetcher, _) = fetcher(&[("good.test", &[HERE])]);
        let url = format!("http://good.test:{port}/");
        assert!(matches!(fetcher.get(&url, 1000).await, Err(FetchError::TooLong(1000))));
        assert!(fetcher.get(&url, 5).await.is_ok());
    }

    #[tokio::test]
    async fn other_schemes_credentials_and_bad_statuses_are_refused() {
        let (port, _) = server(vec!["HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".into()]);
        let (fetcher, _) = fetcher(&[("good.test", &[HERE])]);
        for url in ["ftp://good.test/", "file:///etc/passwd", "good.test", "http://", "data:text/plain,x"] {
            assert!(matches!(fetcher.get(url, 9).await, Err(FetchError::NotAWebUrl)), "{url}");
        }
        assert!(matches!(fetcher.get("http://u:p@good.test/", 9).await, Err(FetchError::Credentials)));
        let got = fetcher.get(&format!("http://good.test:{port}/"), 9).await;
        assert!(matches!(got, Err(FetchError::Status { status: 404, .. })), "{got:?}");
    }

    #[tokio::test]
    async fn a_body_is_sent() {
        let (port, _) = server(vec!["HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".into()]);
        let (fetcher, _) = fetcher(&[("good.test", &[HERE])]);
        let url = format!("http://good.test:{port}/hook");
        let status = fetcher.post(&url, HeaderMap::new(), Bytes::from_static(b"{}")).await.unwrap();
        assert_eq!(status, StatusCode::ACCEPTED);
    }
}
