//! An answer that another thread owes, and that one task waits for.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

struct OwedSlot<T> {
    answer: Option<T>,
    /// The other side is gone.
    is_over: bool,
    waker: Option<Waker>,
}

/// Who owes the answer. Dropped without one, there is none.
pub struct Owed<T>(Arc<Mutex<OwedSlot<T>>>);

/// A future of the answer; `None`: there will be none.
pub struct OwedAnswer<T>(Arc<Mutex<OwedSlot<T>>>);

/// Both ends.
pub fn reply<T>() -> (Owed<T>, OwedAnswer<T>) {
    let slot = Arc::new(Mutex::new(OwedSlot { answer: None, is_over: false, waker: None }));
    (Owed(slot.clone()), OwedAnswer(slot))
}

fn lock<T>(slot: &Mutex<OwedSlot<T>>) -> MutexGuard<'_, OwedSlot<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Owed<T> {
    pub fn give(self, answer: T) {
        lock(&self.0).answer = Some(answer);
    }

    /// False: who waited for it has gone.
    pub fn is_awaited(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl<T> Drop for Owed<T> {
    fn drop(&mut self) {
        let waker = {
            let mut slot = lock(&self.0);
            slot.is_over = true;
            slot.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Future for OwedAnswer<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = lock(&self.0);
        if slot.is_over {
            return Poll::Ready(slot.answer.take());
        }
        slot.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::reply;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn an_answer_comes_or_is_known_not_to_come() {
        let mut context = Context::from_waker(Waker::noop());
        let (given, awaited) = reply::<u8>();
        let mut awaited = pin!(awaited);
        assert_eq!(awaited.as_mut().poll(&mut context), Poll::Pending);
        given.give(7);
        assert_eq!(awaited.as_mut().poll(&mut context), Poll::Ready(Some(7)));
        let (given, awaited) = reply::<u8>();
        assert!(given.is_awaited());
        drop(awaited);
        assert!(!given.is_awaited());
        let (given, awaited) = reply::<u8>();
        drop(given);
        assert_eq!(pin!(awaited).poll(&mut context), Poll::Ready(None));
    }
}
