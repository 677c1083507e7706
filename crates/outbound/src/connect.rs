//! From a destination to a connection that takes a request: its addresses, the first of them that answers, TLS,
//! HTTP/1.1.

use crate::destination::Destination;
use crate::exchange::{self, HEAD_BYTES_MAX, Sender};
use crate::fault::{OutboundFault, Stage};
use crate::trust::{Roots, certificate_problem};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tidegate_transport::tls_fault::{tls_fault as fault_of_tls, tls_words};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Of one name that are tried.
const ADDRESSES_MAX: usize = 16;
/// How long an address is alone before the next is tried beside it (RFC 8305 section 5).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// How long a connection is waited on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// For one answer, within a bound that its caller sets.
    Short,
    /// For news that may be minutes away: a peer that is gone has to be noticed without them.
    Long,
}

pub async fn connect(
    destination: &Destination,
    roots: &Roots,
    lasting: Lasting,
    enter: &(dyn Fn(Stage) + Sync),
) -> Result<Sender, OutboundFault> {
    let stream = connected(destination, enter).await?;
    match lasting {
        Lasting::Short => {}
        Lasting::Long => keep_alive(&stream),
    }
    if !destination.is_tls {
        return shake_hands(stream, destination).await;
    }
    enter(Stage::Handshaking);
    let config = roots.client_config().await?;
    let name = destination.server_name()?;
    shake_hands(secured(stream, destination, name, roots, config).await?, destination).await
}

pub async fn connected(destination: &Destination, enter: &(dyn Fn(Stage) + Sync)) -> Result<TcpStream, OutboundFault> {
    enter(Stage::Resolving);
    let addresses = addresses(destination).await?;
    enter(Stage::Connecting);
    let host = destination.to_string();
    let stream = first_to_answer(addresses).await.map_err(|attempts| OutboundFault::Connect { host, attempts })?;
    // Requests are sent whole; waiting for more to send with them only delays the answer.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

pub async fn secured(
    stream: TcpStream,
    destination: &Destination,
    name: ServerName<'static>,
    roots: &Roots,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, OutboundFault> {
    let connecting = TlsConnector::from(config).connect(name, stream);
    connecting.await.map_err(|error| tls_fault(destination.to_string(), &error, roots))
}

/// A peer that does not answer the kernel's questions for half a minute is gone. Without them a connection whose peer
/// vanished (a node that lost power, a firewall that forgot it) looks like one that has no news.
fn keep_alive(stream: &TcpStream) {
    let asked = TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(5)).with_retries(4);
    let socket = SockRef::from(stream);
    // Where the system has no such option, the caller's own bound holds.
    let _ = socket.set_tcp_keepalive(&asked);
    #[cfg(target_os = "linux")]
    let _ = socket.set_tcp_user_timeout(Some(Duration::from_secs(30)));
}

/// IPv6 and IPv4 in turns, beginning with what the system put first: when one of the two leads nowhere, the other is
/// next.
async fn addresses(destination: &Destination) -> Result<Vec<SocketAddr>, OutboundFault> {
    if let Ok(ip) = destination.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, destination.port)]);
    }
    let fault = |problem: String| OutboundFault::Resolve { host: destination.to_string(), problem };
    let looked_up = tokio::net::lookup_host((destination.host.as_str(), destination.port)).await;
    let found: Vec<SocketAddr> = looked_up.map_err(|error| fault(plain_reason(&error)))?.take(ADDRESSES_MAX).collect();
    let Some(first) = found.first() else { return Err(fault("its name has no address".to_owned())) };
    let is_first_kind = |address: &SocketAddr| address.is_ipv6() == first.is_ipv6();
    let (mut these, mut those) = (found.iter().filter(|at| is_first_kind(at)), found.iter().filter(|at| !is_first_kind(at)));
    let mut mixed = Vec::with_capacity(found.len());
    loop {
        let pair = [these.next(), those.next()];
        if pair == [None, None] {
            return Ok(mixed);
        }
        mixed.extend(pair.into_iter().flatten());
    }
}

/// `failed to lookup address information: Name or service not known` says the same twice.
fn plain_reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.rsplit(": ").next().unwrap_or(&text).to_owned()
}

async fn first_to_answer(addresses: Vec<SocketAddr>) -> Result<TcpStream, Vec<(SocketAddr, String)>> {
    let mut left = addresses.into_iter();
    let mut running = JoinSet::new();
    let mut failed = Vec::new();
    let start = |running: &mut JoinSet<_>, address: SocketAddr| {
        running.spawn(async move { (address, TcpStream::connect(address).await) });
    };
    loop {
        match left.next() {
            Some(address) => start(&mut running, address),
            None if running.is_empty() => return Err(failed),
            None => {}
        }
        // With nobody left to start, the time is the caller's.
        let wait = if left.len() > 0 { NEXT_ADDRESS_AFTER } else { Duration::MAX };
        match tokio::time::timeout(wait, running.join_next()).await {
            Ok(Some(Ok((_, Ok(stream))))) => return Ok(stream),
            Ok(Some(Ok((address, Err(error))))) => failed.push((address, connect_problem(&error))),
            // A task of ours neither panics nor is cancelled before this set is dropped.
            Ok(Some(Err(_)) | None) | Err(_) => {}
        }
    }
}

fn connect_problem(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "refuses the connection".to_owned(),
        io::ErrorKind::TimedOut => "does not answer".to_owned(),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => "has no route from here".to_owned(),
        _ => format!("fails ({error})"),
    }
}

async fn shake_hands<S>(stream: S, destination: &Destination) -> Result<Sender, OutboundFault>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = exchange::open(stream, HEAD_BYTES_MAX).await.map_err(|error| OutboundFault::Broken {
        host: destination.to_string(),
        problem: format!("breaks off the connection: {error}"),
    })?;
    // The task ends with its sender, or with the other side.
    tokio::spawn(connection);
    Ok(sender)
}

fn tls_fault(host: String, error: &io::Error, roots: &Roots) -> OutboundFault {
    match fault_of_tls(error) {
        Some(rustls::Error::InvalidCertificate(problem)) => {
            OutboundFault::Certificate { host, problem: certificate_problem(problem, roots.source()) }
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            OutboundFault::Tls { host, problem: "what it sends is no TLS; is it `http://`?".to_owned() }
        }
        Some(other) => OutboundFault::Tls { host, problem: tls_words(other) },
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            OutboundFault::Tls { host, problem: "it closes the connection during the handshake".to_owned() }
        }
        None => OutboundFault::Tls { host, problem: error.to_string() },
    }
}
