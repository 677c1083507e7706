//! Byte vectors that a worker's connections lend each other, so that an idle connection holds none and a busy one
//! allocates none.

use std::cell::RefCell;

/// Vectors a worker keeps, and how large one may be to be kept.
const KEPT_MAX: usize = 32;
const KEPT_BYTES_MAX: usize = 256 << 10;

thread_local! {
    /// Last in, first out: the top one is still in the cache.
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
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
