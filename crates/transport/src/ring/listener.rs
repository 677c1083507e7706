//! A listening socket on a ring. The kernel accepts ahead of the worker, up to a bound; what it has accepted is served
//! also when the worker stops listening.

use super::executor::with_queue;
use super::queue::{Completed, Operation, OperationId, Owner, Queue, Returned};
use super::socket::RingSock;
use crate::{descriptors, sockets};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Connections that may wait for the worker; then accepting ends until it has taken them.
const ACCEPTED_MAX: usize = 64;

pub struct RingListener {
    state: Rc<ListenerState>,
}

struct ListenerState {
    socket: OwnedFd,
    accepting: RefCell<Accepting>,
}

#[derive(Default)]
struct Accepting {
    accepted: VecDeque<OwnedFd>,
    fault: Option<Errno>,
    operation: Option<OperationId>,
    is_cancelled: bool,
    waiting: Option<Waker>,
}

impl Owner for ListenerState {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn complete(&self, _this: &Rc<dyn Owner>, completion: Completed, queue: &mut dyn Queue) {
        let mut accepting = self.accepting.borrow_mut();
        let mut is_reserved = false;
        match completion.returned {
            Returned::Accepted(Ok(socket)) => {
                is_reserved = descriptors::is_reserved(&socket);
                // The kernel takes what waits in one go, whatever is left then.
                if !descriptors::is_of_process(&socket) {
                    accepting.accepted.push_back(socket);
                }
            }
            Returned::Accepted(Err(Errno::CANCELED | Errno::INTR | Errno::AGAIN)) => {}
            Returned::Accepted(Err(error)) => accepting.fault = Some(error),
            // Cannot be: this owner begins nothing else.
            Returned::Received(_) | Returned::Sent(..) | Returned::Connected(_) | Returned::HasRoom(_) | Returned::Signalled => {}
        }
        if completion.is_last {
            accepting.operation = None;
            accepting.is_cancelled = false;
        } else if (is_reserved || accepting.accepted.len() >= ACCEPTED_MAX)
            && !accepting.is_cancelled
            && let Some(id) = accepting.operation
        {
            accepting.is_cancelled = true;
            queue.cancel(id);
        }
        if let Some(waiting) = accepting.waiting.take() {
            waiting.wake();
        }
    }
}

impl RingListener {
    /// Must be called on a worker that runs on a ring.
    pub fn adopt(listener: std::net::TcpListener) -> RingListener {
        let state = ListenerState { socket: listener.into(), accepting: RefCell::default() };
        RingListener { state: Rc::new(state) }
    }

    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(RingSock, SocketAddr)>> {
        if let Some(connection) = self.next_accepted() {
            return Poll::Ready(Ok(connection));
        }
        let mut accepting = self.state.accepting.borrow_mut();
        if let Some(fault) = accepting.fault.take() {
            return Poll::Ready(Err(fault.into()));
        }
        accepting.waiting = Some(cx.waker().clone());
        if accepting.operation.is_none() {
            let owner: Rc<dyn Owner> = self.state.clone();
            accepting.operation = with_queue(|queue| queue.begin(owner, Operation::Accept));
        }
        Poll::Pending
    }

    /// A connection that was accepted and that nobody has taken.
    pub fn next_accepted(&self) -> Option<(RingSock, SocketAddr)> {
        loop {
            let socket = self.state.accepting.borrow_mut().accepted.pop_front()?;
            // One that its client has reset since has no address any more (ENOTCONN), and nobody to answer.
            if let Some(address) = sockets::peer_of(&socket) {
                return Some((RingSock::new(socket), address));
            }
        }
    }

    /// A connection that waits now, by the kernel's word. For a socket that is about to be closed; call
    /// [`stop`](Self::stop) before.
    pub fn accept_now(&self) -> io::Result<Option<(RingSock, SocketAddr)>> {
        if let Some(connection) = self.next_accepted() {
            return Ok(Some(connection));
        }
        let accepted = sockets::accept_now(&self.state.socket)?;
        Ok(accepted.map(|(socket, address)| (RingSock::new(socket), address)))
    }

    /// Ready once the kernel accepts no more for this worker, until somebody asks for a connection again.
    pub async fn stop(&self) {
        self.cancel();
        poll_fn(|cx| {
            let mut accepting = self.state.accepting.borrow_mut();
            if accepting.operation.is_none() {
                return Poll::Ready(());
            }
            accepting.waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn cancel(&self) {
        let mut accepting = self.state.accepting.borrow_mut();
        if let Some(id) = accepting.operation.filter(|_| !accepting.is_cancelled) {
            accepting.is_cancelled = true;
            with_queue(|queue| queue.cancel(id));
        }
    }
}

impl Drop for RingListener {
    fn drop(&mut self) {
        self.cancel();
    }
}
