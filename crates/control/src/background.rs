//! Work that takes milliseconds when there are thousands of sites, done so that no request waits for it: in a thread of
//! low priority that the kernel takes off a core as soon as a worker has something to do. A thread of its own because
//! workers inherit the priority of whoever starts them, and nobody without privileges gets it back.

use rustix::process::setpriority_process;
use std::sync::{Mutex, PoisonError};

/// A tenth of a worker's weight: on a machine that is busy with requests a change takes ten times as long, and still
/// comes to its end.
const NICE: i32 = 10;

/// Runs the work to its end, and gives what it gives. The caller waits.
pub fn in_background<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let slot = Mutex::new(Some(work));
    let take = || slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    let run = || {
        // Without it the work is done all the same.
        let _ = setpriority_process(None, NICE);
        take().map(|work| work())
    };
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("background".into()).spawn_scoped(scope, run).ok()?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    // A system that has no thread to give has a core for this one.
    done.or_else(|| take().map(|work| work())).expect("the work is in the slot until it is done")
}

#[cfg(test)]
mod tests {
    use super::{NICE, in_background};
    use rustix::process::getpriority_process;

    #[test]
    fn only_the_work_itself_has_the_low_priority() {
        let before = getpriority_process(None).expect("a priority");
        let within = in_background(|| getpriority_process(None).expect("a priority"));
        assert_eq!(within, NICE.max(before));
        assert_eq!(getpriority_process(None).expect("a priority"), before);
    }
}
