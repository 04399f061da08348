//! `aicodebox healthcheck`: asks the server of this box, with nothing but a socket.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// How long each step may take.
const LIMIT: Duration = Duration::from_secs(3);
/// More of the answer is not read.
const ANSWER_LIMIT: u64 = 16 << 10;

/// What the server says of itself, and whether it is well.
///
/// # Errors
/// When there is no server, or none that answers in time.
pub(crate) fn ask(address: SocketAddr) -> io::Result<(String, bool)> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_LIMIT).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    Ok((body.trim().to_owned(), status == "200"))
}
