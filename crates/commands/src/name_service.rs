//! Where a static program looks for addresses of names. A C library that is linked into the program would load the
//! modules that `/etc/nsswitch.conf` names, and they need the very version of it on the machine; the two that are
//! within it are what servers use: `/etc/hosts`, and the name servers of `/etc/resolv.conf`.

use std::ffi::{c_char, c_int};

#[allow(unsafe_code)]
unsafe extern "C" {
    /// Of glibc (`nss.h`): the sources of a database, in place of those in the file.
    fn __nss_configure_lookup(database: *const c_char, sources: *const c_char) -> c_int;
}

/// Before there are threads, which the C library wants.
#[allow(unsafe_code)]
pub fn keep_to_files_and_dns() {
    // SAFETY: both texts end in a zero and live for as long as the program; it has one thread yet.
    let outcome = unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
    assert_eq!(outcome, 0, "glibc knows the database of hosts, and there is memory at the start");
}
