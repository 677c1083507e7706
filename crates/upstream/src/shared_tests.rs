//! What is counted for a pool and its servers, and who is called when it is given back; not beside the code, for the
//! reason in `queue_tests`.

use crate::shared::PoolShared;
use std::sync::Arc;
use std::time::Instant;
use tidegate_model::Bounds;

fn shared() -> Arc<PoolShared> {
    Arc::new(PoolShared::new(Instant::now()))
}

#[test]
fn connections_are_bounded_and_given_back() {
    let server = shared().server(&"a:1".into());
    let take = || server.try_open(2);
    let (first, second) = (take(), take());
    assert!(first.is_some() && second.is_some() && take().is_none());
    drop(first);
    assert!(take().is_some());
    let more: Vec<_> = (0..5).map(|_| server.try_open(100)).collect();
    assert!(more.iter().all(Option::is_some), "below the bound there is always a place");
    assert_eq!(server.open_connections(), 6);
}

#[test]
fn requests_are_bounded_by_server_and_by_pool() {
    let pool = shared();
    let (a, b) = (pool.server(&"a:1".into()), pool.server(&"b:1".into()));
    let bounds = Bounds { requests_per_server: Some(2), requests_per_pool: Some(3), ..Bounds::default() };
    let rooms = [pool.enter(&a, &bounds), pool.enter(&a, &bounds)];
    assert!(rooms.iter().all(Option::is_some));
    assert!(pool.is_full(&a, &bounds) && !pool.is_full(&b, &bounds));
    assert!(pool.enter(&a, &bounds).is_none(), "the server is full");
    let third = pool.enter(&b, &bounds);
    assert!(third.is_some() && pool.is_full(&b, &bounds) && pool.enter(&b, &bounds).is_none(), "the pool is full");
    drop(rooms);
    assert_eq!(pool.requests_in_flight(), 1);
    assert!(pool.enter(&a, &bounds).is_some());
}

#[test]
fn a_place_that_is_given_back_calls_the_next_in_line() {
    let pool = shared();
    let server = pool.server(&"a:1".into());
    let bounds = Bounds { requests_per_server: Some(1), ..Bounds::default() };
    let permit = pool.enter(&server, &bounds);
    let _ticket = pool.queue.join(3, 9).expect("a place");
    assert_eq!(pool.queue.next_worker(), Some(3));
    drop(permit);
    assert_eq!(pool.queue.next_worker(), None, "it was called");
    let slot = server.try_open(1);
    let _ticket = server.queue.join(1, 9).expect("a place");
    drop(slot);
    assert_eq!(server.queue.next_worker(), None, "it was called");
}
