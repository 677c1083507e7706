//! A permit is given back while others come, wait and leave: whoever waits gets it, and nobody waits for ever.

use crate::queue::Ticket;
use crate::shared::{Permit, PoolShared, ServerShared};
use loom::future::block_on;
use loom::thread;
use std::sync::Arc;
use std::time::Instant;
use tidegate_model::Bounds;

const TICKETS_MAX: u32 = 9;

/// A pool with one permit.
struct Pool {
    pool: Arc<PoolShared>,
    server: Arc<ServerShared>,
}

impl Pool {
    fn new() -> Arc<Pool> {
        let pool = Arc::new(PoolShared::new(Instant::now()));
        let server = pool.server(&"a:1".into());
        Arc::new(Pool { pool, server })
    }

    fn enter(&self) -> Option<Permit> {
        self.pool.enter(&self.server, &Bounds { requests_per_pool: Some(1), ..Bounds::default() })
    }

    fn join(&self, worker: usize) -> Ticket<'_> {
        self.pool.queue.join(worker, TICKETS_MAX).expect("a ticket")
    }

    /// As requests wait, but for their time: nothing but a call wakes them.
    fn wait(&self, ticket: &Ticket<'_>) -> Permit {
        let mut is_called = false;
        loop {
            if (is_called || ticket.is_first())
                && let Some(permit) = self.enter()
            {
                return permit;
            }
            block_on(ticket.wait());
            is_called = true;
        }
    }

    fn is_at_rest(&self) -> bool {
        self.pool.queue.is_empty() && !self.pool.queue.is_called() && self.pool.requests_in_flight() == 0
    }
}

#[test]
fn a_permit_that_is_given_back_while_somebody_joins_is_not_missed() {
    loom::model(|| {
        let pool = Pool::new();
        let held = pool.enter().expect("the only one");
        let other = pool.clone();
        let waiting = thread::spawn(move || drop(other.wait(&other.join(1))));
        drop(held);
        waiting.join().expect("no panic");
        assert!(pool.is_at_rest());
    });
}

#[test]
fn who_is_called_and_leaves_hands_on() {
    loom::model(|| {
        let pool = Pool::new();
        let held = pool.enter().expect("the only one");
        let (first, second) = (pool.join(0), pool.join(1));
        let other = pool.clone();
        let freeing = thread::spawn(move || {
            drop(held);
            drop(other);
        });
        // Its client has gone, maybe just as it was called.
        drop(first);
        drop(pool.wait(&second));
        drop(second);
        freeing.join().expect("no panic");
        assert!(pool.is_at_rest());
    });
}

#[test]
fn a_permit_goes_from_one_to_the_next() {
    loom::model(|| {
        let pool = Pool::new();
        let held = pool.enter().expect("the only one");
        let other = pool.clone();
        let waiting = thread::spawn(move || drop(other.wait(&other.join(1))));
        drop(held);
        drop(pool.wait(&pool.join(0)));
        waiting.join().expect("no panic");
        assert!(pool.is_at_rest());
    });
}

#[test]
fn no_more_permits_are_out_than_there_are() {
    loom::model(|| {
        let pool = Pool::new();
        let other = pool.clone();
        let entering = thread::spawn(move || other.enter());
        let own = pool.enter();
        let others = entering.join().expect("no panic");
        assert!(own.is_some() != others.is_some(), "one of two");
        drop((own, others));
        assert!(pool.is_at_rest());
    });
}
