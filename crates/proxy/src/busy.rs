//! How busy a worker's thread is, for those who do more where there is time.

use std::cell::Cell;
use std::time::{Duration, Instant};
use tidegate_coding::Busy;
use tidegate_transport::rt;

/// How often it is looked how busy this thread is.
const BUSY_PERIOD: Duration = Duration::from_millis(100);

/// How busy this worker's thread has been lately: looked at when somebody asks, and not more often than it can have
/// changed.
#[derive(Debug)]
pub struct BusyMeter {
    /// When it was looked at last, and what the thread had used of a core by then. `None`: nobody has asked yet.
    looked: Cell<Option<(Instant, Duration)>>,
    busy: Cell<Busy>,
}

impl Default for BusyMeter {
    fn default() -> Self {
        BusyMeter { looked: Cell::new(None), busy: Cell::new(Busy(0)) }
    }
}

impl BusyMeter {
    /// Of the thread that asks.
    pub fn now(&self) -> Busy {
        let now = rt::now();
        let Some((at, worked_before)) = self.looked.get() else {
            self.looked.set(Some((now, rt::thread_cpu_time())));
            return self.busy.get();
        };
        let wall = now.saturating_duration_since(at);
        if wall >= BUSY_PERIOD {
            let worked = rt::thread_cpu_time();
            let percent = 100 * worked.saturating_sub(worked_before).as_micros() / wall.as_micros().max(1);
            self.looked.set(Some((now, worked)));
            self.busy.set(Busy(percent.min(100) as u8));
        }
        self.busy.get()
    }
}
