//! The queue of requests that wait for something scarce, in the order of their arrival, over all workers: for a
//! connection under `max-connections`, or for a permit under `max-requests`. Who frees one calls the next. Nobody takes
//! the lock who neither waits nor frees while others wait.

use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, fence};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::PoisonError;
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
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether something that became free is somebody's in the queue. A moment's view, without the lock.
    #[inline]
    pub fn is_called(&self) -> bool {
        self.called.load(Ordering::Acquire) != 0
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
        self.count.store(waiting.entries.len(), Ordering::Relaxed);
        // Who joins looks once more whether something is free; who frees something looks whether somebody has joined.
        // One of them sees what the other did, or the request would wait for a call that never comes.
        fence(Ordering::SeqCst);
        Some(Ticket { queue: self, number })
    }

    /// Something is free: the first that was not called yet is called. It keeps its entry until it leaves, so that
    /// nobody passes it meanwhile.
    pub fn call_next(&self) {
        // See `join`.
        fence(Ordering::SeqCst);
        if !self.is_empty() {
            self.call(&mut self.lock(), |_| true);
        }
    }

    fn call(&self, waiting: &mut Waiting, may_be_called: impl Fn(&Entry) -> bool) {
        if let Some(entry) = waiting.entries.iter_mut().find(|entry| !entry.is_called && may_be_called(entry)) {
            entry.is_called = true;
            self.called.fetch_add(1, Ordering::AcqRel);
            if let Some(waker) = entry.waker.take() {
                waker.wake();
            }
        }
    }

    /// Whether it was called; from now on it is not.
    fn answer(&self, entry: &mut Entry) -> bool {
        let was_called = std::mem::take(&mut entry.is_called);
        if was_called {
            self.called.fetch_sub(1, Ordering::AcqRel);
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
        self.queue.count.store(waiting.entries.len(), Ordering::Relaxed);
        if self.queue.answer(&mut entry) {
            // Called, and gone before it could answer: what is free is the next one's.
            self.queue.call(&mut waiting, |_| true);
        }
    }
}
