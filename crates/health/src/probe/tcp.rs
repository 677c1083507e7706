//! A connection to one of a server's addresses, or to its socket, which is a check in itself and the beginning of every
//! other one.
//! TLS on top of it is in `tls`.

use crate::fault::{ProbeFault, Stage};
use crate::probe::body::check_body;
use crate::probe::{Limit, Target};
use std::borrow::Cow;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use tidegate_model::{ProxyProtocol, ServerAddresses, Talk};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout_at};

/// Version 2, command LOCAL: the proxy speaks for itself, and no addresses follow (PROXY protocol, section 2.2).
const LOCAL_V2: &[u8; 16] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
/// Version 1 has no LOCAL; a receiver takes the connection's own addresses for `UNKNOWN` (section 2.1).
const LOCAL_V1: &[u8] = b"PROXY UNKNOWN\r\n";

/// An open connection, over whatever it goes.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> Connection for C {}

/// What of an answer is looked at.
const RECEIVED_BYTES_MAX: usize = 64 << 10;

/// A connection that opens, and what is said on it.
pub async fn check(target: &Target, talk: &Talk, limit: &Limit) -> Result<(), ProbeFault> {
    let mut connection = connect(target, limit).await?;
    let answer = async {
        if let Some(text) = &talk.send {
            connection.write_all(text.as_bytes()).await.map_err(|error| ProbeFault::connect(&error))?;
            connection.flush().await.map_err(|error| ProbeFault::connect(&error))?;
        }
        let Some(expect) = &talk.receive else { return Ok(()) };
        let mut received = Vec::new();
        loop {
            let mut piece = [0; 4096];
            let count = connection.read(&mut piece).await.map_err(|error| ProbeFault::connect(&error))?;
            received.extend_from_slice(&piece[..count]);
            let verdict = check_body(expect, &received);
            // What is not there yet may come with the next piece.
            if verdict.is_ok() || count == 0 || received.len() >= RECEIVED_BYTES_MAX {
                return verdict;
            }
        }
    };
    limit.hold(Stage::Answer, answer).await
}

/// The first connection that opens. Each address gets its equal share of the time that is left, so that one that
/// swallows packets leaves time for the next; the fault is that of the last one.
pub async fn connect(target: &Target, limit: &Limit) -> Result<Box<dyn Connection>, ProbeFault> {
    let addresses = match &target.addresses {
        ServerAddresses::Tcp(addresses) => addresses,
        ServerAddresses::Unix(path) => {
            let path = path_for_system(path);
            let connecting = async { UnixStream::connect(path).await.map_err(|error| ProbeFault::connect(&error)) };
            return begin(limit.hold(Stage::Connect, connecting).await?, target.proxy_protocol, limit).await;
        }
    };
    let mut fault = ProbeFault::NoAddress;
    let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        let now = Instant::now();
        let ends_at = now + limit.ends_at.saturating_duration_since(now) / left;
        left = left.saturating_sub(1).max(1);
        let address = SocketAddr::new(address.ip(), target.port.unwrap_or(address.port()));
        match timeout_at(ends_at, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Without it the question waits for the acknowledgement of the header before it. A socket that refuses
                // is asked all the same.
                let _ = stream.set_nodelay(true);
                return begin(stream, target.proxy_protocol, limit).await;
            }
            Ok(Err(error)) => fault = ProbeFault::connect(&error),
            Err(_) => fault = limit.exceeded(Stage::Connect),
        }
    }
    Err(fault)
}

/// An abstract name begins with a NUL, for which `@` is written.
fn path_for_system(path: &Path) -> Cow<'_, Path> {
    match path.as_os_str().as_bytes().strip_prefix(b"@") {
        Some(name) => PathBuf::from(OsString::from_vec([b"\0", name].concat())).into(),
        None => path.into(),
    }
}

async fn begin(
    stream: impl Connection + 'static,
    proxy_protocol: Option<ProxyProtocol>,
    limit: &Limit,
) -> Result<Box<dyn Connection>, ProbeFault> {
    let mut stream: Box<dyn Connection> = Box::new(stream);
    let header: &[u8] = match proxy_protocol {
        None => return Ok(stream),
        Some(ProxyProtocol::V1) => LOCAL_V1,
        Some(ProxyProtocol::V2(_)) => LOCAL_V2,
    };
    limit
        .hold(Stage::Connect, async {
            stream.write_all(header).await.map_err(|error| ProbeFault::connect(&error))?;
            Ok(stream)
        })
        .await
}
