//! Who is called when. Not beside the code: `tests/models` compiles that with other atomics, with which these tests
//! would not run. What happens at the same time is modelled there.

use crate::queue::{Queue, Ticket};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

fn is_called(ticket: &Ticket<'_>) -> bool {
    pin!(ticket.wait()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn who_came_first_is_called_first_and_only_once() {
    let queue = Queue::default();
    let (first, second) = (queue.join(0, 9).expect("a place"), queue.join(1, 9).expect("a place"));
    assert!(first.is_first() && !second.is_first());
    assert_eq!(queue.next_worker(), Some(0));
    queue.call_next();
    assert_eq!(queue.next_worker(), Some(1));
    assert!(is_called(&first));
    assert!(!is_called(&first));
    assert!(!is_called(&second));
    queue.call_next();
    assert!(is_called(&first), "called in vain, it is still the first");
    assert!(!queue.is_empty());
}

#[test]
fn who_leaves_after_being_called_hands_on() {
    let queue = Queue::default();
    let (first, second) = (queue.join(0, 9).expect("a place"), queue.join(0, 9).expect("a place"));
    queue.call_next();
    drop(first);
    assert!(is_called(&second));
    drop(second);
    assert!(queue.is_empty());
    queue.call_next();
    assert_eq!(queue.next_worker(), None);
}

#[test]
fn what_is_of_no_use_to_one_goes_to_those_behind_it() {
    let queue = Queue::default();
    let turns: Vec<_> = (0..3).map(|_| queue.join(0, 9).expect("a place")).collect();
    turns[1].pass_on();
    assert!(!is_called(&turns[0]) && !is_called(&turns[1]) && is_called(&turns[2]));
}

#[test]
fn who_comes_sees_whether_what_is_free_is_somebodys() {
    let queue = Queue::default();
    let (first, second) = (queue.join(0, 9).expect("a place"), queue.join(0, 9).expect("a place"));
    assert!(!queue.is_called(), "they wait for something else");
    queue.call_next();
    assert!(queue.is_called());
    assert!(is_called(&first) && !queue.is_called(), "it has looked");
    first.pass_on();
    assert!(queue.is_called());
    drop(first);
    assert!(queue.is_called());
    drop(second);
    assert!(!queue.is_called(), "nobody is left to be called");
}

#[test]
fn the_line_is_bounded() {
    let queue = Queue::default();
    let first = queue.join(0, 1);
    assert!(first.is_some() && queue.join(0, 1).is_none());
    drop(first);
    assert!(queue.join(0, 1).is_some());
    assert!(queue.join(0, 0).is_none());
}
