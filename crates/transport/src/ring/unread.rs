//! Input that waits for a reader who is busy with something else. A piece is received into a leased buffer, whose room
//! is for who works on it: a byte that a client sends ahead must not keep 132 KiB for as long as its request takes.
//! What nobody has read for a while is kept in as much memory as it needs; what is read at once never is copied.

use super::queue::Owner;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// Sockets with input that nobody waited for, each once: by whether they were there at the last tick.
#[derive(Default)]
struct Unread {
    late: Vec<Weak<dyn Owner>>,
    early: Vec<Weak<dyn Owner>>,
}

thread_local! {
    static UNREAD: RefCell<Unread> = RefCell::default();
}

/// Input of this socket waits. Who is noted already need not be again before [`Owner::keep_less`] was called.
pub(super) fn note(owner: &Rc<dyn Owner>) {
    UNREAD.with_borrow_mut(|unread| unread.late.push(Rc::downgrade(owner)));
}

/// At each tick: has those keep less who were there at the last one.
pub(super) fn advance() {
    let early = UNREAD.with_borrow_mut(|unread| {
        let late = std::mem::take(&mut unread.late);
        std::mem::replace(&mut unread.early, late)
    });
    early.iter().filter_map(Weak::upgrade).for_each(|owner| owner.keep_less());
}

/// The worker of this thread has ended.
pub(super) fn clear() {
    let _ = UNREAD.try_with(RefCell::take);
}
