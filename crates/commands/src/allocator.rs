//! What the allocator is asked beside memory: to give back to the system what it keeps for later.

use std::ptr;

/// All arenas: `MALLCTL_ARENAS_ALL` of jemalloc.
const PURGE_ALL: &[u8] = b"arena.4096.purge\0";

/// Gives back what is free, at once. jemalloc does so by itself over ten seconds, and near its bound the process would
/// refuse clients for memory that nobody has.
#[allow(unsafe_code)]
pub fn purge() {
    // SAFETY: the name ends in a zero, and a purge reads and writes nothing through the other pointers, which may be
    // null (jemalloc(3), `arena.<i>.purge`).
    unsafe {
        tikv_jemalloc_sys::mallctl(PURGE_ALL.as_ptr().cast(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 0);
    }
}
