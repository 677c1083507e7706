//! The line of requests that wait for a connection to one server to become free, in the order of their arrival.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Bounded by the requests in flight, each of which stands in it once.
#[derive(Default)]
pub struct WaitingLine {
    line: RefCell<VecDeque<Rc<Place>>>,
}

#[derive(Default)]
struct Place {
    called: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// One request's place; it leaves the line when dropped.
pub struct Turn<'a> {
    line: &'a WaitingLine,
    place: Rc<Place>,
}

impl WaitingLine {
    pub fn is_empty(&self) -> bool {
        self.line.borrow().is_empty()
    }

    pub fn join(&self) -> Turn<'_> {
        let place: Rc<Place> = Rc::default();
        self.line.borrow_mut().push_back(place.clone());
        Turn { line: self, place }
    }

    /// A connection is free: the first in line that was not called yet is called. It keeps its place until it leaves, so that the line is
    /// not empty while a connection waits to be taken.
    pub fn call_next(&self) {
        let line = self.line.borrow();
        if let Some(place) = line.iter().find(|place| !place.called.get()) {
            place.called.set(true);
            if let Some(waker) = place.waker.take() {
                waker.wake();
            }
        }
    }
}

impl Turn<'_> {
    /// Until this one is called.
    pub async fn wait(&self) {
        poll_fn(|cx| {
            if self.place.called.take() {
                return Poll::Ready(());
            }
            *self.place.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.line.line.borrow_mut().retain(|place| !Rc::ptr_eq(place, &self.place));
        if self.place.called.get() {
            // Called, and gone before it could answer: the connection is the next one's.
            self.line.call_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WaitingLine;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_called(turn: &super::Turn<'_>) -> bool {
        pin!(turn.wait()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn who_came_first_is_called_first_and_only_once() {
        let line = WaitingLine::default();
        let (first, second) = (line.join(), line.join());
        line.call_next();
        assert!(is_called(&first));
        assert!(!is_called(&first));
        assert!(!is_called(&second));
        line.call_next();
        assert!(is_called(&first), "called in vain, it is still the first");
        assert!(!line.is_empty());
    }

    #[test]
    fn who_leaves_after_being_called_hands_on() {
        let line = WaitingLine::default();
        let (first, second) = (line.join(), line.join());
        line.call_next();
        drop(first);
        assert!(is_called(&second));
        drop(second);
        assert!(line.is_empty());
        line.call_next();
    }
}
