//! The queue of requests that wait for something scarce, in the order of their arrival, over all workers: for a
//! connection under `max-connections`, or for a permit under `max-requests`. Who frees one calls the next. Nobody takes
//! the lock who neither waits nor frees while others wait.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

#[derive(Debug, Default)]
pub struct Queue {
    count: AtomicUsize,
    /// Who was called and has not looked yet.
    called: AtomicUsize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next_number: u64,
    /// In the order of arrival.
    entries: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    /// Where the request lives: what is freed there need not cross to another thread.
    worker: usize,
    is_called: bool,
    waker: Option<Waker>,
}

/// One request's ticket; it leaves the queue when dropped.
#[derive(Debug)]
pub struct Ticket<'l> {
    queue: &'l Queue,
    number: u64,
}

impl Queue {
    /// A moment's view, without the lock.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Whether something that became free is somebody's in the queue. A moment's view, without the lock.
    #[inline]
    pub fn is_called(&self) -> bool {
        self.called.load(Ordering::SeqCst) != 0
    }

    /// A ticket behind all others; none when `tickets_max` are taken.
    pub fn join(&self, worker: usize, tickets_max: u32) -> Option<Ticket<'_>> {
        let mut waiting = self.lock();
        if waiting.entries.len() >= tickets_max as usize {
            return None;
        }
        let number = waiting.next_number;
        waiting.next_number += 1;
        waiting.entries.push_back(Entry { number, worker, is_called: false, waker: None });
        self.count.store(waiting.entries.len(), Ordering::SeqCst);
        Some(Ticket { queue: self, number })
    }

    /// Something is free: the first that was not called yet is called. It keeps its entry until it leaves, so that
    /// nobody passes it meanwhile.
    pub fn call_next(&self) {
        if !self.is_empty() {
            self.call(&mut self.lock(), |_| true);
        }
    }

    fn call(&self, waiting: &mut Waiting, may_be_called: impl Fn(&Entry) -> bool) {
        if let Some(entry) = waiting.entries.iter_mut().find(|entry| !entry.is_called && may_be_called(entry)) {
            entry.is_called = true;
            self.called.fetch_add(1, Ordering::SeqCst);
            if let Some(waker) = entry.waker.take() {
                waker.wake();
            }
        }
    }

    /// Whether it was called; from now on it is not.
    fn answer(&self, entry: &mut Entry) -> bool {
        let was_called = std::mem::take(&mut entry.is_called);
        if was_called {
            self.called.fetch_sub(1, Ordering::SeqCst);
        }
        was_called
    }

    /// In which worker the next to be called lives.
    pub fn next_worker(&self) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        self.lock().entries.iter().find(|entry| !entry.is_called).map(|entry| entry.worker)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn of(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.number == number)
    }
}

impl Ticket<'_> {
    /// Whether nobody stands before this one.
    pub fn is_first(&self) -> bool {
        self.queue.lock().entries.front().is_some_and(|entry| entry.number == self.number)
    }

    /// Until this one is called.
    pub async fn wait(&self) {
        poll_fn(|cx| {
            let mut waiting = self.queue.lock();
            let Some(entry) = waiting.of(self.number) else { return Poll::Ready(()) };
            if self.queue.answer(entry) {
                return Poll::Ready(());
            }
            entry.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// What became free is of no use to this one: those behind it are asked.
    pub fn pass_on(&self) {
        self.queue.call(&mut self.queue.lock(), |entry| entry.number > self.number);
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut waiting = self.queue.lock();
        let Some(position) = waiting.entries.iter().position(|entry| entry.number == self.number) else { return };
        let Some(mut entry) = waiting.entries.remove(position) else { return };
        self.queue.count.store(waiting.entries.len(), Ordering::SeqCst);
        if self.queue.answer(&mut entry) {
            // Called, and gone before it could answer: what is free is the next one's.
            self.queue.call(&mut waiting, |_| true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Queue, Ticket};
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
}
