//! What the driver asks of a ring: operations go in with the buffers they need, completions bring them back. Everything
//! above is safe code that works on any implementation of [`Queue`]: the kernel's in `kernel`, and in tests one that
//! completes late, in another order, in part and with errors.

use crate::buffer::Buf;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use socket2::SockAddr;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// Owner of a descriptor that an operation works on, told of its completions. A queue holds the owner until the last
/// completion of the operation, so the descriptor stays open as long as the kernel may use it.
pub(crate) trait Owner {
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// `this` is the same owner, for an operation that follows.
    fn complete(&self, this: &Rc<dyn Owner>, completion: Completed, queue: &mut dyn Queue);

    /// What waits here for somebody has waited for a while, and should take no more memory than it needs.
    fn keep_less(&self) {}
}

/// What is to be done on the owner's descriptor. A buffer belongs to the queue until its completion.
pub(crate) enum Operation {
    /// One piece of input in a leased buffer, or the end of the stream. `is_drained` says that the socket had no more
    /// when it was last read: the kernel then waits without trying first.
    Receive {
        is_drained: bool,
    },
    /// May send less than all of it.
    Send(Buf),
    Connect(Box<SockAddr>),
    /// Connections until an error or a cancellation.
    Accept,
    /// Once the descriptor takes output.
    AwaitRoom,
    /// Once an eventfd was written to; this reads it.
    AwaitSignal,
}

/// One operation of one queue, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OperationId(pub u64);

/// What became of an operation.
pub(crate) enum Returned {
    /// An empty buffer is the end of the stream. `NOBUFS`: the kernel had no buffer to receive into.
    Received(Result<Buf, Errno>),
    /// The buffer, and how much of it was sent.
    Sent(Buf, Result<usize, Errno>),
    Connected(Result<(), Errno>),
    Accepted(Result<OwnedFd, Errno>),
    HasRoom(Result<(), Errno>),
    Signalled,
}

pub(crate) struct Completed {
    pub returned: Returned,
    /// Nothing more comes of this operation.
    pub is_last: bool,
}

/// How long an [`enter`](Queue::enter) waits for a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Not,
    AtMost(Duration),
    UntilOne,
}

pub(crate) trait Queue {
    /// Queues an operation; the next [`enter`](Self::enter) hands it to the kernel.
    fn begin(&mut self, owner: Rc<dyn Owner>, operation: Operation) -> OperationId;

    /// Has an operation end; its last completion comes later, and may be that of a success.
    fn cancel(&mut self, id: OperationId);

    /// Whether an [`enter`](Self::enter) that does not wait would do something.
    fn has_work(&self) -> bool;

    /// Hands over what was queued, and waits.
    ///
    /// Errors: those after which the ring is of no use any more.
    fn enter(&mut self, wait: Wait) -> io::Result<()>;

    /// The next completion and whose it is.
    fn next_completion(&mut self) -> Option<(Rc<dyn Owner>, Completed)>;

    /// Ends every operation and waits until nothing belongs to the kernel any more; what it does not give back in time
    /// is never freed.
    fn close(&mut self);
}
