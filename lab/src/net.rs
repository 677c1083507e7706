//! The little that backend, relay and generator share about sockets, and the first and the last about the runtime.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

/// Five thousand connections may arrive within a few milliseconds; a full accept queue would show as one-second
/// outliers of the proxy.
const ACCEPT_QUEUE: i32 = 8192;

/// A failure with its story; the lab only ever prints it.
pub type Error = Box<dyn std::error::Error>;

pub fn runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}

/// Must be called within a runtime.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::from_std(listening(address)?)
}

/// A listening socket for whoever drives it.
pub fn listening(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Each thread of a backend has a listener of its own, and the kernel spreads connections over them.
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(ACCEPT_QUEUE)?;
    Ok(socket.into())
}

/// Reads once. `poll_read` and not `try_read`, because only the former takes a short read for "drained" and saves the
/// read that would say so. Zero is the end of the stream.
pub fn poll_read(socket: &mut TcpStream, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
    let mut buffer = ReadBuf::new(into);
    ready!(Pin::new(socket).poll_read(cx, &mut buffer))?;
    Poll::Ready(Ok(buffer.filled().len()))
}

/// Writes from `bytes[*written..]` until all is written.
pub fn poll_write_all(socket: &mut TcpStream, cx: &mut Context<'_>, bytes: &[u8], written: &mut usize) -> Poll<io::Result<()>> {
    while *written < bytes.len() {
        let count = ready!(Pin::new(&mut *socket).poll_write(cx, &bytes[*written..]))?;
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        *written += count;
    }
    Poll::Ready(Ok(()))
}
