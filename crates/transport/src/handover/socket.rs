//! A listening socket on its way: lent by who has it, described, and looked at when it arrives, because a descriptor
//! can be anything. Which sockets are wanted is decided by whoever receives them.

use super::message::{Announced, Place, Purpose, is_unix_path};
use crate::sockets;
use rustix::net::sockopt::{ipv6_v6only, socket_acceptconn, socket_type};
use rustix::net::{SocketType, getsockname};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;

/// A socket of ours that another process may have as well.
#[derive(Debug)]
pub struct Lent<'a> {
    pub(super) announced: Announced,
    pub(super) socket: BorrowedFd<'a>,
}

impl<'a> Lent<'a> {
    pub fn tcp(listener: &'a TcpListener, purpose: Purpose, worker: Option<u16>) -> io::Result<Lent<'a>> {
        let socket = listener.as_fd();
        // Whoever carries listening sockets carries those of this machine as well.
        let place = if sockets::is_unix(socket) { unix_place(socket)? } else { tcp_place(socket)? };
        Ok(Lent { announced: Announced { purpose, place, worker }, socket })
    }

    /// Fails for a socket without a path.
    pub fn unix(listener: &'a UnixListener, purpose: Purpose) -> io::Result<Lent<'a>> {
        let socket = listener.as_fd();
        let place = unix_place(socket)?;
        Ok(Lent { announced: Announced { purpose, place, worker: None }, socket })
    }

    pub fn announced(&self) -> &Announced {
        &self.announced
    }
}

/// A socket that arrived and is what it was announced as. Non-blocking, for all processes that have it, and closed on
/// exec.
#[derive(Debug)]
pub struct Handed {
    pub announced: Announced,
    pub listener: Listener,
}

#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A descriptor that arrived, was not what it was announced as, and is closed by now.
#[derive(Debug)]
pub struct Rejected {
    pub announced: Announced,
    pub why: Unfit,
}

#[derive(Debug)]
pub enum Unfit {
    /// Not a socket, or one that the system does not describe.
    Unreadable(io::Error),
    /// Not a stream socket.
    NotStream,
    /// A stream, but nobody can connect to it.
    NotListening,
    /// The socket listens elsewhere.
    Elsewhere(Place),
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what was handed over as the socket of {} was closed: ", self.announced.place)?;
        match &self.why {
            Unfit::Unreadable(error) => error.fmt(f),
            Unfit::NotStream => f.write_str("it is no stream socket"),
            Unfit::NotListening => f.write_str("it does not listen"),
            Unfit::Elsewhere(place) => write!(f, "it listens on {place}"),
        }
    }
}

/// Looks at what arrived; a descriptor that is something else is closed here.
pub(super) fn examine(announced: Announced, descriptor: OwnedFd) -> Result<Handed, Rejected> {
    match fit(&announced.place, descriptor) {
        Ok(listener) => Ok(Handed { announced, listener }),
        Err(why) => Err(Rejected { announced, why }),
    }
}

fn fit(announced: &Place, descriptor: OwnedFd) -> Result<Listener, Unfit> {
    if socket_type(&descriptor).map_err(unreadable)? != SocketType::STREAM {
        return Err(Unfit::NotStream);
    }
    if !socket_acceptconn(&descriptor).map_err(unreadable)? {
        return Err(Unfit::NotListening);
    }
    let actual = match announced {
        Place::Tcp { .. } => tcp_place(descriptor.as_fd()),
        Place::Unix { .. } => unix_place(descriptor.as_fd()),
    };
    let actual = actual.map_err(Unfit::Unreadable)?;
    if actual != *announced {
        return Err(Unfit::Elsewhere(actual));
    }
    rustix::io::ioctl_fionbio(&descriptor, true).map_err(unreadable)?;
    Ok(match announced {
        Place::Tcp { .. } => Listener::Tcp(descriptor.into()),
        Place::Unix { .. } => Listener::Unix(descriptor.into()),
    })
}

fn unreadable(errno: rustix::io::Errno) -> Unfit {
    Unfit::Unreadable(errno.into())
}

fn tcp_place(socket: BorrowedFd<'_>) -> io::Result<Place> {
    let mut address = SocketAddr::try_from(getsockname(socket)?)?;
    if let SocketAddr::V6(address) = &mut address {
        // Not a part of where it listens.
        address.set_flowinfo(0);
    }
    Ok(Place::Tcp { address, only_v6: address.is_ipv6() && ipv6_v6only(socket)? })
}

fn unix_place(socket: BorrowedFd<'_>) -> io::Result<Place> {
    match sockets::unix_path(socket) {
        Some(path) if is_unix_path(path.as_os_str().as_bytes()) => Ok(Place::Unix { path }),
        Some(_) | None => Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket has no path")),
    }
}
