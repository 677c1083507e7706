//! The kernel's ring behind [`Queue`]. All unsafe code of the driver is here: what an entry points to lives in
//! `in_flight` or in `lent` until the kernel has said the last word about it.

#![allow(unsafe_code, reason = "the kernel reads and writes what entries of a ring point to")]

use super::queue::{Completed, Operation, OperationId, Owner, Queue, Returned, Wait};
use crate::buffer::{Buf, CAPACITY, TIGHT_READ_BYTES};
use crate::memory;
use io_uring::squeue::Entry;
use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use rustix::net::SendFlags;
use slab::Slab;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Operations that are handed over at once; more take another call.
const SUBMISSIONS: u32 = 512;
/// Completions that fit before the kernel has to keep some in memory of its own.
const COMPLETIONS: u32 = 4096;
/// Buffers that wait in the kernel for input; a power of two. Input that finds none waits for the next turn.
const LENT_BUFFERS: u16 = 32;
/// The kernel wants the ring of buffers on a page of its own.
const PAGE: usize = 4096;
/// The group of those buffers; the ring has no other.
const GROUP: u16 = 0;
/// `IORING_RECVSEND_POLL_FIRST`, see io_uring_enter(2).
const RECVSEND_POLL_FIRST: u16 = 1;
/// `POLLOUT`, see poll(2).
const POLL_OUT: u32 = 4;
/// Completions that belong to no operation: those of cancellations.
const NOBODY: u64 = u64::MAX;
/// How long the end waits for the kernel to give back what it owns. It takes microseconds.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// What the kernel takes for its part of an operation that waits (its request, and its place in the socket's queue).
const KERNEL_OPERATION_BYTES: usize = 400;
/// Both rings, see io_uring_setup(2): 64 bytes for a submission with its index, 16 for a completion.
const KERNEL_RING_BYTES: usize = SUBMISSIONS as usize * 68 + COMPLETIONS as usize * 16 + PAGE;

pub(crate) struct KernelQueue {
    ring: IoUring,
    in_flight: Slab<InFlight>,
    lent: LentBuffers,
    /// Part of an [`OperationId`], so that a place that is used again does not answer to an old id.
    generation: u32,
    /// Entries that found no room.
    backlog: VecDeque<Entry>,
    /// The places of `in_flight` and what the kernel has for them.
    counted_bytes: usize,
}

struct InFlight {
    owner: Rc<dyn Owner>,
    id: OperationId,
    operation: Held,
}

/// What the kernel may read or write until the last completion.
enum Held {
    Receive,
    Send(Buf),
    Connect { _address: Box<socket2::SockAddr> },
    Accept,
    AwaitRoom,
    AwaitSignal { _count: Box<u64> },
}

/// A ring as a worker has it, without its buffers: nearly all that the kernel has for one.
pub(super) fn build_ring() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_cqsize(COMPLETIONS)
        .setup_submit_all()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .dontfork()
        .build(SUBMISSIONS)
}

impl KernelQueue {
    /// Must be called on the thread that will use it.
    pub fn new() -> io::Result<KernelQueue> {
        let ring = build_ring()?;
        let lent = LentBuffers::new(&ring)?;
        memory::take(KERNEL_RING_BYTES);
        let queue = KernelQueue {
            ring,
            in_flight: Slab::new(),
            lent,
            generation: 0,
            backlog: VecDeque::new(),
            counted_bytes: KERNEL_RING_BYTES,
        };
        Ok(queue)
    }

    fn push(&mut self, entry: Entry) {
        if self.backlog.is_empty() && self.try_push(&entry) {
            return;
        }
        self.backlog.push_back(entry);
    }

    fn try_push(&mut self, entry: &Entry) -> bool {
        // SAFETY: what the entry points to is in `in_flight`, whose values stay where they are on the heap until the
        // last completion; the descriptor is the owner's, which `in_flight` holds as long.
        if unsafe { self.ring.submission().push(entry) }.is_ok() {
            return true;
        }
        // Full: hand over what is there. An error comes again at the next `enter`, which reports it.
        let _ = self.ring.submit();
        // SAFETY: as above.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    #[cold]
    fn push_backlog(&mut self) {
        while let Some(entry) = self.backlog.pop_front() {
            if !self.try_push(&entry) {
                return self.backlog.push_front(entry);
            }
        }
    }

    /// Counts the places as they grow; they are kept.
    fn count(&mut self) {
        let place = size_of::<InFlight>() + KERNEL_OPERATION_BYTES;
        let bytes = KERNEL_RING_BYTES + self.in_flight.capacity() * place;
        if bytes > self.counted_bytes {
            memory::take(bytes - self.counted_bytes);
            self.counted_bytes = bytes;
        }
    }

    fn outcome(&mut self, key: usize, entry: &cqueue::Entry) -> Returned {
        let result = match entry.result() {
            error if error < 0 => Err(Errno::from_raw_os_error(-error)),
            count => Ok(count as usize),
        };
        let given = cqueue::buffer_select(entry.flags()).map(|index| self.lent.take(index, result.unwrap_or(0)));
        match &mut self.in_flight[key].operation {
            Held::Receive => Returned::Received(result.map(|_| given.unwrap_or_else(Buf::empty))),
            Held::Send(buf) => Returned::Sent(std::mem::replace(buf, Buf::empty()), result),
            Held::Connect { .. } => Returned::Connected(result.map(drop)),
            // SAFETY: the kernel has just made this descriptor for us.
            Held::Accept => Returned::Accepted(result.map(|socket| unsafe { OwnedFd::from_raw_fd(socket as i32) })),
            Held::AwaitRoom => Returned::HasRoom(result.map(drop)),
            Held::AwaitSignal { .. } => Returned::Signalled,
        }
    }
}

impl Queue for KernelQueue {
    fn begin(&mut self, owner: Rc<dyn Owner>, operation: Operation) -> OperationId {
        let fd = Fd(owner.descriptor().as_raw_fd());
        let place = self.in_flight.vacant_entry();
        self.generation = self.generation.wrapping_add(1) & (u32::MAX >> 1);
        let id = OperationId(u64::from(self.generation) << 32 | place.key() as u64);
        let no_signal = SendFlags::NOSIGNAL.bits() as i32;
        let (entry, operation) = match operation {
            Operation::Receive { is_drained } => {
                let wait_first = if is_drained { RECVSEND_POLL_FIRST } else { 0 };
                let receive = opcode::Recv::new(fd, std::ptr::null_mut(), 0).buf_group(GROUP).ioprio(wait_first);
                (receive.build().flags(squeue::Flags::BUFFER_SELECT), Held::Receive)
            }
            Operation::Send(buf) => {
                let entry = opcode::Send::new(fd, buf.as_ptr(), buf.len() as u32).flags(no_signal).build();
                (entry, Held::Send(buf))
            }
            Operation::Connect(address) => {
                let entry = opcode::Connect::new(fd, address.as_ptr().cast(), address.len()).build();
                (entry, Held::Connect { _address: address })
            }
            Operation::Accept => {
                let flags = rustix::net::SocketFlags::NONBLOCK | rustix::net::SocketFlags::CLOEXEC;
                (opcode::AcceptMulti::new(fd).flags(flags.bits() as i32).build(), Held::Accept)
            }
            Operation::AwaitRoom => (opcode::PollAdd::new(fd, POLL_OUT).build(), Held::AwaitRoom),
            Operation::AwaitSignal => {
                let mut count = Box::new(0_u64);
                let entry = opcode::Read::new(fd, (&raw mut *count).cast(), size_of::<u64>() as u32).build();
                (entry, Held::AwaitSignal { _count: count })
            }
        };
        place.insert(InFlight { owner, id, operation });
        self.count();
        self.push(entry.user_data(id.0));
        id
    }

    fn cancel(&mut self, id: OperationId) {
        self.push(opcode::AsyncCancel2::new(CancelBuilder::user_data(id.0)).build().user_data(NOBODY));
    }

    fn has_work(&self) -> bool {
        // SAFETY: the queue is used by this thread alone, and this only looks.
        let submissions = unsafe { self.ring.submission_shared() };
        !submissions.is_empty() || submissions.taskrun() || submissions.cq_overflow() || !self.backlog.is_empty()
    }

    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        if !self.backlog.is_empty() {
            self.push_backlog();
        }
        let entered = match wait {
            Wait::Not => self.ring.submit(),
            Wait::UntilOne => self.ring.submit_and_wait(1),
            Wait::AtMost(limit) => {
                let limit = Timespec::from(limit);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&limit))
            }
        };
        match entered.map_err(|error| Errno::from_io_error(&error).ok_or(error)) {
            // BUSY and AGAIN: the kernel is short of memory or room for completions; taking them gives it some.
            Ok(_) | Err(Ok(Errno::INTR | Errno::TIME | Errno::BUSY | Errno::AGAIN)) => Ok(()),
            Err(Ok(error)) => Err(error.into()),
            Err(Err(error)) => Err(error),
        }
    }

    fn next_completion(&mut self) -> Option<(Rc<dyn Owner>, Completed)> {
        loop {
            let entry = self.ring.completion().next()?;
            if entry.user_data() == NOBODY {
                continue;
            }
            let key = entry.user_data() as u32 as usize;
            debug_assert_eq!(self.in_flight.get(key).map(|known| known.id.0), Some(entry.user_data()));
            let outcome = self.outcome(key, &entry);
            let is_last = !cqueue::more(entry.flags());
            let owner = if is_last { self.in_flight.remove(key).owner } else { self.in_flight[key].owner.clone() };
            return Some((owner, Completed { returned: outcome, is_last }));
        }
    }

    fn close(&mut self) {
        let until = Instant::now() + CLOSE_LIMIT;
        self.push(opcode::AsyncCancel2::new(CancelBuilder::any()).build().user_data(NOBODY));
        while !self.in_flight.is_empty() && Instant::now() < until {
            if self.enter(Wait::AtMost(Duration::from_millis(100))).is_err() {
                return;
            }
            while let Some(completion) = self.next_completion() {
                drop(completion);
            }
        }
    }
}

impl Drop for KernelQueue {
    fn drop(&mut self) {
        self.close();
        memory::give_back(self.counted_bytes);
        if !self.in_flight.is_empty() {
            // The kernel may still write to what these hold.
            std::mem::forget(std::mem::take(&mut self.in_flight));
            std::mem::forget(std::mem::take(&mut self.lent.buffers));
        }
    }
}

/// Buffers that wait in the kernel for input of any socket.
struct LentBuffers {
    /// The ring by which the kernel is told of them.
    ring: Box<RingPage>,
    /// By the number under which the kernel knows them.
    buffers: Vec<Buf>,
    /// What the kernel reads up to.
    tail: u16,
}

#[repr(align(4096))]
struct RingPage([u8; PAGE]);

impl LentBuffers {
    fn new(ring: &IoUring) -> io::Result<LentBuffers> {
        const { assert!(LENT_BUFFERS as usize * size_of::<BufRingEntry>() <= PAGE && LENT_BUFFERS.is_power_of_two()) };
        let mut page = Box::new(RingPage([0; PAGE]));
        let address = (&raw mut page.0) as u64;
        // SAFETY: the page is ours, of the right size, and outlives the ring: `close` has everything ended before.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, LENT_BUFFERS, GROUP, 0) }?;
        let mut lent = LentBuffers { ring: page, buffers: Vec::with_capacity(usize::from(LENT_BUFFERS)), tail: 0 };
        for index in 0..LENT_BUFFERS {
            lent.buffers.push(Buf::empty());
            lent.lend(index);
        }
        Ok(lent)
    }

    /// The buffer with what was received. Another takes its place: the one that was freed last, still in the cache.
    #[inline]
    fn take(&mut self, index: u16, count: usize) -> Buf {
        let mut filled = std::mem::replace(&mut self.buffers[usize::from(index)], Buf::empty());
        filled.grow(count);
        self.lend(index);
        filled
    }

    #[inline]
    fn lend(&mut self, index: u16) {
        let mut buf = Buf::take();
        let mut space = buf.spare_for_read();
        if memory::is_tight() {
            space = space.split_at_mut(TIGHT_READ_BYTES.min(space.len())).0;
        }
        debug_assert!(space.len() <= CAPACITY);
        let entries: *mut BufRingEntry = (&raw mut self.ring.0).cast();
        // SAFETY: the index is below `LENT_BUFFERS`, which the page has room for; the kernel does not look at the entry
        // before the tail is moved past it. The bytes stay where they are, in `buffers`, until it says that it has
        // filled them.
        unsafe {
            let entry = &mut *entries.add(usize::from(self.tail & (LENT_BUFFERS - 1)));
            entry.set_addr(space.as_mut_ptr() as u64);
            entry.set_len(space.len() as u32);
            entry.set_bid(index);
        }
        self.buffers[usize::from(index)] = buf;
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail of the ring lies in the page and is aligned as the kernel has it (io_uring_register(2)).
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}
