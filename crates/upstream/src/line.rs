//! A line of requests that wait for something scarce, in the order of their arrival, over all workers: for a connection
//! under `max-connections`, or for a place under `max-requests`. Who frees one calls the next. Nobody takes the lock
//! who neither waits nor frees while others wait.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

#[derive(Debug, Default)]
pub struct Line {
    waiting: AtomicUsize,
    /// Who was called and has not looked yet.
    called: AtomicUsize,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    next_number: u64,
    /// In the order of arrival.
    line: VecDeque<Place>,
}

#[derive(Debug)]
struct Place {
    number: u64,
    /// Where the request lives: what is freed there need not cross to another thread.
    worker: usize,
    is_called: bool,
    waker: Option<Waker>,
}

/// One request's place; it leaves the line when dropped.
#[derive(Debug)]
pub struct Turn<'l> {
    line: &'l Line,
    number: u64,
}

impl Line {
    /// A moment's view, without the lock.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    /// Whether something that became free is somebody's in the line. A moment's view, without the lock.
    #[inline]
    pub fn is_called(&self) -> bool {
        self.called.load(Ordering::SeqCst) != 0
    }

    /// The last place; none when `places_max` are taken.
    pub fn join(&self, worker: usize, places_max: u32) -> Option<Turn<'_>> {
        let mut places = self.lock();
        if places.line.len() >= places_max as usize {
            return None;
        }
        let number = places.next_number;
        places.next_number += 1;
        places.line.push_back(Place { number, worker, is_called: false, waker: None });
        self.waiting.store(places.line.len(), Ordering::SeqCst);
        Some(Turn { line: self, number })
    }

    /// Something is free: the first that was not called yet is called. It keeps its place until it leaves, so that
    /// nobody passes it meanwhile.
    pub fn call_next(&self) {
        if !self.is_empty() {
            self.call(&mut self.lock(), |_| true);
        }
    }

    fn call(&self, places: &mut Places, may_be_called: impl Fn(&Place) -> bool) {
        if let Some(place) = places.line.iter_mut().find(|place| !place.is_called && may_be_called(place)) {
            place.is_called = true;
            self.called.fetch_add(1, Ordering::SeqCst);
            if let Some(waker) = place.waker.take() {
                waker.wake();
            }
        }
    }

    /// Whether it was called; from now on it is not.
    fn answer(&self, place: &mut Place) -> bool {
        let was_called = std::mem::take(&mut place.is_called);
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
        self.lock().line.iter().find(|place| !place.is_called).map(|place| place.worker)
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn of(&mut self, number: u64) -> Option<&mut Place> {
        self.line.iter_mut().find(|place| place.number == number)
    }
}

impl Turn<'_> {
    /// Whether nobody stands before this one.
    pub fn is_first(&self) -> bool {
        self.line.lock().line.front().is_some_and(|place| place.number == self.number)
    }

    /// Until this one is called.
    pub async fn wait(&self) {
        poll_fn(|cx| {
            let mut places = self.line.lock();
            let Some(place) = places.of(self.number) else { return Poll::Ready(()) };
            if self.line.answer(place) {
                return Poll::Ready(());
            }
            place.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// What became free is of no use to this one: those behind it are asked.
    pub fn pass_on(&self) {
        self.line.call(&mut self.line.lock(), |place| place.number > self.number);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut places = self.line.lock();
        let Some(position) = places.line.iter().position(|place| place.number == self.number) else { return };
        let Some(mut place) = places.line.remove(position) else { return };
        self.line.waiting.store(places.line.len(), Ordering::SeqCst);
        if self.line.answer(&mut place) {
            // Called, and gone before it could answer: what is free is the next one's.
            self.line.call(&mut places, |_| true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Turn};
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_called(turn: &Turn<'_>) -> bool {
        pin!(turn.wait()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn who_came_first_is_called_first_and_only_once() {
        let line = Line::default();
        let (first, second) = (line.join(0, 9).expect("a place"), line.join(1, 9).expect("a place"));
        assert!(first.is_first() && !second.is_first());
        assert_eq!(line.next_worker(), Some(0));
        line.call_next();
        assert_eq!(line.next_worker(), Some(1));
        assert!(is_called(&first));
        assert!(!is_called(&first));
        assert!(!is_called(&second));
        line.call_next();
        assert!(is_called(&first), "called in vain, it is still the first");
        assert!(!line.is_empty());
    }

    #[test]
    fn who_leaves_after_being_called_hands_on() {
        let line = Line::default();
        let (first, second) = (line.join(0, 9).expect("a place"), line.join(0, 9).expect("a place"));
        line.call_next();
        drop(first);
        assert!(is_called(&second));
        drop(second);
        assert!(line.is_empty());
        line.call_next();
        assert_eq!(line.next_worker(), None);
    }

    #[test]
    fn what_is_of_no_use_to_one_goes_to_those_behind_it() {
        let line = Line::default();
        let turns: Vec<_> = (0..3).map(|_| line.join(0, 9).expect("a place")).collect();
        turns[1].pass_on();
        assert!(!is_called(&turns[0]) && !is_called(&turns[1]) && is_called(&turns[2]));
    }

    #[test]
    fn who_comes_sees_whether_what_is_free_is_somebodys() {
        let line = Line::default();
        let (first, second) = (line.join(0, 9).expect("a place"), line.join(0, 9).expect("a place"));
        assert!(!line.is_called(), "they wait for something else");
        line.call_next();
        assert!(line.is_called());
        assert!(is_called(&first) && !line.is_called(), "it has looked");
        first.pass_on();
        assert!(line.is_called());
        drop(first);
        assert!(line.is_called());
        drop(second);
        assert!(!line.is_called(), "nobody is left to be called");
    }

    #[test]
    fn the_line_is_bounded() {
        let line = Line::default();
        let first = line.join(0, 1);
        assert!(first.is_some() && line.join(0, 1).is_none());
        drop(first);
        assert!(line.join(0, 1).is_some());
        assert!(line.join(0, 0).is_none());
    }
}
