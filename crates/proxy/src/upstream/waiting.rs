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

    /// A connection is free: the first in line is called.
    pub fn call_next(&self) {
        if let Some(place) = self.line.borrow_mut().pop_front() {
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

    /// Called in vain: back to the front.
    pub fn rejoin(&self) {
        self.line.line.borrow_mut().push_front(self.place.clone());
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
