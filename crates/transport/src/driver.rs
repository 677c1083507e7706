//! What moves the bytes of a worker: epoll by way of tokio, or a ring of io_uring. Both are in every binary; a worker
//! has one for its whole life. Request code sees [`DriverSock`] alone.

use crate::buffer::Buf;
use crate::descriptors;
use crate::ring::{self, RingListener, RingSock};
use crate::rt::{self, Driver};
use crate::sock::{FilePart, ReadLimit, Sock};
use crate::tokio_sock::{TokioListener, TokioSock};
use rustix::fd::{AsFd, BorrowedFd};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A connected socket of a worker, whatever its driver.
pub enum DriverSock {
    Epoll(TokioSock),
    Ring(RingSock),
}

/// Does the same on either driver's socket.
macro_rules! on_either {
    ($self:expr, $sock:ident => $act:expr) => {
        match $self {
            DriverSock::Epoll($sock) => $act,
            DriverSock::Ring($sock) => $act,
        }
    };
}

impl AsFd for DriverSock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        on_either!(self, sock => sock.as_fd())
    }
}

impl Sock for DriverSock {
    #[inline]
    fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<io::Result<Buf>> {
        on_either!(self, sock => sock.poll_recv(cx))
    }

    #[inline]
    fn poll_send(&self, cx: &mut Context<'_>, pending: &mut Option<Buf>) -> Poll<io::Result<()>> {
        on_either!(self, sock => sock.poll_send(cx, pending))
    }

    fn poll_send_file(&self, cx: &mut Context<'_>, before: &mut Option<Buf>, part: FilePart<'_>) -> Poll<io::Result<usize>> {
        on_either!(self, sock => sock.poll_send_file(cx, before, part))
    }

    async fn connect(address: SocketAddr) -> io::Result<Self> {
        match rt::driver() {
            Driver::Epoll => TokioSock::connect(address).await.map(DriverSock::Epoll),
            Driver::IoUring => RingSock::connect(address).await.map(DriverSock::Ring),
        }
        .and_then(descriptors::for_request)
    }

    async fn connect_unix(path: &Path) -> io::Result<Self> {
        match rt::driver() {
            Driver::Epoll => TokioSock::connect_unix(path).await.map(DriverSock::Epoll),
            Driver::IoUring => RingSock::connect_unix(path).await.map(DriverSock::Ring),
        }
        .and_then(descriptors::for_request)
    }

    fn stale(&self) -> bool {
        on_either!(self, sock => sock.stale())
    }

    fn stale_now(&self) -> bool {
        on_either!(self, sock => sock.stale_now())
    }

    fn is_reset_now(&self) -> bool {
        on_either!(self, sock => sock.is_reset_now())
    }

    fn unsent_bytes(&self) -> usize {
        on_either!(self, sock => sock.unsent_bytes())
    }

    fn shutdown(&self) {
        on_either!(self, sock => sock.shutdown());
    }

    fn reset_when_closed(&self) {
        on_either!(self, sock => sock.reset_when_closed());
    }

    fn set_read_limit(&self, limit: ReadLimit) {
        on_either!(self, sock => sock.set_read_limit(limit));
    }

    fn set_write_idle(&self, idle: Duration) {
        on_either!(self, sock => sock.set_write_idle(idle));
    }

    fn set_between_requests(&self, between: bool) {
        on_either!(self, sock => sock.set_between_requests(between));
    }

    fn end_idle_by(&self, at: Instant) {
        on_either!(self, sock => sock.end_idle_by(at));
    }

    #[inline]
    fn poll_patience(&self, cx: &mut Context<'_>) -> Poll<()> {
        on_either!(self, sock => sock.poll_patience(cx))
    }

    fn local_ip(&self) -> Option<IpAddr> {
        on_either!(self, sock => sock.local_ip())
    }
}

/// A listening socket of a worker, whatever its driver.
pub enum DriverListener {
    Epoll(TokioListener),
    Ring(RingListener),
}

type Accepted = (DriverSock, SocketAddr);

impl DriverListener {
    /// Must be called on a worker.
    pub fn adopt(listener: std::net::TcpListener) -> io::Result<DriverListener> {
        match rt::driver() {
            Driver::Epoll => TokioListener::adopt(listener).map(DriverListener::Epoll),
            Driver::IoUring => Ok(DriverListener::Ring(RingListener::adopt(listener))),
        }
    }

    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        match self {
            DriverListener::Epoll(listener) => listener.poll_accept(cx).map_ok(of_epoll),
            DriverListener::Ring(listener) => listener.poll_accept(cx).map_ok(of_ring),
        }
    }

    /// Ready once the kernel accepts no more for this worker. What it has accepted by then
    /// [`next_accepted`](Self::next_accepted) gives.
    pub async fn stop(&self) {
        match self {
            DriverListener::Epoll(_) => {}
            DriverListener::Ring(listener) => listener.stop().await,
        }
    }

    /// A connection that was accepted and that nobody has taken.
    pub fn next_accepted(&self) -> Option<Accepted> {
        match self {
            DriverListener::Epoll(_) => None,
            DriverListener::Ring(listener) => listener.next_accepted().map(of_ring),
        }
    }

    /// A connection that waits now, by the kernel's word alone: the runtime's may be a moment old, and it says nothing
    /// once a task has had its share. `None` when the queue is empty. For a socket that is about to be closed, which
    /// would reset what is left in it.
    pub fn accept_now(&self) -> io::Result<Option<Accepted>> {
        match self {
            DriverListener::Epoll(listener) => listener.accept_now().map(|accepted| accepted.map(of_epoll)),
            DriverListener::Ring(listener) => listener.accept_now().map(|accepted| accepted.map(of_ring)),
        }
    }
}

fn of_epoll((sock, address): (TokioSock, SocketAddr)) -> Accepted {
    (DriverSock::Epoll(sock), address)
}

fn of_ring((sock, address): (RingSock, SocketAddr)) -> Accepted {
    (DriverSock::Ring(sock), address)
}

/// Why that many more workers cannot have a driver here; see [`ring::Unavailable`] for the sentence.
pub fn probe(driver: Driver, workers: usize) -> Result<(), ring::Unavailable> {
    match driver {
        Driver::Epoll => Ok(()),
        Driver::IoUring => ring::probe(workers),
    }
}
