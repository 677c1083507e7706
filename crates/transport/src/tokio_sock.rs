//! The tokio driver of `Sock`: readiness from epoll, reads into leased buffers, deadlines from the worker's wheel.

use crate::buffer::{Buf, HEAD_ROOM};
use crate::deadline::{Deadlines, Direction, ticks};
use crate::sock::{FilePart, ReadLimit, Sock};
use crate::{held_back, memory};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::coop;

/// Until somebody sets another: nothing waits for ever.
const DEFAULT_IDLE: Duration = Duration::from_secs(75);
/// The kernel notices a peer that vanished (RFC 9293 section 3.8.4) without traffic of ours.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Then it asks so often and so many times: a peer that vanished is noticed within two minutes.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEP_ALIVE_PROBES: u32 = 4;
/// Between two tries at a unix socket whose queue is full, at first and at most: nothing tells when there is room.
const UNIX_QUEUE_PAUSE: Duration = Duration::from_millis(2);
const UNIX_QUEUE_PAUSE_MOST: Duration = Duration::from_millis(50);

fn keep_alive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE_INTERVAL).with_retries(KEEP_ALIVE_PROBES)
}

/// One read while memory is tight: a full TLS record.
const TIGHT_READ_BYTES: usize = HEAD_ROOM;

pub struct TokioSock {
    stream: TcpStream,
    deadlines: Rc<Deadlines>,
    read_limit: Cell<Limit>,
    write_idle_ticks: Cell<u32>,
    /// The buffer of a send that waits.
    unsent_bytes: Cell<usize>,
}

impl TokioSock {
    fn new(stream: TcpStream) -> TokioSock {
        TokioSock {
            stream,
            deadlines: Deadlines::new(),
            read_limit: Cell::new(Limit::IdleTicks(ticks(DEFAULT_IDLE))),
            write_idle_ticks: Cell::new(ticks(DEFAULT_IDLE)),
            unsent_bytes: Cell::new(0),
        }
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
                self.deadlines.disarm(direction);
                return Poll::Ready(Ok(value));
            }
            match outcome {
                _ if !has_share => return self.wait(direction, cx),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    self.deadlines.disarm(direction);
                    return Poll::Ready(Err(error));
                }
                Ok(()) | Err(_) => {}
            }
            let ready = match direction {
                Direction::Read => self.stream.poll_read_ready(cx),
                Direction::Write => self.stream.poll_write_ready(cx),
            };
            if ready?.is_pending() {
                return self.wait(direction, cx);
            }
        }
    }

    /// Nothing to do now: ends the wait when its deadline has passed, else sees to it that somebody wakes us then.
    fn wait<T>(&self, direction: Direction, cx: &Context<'_>) -> Poll<io::Result<T>> {
        if self.deadlines.take_fired(direction) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let ticks = match (direction, self.read_limit.get()) {
            (Direction::Read, Limit::Never) => return Poll::Pending,
            (Direction::Read, Limit::Until(at)) => {
                self.deadlines.arm(direction, at, cx);
                return Poll::Pending;
            }
            (Direction::Read, Limit::IdleTicks(ticks)) => ticks,
            (Direction::Write, _) => self.write_idle_ticks.get(),
        };
        if self.deadlines.is_armed(direction) {
            // The same wait, polled again: it goes on from where it began.
            self.deadlines.remember_waker(direction, cx);
        } else {
            self.deadlines.arm_after(direction, ticks, cx);
        }
        Poll::Pending
    }
}

/// [`ReadLimit`] as the wheel counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    IdleTicks(u32),
    Until(Instant),
    Never,
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
                return self.wait(Direction::Write, cx);
            }
            let mut from = part.offset;
            let sent = match before.as_mut().filter(|head| !head.is_empty()) {
                Some(head) => {
                    let flags = SendFlags::MORE | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                    let sent = stream.try_io(Interest::WRITABLE, || Ok(send(stream, head, flags)?));
                    sent.map(|count| {
                        head.advance(count);
                        None
                    })
                }
                None => {
                    let send_part = || Ok(rustix::fs::sendfile(stream, part.file, Some(&mut from), part.length)?);
                    stream.try_io(Interest::WRITABLE, send_part).map(Some)
                }
            };
            match sent {
                Ok(None) => self.deadlines.disarm(Direction::Write),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                outcome => {
                    *before = None;
                    self.deadlines.disarm(Direction::Write);
                    return Poll::Ready(outcome.map(Option::unwrap_or_default));
                }
            }
        }
    }

    async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keep_alive());
        Ok(TokioSock::new(stream))
    }

    async fn connect_unix(path: &Path) -> io::Result<Self> {
        let address = SockAddr::unix(path)?;
        let mut pause = UNIX_QUEUE_PAUSE;
        loop {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            socket.set_nonblocking(true)?;
            match socket.connect(&address) {
                // A connected stream is read, written and waited for by the same calls in both families, so that the
                // type of TCP serves for both and nothing on the way of a byte asks which it is.
                Ok(()) => return Ok(TokioSock::new(TcpStream::from_std(socket.into())?)),
                // Unlike TCP a unix socket has no state of being connected later (connect(2)).
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    crate::rt::sleep(pause).await;
                    pause = (pause * 2).min(UNIX_QUEUE_PAUSE_MOST);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn stale(&self) -> bool {
        // Asks the kernel only where something is believed to be there. That may be left over from a read that filled
        // its buffer exactly.
        !matches!(self.stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn stale_now(&self) -> bool {
        let peeked = recv(&self.stream, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        !matches!(peeked, Err(rustix::io::Errno::AGAIN))
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
        let limit = match limit {
            ReadLimit::Idle(idle) => Limit::IdleTicks(ticks(idle)),
            ReadLimit::Until(at) => Limit::Until(at),
            ReadLimit::Never => Limit::Never,
        };
        if self.read_limit.replace(limit) != limit {
            self.deadlines.disarm(Direction::Read);
        }
    }

    fn set_write_idle(&self, idle: Duration) {
        self.write_idle_ticks.set(ticks(idle));
    }

    fn set_between_requests(&self, between: bool) {
        self.deadlines.set_between_requests(between);
    }

    fn end_idle_by(&self, at: Instant) {
        self.deadlines.end_idle_by(at);
    }

    #[inline]
    fn poll_patience(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.deadlines.take_fired(Direction::Read) {
            return Poll::Ready(());
        }
        if self.deadlines.is_armed(Direction::Read) {
            self.deadlines.remember_waker(Direction::Read, cx);
        } else {
            self.deadlines.arm_after(Direction::Read, 1, cx);
        }
        Poll::Pending
    }

    fn local_ip(&self) -> Option<IpAddr> {
        self.stream.local_addr().ok().map(|address| address.ip())
    }
}

impl Drop for TokioSock {
    fn drop(&mut self) {
        // The wheel may keep its entry for up to a minute; it must not keep a task awake.
        self.deadlines.disarm(Direction::Read);
        self.deadlines.disarm(Direction::Write);
    }
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

pub struct TokioListener {
    listener: TcpListener,
}

impl TokioListener {
    /// Must be called on a worker's runtime.
    pub fn adopt(listener: std::net::TcpListener) -> io::Result<TokioListener> {
        Ok(TokioListener { listener: TcpListener::from_std(listener)? })
    }

    /// A connection that waits now, by the kernel's word alone: the runtime's may be a moment old, and it says nothing
    /// once a task has had its share. `None` when the queue is empty. For a socket that is about to be closed, which
    /// would reset what is left in it.
    pub fn accept_now(&self) -> io::Result<Option<(TokioSock, SocketAddr)>> {
        use rustix::net::{SocketFlags, acceptfrom_with};
        match acceptfrom_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((socket, address)) => {
                let address = address.map(SocketAddr::try_from).transpose()?.ok_or(io::ErrorKind::InvalidData)?;
                let stream = TcpStream::from_std(std::net::TcpStream::from(socket))?;
                Ok(Some((TokioSock::new(stream), address)))
            }
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TokioSock, SocketAddr)>> {
        self.listener.poll_accept(cx).map_ok(|(stream, address)| (TokioSock::new(stream), address))
    }
}

#[cfg(test)]
mod tests {
    use super::TokioSock;
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
        let answer = rt::run(async {
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
        let kind = || rt::run(TokioSock::connect_unix(&path)).expect("a runtime").map(drop).map_err(|error| error.kind());
        assert_eq!(kind(), Err(io::ErrorKind::NotFound));
        drop(listen(&path, 8));
        assert_eq!(kind(), Err(io::ErrorKind::ConnectionRefused));
    }

    #[test]
    fn a_full_queue_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let listener = listen(&path, 0);
        rt::run(async {
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
