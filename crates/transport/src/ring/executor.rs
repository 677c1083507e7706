//! Runs the tasks of a worker on a ring: polls those that are ready, hands the ring what they began, and waits in
//! `io_uring_enter` and nowhere else.

use super::queue::{Completed, Operation, Owner, Queue, Returned, Wait};
use super::timers::{TimerId, Timers};
use super::unread;
use super::wake::{MAIN, Remote, TaskId, TaskWaker, next_ready, ready_count};
use crate::deadline;
use rustix::fd::BorrowedFd;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Rounds of polling what polling made ready, before the ring is asked: what they begin goes out by one call.
const ROUNDS_MAX: usize = 8;

thread_local! {
    static EXECUTOR: RefCell<Option<Rc<Executor>>> = const { RefCell::new(None) };
}

pub(crate) struct Executor {
    tasks: RefCell<Slab<Spawned>>,
    generation: Cell<u32>,
    queue: RefCell<Box<dyn Queue>>,
    timers: RefCell<Timers>,
    remote: Arc<Remote>,
    is_ending: Cell<bool>,
}

type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Spawned {
    id: TaskId,
    waker: Arc<TaskWaker>,
    /// With the waker it is polled by; `None` meanwhile.
    future: Option<(TaskFuture, Waker)>,
    is_aborted: bool,
}

/// Whether this thread is a worker on a ring.
#[inline]
pub(crate) fn is_here() -> bool {
    EXECUTOR.with_borrow(Option::is_some)
}

/// The executor of this thread.
///
/// Panics where there is none, which a call on another thread than a worker's would be.
fn here() -> Rc<Executor> {
    EXECUTOR.with_borrow(Clone::clone).expect("only called on a worker")
}

/// Runs a worker on this thread until `main` returns.
pub(crate) fn run<T>(queue: Box<dyn Queue>, main: impl Future<Output = T>) -> io::Result<T> {
    let executor = Rc::new(Executor {
        tasks: RefCell::default(),
        generation: Cell::new(0),
        queue: RefCell::new(queue),
        timers: RefCell::default(),
        remote: Remote::new()?,
        is_ending: Cell::new(false),
    });
    let running = Running::begin(executor.clone());
    executor.listen_for_signals();
    spawn(async {
        loop {
            sleep(deadline::TICK).await;
            deadline::advance(Instant::now());
            unread::advance();
        }
    });
    let output = executor.run_until(pin!(main));
    drop(running);
    output
}

/// While this lives the thread is the executor's.
struct Running(Rc<Executor>);

impl Running {
    fn begin(executor: Rc<Executor>) -> Running {
        executor.remote.enter_thread();
        EXECUTOR.set(Some(executor.clone()));
        Running(executor)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Tasks may end operations, and wake and spawn others, while they are dropped.
        self.0.is_ending.set(true);
        let first = || self.0.tasks.borrow().iter().next().map(|(key, _)| key);
        while let Some(key) = first() {
            let task = self.0.tasks.borrow_mut().remove(key);
            drop(task);
        }
        self.0.queue.borrow_mut().close();
        EXECUTOR.set(None);
        unread::clear();
        Remote::leave_thread();
    }
}

impl Executor {
    fn run_until<T>(&self, mut main: Pin<&mut impl Future<Output = T>>) -> io::Result<T> {
        let main_task = TaskWaker::new(&self.remote, MAIN);
        let main_waker = Waker::from(main_task.clone());
        main_waker.wake_by_ref();
        loop {
            for _ in 0..ROUNDS_MAX {
                let count = ready_count();
                if count == 0 {
                    break;
                }
                // What becomes ready meanwhile has its turn in the next round.
                for id in std::iter::from_fn(next_ready).take(count) {
                    if id != MAIN {
                        self.poll_task(id);
                        continue;
                    }
                    main_task.begin_poll();
                    if let Poll::Ready(output) = main.as_mut().poll(&mut Context::from_waker(&main_waker)) {
                        return Ok(output);
                    }
                }
            }
            self.turn()?;
        }
    }

    fn poll_task(&self, id: TaskId) {
        let taken = self.tasks.borrow_mut().get_mut(id.key as usize).filter(|task| task.id == id).map(|task| {
            task.waker.begin_poll();
            (task.future.take(), task.is_aborted)
        });
        let Some((Some((mut future, waker)), is_aborted)) = taken else { return };
        let has_ended = is_aborted || {
            let poll = AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
            // A panic ends this task only; the hook has reported it.
            catch_unwind(poll).map_or(true, |polled| polled.is_ready())
        };
        if has_ended {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
            self.tasks.borrow_mut().remove(id.key as usize);
        } else if let Some(task) = self.tasks.borrow_mut().get_mut(id.key as usize) {
            task.future = Some((future, waker));
        }
    }

    /// Hands the ring what was begun, waits where nothing is ready, and tells the owners of what has come.
    fn turn(&self) -> io::Result<()> {
        let wait = match self.timers.borrow().first() {
            _ if ready_count() > 0 => Wait::Not,
            None => Wait::UntilOne,
            Some(at) => Wait::AtMost(at.saturating_duration_since(Instant::now())),
        };
        let mut queue = self.queue.borrow_mut();
        if wait != Wait::Not || queue.has_work() {
            queue.enter(wait)?;
        }
        while let Some((owner, completion)) = queue.next_completion() {
            owner.complete(&owner, completion, &mut **queue);
        }
        drop(queue);
        self.fire_timers(Instant::now());
        Ok(())
    }

    fn fire_timers(&self, now: Instant) {
        while let Some(waker) = self.timers.borrow_mut().pop(now) {
            waker.wake();
        }
    }

    fn listen_for_signals(&self) {
        let owner: Rc<dyn Owner> = Rc::new(Signals(self.remote.clone()));
        self.queue.borrow_mut().begin(owner, Operation::AwaitSignal);
    }

    fn spawn(&self, future: TaskFuture) -> Option<TaskId> {
        if self.is_ending.get() {
            return None;
        }
        let mut tasks = self.tasks.borrow_mut();
        let place = tasks.vacant_entry();
        self.generation.set(self.generation.get().wrapping_add(1));
        let id = TaskId { key: place.key() as u32, generation: self.generation.get() };
        let waker = TaskWaker::new(&self.remote, id);
        waker.wake_by_ref();
        let future = Some((future, Waker::from(waker.clone())));
        place.insert(Spawned { id, waker, future, is_aborted: false });
        Some(id)
    }
}

/// Other threads wake tasks of this worker.
struct Signals(Arc<Remote>);

impl Owner for Signals {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.signal()
    }

    fn complete(&self, this: &Rc<dyn Owner>, completion: Completed, queue: &mut dyn Queue) {
        match completion.returned {
            Returned::Signalled => {
                queue.begin(this.clone(), Operation::AwaitSignal);
                self.0.take_woken();
            }
            // Cannot be: this owner begins nothing else.
            Returned::Received(_)
            | Returned::Sent(..)
            | Returned::Connected(_)
            | Returned::Accepted(_)
            | Returned::HasRoom(_) => {}
        }
    }
}

/// Starts a task on this worker. A panic ends that task only.
pub(crate) fn spawn(task: impl Future<Output = ()> + 'static) {
    here().spawn(Box::pin(task));
}

/// As [`spawn`], for a task that somebody may have to cut.
pub(crate) fn spawn_abortable(task: impl Future<Output = ()> + 'static) -> RingTask {
    RingTask { id: here().spawn(Box::pin(task)) }
}

/// A task of this worker that can be cut.
#[derive(Debug)]
pub(crate) struct RingTask {
    id: Option<TaskId>,
}

impl RingTask {
    /// Drops the task where it stands, in its next turn.
    pub fn abort(&self) {
        let executor = EXECUTOR.with_borrow(Clone::clone);
        if let (Some(executor), Some(id)) = (executor, self.id)
            && let Some(task) = executor.tasks.borrow_mut().get_mut(id.key as usize).filter(|task| task.id == id)
        {
            task.is_aborted = true;
            task.waker.wake_by_ref();
        }
    }
}

/// Has the ring do something, also while a worker ends; `None` where there is none any more.
pub(crate) fn with_queue<T>(act: impl FnOnce(&mut dyn Queue) -> T) -> Option<T> {
    let executor = EXECUTOR.try_with(|executor| executor.borrow().clone()).ok().flatten()?;
    let done = act(&mut **executor.queue.borrow_mut());
    Some(done)
}

/// Ready once a moment has come.
pub(crate) fn sleep(duration: Duration) -> Sleep {
    // A wait of centuries is one that never ends in the life of a process.
    const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    Sleep { at: Instant::now() + duration.min(LONGEST), timer: None }
}

pub(crate) struct Sleep {
    at: Instant,
    timer: Option<TimerId>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let executor = here();
        let mut timers = executor.timers.borrow_mut();
        match self.timer {
            None => self.timer = Some(timers.add(self.at, cx.waker().clone())),
            Some(id) if timers.move_to(id, cx.waker()) => {}
            Some(_) => return Poll::Ready(()),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let executor = EXECUTOR.try_with(|executor| executor.borrow().clone()).ok().flatten();
        if let (Some(executor), Some(id)) = (executor, self.timer) {
            let waker = executor.timers.borrow_mut().remove(id);
            drop(waker);
        }
    }
}
