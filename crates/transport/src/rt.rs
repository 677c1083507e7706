//! The worker's runtime behind our own names: run, spawn, sleep, wait for a signal. With epoll tokio's single-threaded
//! runtime does the work, with a ring our own executor; nothing above this crate names either.

use crate::beside::Beside;
use crate::deadline;
use crate::ring;
use crate::ring::executor;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Names that are looked up and folders that are read at the same time, for one worker.
pub const BESIDE_THREADS_MAX: usize = crate::beside::THREADS_MAX;

/// A driver of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    Epoll,
    IoUring,
}

impl Driver {
    pub fn name(self) -> &'static str {
        match self {
            Driver::Epoll => "epoll",
            Driver::IoUring => "io-uring",
        }
    }
}

/// Runs a worker on this thread until `main` returns. Its sockets' deadlines are worked off meanwhile.
pub fn run<T>(driver: Driver, main: impl Future<Output = T>) -> io::Result<T> {
    match driver {
        Driver::Epoll => run_on_epoll(main),
        Driver::IoUring => ring::run(main),
    }
}

/// The driver of this worker.
#[inline]
pub fn driver() -> Driver {
    if executor::is_here() { Driver::IoUring } else { Driver::Epoll }
}

fn run_on_epoll<T>(main: impl Future<Output = T>) -> io::Result<T> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(tokio::runtime::LocalOptions::default())?;
    Ok(runtime.block_on(async {
        spawn(async {
            loop {
                tokio::time::sleep(deadline::TICK).await;
                deadline::advance(Instant::now());
            }
        });
        main.await
    }))
}

/// Starts a task on this worker. A panic ends that task only.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    match driver() {
        Driver::Epoll => drop(tokio::task::spawn_local(task)),
        Driver::IoUring => executor::spawn(task),
    }
}

/// As [`spawn`], for a task that somebody may have to cut.
pub fn spawn_abortable(task: impl Future<Output = ()> + 'static) -> Task {
    match driver() {
        Driver::Epoll => Task(AbortHandle::Epoll(tokio::task::spawn_local(task).abort_handle())),
        Driver::IoUring => Task(AbortHandle::Ring(executor::spawn_abortable(task))),
    }
}

/// A task of this worker. Dropping this does not end it.
#[derive(Debug)]
pub struct Task(AbortHandle);

#[derive(Debug)]
enum AbortHandle {
    Epoll(tokio::task::AbortHandle),
    Ring(executor::RingTask),
}

impl Task {
    /// Drops the task where it stands.
    pub fn abort(&self) {
        match &self.0 {
            AbortHandle::Epoll(task) => task.abort(),
            AbortHandle::Ring(task) => task.abort(),
        }
    }
}

#[inline]
pub fn now() -> Instant {
    Instant::now()
}

/// What this thread has used of a core since it began.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The priority (`nice`) of work beside the workers, a tenth of a worker's weight: on a machine that is busy with requests
/// a change takes ten times as long, and still comes to its end.
pub const LOW_PRIORITY: i32 = 10;

/// Has the kernel take this thread off a core as soon as a worker has something to do. For threads beside the workers:
/// nobody without privileges gets the priority back. One that is as low already, since the whole process is
/// (`nice -n 15`), stays where it is: a privileged process would be raised.
pub fn lower_priority_of_thread() {
    // What cannot be asked is taken for the ordinary priority. Without the change the work is done all the same.
    if rustix::process::getpriority_process(None).unwrap_or(0) < LOW_PRIORITY {
        let _ = rustix::process::setpriority_process(None, LOW_PRIORITY);
    }
}

pub async fn sleep(duration: Duration) {
    match driver() {
        Driver::Epoll => tokio::time::sleep(duration).await,
        Driver::IoUring => executor::sleep(duration).await,
    }
}

thread_local! {
    static BESIDE: Beside = Beside::default();
}

/// Does what may block in a thread beside the workers, of which each worker has [`BESIDE_THREADS_MAX`]; beyond them it
/// waits for one. What it began is done to its end, also when nobody waits for it any more. A panic there is one here.
///
/// Errors: the system gives no thread.
pub async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    match BESIDE.with(|beside| beside.begin(work))?.await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        // Only a thread that was ended from outside says nothing of what it did.
        Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Asks the system for the addresses of a name, in a thread beside. That may take as long as the system's resolver
/// likes. An address is its own, without asking.
pub async fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let host = host.to_owned();
    let mut addresses: Vec<_> = beside(move || (host.as_str(), port).to_socket_addrs()).await??.collect();
    addresses.dedup();
    Ok(addresses)
}

/// Lets the other tasks of this worker run.
pub async fn yield_now() {
    match driver() {
        Driver::Epoll => tokio::task::yield_now().await,
        Driver::IoUring => {
            let mut has_yielded = false;
            poll_fn(|cx| {
                if std::mem::replace(&mut has_yielded, true) {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
    }
}

/// The future's output, or `None` when it takes longer.
pub async fn timeout<T>(duration: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    // The future first, so that what is ready costs no timer.
    if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        return Some(output);
    }
    let mut limit = pin!(sleep(duration));
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        limit.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// Set once, seen by every task of this worker that waits for it.
#[derive(Clone, Default)]
pub struct Signal {
    state: Rc<SignalState>,
}

#[derive(Default)]
struct SignalState {
    set: Cell<bool>,
    waiting: RefCell<Vec<Weak<WaiterState>>>,
}

/// One task's place at a [`Signal`].
pub struct Waiter {
    signal: Rc<SignalState>,
    state: Rc<WaiterState>,
}

#[derive(Default)]
struct WaiterState {
    waker: RefCell<Option<Waker>>,
}

impl Signal {
    pub fn is_set(&self) -> bool {
        self.state.set.get()
    }

    pub fn set(&self) {
        self.state.set.set(true);
        for waiter in self.state.waiting.take().iter().filter_map(Weak::upgrade) {
            if let Some(waker) = waiter.waker.take() {
                waker.wake();
            }
        }
    }

    pub fn waiter(&self) -> Waiter {
        let state = Rc::new(WaiterState::default());
        let mut waiting = self.state.waiting.borrow_mut();
        // Places of tasks that ended go when the list would have to grow, so it stays within twice the live ones.
        if waiting.len() == waiting.capacity() {
            waiting.retain(|waiter| waiter.strong_count() > 0);
        }
        waiting.push(Rc::downgrade(&state));
        Waiter { signal: self.state.clone(), state }
    }
}

impl Waiter {
    /// Ready once the signal is set.
    pub fn poll_set(&self, cx: &Context<'_>) -> Poll<()> {
        if self.signal.set.get() {
            return Poll::Ready(());
        }
        let mut waker = self.state.waker.borrow_mut();
        match &mut *waker {
            Some(known) => known.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

/// A bounded way for other threads to send a worker something.
pub fn mailbox<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = tokio::sync::mpsc::channel(capacity);
    (Sender(sender), Receiver(receiver))
}

pub struct Sender<T>(tokio::sync::mpsc::Sender<T>);

impl<T> Sender<T> {
    /// Gives the message back when the mailbox is full or its worker has ended.
    pub fn try_send(&self, message: T) -> Result<(), T> {
        self.0.try_send(message).map_err(|error| match error {
            tokio::sync::mpsc::error::TrySendError::Full(message) | tokio::sync::mpsc::error::TrySendError::Closed(message) => {
                message
            }
        })
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender(self.0.clone())
    }
}

pub struct Receiver<T>(tokio::sync::mpsc::Receiver<T>);

impl<T> Receiver<T> {
    /// `None` once every sender is gone.
    pub async fn recv(&mut self) -> Option<T> {
        self.0.recv().await
    }
}
