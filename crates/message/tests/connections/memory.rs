//! A socket made of memory. What is written travels first and arrives when the test says so; a socket takes no more
//! than it has room for. Whoever is told to wait is woken once, and only if it has asked, as with a real one.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tidegate_transport::{Buf, FilePart, ReadLimit, Sock};

/// One direction of a connection.
#[derive(Default)]
pub struct Way {
    bytes: Vec<u8>,
    /// Up to here they were read.
    read: usize,
    /// Up to here they have arrived; the others are travelling.
    arrived: usize,
    has_ended: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// What may be on its way at once.
    pub capacity: usize,
    /// The most that one receive hands out.
    pub piece: usize,
    /// All that ever went this way.
    pub written: usize,
}

impl Way {
    pub fn new(capacity: usize, piece: usize) -> Rc<RefCell<Way>> {
        Rc::new(RefCell::new(Way { capacity, piece, ..Way::default() }))
    }

    fn room(&self) -> usize {
        self.capacity.saturating_sub(self.bytes.len() - self.read)
    }

    pub fn travelling(&self) -> usize {
        self.bytes.len() - self.arrived
    }

    /// Whether whoever reads has asked to be woken.
    pub fn has_reader(&self) -> bool {
        self.reader.is_some()
    }

    /// Whether whoever writes has asked to be woken.
    pub fn has_writer(&self) -> bool {
        self.writer.is_some()
    }

    /// Has so many bytes come across.
    pub fn arrive(&mut self, count: usize) {
        let count = count.min(self.travelling());
        self.arrived += count;
        if count > 0
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
    }

    /// Puts bytes in as if the other end had sent them, and has them arrive.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.arrive(usize::MAX);
    }

    /// Takes out what was written.
    pub fn take(&mut self) -> Vec<u8> {
        self.arrived = self.bytes.len();
        self.receive(usize::MAX)
    }

    fn receive(&mut self, count: usize) -> Vec<u8> {
        let bytes = self.bytes[self.read..self.arrived.min(self.read.saturating_add(count))].to_vec();
        self.read += bytes.len();
        if self.read == self.bytes.len() {
            self.bytes.clear();
            (self.read, self.arrived) = (0, 0);
        }
        self.wake_writer();
        bytes
    }

    fn wake_writer(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}

/// One end.
pub struct Memory {
    pub inbound: Rc<RefCell<Way>>,
    pub outbound: Rc<RefCell<Way>>,
}

impl Sock for Memory {
    fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<io::Result<Buf>> {
        let mut way = self.inbound.borrow_mut();
        if way.arrived == way.read && !way.has_ended {
            way.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = way.piece.min(tidegate_transport::buffer::CAPACITY);
        let bytes = way.receive(count);
        Poll::Ready(Ok(Buf::copy_of(&bytes)))
    }

    fn poll_send(&self, cx: &mut Context<'_>, pending: &mut Option<Buf>) -> Poll<io::Result<()>> {
        let mut way = self.outbound.borrow_mut();
        let Some(bytes) = pending.as_mut() else { return Poll::Ready(Ok(())) };
        let count = bytes.len().min(way.room());
        way.bytes.extend_from_slice(&bytes[..count]);
        way.written += count;
        bytes.advance(count);
        if !bytes.is_empty() {
            way.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        *pending = None;
        Poll::Ready(Ok(()))
    }

    fn poll_send_file(&self, _: &mut Context<'_>, _: &mut Option<Buf>, _: FilePart<'_>) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    async fn connect(_: SocketAddr) -> io::Result<Memory> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn connect_unix(_: &Path) -> io::Result<Memory> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn stale(&self) -> bool {
        false
    }

    fn stale_now(&self) -> bool {
        false
    }

    fn is_reset_now(&self) -> bool {
        false
    }

    fn shutdown(&self) {
        self.outbound.borrow_mut().has_ended = true;
    }

    fn reset_when_closed(&self) {}

    fn set_read_limit(&self, _: ReadLimit) {}

    fn set_write_idle(&self, _: Duration) {}

    fn set_between_requests(&self, _: bool) {}

    fn end_idle_by(&self, _: Instant) {}

    fn poll_patience(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn local_ip(&self) -> Option<IpAddr> {
        None
    }
}
