//! A queue without a ring, for tests: what is asked of it is done by ordinary calls, late, in another order, in part
//! and with errors, by the numbers of a seed.

use super::queue::{Completed, Operation, OperationId, Owner, Queue, Returned, Wait};
use crate::buffer::Buf;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, acceptfrom_with, recv, send};
use socket2::{SockAddr, SockRef};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

pub(crate) struct FakeQueue {
    under_way: Vec<UnderWay>,
    done: VecDeque<(Rc<dyn Owner>, Completed)>,
    last: u64,
    random: u64,
}

struct UnderWay {
    id: OperationId,
    owner: Rc<dyn Owner>,
    operation: FakeOperation,
    is_cancelled: bool,
}

enum FakeOperation {
    Receive,
    /// With a sum of the bytes: nobody may touch them meanwhile.
    Send(Buf, u64),
    Connect {
        address: Box<SockAddr>,
        is_begun: bool,
    },
    Accept,
    AwaitRoom,
    AwaitSignal,
}

/// What one try of an operation led to.
enum Step {
    Waits,
    Completes(Returned, IsLast),
}

#[derive(PartialEq, Eq)]
struct IsLast(bool);

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(bytes.len() as u64, |sum, byte| sum.rotate_left(5) ^ u64::from(*byte))
}

impl FakeQueue {
    pub fn new(seed: u64) -> FakeQueue {
        FakeQueue { under_way: Vec::new(), done: VecDeque::new(), last: 0, random: seed.wrapping_mul(2).wrapping_add(1) }
    }

    /// Below `bound`, by xorshift.
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    /// Tries some of what is under way, in any order.
    fn try_some(&mut self) {
        let mut position = 0;
        while position < self.under_way.len() {
            let other = position + self.below((self.under_way.len() - position) as u64) as usize;
            self.under_way.swap(position, other);
            // One in four is late.
            if self.below(4) > 0 && self.try_at(position) {
                self.under_way.swap_remove(position);
            } else {
                position += 1;
            }
        }
    }

    /// Whether the operation has ended.
    fn try_at(&mut self, position: usize) -> bool {
        // A cancellation may come too late.
        let obeys = self.under_way[position].is_cancelled && self.below(2) == 0;
        let chance = self.below(1 << 16);
        let entry = &mut self.under_way[position];
        let step = if obeys { cancelled(&mut entry.operation) } else { attempt(&entry.owner, &mut entry.operation, chance) };
        match step {
            Step::Waits if entry.is_cancelled => {
                if let Step::Completes(outcome, _) = cancelled(&mut entry.operation) {
                    self.done.push_back((entry.owner.clone(), Completed { returned: outcome, is_last: true }));
                }
                true
            }
            Step::Waits => false,
            Step::Completes(outcome, IsLast(is_last)) => {
                self.done.push_back((entry.owner.clone(), Completed { returned: outcome, is_last }));
                is_last
            }
        }
    }

    /// Until one of the descriptors has something, or for as long.
    fn wait(&self, limit: Duration) {
        let wanted = |operation: &FakeOperation| match operation {
            FakeOperation::Receive | FakeOperation::Accept | FakeOperation::AwaitSignal => EventFlags::IN,
            FakeOperation::Send(..) | FakeOperation::Connect { .. } | FakeOperation::AwaitRoom => EventFlags::OUT,
        };
        let all = self.under_way.iter().map(|entry| (entry.owner.descriptor(), wanted(&entry.operation)));
        is_any_ready(all, limit.min(Duration::from_millis(20)));
    }
}

fn cancelled(operation: &mut FakeOperation) -> Step {
    let error = Errno::CANCELED;
    let outcome = match operation {
        FakeOperation::Receive => Returned::Received(Err(error)),
        FakeOperation::Send(buf, before) => {
            assert_eq!(sum(buf), *before, "a buffer changed while it was being sent");
            Returned::Sent(std::mem::replace(buf, Buf::empty()), Err(error))
        }
        FakeOperation::Connect { .. } => Returned::Connected(Err(error)),
        FakeOperation::Accept => Returned::Accepted(Err(error)),
        FakeOperation::AwaitRoom => Returned::HasRoom(Err(error)),
        FakeOperation::AwaitSignal => Returned::Signalled,
    };
    Step::Completes(outcome, IsLast(true))
}

/// Does as much as chance has it.
fn attempt(owner: &Rc<dyn Owner>, operation: &mut FakeOperation, chance: u64) -> Step {
    let descriptor = owner.descriptor();
    match operation {
        FakeOperation::Receive => {
            if chance.is_multiple_of(16) {
                return Step::Completes(Returned::Received(Err(Errno::NOBUFS)), IsLast(true));
            }
            let mut buf = Buf::take();
            let most = 1 + chance as usize;
            let space = buf.spare_for_read();
            let most = most.min(space.len());
            match recv(descriptor, &mut space[..most], RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) => Step::Waits,
                Err(error) => Step::Completes(Returned::Received(Err(error)), IsLast(true)),
                Ok((0, _)) => Step::Completes(Returned::Received(Ok(Buf::empty())), IsLast(true)),
                Ok((count, _)) => {
                    buf.grow(count);
                    Step::Completes(Returned::Received(Ok(buf)), IsLast(true))
                }
            }
        }
        FakeOperation::Send(buf, before) => {
            assert_eq!(sum(buf), *before, "a buffer changed while it was being sent");
            let most = buf.len().min(1 + chance as usize);
            let sent = match chance % 16 {
                0 => Err(Errno::INTR),
                _ => send(descriptor, &buf[..most], SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
            };
            match sent {
                Err(Errno::AGAIN) => Step::Waits,
                sent => Step::Completes(Returned::Sent(std::mem::replace(buf, Buf::empty()), sent), IsLast(true)),
            }
        }
        FakeOperation::Connect { address, is_begun } => connect(owner, address, is_begun),
        FakeOperation::Accept => match acceptfrom_with(descriptor, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Err(Errno::AGAIN) => Step::Waits,
            Err(error) => Step::Completes(Returned::Accepted(Err(error)), IsLast(true)),
            Ok((socket, _)) => Step::Completes(Returned::Accepted(Ok(socket)), IsLast(chance.is_multiple_of(5))),
        },
        FakeOperation::AwaitRoom if is_ready(owner, EventFlags::OUT) => Step::Completes(Returned::HasRoom(Ok(())), IsLast(true)),
        FakeOperation::AwaitSignal if is_ready(owner, EventFlags::IN) => {
            let _ = rustix::io::read(descriptor, &mut [0_u8; 8]);
            Step::Completes(Returned::Signalled, IsLast(true))
        }
        FakeOperation::AwaitRoom | FakeOperation::AwaitSignal => Step::Waits,
    }
}

fn connect(owner: &Rc<dyn Owner>, address: &SockAddr, is_begun: &mut bool) -> Step {
    let descriptor = owner.descriptor();
    let socket = SockRef::from(&descriptor);
    if !std::mem::replace(is_begun, true) {
        match socket.connect(address) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(115) => return Step::Waits,
            outcome => {
                let outcome = outcome.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
                return Step::Completes(Returned::Connected(outcome), IsLast(true));
            }
        }
    }
    if !is_ready(owner, EventFlags::OUT) {
        return Step::Waits;
    }
    let fault = socket.take_error().ok().flatten();
    let outcome = fault.map_or(Ok(()), |error| Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)));
    Step::Completes(Returned::Connected(outcome), IsLast(true))
}

fn is_ready(owner: &Rc<dyn Owner>, wanted: EventFlags) -> bool {
    is_any_ready([(owner.descriptor(), wanted)], Duration::ZERO)
}

/// Whether one of the descriptors has something, at the latest after that time. By epoll, which Miri has: it has no
/// ppoll(2).
fn is_any_ready<'d>(descriptors: impl IntoIterator<Item = (BorrowedFd<'d>, EventFlags)>, limit: Duration) -> bool {
    let set = epoll::create(CreateFlags::CLOEXEC).expect("a descriptor is free");
    let nothing = EventData::new_u64(0);
    for (descriptor, wanted) in descriptors {
        if epoll::add(&set, descriptor, nothing, wanted).is_err() {
            // Two operations on one descriptor are one for either direction.
            epoll::modify(&set, descriptor, nothing, EventFlags::IN | EventFlags::OUT).expect("it is in the set");
        }
    }
    let limit = Timespec { tv_sec: 0, tv_nsec: limit.as_nanos() as _ };
    let mut ready = [epoll::Event { flags: EventFlags::empty(), data: nothing }];
    epoll::wait(&set, &mut ready[..], Some(&limit)).is_ok_and(|count| count > 0)
}

impl Queue for FakeQueue {
    fn begin(&mut self, owner: Rc<dyn Owner>, operation: Operation) -> OperationId {
        self.last += 1;
        let operation = match operation {
            Operation::Receive { .. } => FakeOperation::Receive,
            Operation::Send(buf) => {
                let before = sum(&buf);
                FakeOperation::Send(buf, before)
            }
            Operation::Connect(address) => FakeOperation::Connect { address, is_begun: false },
            Operation::Accept => FakeOperation::Accept,
            Operation::AwaitRoom => FakeOperation::AwaitRoom,
            Operation::AwaitSignal => FakeOperation::AwaitSignal,
        };
        let id = OperationId(self.last);
        self.under_way.push(UnderWay { id, owner, operation, is_cancelled: false });
        id
    }

    fn cancel(&mut self, id: OperationId) {
        // One that has ended is none any more, as in the kernel.
        if let Some(entry) = self.under_way.iter_mut().find(|entry| entry.id == id) {
            entry.is_cancelled = true;
        }
    }

    fn has_work(&self) -> bool {
        true
    }

    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        let until = match wait {
            Wait::Not => None,
            Wait::AtMost(limit) => Some(Instant::now() + limit),
            Wait::UntilOne => Some(Instant::now() + Duration::from_secs(3600)),
        };
        loop {
            self.try_some();
            let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            if !self.done.is_empty() || left.is_zero() {
                return Ok(());
            }
            self.wait(left);
        }
    }

    fn next_completion(&mut self) -> Option<(Rc<dyn Owner>, Completed)> {
        self.done.pop_front()
    }

    fn close(&mut self) {
        self.under_way.clear();
        self.done.clear();
    }
}
