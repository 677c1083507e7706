//! One thread of the data plane: its listeners, its connections, its pools and its counters. Workers share nothing that
//! is written per request; the control plane sends them commands through a mailbox. How a listening address is left is
//! in `listening`.

use crate::busy::BusyMeter;
use crate::command::{Change, Command, NewSocket, OldSocket, SocketId};
use crate::connection;
use crate::date::DateClock;
use crate::fastcgi::FastCgiServers;
use crate::listening::ListenerState;
use crate::process_state::ProcessState;
use crate::recent::RecentRequests;
use crate::snapshot::{CompiledSite, Snapshot};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashSet;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tidegate_middleware::{RequestId, Scratch};
use tidegate_telemetry::{AccessLogSender, EventGate, SiteMetrics, WorkerMetrics};
use tidegate_transport::rt::{self, Signal};
use tidegate_transport::{Sock, TokioListener, TokioSock};
use tidegate_upstream::connect::warm;
use tidegate_upstream::pool::{Of, WorkerPool};

/// How often idle upstream connections are looked through.
const SWEEP_PERIOD: Duration = Duration::from_millis(100);
/// A pause after an accept that failed for want of descriptors or memory: trying again at once would only burn the
/// core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections that are taken from a queue that is being emptied before others get their turn.
const ACCEPT_TURN: usize = 64;
/// Errors after which a queue is given up that cannot be emptied.
const ACCEPT_ERRORS_MAX: usize = 100;
/// How often a draining worker looks whether its last connection has ended.
const DRAIN_POLL: Duration = Duration::from_millis(10);
/// Events of one kind that a worker logs per second.
const EVENTS_PER_SECOND: u32 = 5;

/// What a worker starts with.
pub struct WorkerParts {
    pub index: usize,
    pub snapshot: Arc<Snapshot>,
    pub sockets: Vec<NewSocket>,
    pub state: Arc<ProcessState>,
    pub access_log: Option<AccessLogSender>,
    pub commands: rt::Receiver<Command>,
    /// Told once the worker accepts connections.
    pub started: std::sync::mpsc::Sender<()>,
}

/// One worker's state, shared by its tasks.
pub struct Worker<S: Sock> {
    pub index: usize,
    pub process: Arc<ProcessState>,
    pub metrics: Arc<WorkerMetrics>,
    snapshot: RefCell<Rc<WorkerSnapshot<S>>>,
    /// Generations that may have requests on their way, the newest last.
    marks: RefCell<Vec<Mark<S>>>,
    listening: RefCell<Vec<Rc<Listening<S>>>>,
    /// Listeners that are being drained, as long as they have connections.
    leaving: RefCell<Vec<Rc<ListenerState<S>>>>,
    pub access_log: RefCell<Option<AccessLogSender>>,
    pub date: DateClock,
    pub busy: BusyMeter,
    pub(crate) fastcgi: FastCgiServers<S>,
    pub scratch: RefCell<Scratch>,
    pub recent: RecentRequests<S>,
    pub gates: EventGates,
    /// Requests that the cache makes for itself.
    pub background_fetches: Cell<usize>,
    connections: Cell<usize>,
    /// Requests that are being copied, and copies on their way.
    pub copies: Cell<usize>,
    connections_opened: Cell<u64>,
    accepting: Cell<usize>,
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

/// A snapshot as one worker sees it: the shared tables, and beside them its own counters and pools, made when they are
/// first needed.
pub struct WorkerSnapshot<S: Sock> {
    pub shared: Arc<Snapshot>,
    pub mark: Rc<GenerationMark>,
    sites: Box<[OnceCell<Rc<WorkerSite>>]>,
    pools: Box<[OnceCell<Rc<WorkerPool<S>>>]>,
    pools_in_use: RefCell<Vec<(usize, Rc<WorkerPool<S>>)>>,
}

/// What an exchange keeps of its site while others get a new configuration.
pub struct WorkerSite {
    pub compiled: Arc<CompiledSite>,
    pub metrics: Arc<SiteMetrics>,
}

/// Held by every request on its way, so that its count says who still lives by an old configuration.
#[derive(Debug)]
pub struct GenerationMark {
    pub generation: u64,
}

/// A generation's mark, and the snapshot that holds it beside the requests, if it is still there.
type Mark<S> = (Rc<GenerationMark>, Weak<WorkerSnapshot<S>>);

/// One listening address and the sockets that it is accepted from: one, and those that other workers or processes have
/// left behind.
struct Listening<S: Sock> {
    address: SocketAddr,
    state: RefCell<Rc<ListenerState<S>>>,
    sockets: RefCell<Vec<(SocketId, Rc<Accepting>)>>,
}

#[derive(Default)]
struct Accepting {
    stop: Signal,
    /// Somebody else accepts from the socket: what waits in its queue is theirs.
    is_handed_on: Cell<bool>,
}

impl<S: Sock> Listening<S> {
    /// What a new connection belongs to.
    fn current(&self) -> Rc<ListenerState<S>> {
        self.state.borrow().clone()
    }
}

/// Runs a worker on this thread until it was told to drain and has ended its last connection.
pub fn run(parts: WorkerParts) -> io::Result<()> {
    rt::run(async move { serve(parts).await })?
}

async fn serve(parts: WorkerParts) -> io::Result<()> {
    let WorkerParts { index, snapshot, sockets, state, access_log, mut commands, started } = parts;
    let worker: Rc<Worker<TokioSock>> = Rc::new(Worker::new(index, snapshot, state, access_log));
    worker.listen();
    worker.accept_from(sockets)?;
    worker.make_warm_pools();
    rt::spawn(sweep(worker.clone()));
    // Nobody listens any more when the control plane has given up; then the commands end as well.
    let _ = started.send(());
    let mut is_draining = false;
    loop {
        let wait = if is_draining { rt::timeout(DRAIN_POLL, commands.recv()).await } else { Some(commands.recv().await) };
        match wait {
            None => {}
            Some(Some(Command::Change(change))) => worker.change(*change),
            Some(Some(Command::Look(look))) => look(&worker),
            Some(Some(Command::Drain { sockets, limit })) => {
                is_draining = true;
                worker.drain(&sockets, limit);
            }
            Some(Some(Command::Abort) | None) => return Ok(()),
        }
        if is_draining && worker.accepting.get() == 0 && worker.connections.get() == 0 && worker.copies.get() == 0 {
            return Ok(());
        }
    }
}

async fn accept(worker: Rc<Worker<TokioSock>>, listening: Rc<Listening<TokioSock>>, listener: TokioListener, how: Rc<Accepting>) {
    let stop = how.stop.waiter();
    loop {
        let accepted = poll_fn(|cx| {
            // First: a socket that somebody else accepts from is left at once.
            if stop.poll_set(cx).is_ready() {
                return Poll::Ready(None);
            }
            listener.poll_accept(cx).map(Some)
        });
        match accepted.await {
            None => break,
            Some(Ok((sock, client))) => connection::spawn(&worker, sock, client, listening.current()),
            Some(Err(error)) => {
                worker.note_accept_error(listening.address, &error);
                rt::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    if !how.is_handed_on.get() {
        empty_queue(&worker, &listening, &listener).await;
    }
}

/// Accepts what waits: closing the socket would reset it.
async fn empty_queue(worker: &Rc<Worker<TokioSock>>, listening: &Listening<TokioSock>, listener: &TokioListener) {
    let mut turn = 0;
    let mut errors = 0;
    loop {
        match listener.accept_now() {
            Ok(None) => return,
            Ok(Some((sock, client))) => connection::spawn(worker, sock, client, listening.current()),
            // One that was reset while it waited, or no descriptor for the moment: requests that end give some back.
            Err(error) => {
                errors += 1;
                if errors > ACCEPT_ERRORS_MAX {
                    return worker.note_accept_error(listening.address, &error);
                }
                rt::sleep(ACCEPT_PAUSE).await;
            }
        }
        turn += 1;
        if turn % ACCEPT_TURN == 0 {
            rt::yield_now().await;
        }
    }
}

async fn sweep(worker: Rc<Worker<TokioSock>>) {
    loop {
        rt::sleep(SWEEP_PERIOD).await;
        let now = rt::now();
        worker.fastcgi.sweep(now);
        let snapshot = worker.snapshot();
        for (_, pool) in snapshot.pools_in_use.borrow().iter() {
            pool.sweep(now, &worker.metrics);
            // A worker that accepts nothing any more needs nothing in advance.
            if worker.accepting.get() > 0 {
                let head_bytes_max = snapshot.shared.head_limits().head_bytes_max;
                warm::fill(pool, now, head_bytes_max, &mut || worker.random());
            }
        }
    }
}

impl Worker<TokioSock> {
    /// Takes on what a change brings. Nothing in it can fail: what can was tried before it was sent.
    fn change(self: &Rc<Self>, change: Change) {
        let Change { snapshot, sockets, old_sockets, access_log, done } = change;
        if let (Some(settings), Some(sender)) = (&access_log, &mut *self.access_log.borrow_mut()) {
            sender.apply(settings);
        }
        if let Some(snapshot) = snapshot {
            self.publish(snapshot);
        }
        self.stop_accepting(&old_sockets);
        self.listen();
        if let Err(error) = self.accept_from(sockets) {
            tracing::error!(%error, "a worker cannot accept from a socket");
        }
        let _ = done.send(self.index);
    }

    /// Begins to accept; the listener is one of the snapshot's.
    ///
    /// Fails with the last error when some cannot be; the others are.
    fn accept_from(self: &Rc<Self>, sockets: Vec<NewSocket>) -> io::Result<()> {
        let mut outcome = Ok(());
        for NewSocket { id, address, socket } in sockets {
            let Some(listening) = self.listening.borrow().iter().find(|listening| listening.address == address).cloned() else {
                continue;
            };
            let listener = match TokioListener::adopt(socket) {
                Ok(listener) => listener,
                Err(error) => {
                    outcome = Err(error);
                    continue;
                }
            };
            let how: Rc<Accepting> = Rc::default();
            listening.sockets.borrow_mut().push((id, how.clone()));
            self.accepting.set(self.accepting.get() + 1);
            let worker = self.clone();
            rt::spawn(async move {
                accept(worker.clone(), listening, listener, how).await;
                worker.accepting.set(worker.accepting.get() - 1);
            });
        }
        outcome
    }

    /// Brings the listeners in line with the snapshot: new ones get their state, those that left are drained.
    fn listen(self: &Rc<Self>) {
        let snapshot = self.snapshot();
        let mut listening = self.listening.borrow_mut();
        for listener in &snapshot.shared.listeners {
            match listening.iter().find(|known| known.address == listener.address) {
                None => listening.push(Rc::new(Listening {
                    address: listener.address,
                    state: RefCell::new(ListenerState::new(listener)),
                    sockets: RefCell::default(),
                })),
                Some(known) if !known.state.borrow().protocol().is_akin(listener.protocol) => {
                    // Its socket and queue stay; connections that speak what it spoke before are drained.
                    let before = known.state.replace(ListenerState::new(listener));
                    self.leave(before, snapshot.shared.drain);
                }
                Some(known) => known.state.borrow().take_options(listener, snapshot.shared.drain),
            }
        }
        listening.retain(|known| {
            let stays = snapshot.shared.listeners.iter().any(|listener| listener.address == known.address);
            if !stays {
                for (_, how) in known.sockets.borrow().iter() {
                    how.stop.set();
                }
                self.leave(known.state.borrow().clone(), snapshot.shared.drain);
            }
            stays
        });
    }

    fn note_accept_error(&self, address: SocketAddr, error: &io::Error) {
        if let Some(suppressed) = self.gates.accept.allow(Instant::now()) {
            tracing::error!(%address, %error, suppressed, "a connection could not be accepted");
        }
    }

    fn leave(self: &Rc<Self>, state: Rc<ListenerState<TokioSock>>, limit: Duration) {
        state.drain(Some(limit), &mut || self.random());
        let mut leaving = self.leaving.borrow_mut();
        leaving.retain(|listener| listener.connection_count() > 0);
        leaving.push(state.clone());
        drop(leaving);
        rt::spawn(state.cut_when_due());
    }

    fn publish(&self, snapshot: Arc<Snapshot>) {
        let before = self.snapshot();
        let now = Rc::new(WorkerSnapshot::after(snapshot, &before, self));
        for known in self.listening.borrow().iter() {
            let state = known.state.borrow();
            let stays = now.shared.listener_position(state.address, state.protocol()).is_some();
            if let (false, Some(position)) = (stays, before.shared.listener_position(state.address, state.protocol())) {
                state.leave_configuration(before.clone(), position);
            }
        }
        let mut marks = self.marks.borrow_mut();
        // One is held by the list itself.
        marks.retain(|(mark, _)| Rc::strong_count(mark) > 1);
        marks.push((now.mark.clone(), Rc::downgrade(&now)));
        drop(marks);
        let in_use: HashSet<_> = now.pools_in_use.borrow().iter().map(|(_, pool)| Rc::as_ptr(pool)).collect();
        self.recent.let_go(|pool| in_use.contains(&Rc::as_ptr(pool)));
        *self.snapshot.borrow_mut() = now;
        self.make_warm_pools();
    }

    /// Pools are made when they are first needed; those with connections opened in advance are needed now.
    fn make_warm_pools(&self) {
        let snapshot = self.snapshot();
        for slot in snapshot.shared.warm.iter() {
            snapshot.pool(*slot, self);
        }
    }

    fn stop_accepting(&self, sockets: &[OldSocket]) {
        for listening in self.listening.borrow().iter() {
            listening.sockets.borrow_mut().retain(|(id, how)| {
                let Some(old) = sockets.iter().find(|old| old.id == *id) else { return true };
                how.is_handed_on.set(old.is_handed_on);
                how.stop.set();
                false
            });
        }
    }

    fn drain(&self, handed_on: &[SocketId], limit: Option<Duration>) {
        for listening in self.listening.borrow().iter() {
            for (id, how) in listening.sockets.take() {
                how.is_handed_on.set(handed_on.contains(&id));
                how.stop.set();
            }
            listening.state.borrow().drain(limit, &mut || self.random());
        }
    }
}

impl<S: Sock> Worker<S> {
    fn new(index: usize, snapshot: Arc<Snapshot>, process: Arc<ProcessState>, access_log: Option<AccessLogSender>) -> Worker<S> {
        let snapshot = Rc::new(WorkerSnapshot::first(snapshot));
        let seed = random_seed();
        Worker {
            index,
            metrics: process.registry.worker(index),
            process,
            marks: RefCell::new(vec![(snapshot.mark.clone(), Rc::downgrade(&snapshot))]),
            snapshot: RefCell::new(snapshot),
            listening: RefCell::default(),
            leaving: RefCell::default(),
            access_log: RefCell::new(access_log),
            date: DateClock::default(),
            busy: BusyMeter::default(),
            fastcgi: FastCgiServers::default(),
            scratch: RefCell::default(),
            recent: RecentRequests::default(),
            gates: EventGates {
                refused: EventGate::new(EVENTS_PER_SECOND),
                upstream: EventGate::new(EVENTS_PER_SECOND),
                accept: EventGate::new(EVENTS_PER_SECOND),
            },
            background_fetches: Cell::new(0),
            connections: Cell::new(0),
            copies: Cell::new(0),
            connections_opened: Cell::new(0),
            accepting: Cell::new(0),
            random: Cell::new(seed | 1),
            request_id_base: (u128::from(random_seed()) << 64) | u128::from(random_seed()),
            requests: Cell::new(0),
        }
    }

    #[inline]
    pub fn snapshot(&self) -> Rc<WorkerSnapshot<S>> {
        self.snapshot.borrow().clone()
    }

    /// How long a client connection may wait for its next request.
    #[inline]
    pub fn keep_alive(&self) -> Duration {
        self.snapshot.borrow().shared.limits.keep_alive
    }

    /// Requests on their way by the generation that they began with, the current one included.
    pub fn requests_by_generation(&self) -> Vec<(u64, usize)> {
        let current = self.snapshot.borrow().mark.generation;
        let requests = |(mark, snapshot): &Mark<S>| {
            let held_otherwise = 1 + usize::from(snapshot.strong_count() > 0);
            (mark.generation, Rc::strong_count(mark).saturating_sub(held_otherwise))
        };
        let all = self.marks.borrow().iter().map(requests).collect::<Vec<_>>();
        all.into_iter().filter(|(generation, count)| *count > 0 || *generation == current).collect()
    }

    /// Every listener with open connections, those being drained included.
    pub fn each_listener(&self, mut see: impl FnMut(&ListenerState<S>)) {
        self.listening.borrow().iter().for_each(|listening| see(&listening.state.borrow()));
        self.leaving.borrow().iter().for_each(|state| see(state));
    }

    /// The pools that had a request since the process began, as they are now.
    pub fn each_pool(&self, mut see: impl FnMut(&WorkerPool<S>)) {
        self.snapshot().pools_in_use.borrow().iter().for_each(|(_, pool)| see(pool));
    }

    fn of(&self) -> Of<'_> {
        Of { worker: self.index, registry: &self.process.registry, random: self.random() }
    }

    /// The pool of that name as the running configuration has it, when that is another one.
    pub fn newer_pool(&self, pool: &Rc<WorkerPool<S>>) -> Option<Rc<WorkerPool<S>>> {
        let snapshot = self.snapshot();
        let in_use = snapshot.pools_in_use.borrow();
        let newer = in_use.iter().map(|(_, known)| known).find(|known| known.compiled.name == pool.compiled.name)?;
        (!Rc::ptr_eq(newer, pool)).then(|| newer.clone())
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

    /// Gives the connection its number: unique over the process's workers.
    pub fn connection_opened(&self) -> u64 {
        self.connections.set(self.connections.get() + 1);
        let count = self.connections_opened.get() + 1;
        self.connections_opened.set(count);
        ((self.index as u64) << 48) | count
    }

    pub fn connection_ended(&self) {
        self.connections.set(self.connections.get() - 1);
    }
}

impl<S: Sock> WorkerSnapshot<S> {
    fn first(shared: Arc<Snapshot>) -> WorkerSnapshot<S> {
        WorkerSnapshot {
            mark: Rc::new(GenerationMark { generation: shared.generation }),
            sites: (0..shared.sites.len()).map(|_| OnceCell::new()).collect(),
            pools: (0..shared.pools.len()).map(|_| OnceCell::new()).collect(),
            pools_in_use: RefCell::default(),
            shared,
        }
    }

    /// Costs what the pools in use cost, and for the rest a few bytes each.
    fn after(shared: Arc<Snapshot>, before: &WorkerSnapshot<S>, worker: &Worker<S>) -> WorkerSnapshot<S> {
        let now = WorkerSnapshot::first(shared);
        for (slot, pool) in before.pools_in_use.borrow().clone() {
            let kept = match now.shared.pools.get(slot).and_then(Option::as_ref) {
                Some(compiled) if Arc::ptr_eq(compiled, &pool.compiled) => pool,
                Some(compiled) if compiled.name == pool.compiled.name => {
                    Rc::new(WorkerPool::new(compiled.clone(), Some(&pool), worker.of()))
                }
                Some(_) | None => {
                    pool.leave();
                    continue;
                }
            };
            now.keep_pool(slot, kept);
        }
        now
    }

    fn keep_pool(&self, slot: usize, pool: Rc<WorkerPool<S>>) {
        if self.pools[slot].set(pool.clone()).is_ok() {
            self.pools_in_use.borrow_mut().push((slot, pool));
        }
    }

    #[inline]
    pub fn site(&self, position: usize, worker: &Worker<S>) -> &Rc<WorkerSite> {
        self.sites[position].get_or_init(|| {
            let compiled = self.shared.sites[position].clone();
            let metrics = compiled.metrics[worker.index].clone();
            Rc::new(WorkerSite { compiled, metrics })
        })
    }

    /// The pool in a slot that a route of this snapshot names.
    #[inline]
    pub fn pool(&self, slot: usize, worker: &Worker<S>) -> Option<&Rc<WorkerPool<S>>> {
        if let Some(pool) = self.pools[slot].get() {
            return Some(pool);
        }
        let compiled = self.shared.pools[slot].clone()?;
        self.keep_pool(slot, Rc::new(WorkerPool::new(compiled, None, worker.of())));
        self.pools[slot].get()
    }
}

/// From the operating system, by way of the standard library's hasher keys.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
