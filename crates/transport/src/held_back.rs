//! Readers that wait until somebody has looked whether there is memory for what they would read. Connections take a
//! lease of the budget together, all workers of the same one: when it is used up no worker reads on before the process
//! was looked at, and what is beyond the bound waits in the kernel. What was reserved after it had been read was
//! reserved too late: 40 clients had a third more than the budget taken between two looks.
//! Nothing here knows the budget: how much is leased, and who is ended to make room, is `proxy`'s business.

use crate::memory;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// More than connections of a worker ever read at once; beyond it the first is woken, and waits again.
const WAITING_MAX: usize = 16 << 10;

/// Who waits on this worker.
struct HeldBack {
    waiting: VecDeque<Waker>,
    /// Readers that may go on although the lease is used up.
    passes: usize,
    /// Who looks for this worker. Where nobody does, nobody waits.
    looker: Option<Waker>,
}

thread_local! {
    static HELD_BACK: RefCell<HeldBack> =
        const { RefCell::new(HeldBack { waiting: VecDeque::new(), passes: 0, looker: None }) };
}

/// Ready when something may be read. Asked while memory is tight only.
#[cold]
pub fn poll_may_read(cx: &Context<'_>) -> Poll<()> {
    if !memory::is_lease_used_up() {
        return Poll::Ready(());
    }
    let (looker, displaced) = {
        let may_read = HELD_BACK.with_borrow_mut(|held| {
            if held.passes > 0 {
                held.passes -= 1;
                return None;
            }
            let looker = held.looker.clone()?;
            let displaced = if held.waiting.len() < WAITING_MAX { None } else { held.waiting.pop_front() };
            // Whoever is polled again for another reason waits once.
            if !held.waiting.back().is_some_and(|last| last.will_wake(cx.waker())) {
                held.waiting.push_back(cx.waker().clone());
            }
            Some((looker, displaced))
        });
        match may_read {
            None => return Poll::Ready(()),
            Some(both) => both,
        }
    };
    looker.wake();
    if let Some(displaced) = displaced {
        displaced.wake();
    }
    Poll::Pending
}

/// Waits until a reader of this worker waits. Who calls this is the worker's looker from here on.
pub async fn somebody_waits() {
    poll_fn(|cx| {
        HELD_BACK.with_borrow_mut(|held| {
            if !held.looker.as_ref().is_some_and(|looker| looker.will_wake(cx.waker())) {
                held.looker = Some(cx.waker().clone());
            }
            if held.waiting.is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
    })
    .await;
}

pub fn is_anybody_waiting() -> bool {
    HELD_BACK.with_borrow(|held| !held.waiting.is_empty())
}

/// Has all of them ask again.
pub fn let_all_go() {
    let waiting = HELD_BACK.with_borrow_mut(|held| {
        held.passes = 0;
        std::mem::take(&mut held.waiting)
    });
    waiting.into_iter().for_each(Waker::wake);
}

/// Lets so many read who have waited longest, whether there is memory or not: what nobody can free must not silence
/// everybody.
pub fn let_some_read(count: usize) {
    let first: Vec<Waker> = HELD_BACK.with_borrow_mut(|held| {
        held.passes = count;
        let count = count.min(held.waiting.len());
        held.waiting.drain(..count).collect()
    });
    first.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
mod tests {
    use super::{is_anybody_waiting, let_all_go, let_some_read, poll_may_read, somebody_waits};
    use crate::{memory, rt};
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::{Context, Waker};

    /// The account is the process's, so all of it is one test.
    #[test]
    fn readers_wait_while_the_lease_is_used_up() {
        let may_read = || poll_may_read(&Context::from_waker(Waker::noop())).is_ready();
        rt::run(crate::Driver::Epoll, async {
            memory::lease_to(Some(memory::ever_taken_bytes() + 1000));
            assert!(may_read(), "something is left");
            memory::take(1000);
            assert!(memory::is_tight(), "whoever takes the last of it tells everybody");
            assert!(may_read(), "nobody looks on this thread, so nobody would let go");
            let mut looker = pin!(somebody_waits());
            assert!(looker.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(!may_read() && is_anybody_waiting());
            assert!(looker.poll(&mut Context::from_waker(Waker::noop())).is_ready());
            let_some_read(1);
            assert!(may_read() && !may_read(), "one of them");
            memory::give_back(1000);
            assert!(!may_read(), "what was given back is no new lease");
            let_all_go();
            assert!(!is_anybody_waiting());
            // Who waits is woken.
            rt::spawn(async {
                rt::yield_now().await;
                memory::lease_to(None);
                let_all_go();
            });
            poll_fn(|cx| poll_may_read(cx)).await;
            memory::set_tight(false);
        })
        .expect("a runtime");
    }
}
