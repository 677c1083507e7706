//! The limit of open files: raised as far as it may be, and told where it is too low to begin with. What of them
//! clients may not take is `tidegate_transport::descriptors`.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use tidegate_transport::descriptors::is_used_up;

/// With fewer the process does not start: its own files, what two workers wait in, and a few connections.
const LEAST: u64 = 64;
pub(crate) const REMEDY: &str = "raise the limit of open files (`ulimit -n`, or LimitNOFILE of the unit)";

/// Every connection takes a descriptor and every proxied request a second one; the soft limit of 1,024 is for programs
/// that use `select`.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Fails where even the limit that the process may raise to is too low; else whatever opens something first would say
/// so, and not what to do.
pub fn check() -> Result<(), String> {
    match getrlimit(Resource::Nofile).maximum.filter(|most| *most < LEAST) {
        None => Ok(()),
        Some(most) => {
            Err(format!("the process may have {most} files open, and Tidegate needs {LEAST} to begin\n  help: {REMEDY}"))
        }
    }
}

/// What follows an error that may come from that limit.
pub(crate) fn remedy(error: &io::Error) -> String {
    if is_used_up(error) { format!("\n  help: {REMEDY}") } else { String::new() }
}
