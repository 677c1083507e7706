//! Work that takes milliseconds when there are thousands of sites, done so that no request waits for it: in a thread of
//! low priority that the kernel takes off a core as soon as a worker has something to do. A thread of its own because
//! workers inherit the priority of whoever starts them, and nobody without privileges gets it back.

use std::sync::{Mutex, PoisonError};
use tidegate_transport::rt::lower_priority_of_thread;

/// Runs the work to its end, and gives what it gives. The caller waits.
pub fn in_background<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let slot = Mutex::new(Some(work));
    let take = || slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    let run = || {
        lower_priority_of_thread();
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
    use super::in_background;
    use rustix::process::{getpriority_process, setpriority_process};
    use tidegate_transport::rt::LOW_PRIORITY;

    fn priority() -> i32 {
        getpriority_process(None).expect("a priority")
    }

    #[test]
    fn only_the_work_itself_has_the_low_priority() {
        let before = priority();
        let within = in_background(priority);
        assert_eq!(within, LOW_PRIORITY.max(before));
        assert_eq!(priority(), before);
    }

    /// In a thread of its own, which nobody needs afterwards: what was lowered stays.
    #[test]
    fn the_work_is_never_more_urgent_than_the_process() {
        let lowered = std::thread::spawn(|| {
            let before = priority().max(15);
            setpriority_process(None, before).expect("anybody may be less urgent");
            (before, in_background(priority), priority())
        });
        let (before, within, after) = lowered.join().expect("no panic");
        assert_eq!((within, after), (before, before));
    }
}
