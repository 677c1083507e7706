//! Tasks that are polled in an order drawn from a seed, each only when it was woken; and the random numbers for it.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

/// A generator of numbers (SplitMix64): the same seed, the same run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Whether a task was woken since it was polled last.
pub struct Flag(AtomicBool);

impl Flag {
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Task {
    name: String,
    future: Pin<Box<dyn Future<Output = ()>>>,
    flag: Arc<Flag>,
    /// Looked at whenever the task went to sleep.
    may_sleep: Box<dyn Fn() -> bool>,
}

/// Tasks, and those that came while others were polled.
#[derive(Default)]
pub struct Tasks {
    tasks: Vec<Task>,
    pub spawner: Spawner,
}

#[derive(Clone, Default)]
pub struct Spawner(Rc<RefCell<Vec<Task>>>);

impl Spawner {
    pub fn spawn(&self, name: String, future: impl Future<Output = ()> + 'static) {
        self.spawn_watched(name, future, || true);
    }

    /// A task that may sleep, without having been woken meanwhile, only where `may_sleep` says so.
    pub fn spawn_watched(
        &self,
        name: String,
        future: impl Future<Output = ()> + 'static,
        may_sleep: impl Fn() -> bool + 'static,
    ) {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        self.0.borrow_mut().push(Task { name, future: Box::pin(future), flag, may_sleep: Box::new(may_sleep) });
    }
}

impl Tasks {
    /// How many tasks were woken.
    pub fn awake(&mut self) -> usize {
        self.tasks.append(&mut self.spawner.0.borrow_mut());
        self.tasks.iter().filter(|task| task.flag.is_set()).count()
    }

    pub fn names(&self) -> Vec<&str> {
        self.tasks.iter().map(|task| task.name.as_str()).collect()
    }

    /// Polls one of those that were woken.
    pub fn poll_one(&mut self, random: &mut Random) {
        let awake: Vec<usize> = (0..self.tasks.len()).filter(|place| self.tasks[*place].flag.is_set()).collect();
        let place = random.pick(&awake);
        let task = &mut self.tasks[place];
        task.flag.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(task.flag.clone());
        if task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            drop(self.tasks.swap_remove(place));
        } else {
            assert!(task.flag.is_set() || (task.may_sleep)(), "{} sleeps and nobody would wake it", task.name);
        }
    }
}
