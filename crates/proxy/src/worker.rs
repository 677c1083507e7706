//! One thread of the data plane: its listeners, its connections, its pools and its counters. Workers share nothing that is written per
//! request; the control plane sends them commands through a mailbox.

use crate::connection;
use crate::date::DateClock;
use crate::pool::WorkerPool;
use crate::snapshot::Snapshot;
use crate::survivors::{ProcessSurvivors, WorkerSurvivors};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tidegate_middleware::{RequestId, Scratch};
use tidegate_telemetry::{AccessLogSender, EventGate, SiteMetrics, WorkerMetrics};
use tidegate_transport::rt::{self, Signal};
use tidegate_transport::{Sock, TokioListener, TokioSock, deadline};

/// How often idle upstream connections are looked through.
const SWEEP_PERIOD: Duration = Duration::from_millis(100);
/// A pause after an accept that failed for want of descriptors or memory: trying again at once would only burn the core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often a draining worker looks whether its last connection has ended.
const DRAIN_POLL: Duration = Duration::from_millis(10);
/// Events of one kind that a worker logs per second.
const EVENTS_PER_SECOND: u32 = 5;

/// What the control plane asks of a worker.
pub enum Command {
    /// Take no new connections, end the idle ones, and finish when the last has ended.
    Drain,
    /// Finish now; what is on its way is cut.
    Abort,
}

/// What a worker starts with.
pub struct WorkerParts {
    pub index: usize,
    pub snapshot: Arc<Snapshot>,
    /// One listening socket per listener of the snapshot, in its order; `None` where an implied one could not be bound.
    pub listeners: Vec<Option<std::net::TcpListener>>,
    pub survivors: Arc<ProcessSurvivors>,
    pub access_log: Option<AccessLogSender>,
    pub commands: rt::Receiver<Command>,
    /// Told once the worker accepts connections.
    pub started: std::sync::mpsc::Sender<()>,
}

/// One worker's state, shared by its tasks.
pub struct Worker<S: Sock> {
    pub index: usize,
    pub process: Arc<ProcessSurvivors>,
    pub metrics: Arc<WorkerMetrics>,
    snapshot: RefCell<Rc<WorkerSnapshot<S>>>,
    pub access_log: RefCell<Option<AccessLogSender>>,
    pub date: DateClock,
    pub scratch: RefCell<Scratch>,
    pub draining: Signal,
    pub gates: EventGates,
    connections: Cell<usize>,
    random: Cell<u64>,
    request_id_base: u128,
    requests: Cell<u64>,
}

/// Keeps floods of the same event out of the log.
pub struct EventGates {
    pub refused: EventGate,
    pub upstream: EventGate,
    pub accept: EventGate,
}

/// A snapshot as one worker sees it: the shared tables, and its own pools and counters beside them.
pub struct WorkerSnapshot<S: Sock> {
    pub shared: Arc<Snapshot>,
    pub pools: Vec<Rc<WorkerPool<S>>>,
    pub sites: Vec<Arc<SiteMetrics>>,
}

/// Runs a worker on this thread until it was told to drain and has ended its last connection.
pub fn run(parts: WorkerParts) -> io::Result<()> {
    rt::run(async move { serve(parts).await })?
}

async fn serve(parts: WorkerParts) -> io::Result<()> {
    let WorkerParts { index, snapshot, listeners, survivors, access_log, mut commands, started } = parts;
    let worker: Rc<Worker<TokioSock>> = Rc::new(Worker::new(index, snapshot.clone(), survivors, access_log));
    let accepting: Rc<Cell<usize>> = Rc::default();
    for (listener, spec) in listeners.into_iter().zip(&snapshot.listeners) {
        if let Some(listener) = listener {
            let listener = TokioListener::adopt(listener)?;
            accepting.set(accepting.get() + 1);
            let (worker, accepting, address) = (worker.clone(), accepting.clone(), spec.address);
            rt::spawn(async move {
                accept(worker, listener, address).await;
                accepting.set(accepting.get() - 1);
            });
        }
    }
    rt::spawn(sweep(worker.clone()));
    // Nobody listens any more when the control plane has given up; then the commands end as well.
    let _ = started.send(());
    match commands.recv().await {
        Some(Command::Drain) => worker.drain(),
        Some(Command::Abort) | None => return Ok(()),
    }
    while accepting.get() > 0 || worker.connections.get() > 0 {
        match rt::timeout(DRAIN_POLL, commands.recv()).await {
            Some(Some(Command::Drain)) => {}
            Some(Some(Command::Abort) | None) => return Ok(()),
            None => {}
        }
    }
    Ok(())
}

async fn accept(worker: Rc<Worker<TokioSock>>, listener: TokioListener, address: SocketAddr) {
    let draining = worker.draining.waiter();
    loop {
        let accepted = poll_fn(|cx| match listener.poll_accept(cx) {
            Poll::Ready(accepted) => Poll::Ready(Some(accepted)),
            // Only an empty queue ends it: closing the socket would reset the connections that wait there.
            Poll::Pending => draining.poll_set(cx).map(|()| None),
        });
        match accepted.await {
            None => return,
            Some(Ok((sock, client))) => connection::spawn(&worker, sock, client, address),
            Some(Err(error)) => {
                if let Some(suppressed) = worker.gates.accept.allow(Instant::now()) {
                    tracing::error!(%address, %error, suppressed, "a connection could not be accepted");
                }
                rt::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn sweep(worker: Rc<Worker<TokioSock>>) {
    loop {
        rt::sleep(SWEEP_PERIOD).await;
        let now = rt::now();
        for pool in &worker.snapshot().pools {
            pool.sweep(now, &worker.metrics);
        }
    }
}

impl<S: Sock> Worker<S> {
    fn new(
        index: usize,
        snapshot: Arc<Snapshot>,
        process: Arc<ProcessSurvivors>,
        access_log: Option<AccessLogSender>,
    ) -> Worker<S> {
        let mut survivors = WorkerSurvivors::default();
        let pools = survivors.pools_for(&snapshot, index, &process.registry);
        let sites = snapshot.sites.iter().map(|site| process.registry.site(index, &site.name)).collect();
        let seed = random_seed();
        Worker {
            index,
            metrics: process.registry.worker(index),
            process,
            snapshot: RefCell::new(Rc::new(WorkerSnapshot { shared: snapshot, pools, sites })),
            access_log: RefCell::new(access_log),
            date: DateClock::default(),
            scratch: RefCell::default(),
            draining: Signal::default(),
            gates: EventGates {
                refused: EventGate::new(EVENTS_PER_SECOND),
                upstream: EventGate::new(EVENTS_PER_SECOND),
                accept: EventGate::new(EVENTS_PER_SECOND),
            },
            connections: Cell::new(0),
            random: Cell::new(seed | 1),
            request_id_base: (u128::from(random_seed()) << 64) | u128::from(random_seed()),
            requests: Cell::new(0),
        }
    }

    #[inline]
    pub fn snapshot(&self) -> Rc<WorkerSnapshot<S>> {
        self.snapshot.borrow().clone()
    }

    /// Uniform bits, not for secrets (xorshift64*).
    #[inline]
    pub fn random(&self) -> u64 {
        let mut state = self.random.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.set(state);
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Unique over workers and restarts: a random base, counted on.
    #[inline]
    pub fn next_request_id(&self) -> RequestId {
        let count = self.requests.get() + 1;
        self.requests.set(count);
        RequestId(self.request_id_base.wrapping_add(u128::from(count)))
    }

    pub fn connection_opened(&self) {
        self.connections.set(self.connections.get() + 1);
    }

    pub fn connection_ended(&self) {
        self.connections.set(self.connections.get() - 1);
    }

    fn drain(&self) {
        self.draining.set();
        deadline::fire_between_requests();
    }
}

/// From the operating system, by way of the standard library's hasher keys.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
