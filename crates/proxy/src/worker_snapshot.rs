//! A snapshot as one worker sees it: the tables that all workers share, and beside them the worker's own counters and
//! pools, made when they are first needed. A pool in use goes from one snapshot to the next with its connections. Who
//! holds the current one is `worker`.

use crate::snapshot::{CompiledSite, SiteCounters, Snapshot};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use tidegate_transport::Sock;
use tidegate_upstream::pool::{Of, WorkerPool};

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
    pub counters: Arc<SiteCounters>,
}

/// Held by every request on its way, so that its count says who still lives by an old configuration.
#[derive(Debug)]
pub struct GenerationMark {
    pub generation: u64,
}

impl<S: Sock> WorkerSnapshot<S> {
    pub fn first(shared: Arc<Snapshot>) -> WorkerSnapshot<S> {
        WorkerSnapshot {
            mark: Rc::new(GenerationMark { generation: shared.generation }),
            sites: (0..shared.sites.len()).map(|_| OnceCell::new()).collect(),
            pools: (0..shared.pools.len()).map(|_| OnceCell::new()).collect(),
            pools_in_use: RefCell::default(),
            shared,
        }
    }

    /// The snapshot after `before`. Costs what the pools in use cost, and for the rest a few bytes each.
    pub fn after<'w>(shared: Arc<Snapshot>, before: &WorkerSnapshot<S>, of: &dyn Fn() -> Of<'w>) -> WorkerSnapshot<S> {
        let now = WorkerSnapshot::first(shared);
        for (slot, pool) in before.pools_in_use.borrow().clone() {
            let kept = match now.shared.pools.get(slot).and_then(Option::as_ref) {
                Some(compiled) if Arc::ptr_eq(compiled, &pool.compiled) => pool,
                Some(compiled) if compiled.name == pool.compiled.name => {
                    Rc::new(WorkerPool::new(compiled.clone(), Some(&pool), of()))
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

    /// The site at a position, with the counters of the worker with that index.
    #[inline]
    pub fn site(&self, position: usize, worker: usize) -> &Rc<WorkerSite> {
        self.sites[position].get_or_init(|| {
            let compiled = self.shared.sites[position].clone();
            let counters = compiled.counters[worker].clone();
            Rc::new(WorkerSite { compiled, counters })
        })
    }

    /// The pool in a slot that a route of this snapshot names. `of` says whose it is when it has to be made.
    #[inline]
    pub fn pool<'w>(&self, slot: usize, of: impl FnOnce() -> Of<'w>) -> Option<&Rc<WorkerPool<S>>> {
        if let Some(pool) = self.pools[slot].get() {
            return Some(pool);
        }
        let compiled = self.shared.pools[slot].clone()?;
        self.keep_pool(slot, Rc::new(WorkerPool::new(compiled, None, of())));
        self.pools[slot].get()
    }

    /// The pools that had a request since the process began, as they are now.
    pub fn each_pool(&self, mut see: impl FnMut(&Rc<WorkerPool<S>>)) {
        self.pools_in_use.borrow().iter().for_each(|(_, pool)| see(pool));
    }

    /// The pool of that name as it is here, when that is another one.
    pub fn newer_pool(&self, pool: &Rc<WorkerPool<S>>) -> Option<Rc<WorkerPool<S>>> {
        let in_use = self.pools_in_use.borrow();
        let newer = in_use.iter().map(|(_, known)| known).find(|known| known.compiled.name == pool.compiled.name)?;
        (!Rc::ptr_eq(newer, pool)).then(|| newer.clone())
    }
}
