//! Who is to be polled next. A waker of the worker's own thread puts its task in a queue; one of another thread puts it
//! in a list and writes to an eventfd, which the ring waits for like for any socket.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

/// A task of one executor, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub key: u32,
    pub generation: u32,
}

/// What the executor was given to run until it ends.
pub(crate) const MAIN: TaskId = TaskId { key: u32::MAX, generation: 0 };

/// No executor has this number.
const NOWHERE: u64 = 0;

thread_local! {
    /// The number of the executor that runs on this thread.
    static HERE: Cell<u64> = const { Cell::new(NOWHERE) };
    static READY: RefCell<VecDeque<TaskId>> = const { RefCell::new(VecDeque::new()) };
}

/// How many tasks are ready.
#[inline]
pub(crate) fn ready_count() -> usize {
    READY.with_borrow(VecDeque::len)
}

#[inline]
pub(crate) fn next_ready() -> Option<TaskId> {
    READY.with_borrow_mut(VecDeque::pop_front)
}

pub(crate) fn make_ready(id: TaskId) {
    // While a thread ends its locals may be gone already, and its tasks with them.
    let _ = READY.try_with(|ready| ready.borrow_mut().push_back(id));
}

/// What other threads reach of an executor.
pub(crate) struct Remote {
    number: u64,
    woken: Mutex<Vec<TaskId>>,
    signal: OwnedFd,
    /// The eventfd was written to since it was last read.
    is_signalled: AtomicBool,
}

impl Remote {
    pub fn new() -> io::Result<Arc<Remote>> {
        static LAST: AtomicU64 = AtomicU64::new(NOWHERE);
        Ok(Arc::new(Remote {
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            woken: Mutex::default(),
            signal: eventfd(0, EventfdFlags::CLOEXEC)?,
            is_signalled: AtomicBool::new(false),
        }))
    }

    /// From here on this thread's wakers of the executor need no signal.
    pub fn enter_thread(&self) {
        HERE.set(self.number);
        READY.with_borrow_mut(VecDeque::clear);
    }

    pub fn leave_thread() {
        HERE.set(NOWHERE);
        READY.with_borrow_mut(VecDeque::clear);
    }

    pub fn signal(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// After a signal was read: makes ready what other threads have woken.
    pub fn take_woken(&self) {
        self.is_signalled.store(false, Ordering::SeqCst);
        let woken = std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
        woken.into_iter().for_each(make_ready);
    }

    fn wake(&self, id: TaskId) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        if !self.is_signalled.swap(true, Ordering::SeqCst) {
            // The count is far from the bound at which this would wait.
            let _ = rustix::io::write(&self.signal, &1_u64.to_ne_bytes());
        }
    }
}

/// Wakes one task, from any thread.
pub(crate) struct TaskWaker {
    remote: Arc<Remote>,
    id: TaskId,
    /// The task waits for its turn already.
    is_queued: AtomicBool,
}

impl TaskWaker {
    pub fn new(remote: &Arc<Remote>, id: TaskId) -> Arc<TaskWaker> {
        Arc::new(TaskWaker { remote: remote.clone(), id, is_queued: AtomicBool::new(false) })
    }

    /// What wakes the task from here on has it polled once more.
    #[inline]
    pub fn begin_poll(&self) {
        // A swap and no store: the poll must see what somebody wrote before it found the task queued.
        self.is_queued.swap(false, Ordering::AcqRel);
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let is_here = HERE.try_with(Cell::get) == Ok(self.remote.number);
        if is_here {
            // Only this thread polls the task, so what it wrote before is seen without a barrier.
            if !self.is_queued.load(Ordering::Relaxed) {
                self.is_queued.store(true, Ordering::Relaxed);
                make_ready(self.id);
            }
        } else if !self.is_queued.swap(true, Ordering::AcqRel) {
            self.remote.wake(self.id);
        }
    }
}
