//! How sockets are made, the same for every driver: listening ones, their options, and what both drivers ask of a
//! socket by a direct call.

use crate::buffer::Buf;
use crate::sock::FilePart;
use rustix::fd::AsFd;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketAddrUnix, SocketFlags, acceptfrom_with, getpeername, getsockname,
    recv, send,
};
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The kernel notices a peer that vanished (RFC 9293 section 3.8.4) without traffic of ours.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Then it asks so often and so many times: a peer that vanished is noticed within two minutes.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEP_ALIVE_PROBES: u32 = 4;
/// Between two tries at a unix socket whose queue is full, at first and at most: nothing tells when there is room.
const UNIX_QUEUE_PAUSE: Duration = Duration::from_millis(2);
const UNIX_QUEUE_PAUSE_MOST: Duration = Duration::from_millis(50);

pub(crate) fn keep_alive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE_INTERVAL).with_retries(KEEP_ALIVE_PROBES)
}

/// How a listening socket is made.
#[derive(Debug, Clone, Copy)]
pub struct ListenOptions {
    /// Several sockets on one address, among which the kernel spreads connections: one per worker.
    pub reuse_port: bool,
    /// Connections that wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    pub backlog: i32,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions { reuse_port: true, backlog: 4096 }
    }
}

/// Binds and listens without a runtime, so that every address is known to work before a worker starts.
pub fn bind(address: SocketAddr, options: ListenOptions) -> io::Result<std::net::TcpListener> {
    let socket = bind_only(address, options)?;
    socket.listen(options.backlog)?;
    Ok(socket.into())
}

/// Whether [`bind`] would succeed now. Nothing listens meanwhile: a socket that listens gets its part of the
/// connections of those that it shares the address with, and closing it resets them.
pub fn probe(address: SocketAddr, options: ListenOptions) -> io::Result<()> {
    bind_only(address, options).map(drop)
}

fn bind_only(address: SocketAddr, options: ListenOptions) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // `:443` means every address of both families on one socket.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    if options.reuse_port {
        socket.set_reuse_port(true)?;
    }
    // Accepted sockets inherit it on Linux: one system call per listener instead of one per connection.
    socket.set_tcp_nodelay(true)?;
    let _ = socket.set_tcp_keepalive(&keep_alive());
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Binds a unix socket and listens on it. Between the two `prepare` sees to who may connect: nobody can before.
/// Whoever carries listening sockets takes it for one of TCP: both are descriptors that connections are accepted from.
pub fn bind_unix(path: &Path, prepare: impl FnOnce() -> io::Result<()>) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&unix_address(path)?)?;
    prepare()?;
    socket.listen(ListenOptions::default().backlog)?;
    Ok(socket.into())
}

/// Where a unix socket is; `@` begins a name that no file has (unix(7), "abstract").
fn unix_address(path: &Path) -> io::Result<SockAddr> {
    match path.as_os_str().as_bytes().strip_prefix(b"@") {
        Some(name) => {
            let name = [b"\0", name].concat();
            SockAddr::unix(std::ffi::OsStr::from_bytes(&name))
        }
        None => SockAddr::unix(path),
    }
}

/// Whether the socket is one of this machine and no other.
pub(crate) fn is_unix(socket: impl AsFd) -> bool {
    getsockname(socket).is_ok_and(|address| address.address_family() == AddressFamily::UNIX)
}

/// The path of a unix socket that listens, or `@` and its abstract name; `None` for others.
pub fn unix_path(socket: impl AsFd) -> Option<PathBuf> {
    let address = SocketAddrUnix::try_from(getsockname(socket).ok()?).ok()?;
    let bytes = match (address.path_bytes(), address.abstract_name()) {
        (Some(path), _) => path.to_vec(),
        (None, Some(name)) => [b"@", name].concat(),
        (None, None) => return None,
    };
    Some(std::ffi::OsString::from_vec(bytes).into()).filter(|path: &PathBuf| !path.as_os_str().is_empty())
}

/// Who comes by a unix socket is a process of this machine, as one is that comes by the loopback address.
pub(crate) const LOCAL_PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The other end of a connection; `None` for one that was reset.
pub(crate) fn peer_of(socket: impl AsFd) -> Option<SocketAddr> {
    address_of(getpeername(socket).ok().flatten()?)
}

/// Whether a connected socket has no other end any more. That the peer has ended its side is not that.
pub(crate) fn is_reset(socket: impl AsFd) -> bool {
    !matches!(getpeername(socket), Ok(Some(_)))
}

fn address_of(address: SocketAddrAny) -> Option<SocketAddr> {
    if address.address_family() == AddressFamily::UNIX { Some(LOCAL_PEER) } else { address.try_into().ok() }
}

/// A connection that waits now, by the kernel's word; `None` when the queue is empty.
pub(crate) fn accept_now(listener: impl AsFd) -> io::Result<Option<(OwnedFd, SocketAddr)>> {
    match acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((socket, address)) => {
            // A unix socket says nothing of a peer that has no name itself.
            let address = address.map_or(Some(LOCAL_PEER), address_of).ok_or(io::ErrorKind::InvalidData)?;
            Ok(Some((socket, address)))
        }
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Connects to a unix socket. While its queue is full this waits, as long as the caller does.
pub(crate) async fn connect_unix<P: Future<Output = ()>>(path: &Path, sleep: impl Fn(Duration) -> P) -> io::Result<Socket> {
    let address = unix_address(path)?;
    let mut pause = UNIX_QUEUE_PAUSE;
    loop {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address) {
            Ok(()) => return Ok(socket),
            // Unlike TCP a unix socket has no state of being connected later (connect(2)).
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sleep(pause).await;
                pause = (pause * 2).min(UNIX_QUEUE_PAUSE_MOST);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether input or the end of the stream is there, by the kernel's word. Takes nothing.
pub(crate) fn has_input_now(socket: impl AsFd) -> bool {
    let peeked = recv(socket, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    !matches!(peeked, Err(rustix::io::Errno::AGAIN))
}

/// One call of a send of a file: first for what is to go before it, in one packet with the file where they fit, then
/// for the file. `None`: a part of what goes before it was sent.
pub(crate) fn send_file_step(
    socket: impl AsFd,
    before: &mut Option<Buf>,
    part: FilePart<'_>,
) -> rustix::io::Result<Option<usize>> {
    match before.as_mut().filter(|head| !head.is_empty()) {
        Some(head) => {
            let count = send(socket, head, SendFlags::MORE | SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
            head.advance(count);
            Ok(None)
        }
        None => {
            let mut from = part.offset;
            rustix::fs::sendfile(socket, part.file, Some(&mut from), part.length).map(Some)
        }
    }
}
