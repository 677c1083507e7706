//! Threads beside a worker, for what may block: names that are looked up, folders that are read, bodies that are
//! written to disk. They begin when there is work, end when there was none for a while, and are bounded; beyond the
//! bound work waits for one of them, up to a bound of its own. Where the system gives no thread, or too much waits
//! already, whoever asks is told so: a request is refused then, and nothing else is lost.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;

/// Threads of one worker.
pub(crate) const THREADS_MAX: usize = 32;
/// Pieces of work of one worker that wait for a thread. A disk or a resolver that is behind by so many will not catch
/// up before most of those who ask have gone.
const WAITING_MAX: usize = 1024;
/// Without work a thread ends after that time: most workers never have any.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// The threads of one worker. Dropped with it; work that was begun is done to its end.
#[derive(Default)]
pub(crate) struct Beside {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    has_work: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    threads: usize,
    idle: usize,
    is_over: bool,
}

impl Beside {
    /// Has a thread do it. Errors: the system gives none, and there is none yet; [`WAITING_MAX`] pieces wait already.
    pub fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<oneshot::Receiver<thread::Result<T>>> {
        self.begin_in(work, |shared| {
            let name = "tidegate-beside".to_owned();
            thread::Builder::new().name(name).spawn(move || shared.work()).map(drop)
        })
    }

    fn begin_in<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        spawn: impl FnOnce(Arc<Shared>) -> io::Result<()>,
    ) -> io::Result<oneshot::Receiver<thread::Result<T>>> {
        let (sender, receiver) = oneshot::channel();
        let job = move || {
            // Nobody may wait for it any more.
            let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
        };
        let mut state = self.shared.lock();
        if state.waiting.len() >= WAITING_MAX {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "too much work waits for a thread already"));
        }
        if state.waiting.len() >= state.idle && state.threads < THREADS_MAX {
            state.threads += 1;
            if let Err(error) = spawn(self.shared.clone()) {
                state.threads -= 1;
                if state.threads == 0 {
                    return Err(error);
                }
            }
        }
        state.waiting.push_back(Box::new(job));
        self.shared.has_work.notify_one();
        Ok(receiver)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.has_work.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One thread, until there was nothing to do for a while.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                drop(state);
                job();
                state = self.lock();
                continue;
            }
            if state.is_over {
                break;
            }
            state.idle += 1;
            let (again, waited) = self.has_work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.idle -= 1;
            if waited.timed_out() && state.waiting.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Beside, THREADS_MAX, WAITING_MAX};
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// As a process that may have no more threads sees it.
    fn refused<T>(_: T) -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    #[test]
    fn where_there_is_no_thread_whoever_asks_is_told() {
        let beside = Beside::default();
        let kind = |outcome: io::Result<_>| outcome.map(drop).map_err(|error| error.kind());
        assert_eq!(kind(beside.begin_in(|| 1, refused)), Err(io::ErrorKind::WouldBlock));
        // What was refused is not done later.
        assert_eq!(beside.shared.lock().waiting.len(), 0);
        let first = beside.begin(thread::current).expect("a thread");
        assert_ne!(first.blocking_recv().expect("done").expect("no panic").id(), thread::current().id());
        // With one that there is, work waits for it.
        let second = beside.begin_in(|| 2, refused).expect("it waits");
        assert_eq!(second.blocking_recv().expect("done").expect("no panic"), 2);
    }

    #[test]
    fn work_beyond_the_bound_waits_for_a_thread() {
        let beside = Beside::default();
        let (go, gone): (Vec<_>, Vec<_>) = (0..THREADS_MAX).map(|_| mpsc::channel::<()>()).unzip();
        let at_work = Arc::new(AtomicUsize::new(0));
        let held: Vec<_> = gone
            .into_iter()
            .map(|gone| {
                let at_work = at_work.clone();
                let work = move || {
                    at_work.fetch_add(1, Ordering::SeqCst);
                    gone.recv()
                };
                beside.begin(work).expect("a thread")
            })
            .collect();
        while at_work.load(Ordering::SeqCst) < THREADS_MAX {
            thread::sleep(Duration::from_millis(1));
        }
        let mut late = beside.begin(|| 3).expect("it waits");
        assert!(late.try_recv().is_err() && beside.shared.lock().threads == THREADS_MAX);
        // One waits already.
        let waiting: Vec<_> = (1..WAITING_MAX).map(|number| beside.begin(move || number).expect("it waits")).collect();
        let refused = beside.begin(|| 4).map(drop).map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::WouldBlock));
        drop(go);
        assert_eq!(late.blocking_recv().expect("done").expect("no panic"), 3);
        for (number, done) in (1..).zip(waiting) {
            assert_eq!(done.blocking_recv().expect("done").expect("no panic"), number);
        }
        assert!(beside.begin(|| ()).expect("there is room again").blocking_recv().expect("done").is_ok());
        for outcome in held {
            assert!(outcome.blocking_recv().expect("done").is_ok());
        }
    }

    #[test]
    fn a_panic_is_told_and_the_thread_goes_on() {
        let beside = Beside::default();
        let panic = beside.begin(|| std::panic::resume_unwind(Box::new("as if"))).expect("a thread");
        let outcome: Result<(), _> = panic.blocking_recv().expect("done");
        assert_eq!(outcome.expect_err("it panicked").downcast_ref::<&str>(), Some(&"as if"));
        assert!(beside.begin_in(|| (), refused).expect("there is one").blocking_recv().expect("done").is_ok());
    }

    #[test]
    fn threads_end_with_their_worker() {
        let beside = Beside::default();
        let shared = beside.shared.clone();
        assert!(beside.begin(|| ()).expect("a thread").blocking_recv().expect("done").is_ok());
        drop(beside);
        while shared.lock().threads > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
