//! A connected socket on a ring. One receive at a time is under way, and one piece of input at most waits for its
//! reader; a send belongs to the kernel until it is over, and the next waits for it.

use super::executor::{self, with_queue};
use super::queue::{Completed, Operation, OperationId, Owner, Queue, Returned};
use super::unread;
use crate::buffer::{Buf, CAPACITY, TOTAL};
use crate::deadline::Direction;
use crate::sock::{FilePart, ReadLimit, Sock};
use crate::sockets;
use crate::waits::Waits;
use crate::{held_back, memory};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// One connected socket of a worker on a ring.
pub struct RingSock {
    state: Rc<SocketState>,
}

impl AsFd for RingSock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.state.socket.as_fd()
    }
}

/// What outlives the [`RingSock`] while an operation is under way.
struct SocketState {
    socket: OwnedFd,
    waits: Waits,
    receiving: RefCell<Receiving>,
    sending: RefCell<Sending>,
    /// Nobody reads or writes any more.
    is_given_up: Cell<bool>,
    is_reset: Cell<bool>,
}

/// Input of one socket: the piece that waits for its reader, and the receive that is under way. A receive that goes on
/// until it is cancelled was tried: a peer that sends fast filled up to 32 buffers, 2 MiB, before the cancellation came
/// to be looked at, and every answer of 100 KB needed one.
#[derive(Default)]
struct Receiving {
    /// Input that nobody has read.
    piece: Option<Buf>,
    /// See [`unread`].
    is_noted: bool,
    end: Option<Result<(), Errno>>,
    operation: Option<OperationId>,
    reader: Option<Waker>,
}

#[derive(Default)]
struct Sending {
    /// A send, a connect or a wait for room.
    operation: Option<OperationId>,
    /// What the operation holds of memory.
    held_bytes: usize,
    /// The send is ended to have its bytes in less memory, and begun again.
    is_shrinking: bool,
    fault: Option<Errno>,
    ends_output: bool,
    writer: Option<Waker>,
}

fn note(waker: &mut Option<Waker>, cx: &Context<'_>) {
    match waker {
        Some(known) => known.clone_from(cx.waker()),
        None => *waker = Some(cx.waker().clone()),
    }
}

impl SocketState {
    fn received(&self, this: &Rc<dyn Owner>, received: Result<Buf, Errno>, queue: &mut dyn Queue) {
        let mut receiving = self.receiving.borrow_mut();
        receiving.operation = None;
        match received {
            _ if self.is_given_up.get() => return,
            Ok(buf) if buf.is_empty() => receiving.end = Some(Ok(())),
            Ok(buf) => {
                receiving.piece = Some(buf);
                if receiving.reader.is_none() && !receiving.is_noted {
                    receiving.is_noted = true;
                    unread::note(this);
                }
            }
            // NOBUFS: the next turn has buffers again. An idle connection is watched on, although nobody reads; while
            // memory is tight the reader asks first.
            Err(Errno::CANCELED | Errno::NOBUFS | Errno::INTR | Errno::AGAIN) if !memory::is_tight() => {
                receiving.operation = Some(queue.begin(this.clone(), Operation::Receive { is_drained: false }));
                return;
            }
            Err(Errno::CANCELED | Errno::NOBUFS | Errno::INTR | Errno::AGAIN) => {}
            Err(error) => receiving.end = Some(Err(error)),
        }
        if let Some(reader) = receiving.reader.take() {
            reader.wake();
        }
    }

    fn sent(&self, this: &Rc<dyn Owner>, mut buf: Buf, sent: Result<usize, Errno>, queue: &mut dyn Queue) {
        let mut sending = self.sending.borrow_mut();
        let is_shrinking = std::mem::take(&mut sending.is_shrinking);
        let goes_on = match sent {
            Ok(count) => {
                buf.advance(count);
                // The peer takes something: its time begins anew.
                self.waits.disarm(Direction::Write);
                !buf.is_empty() && !self.is_reset.get()
            }
            Err(Errno::INTR | Errno::AGAIN) => true,
            Err(Errno::CANCELED) if is_shrinking => true,
            Err(error) => {
                sending.fault = Some(error);
                false
            }
        };
        if goes_on {
            if is_shrinking {
                buf.shrink();
            }
            sending.held_bytes = buf.held_bytes();
            sending.operation = Some(queue.begin(this.clone(), Operation::Send(buf)));
        } else {
            sending.operation = None;
            sending.held_bytes = 0;
            if sending.ends_output {
                let _ = SockRef::from(&self.socket).shutdown(Shutdown::Write);
            }
        }
        if let Some(writer) = sending.writer.take() {
            writer.wake();
        }
    }

    /// A connect or a wait for room is over.
    fn settled(&self, outcome: Result<(), Errno>) {
        let mut sending = self.sending.borrow_mut();
        sending.operation = None;
        sending.fault = outcome.err();
        if let Some(writer) = sending.writer.take() {
            writer.wake();
        }
    }

    /// Whether what was begun is over, for who sends or connects next.
    fn poll_settled(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut sending = self.sending.borrow_mut();
        if let Some(fault) = sending.fault {
            return Poll::Ready(Err(fault.into()));
        }
        let Some(id) = sending.operation else {
            self.waits.disarm(Direction::Write);
            return Poll::Ready(Ok(()));
        };
        note(&mut sending.writer, cx);
        if memory::is_tight() && sending.held_bytes == TOTAL && !sending.is_shrinking {
            sending.is_shrinking = true;
            drop(sending);
            with_queue(|queue| queue.cancel(id));
        }
        self.waits.wait(Direction::Write, cx)
    }

    fn cancel_send(&self) {
        let operation = self.sending.borrow().operation;
        if let Some(id) = operation {
            with_queue(|queue| queue.cancel(id));
        }
    }
}

impl Owner for SocketState {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn complete(&self, this: &Rc<dyn Owner>, completion: Completed, queue: &mut dyn Queue) {
        match completion.returned {
            Returned::Received(received) => self.received(this, received, queue),
            Returned::Sent(buf, sent) => self.sent(this, buf, sent, queue),
            Returned::Connected(outcome) | Returned::HasRoom(outcome) => self.settled(outcome),
            // Cannot be: this owner begins neither.
            Returned::Accepted(_) | Returned::Signalled => {}
        }
    }

    fn keep_less(&self) {
        let mut receiving = self.receiving.borrow_mut();
        receiving.is_noted = false;
        if let Some(piece) = &mut receiving.piece {
            piece.shrink();
        }
    }
}

impl RingSock {
    pub(super) fn new(socket: OwnedFd) -> RingSock {
        let state = SocketState {
            socket,
            waits: Waits::new(),
            receiving: RefCell::default(),
            sending: RefCell::default(),
            is_given_up: Cell::new(false),
            is_reset: Cell::new(false),
        };
        RingSock { state: Rc::new(state) }
    }

    /// Bytes that were received and that nobody has read.
    #[cfg(test)]
    pub(super) fn ahead_bytes(&self) -> usize {
        self.state.receiving.borrow().piece.as_ref().map_or(0, |piece| piece.len())
    }

    /// What those bytes take of memory.
    #[cfg(test)]
    pub(super) fn ahead_held_bytes(&self) -> usize {
        self.state.receiving.borrow().piece.as_ref().map_or(0, Buf::held_bytes)
    }

    fn begin(&self, operation: Operation) -> Option<OperationId> {
        let owner: Rc<dyn Owner> = self.state.clone();
        with_queue(|queue| queue.begin(owner, operation))
    }
}

impl Sock for RingSock {
    fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<io::Result<Buf>> {
        let mut receiving = self.state.receiving.borrow_mut();
        if let Some(buf) = receiving.piece.take() {
            self.state.waits.disarm(Direction::Read);
            // Less than there was room for: the next input is waited for at once, also where nobody reads on, so that
            // an idle connection is known to be alive without a call. More than that waits in the kernel for a reader.
            if buf.len() < CAPACITY && receiving.end.is_none() && !memory::is_tight() {
                receiving.operation = self.begin(Operation::Receive { is_drained: true });
            }
            return Poll::Ready(Ok(buf.into_lease()));
        }
        if let Some(end) = receiving.end {
            self.state.waits.disarm(Direction::Read);
            return Poll::Ready(end.map(|()| Buf::empty()).map_err(io::Error::from));
        }
        if receiving.operation.is_none() && memory::is_tight() && held_back::poll_may_read(cx).is_pending() {
            return Poll::Pending;
        }
        note(&mut receiving.reader, cx);
        if receiving.operation.is_none() {
            receiving.operation = self.begin(Operation::Receive { is_drained: false });
        }
        drop(receiving);
        self.state.waits.wait(Direction::Read, cx)
    }

    fn poll_send(&self, cx: &mut Context<'_>, pending: &mut Option<Buf>) -> Poll<io::Result<()>> {
        if pending.as_ref().is_none_or(|buf| buf.is_empty()) {
            *pending = None;
            return Poll::Ready(Ok(()));
        }
        std::task::ready!(self.state.poll_settled(cx))?;
        if let Some(buf) = pending.take() {
            let held_bytes = buf.held_bytes();
            let operation = self.begin(Operation::Send(buf));
            let mut sending = self.state.sending.borrow_mut();
            sending.operation = operation;
            sending.held_bytes = held_bytes;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_send_file(&self, cx: &mut Context<'_>, before: &mut Option<Buf>, part: FilePart<'_>) -> Poll<io::Result<usize>> {
        loop {
            std::task::ready!(self.state.poll_settled(cx))?;
            // A ring has no operation that sends a file without bringing it into the process.
            match sockets::send_file_step(&self.state.socket, before, part) {
                Ok(None) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let operation = self.begin(Operation::AwaitRoom);
                    self.state.sending.borrow_mut().operation = operation;
                }
                outcome => {
                    *before = None;
                    return Poll::Ready(outcome.map(Option::unwrap_or_default).map_err(io::Error::from));
                }
            }
        }
    }

    async fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        let _ = socket.set_tcp_keepalive(&sockets::keep_alive());
        let sock = RingSock::new(socket.into());
        let operation = sock.begin(Operation::Connect(Box::new(SockAddr::from(address))));
        sock.state.sending.borrow_mut().operation = operation;
        poll_fn(|cx| sock.state.poll_settled(cx)).await?;
        Ok(sock)
    }

    async fn connect_unix(path: &Path) -> io::Result<Self> {
        Ok(RingSock::new(sockets::connect_unix(path, executor::sleep).await?.into()))
    }

    fn stale(&self) -> bool {
        let receiving = self.state.receiving.borrow();
        let is_known = receiving.piece.is_some() || receiving.end.is_some() || self.state.sending.borrow().fault.is_some();
        // Nobody watches before the first read, and behind a piece that was full.
        is_known || (receiving.operation.is_none() && sockets::has_input_now(&self.state.socket))
    }

    fn stale_now(&self) -> bool {
        self.stale() || sockets::has_input_now(&self.state.socket)
    }

    fn is_reset_now(&self) -> bool {
        sockets::is_reset(&self.state.socket)
    }

    fn unsent_bytes(&self) -> usize {
        self.state.sending.borrow().held_bytes
    }

    fn shutdown(&self) {
        let mut sending = self.state.sending.borrow_mut();
        if sending.operation.is_some() {
            sending.ends_output = true;
        } else {
            let _ = SockRef::from(&self.state.socket).shutdown(Shutdown::Write);
        }
    }

    fn reset_when_closed(&self) {
        self.state.is_reset.set(true);
        let _ = SockRef::from(&self.state.socket).set_linger(Some(Duration::ZERO));
    }

    fn set_read_limit(&self, limit: ReadLimit) {
        self.state.waits.set_read_limit(limit);
    }

    fn set_write_idle(&self, idle: Duration) {
        self.state.waits.set_write_idle(idle);
    }

    fn set_between_requests(&self, between: bool) {
        self.state.waits.set_between_requests(between);
    }

    fn end_idle_by(&self, at: Instant) {
        self.state.waits.end_idle_by(at);
    }

    #[inline]
    fn poll_patience(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.state.waits.poll_patience(cx)
    }

    fn local_ip(&self) -> Option<IpAddr> {
        let address = rustix::net::getsockname(&self.state.socket).ok()?;
        SocketAddr::try_from(address).ok().map(|address| address.ip())
    }
}

impl Drop for RingSock {
    fn drop(&mut self) {
        let state = &self.state;
        state.is_given_up.set(true);
        state.waits.disarm(Direction::Read);
        state.waits.disarm(Direction::Write);
        let receiving = state.receiving.take();
        if let Some(id) = receiving.operation {
            with_queue(|queue| queue.cancel(id));
        }
        let sending = state.sending.borrow();
        if sending.operation.is_none() {
            return;
        }
        if sending.held_bytes == 0 || state.is_reset.get() {
            drop(sending);
            return state.cancel_send();
        }
        drop(sending);
        executor::spawn(finish_send(state.clone()));
    }
}

/// What was handed over goes out, as the kernel does for a socket that is closed, while the peer takes some of it.
async fn finish_send(state: Rc<SocketState>) {
    let settled = poll_fn(|cx| state.poll_settled(cx)).await;
    if settled.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
        state.cancel_send();
    }
}
