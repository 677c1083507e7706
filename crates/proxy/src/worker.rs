//! What one thread of the data plane knows: the snapshot that is valid, its listeners, its counters, and what its tasks
//! share. Workers share nothing that is written per request. The loop that accepts and obeys is `run`.

use crate::auth::oidc::OpenedSessions;
use crate::busy::BusyMeter;
use crate::listeners::Listeners;
use crate::process_state::ProcessState;
use crate::recent::RecentRequests;
use crate::snapshot::Snapshot;
use crate::worker_snapshot::{GenerationMark, WorkerSnapshot};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tidegate_access::VerifiedTokens;
use tidegate_exchange::date::DateClock;
use tidegate_middleware::{RequestId, Scratch};
use tidegate_telemetry::{AccessLogSenders, EventGate, SiteMetrics, WorkerMetrics};
use tidegate_transport::{Sock, rt};
use tidegate_upstream::pool::{Of, WorkerPool};

/// Events of one kind that a worker logs per second.
const EVENTS_PER_SECOND: u32 = 5;

/// One worker's state, shared by its tasks.
pub struct Worker<S: Sock> {
    pub index: usize,
    pub process: Arc<ProcessState>,
    pub metrics: Arc<WorkerMetrics>,
    /// Of requests that come to no site.
    pub without_site: Arc<SiteMetrics>,
    snapshot: RefCell<Rc<WorkerSnapshot<S>>>,
    /// Generations that may have requests on their way, the newest last.
    marks: RefCell<Vec<Mark<S>>>,
    pub listeners: Listeners<S>,
    pub access_log: RefCell<Option<AccessLogSenders>>,
    pub date: DateClock,
    pub busy: BusyMeter,
    pub scratch: RefCell<Scratch>,
    /// What `jwt` has verified lately.
    pub tokens: RefCell<VerifiedTokens>,
    /// What `oidc` has opened lately.
    pub sessions: RefCell<OpenedSessions>,
    pub recent: RecentRequests<S>,
    pub gates: EventGates,
    /// Requests that the cache makes for itself.
    pub background_fetches: Cell<usize>,
    connections: Cell<usize>,
    /// Up to which round it has freed memory.
    pub relieved: Cell<u64>,
    /// Requests that are being copied, and copies on their way.
    pub copies: Cell<usize>,
    connections_opened: Cell<u64>,
    random: Cell<u64>,
    request_id_base: u128,
    requests: Cell<u64>,
}

/// Keeps floods of the same event out of the log.
pub struct EventGates {
    pub refused: EventGate,
    pub upstream: EventGate,
    pub accept: EventGate,
    pub handshakes: EventGate,
}

/// A generation's mark, and the snapshot that holds it beside the requests, if it is still there.
type Mark<S> = (Rc<GenerationMark>, Weak<WorkerSnapshot<S>>);

impl<S: Sock> Worker<S> {
    pub fn new(
        index: usize,
        snapshot: Arc<Snapshot>,
        process: Arc<ProcessState>,
        access_log: Option<AccessLogSenders>,
    ) -> Worker<S> {
        let snapshot = Rc::new(WorkerSnapshot::first(snapshot));
        let seed = random_seed();
        Worker {
            index,
            metrics: process.registry.worker(index),
            without_site: process.registry.without_site(index),
            process,
            marks: RefCell::new(vec![(snapshot.mark.clone(), Rc::downgrade(&snapshot))]),
            snapshot: RefCell::new(snapshot),
            listeners: Listeners::default(),
            access_log: RefCell::new(access_log),
            date: DateClock::default(),
            busy: BusyMeter::default(),
            scratch: RefCell::default(),
            tokens: RefCell::default(),
            sessions: RefCell::default(),
            recent: RecentRequests::default(),
            gates: EventGates {
                refused: EventGate::new(EVENTS_PER_SECOND),
                upstream: EventGate::new(EVENTS_PER_SECOND),
                accept: EventGate::new(EVENTS_PER_SECOND),
                handshakes: EventGate::new(EVENTS_PER_SECOND),
            },
            background_fetches: Cell::new(0),
            connections: Cell::new(0),
            relieved: Cell::new(0),
            copies: Cell::new(0),
            connections_opened: Cell::new(0),
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

    /// Takes on a new snapshot.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        let before = self.snapshot();
        let now = Rc::new(WorkerSnapshot::after(snapshot, &before, &|| self.of()));
        self.listeners.leave_configuration(&before, &now.shared);
        let mut marks = self.marks.borrow_mut();
        // One is held by the list itself.
        marks.retain(|(mark, _)| Rc::strong_count(mark) > 1);
        marks.push((now.mark.clone(), Rc::downgrade(&now)));
        drop(marks);
        let mut in_use = HashSet::new();
        now.each_pool(|pool| {
            in_use.insert(Rc::as_ptr(pool));
        });
        self.recent.let_go(|pool| in_use.contains(&Rc::as_ptr(pool)));
        let (kept_before, kept) = (before.shared.limits.keep_alive, now.shared.limits.keep_alive);
        *self.snapshot.borrow_mut() = now;
        if kept < kept_before {
            self.listeners.end_idle_by(rt::now() + kept);
        }
        self.make_warm_pools();
    }

    /// Pools are made when they are first needed; those with connections opened in advance are needed now.
    pub fn make_warm_pools(&self) {
        let snapshot = self.snapshot();
        for slot in snapshot.shared.warm.iter() {
            snapshot.pool(*slot, || self.of());
        }
    }

    /// Brings the listeners in line with the snapshot.
    pub fn listen(&self) {
        self.listeners.follow(&self.snapshot().shared, &mut || self.random());
    }

    /// Whether nothing is left that a worker which drains waits for.
    pub fn has_ended(&self) -> bool {
        self.listeners.accepting.get() == 0 && self.connections.get() == 0 && self.copies.get() == 0
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

    /// The pools that had a request since the process began, as they are now.
    pub fn each_pool(&self, see: impl FnMut(&Rc<WorkerPool<S>>)) {
        self.snapshot().each_pool(see);
    }

    /// What a pool that is made for this worker has to know of it.
    pub fn of(&self) -> Of<'_> {
        Of { worker: self.index, registry: &self.process.registry, random: self.random() }
    }

    /// The pool of that name as the running configuration has it, when that is another one.
    pub fn newer_pool(&self, pool: &Rc<WorkerPool<S>>) -> Option<Rc<WorkerPool<S>>> {
        self.snapshot.borrow().newer_pool(pool)
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

/// From the operating system, by way of the standard library's hasher keys.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
