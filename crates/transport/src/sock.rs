//! What a socket driver provides. The interface is completion-shaped, so that an io_uring driver can take the place of
//! `tokio_sock` without a change above: the driver hands out filled buffers and takes buffers to send.

use crate::buffer::Buf;
use std::fs::File;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// When waiting for input ends with `TimedOut`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadLimit {
    /// So long after the wait began; every wait begins anew.
    Idle(Duration),
    /// At a moment, whatever arrives before.
    Until(Instant),
    /// Never: somebody else sees to it that the wait ends.
    Never,
}

/// Bytes of a file that are to be sent.
#[derive(Debug, Clone, Copy)]
pub struct FilePart<'f> {
    pub file: &'f File,
    pub offset: u64,
    /// At most.
    pub length: usize,
}

/// One connected socket of one worker. Methods take `&self`: one task may read while another writes.
///
/// Deadlines are kept to about a tenth of a second.
pub trait Sock: Sized + 'static {
    /// One piece of input in a leased buffer; empty is the end of the stream.
    fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<io::Result<Buf>>;

    /// Takes the buffer out of `pending` once the driver has all of it. It may queue; an error may come at the next
    /// call.
    fn poll_send(&self, cx: &mut Context<'_>, pending: &mut Option<Buf>) -> Poll<io::Result<()>>;

    /// Has the kernel send bytes of a file, `length` at most from `offset`, without bringing them into this process.
    /// Zero: the file has ended. What is in `before` goes out first, in one packet with them where they fit.
    ///
    /// Errors: the socket's, and the file's. A file system that cannot do it is one; then nothing but `before` was
    /// sent.
    fn poll_send_file(&self, cx: &mut Context<'_>, before: &mut Option<Buf>, part: FilePart<'_>) -> Poll<io::Result<usize>>;

    fn connect(address: SocketAddr) -> impl Future<Output = io::Result<Self>>;

    /// To a unix socket. While its queue is full this waits, as long as the caller does.
    fn connect_unix(path: &Path) -> impl Future<Output = io::Result<Self>>;

    /// Input or the end of the stream came while nobody was reading. Costs no system call in the usual case.
    fn stale(&self) -> bool;

    /// As [`stale`](Self::stale), asking the kernel: for requests that must not be sent twice.
    fn stale_now(&self) -> bool;

    /// Whether the peer has reset the connection, asking the kernel: where nobody reads, because the peer has ended its
    /// side, and nothing is to be sent.
    fn is_reset_now(&self) -> bool;

    /// What a send takes of memory that waits for its peer.
    fn unsent_bytes(&self) -> usize {
        0
    }

    /// No more output: the peer sees the end of the stream.
    fn shutdown(&self);

    /// Has closing it reset the connection: the peer sees that something was cut, and no end.
    fn reset_when_closed(&self);

    fn set_read_limit(&self, limit: ReadLimit);

    /// How long a send may make no progress.
    fn set_write_idle(&self, idle: Duration);

    /// Marks the time between two requests, when nothing is lost by closing.
    fn set_between_requests(&self, between: bool);

    /// When it is between two requests, the wait for the next ends at this moment, or before where that was settled.
    fn end_idle_by(&self, at: Instant);

    /// Ready once, one or two tenths of a second after it was first asked: tells a long wait from a short one at next
    /// to no cost.
    fn poll_patience(&self, cx: &mut Context<'_>) -> Poll<()>;

    fn local_ip(&self) -> Option<IpAddr>;
}
