//! The tokio driver of `Sock`: readiness from epoll, reads into leased buffers, deadlines from the worker's wheel.

use crate::buffer::{Buf, TIGHT_READ_BYTES};
use crate::deadline::Direction;
use crate::sock::{FilePart, ReadLimit, Sock};
use crate::sockets;
use crate::waits::Waits;
use crate::{held_back, memory};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::SockRef;
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::task::coop;

pub struct TokioSock {
    stream: TcpStream,
    waits: Waits,
    /// The buffer of a send that waits.
    unsent_bytes: Cell<usize>,
}

impl AsFd for TokioSock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl TokioSock {
    fn new(stream: TcpStream) -> TokioSock {
        TokioSock { stream, waits: Waits::new(), unsent_bytes: Cell::new(0) }
    }

    /// Does what the socket is ready for, or waits until it is. The operation says besides whether it has left the
    /// socket without more: then the next wait costs no call that only says EAGAIN. The `poll_read` and `poll_write` of
    /// tokio do the same for three times the instructions, and want a buffer before they know whether there is
    /// something to read.
    #[inline]
    fn poll_io<T>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        mut operation: impl FnMut() -> rustix::io::Result<(T, bool)>,
    ) -> Poll<io::Result<T>> {
        let interest = match direction {
            Direction::Read => Interest::READABLE,
            Direction::Write => Interest::WRITABLE,
        };
        loop {
            let (mut done, mut has_share) = (None, true);
            let outcome = self.stream.try_io(interest, || {
                // A task that has had its share lets others run, whatever its sockets have for it.
                has_share = coop::poll_proceed(cx).map(|share| share.made_progress()).is_ready();
                if !has_share {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                let (value, is_exhausted) = operation()?;
                done = Some(value);
                if is_exhausted { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            if let Some(value) = done {
                self.waits.disarm(direction);
                return Poll::Ready(Ok(value));
            }
            match outcome {
                _ if !has_share => return self.waits.wait(direction, cx),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    self.waits.disarm(direction);
                    return Poll::Ready(Err(error));
                }
                Ok(()) | Err(_) => {}
            }
            let ready = match direction {
                Direction::Read => self.stream.poll_read_ready(cx),
                Direction::Write => self.stream.poll_write_ready(cx),
            };
            if ready?.is_pending() {
                return self.waits.wait(direction, cx);
            }
        }
    }
}

impl Sock for TokioSock {
    #[inline]
    fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<io::Result<Buf>> {
        let is_tight = memory::is_tight();
        if is_tight && held_back::poll_may_read(cx).is_pending() {
            return Poll::Pending;
        }
        self.poll_io(Direction::Read, cx, || {
            let mut buf = Buf::take();
            let mut space = buf.spare_for_read();
            // What is read of an answer may wait for its client for as long as it likes.
            if is_tight {
                space = space.split_at_mut(TIGHT_READ_BYTES.min(space.len())).0;
            }
            let capacity = space.len();
            let (count, _) = recv(&self.stream, space, RecvFlags::empty())?;
            buf.grow(count);
            Ok((buf, 0 < count && count < capacity))
        })
    }

    #[inline]
    fn poll_send(&self, cx: &mut Context<'_>, pending: &mut Option<Buf>) -> Poll<io::Result<()>> {
        while let Some(buf) = pending {
            if buf.is_empty() {
                *pending = None;
                break;
            }
            let sent = self.poll_io(Direction::Write, cx, || {
                let count = send(&self.stream, buf, SendFlags::NOSIGNAL)?;
                Ok((count, 0 < count && count < buf.len()))
            });
            let Poll::Ready(sent) = sent else {
                if memory::is_tight() {
                    buf.shrink();
                }
                self.unsent_bytes.set(buf.held_bytes());
                return Poll::Pending;
            };
            self.unsent_bytes.set(0);
            buf.advance(sent?);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_send_file(&self, cx: &mut Context<'_>, before: &mut Option<Buf>, part: FilePart<'_>) -> Poll<io::Result<usize>> {
        let stream = &self.stream;
        loop {
            if stream.poll_write_ready(cx)?.is_pending() {
                return self.waits.wait(Direction::Write, cx);
            }
            let sent = stream.try_io(Interest::WRITABLE, || Ok(sockets::send_file_step(stream, before, part)?));
            match sent {
                Ok(None) => self.waits.disarm(Direction::Write),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                outcome => {
                    *before = None;
                    self.waits.disarm(Direction::Write);
                    return Poll::Ready(outcome.map(Option::unwrap_or_default));
                }
            }
        }
    }

    async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let _ = SockRef::from(&stream).set_tcp_keepalive(&sockets::keep_alive());
        Ok(TokioSock::new(stream))
    }

    async fn connect_unix(path: &Path) -> io::Result<Self> {
        // A connected stream is read, written and waited for by the same calls in both families: the type of TCP serves
        // for both, and nothing on the way of a byte asks which it is.
        Ok(TokioSock::new(TcpStream::from_std(sockets::connect_unix(path, tokio::time::sleep).await?.into())?))
    }

    fn stale(&self) -> bool {
        // Asks the kernel only where something is believed to be there. That may be left over from a read that filled
        // its buffer exactly.
        !matches!(self.stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn stale_now(&self) -> bool {
        sockets::has_input_now(&self.stream)
    }

    fn is_reset_now(&self) -> bool {
        sockets::is_reset(&self.stream)
    }

    fn unsent_bytes(&self) -> usize {
        self.unsent_bytes.get()
    }

    fn shutdown(&self) {
        let _ = SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write);
    }

    fn reset_when_closed(&self) {
        // A connection that has ended already needs nothing.
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    fn set_read_limit(&self, limit: ReadLimit) {
        self.waits.set_read_limit(limit);
    }

    fn set_write_idle(&self, idle: Duration) {
        self.waits.set_write_idle(idle);
    }

    fn set_between_requests(&self, between: bool) {
        self.waits.set_between_requests(between);
    }

    fn end_idle_by(&self, at: Instant) {
        self.waits.end_idle_by(at);
    }

    #[inline]
    fn poll_patience(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waits.poll_patience(cx)
    }

    fn local_ip(&self) -> Option<IpAddr> {
        self.stream.local_addr().ok().map(|address| address.ip())
    }
}

pub enum TokioListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl TokioListener {
    /// Must be called on a worker's runtime.
    pub fn adopt(listener: std::net::TcpListener) -> io::Result<TokioListener> {
        if sockets::is_unix(&listener) {
            return UnixListener::from_std(OwnedFd::from(listener).into()).map(TokioListener::Unix);
        }
        TcpListener::from_std(listener).map(TokioListener::Tcp)
    }

    /// A connection that waits now, by the kernel's word alone: the runtime's may be a moment old, and it says nothing
    /// once a task has had its share. `None` when the queue is empty. For a socket that is about to be closed, which
    /// would reset what is left in it.
    pub fn accept_now(&self) -> io::Result<Option<(TokioSock, SocketAddr)>> {
        let accepted = match self {
            TokioListener::Tcp(listener) => sockets::accept_now(listener)?,
            TokioListener::Unix(listener) => sockets::accept_now(listener)?,
        };
        let Some((socket, address)) = accepted else { return Ok(None) };
        let stream = TcpStream::from_std(std::net::TcpStream::from(socket))?;
        Ok(Some((TokioSock::new(stream), address)))
    }

    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TokioSock, SocketAddr)>> {
        match self {
            TokioListener::Tcp(listener) => {
                listener.poll_accept(cx).map_ok(|(stream, address)| (TokioSock::new(stream), address))
            }
            TokioListener::Unix(listener) => {
                let (stream, _) = ready!(listener.poll_accept(cx))?;
                // The type of TCP serves for both, as in `connect_unix`.
                let stream = TcpStream::from_std(OwnedFd::from(stream.into_std()?).into())?;
                Poll::Ready(Ok((TokioSock::new(stream), sockets::LOCAL_PEER)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TokioSock;
    use crate::Driver;
    use crate::rt;
    use crate::{Buf, Sock, Stream};
    use socket2::{Domain, SockAddr, Socket, Type};
    use std::io::{self, Read, Write};
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::time::Duration;

    fn listen(path: &Path, backlog: i32) -> Socket {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        socket.bind(&SockAddr::unix(path).expect("a path")).and_then(|()| socket.listen(backlog)).expect("it listens");
        socket
    }

    fn echo(listener: &Socket) {
        let (socket, _) = listener.accept().expect("a connection");
        let mut stream: UnixStream = socket.into();
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&bytes)).expect("both ways");
    }

    #[test]
    fn a_unix_socket_is_a_stream_like_any_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let listener = listen(&path, 8);
        let server = std::thread::spawn(move || echo(&listener));
        let answer = rt::run(Driver::Epoll, async {
            let stream = Stream::plain(TokioSock::connect_unix(&path).await?);
            assert!(!stream.sock.stale() && !stream.sock.stale_now());
            stream.write(Buf::copy_of(b"hello")).await?;
            let answer = stream.read().await?;
            assert!(stream.read().await?.is_empty(), "the server has gone");
            assert!(stream.sock.stale_now());
            io::Result::Ok(answer.to_vec())
        });
        assert_eq!(answer.expect("a runtime").expect("an answer"), b"hello");
        server.join().expect("no panic");
    }

    #[test]
    fn a_socket_that_is_not_there_or_that_nobody_has_any_more_is_an_error_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let kind =
            || rt::run(Driver::Epoll, TokioSock::connect_unix(&path)).expect("a runtime").map(drop).map_err(|error| error.kind());
        assert_eq!(kind(), Err(io::ErrorKind::NotFound));
        drop(listen(&path, 8));
        assert_eq!(kind(), Err(io::ErrorKind::ConnectionRefused));
    }

    #[test]
    fn a_full_queue_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let listener = listen(&path, 0);
        rt::run(Driver::Epoll, async {
            let first = TokioSock::connect_unix(&path).await.expect("one fits into the queue");
            let mut waiting = std::pin::pin!(TokioSock::connect_unix(&path));
            assert!(rt::timeout(Duration::from_millis(60), waiting.as_mut()).await.is_none(), "the queue is full");
            let taken = listener.accept().expect("the first");
            waiting.await.expect("there is room again");
            drop((first, taken));
        })
        .expect("a runtime");
    }
}
