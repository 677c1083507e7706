//! The real program beside programs of others: browsers, TLS clients and testers, CAs, other proxies. A test whose
//! program is missing says so and passes. Scripted clients and servers are in `program`.

mod acme;
mod browser;
mod cert;
mod completions;
mod grade;
mod h2spec;
mod http2_peers;
mod imports;
mod ingress_nginx;
mod openid;
mod programs;
mod prometheus;
mod stapling;

use std::sync::{Mutex, MutexGuard, PoisonError};

static BROWSER: Mutex<()> = Mutex::new(());

/// One browser at a time: it takes a gigabyte with a large body in hand, and one test writes policies that every
/// Chromium of the machine reads.
fn only_browser() -> MutexGuard<'static, ()> {
    BROWSER.lock().unwrap_or_else(PoisonError::into_inner)
}
