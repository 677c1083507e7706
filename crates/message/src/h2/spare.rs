//! Byte vectors that a worker's connections lend each other, so that an idle connection holds none and a busy one
//! allocates none.

use std::cell::RefCell;
use tidegate_wire::head::ResponseHead;

/// Vectors a worker keeps, and how large one may be to be kept.
const KEPT_MAX: usize = 32;
const KEPT_BYTES_MAX: usize = 256 << 10;

thread_local! {
    /// Last in, first out: the top one is still in the cache.
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    #[expect(clippy::vec_box, reason = "a stream holds its head by a pointer, which moves in and out of here")]
    static FREE_HEADS: RefCell<Vec<Box<ResponseHead>>> = const { RefCell::new(Vec::new()) };
}

/// An empty vector, of whatever capacity is there.
pub fn take() -> Vec<u8> {
    FREE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

pub fn give_back(mut bytes: Vec<u8>) {
    if bytes.capacity() == 0 || bytes.capacity() > KEPT_BYTES_MAX {
        return;
    }
    bytes.clear();
    // While a thread ends its locals may be gone already; then the vector is simply freed.
    let _ = FREE.try_with(|free| {
        let mut free = free.borrow_mut();
        if free.len() < KEPT_MAX {
            free.push(bytes);
        }
    });
}

/// A head to read an answer into.
#[expect(clippy::unnecessary_box_returns, reason = "the box is what is lent")]
pub fn take_head() -> Box<ResponseHead> {
    FREE_HEADS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

pub fn give_back_head(mut head: Box<ResponseHead>) {
    if head.fields.bytes.capacity() > KEPT_BYTES_MAX {
        return;
    }
    head.clear();
    let _ = FREE_HEADS.try_with(|free| {
        let mut free = free.borrow_mut();
        if free.len() < KEPT_MAX {
            free.push(head);
        }
    });
}
