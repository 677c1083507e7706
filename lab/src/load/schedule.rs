//! Arrivals at a constant rate: which requests are due, which wait for a connection, which were never sent. Pure; time is handed in.
//! Each arrival keeps the moment at which it was meant to begin. Its latency counts from there, so a stall of the server is charged to
//! every request that should have been sent during it, not only to the one that was (no coordinated omission).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub struct Schedule {
    begin: Instant,
    per_second: u32,
    /// Arrivals that have become due since the beginning.
    due: u64,
    waiting: VecDeque<Instant>,
}

impl Schedule {
    pub fn new(begin: Instant, per_second: u32) -> Schedule {
        Schedule { begin, per_second: per_second.max(1), due: 0, waiting: VecDeque::new() }
    }

    /// Time between two arrivals.
    pub fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.per_second
    }

    /// Takes in all that has become due by `now`, and returns how many that were.
    pub fn handle_time(&mut self, now: Instant) -> usize {
        let before = self.waiting.len();
        while self.intended_start(self.due) <= now {
            self.waiting.push_back(self.intended_start(self.due));
            self.due += 1;
        }
        self.waiting.len() - before
    }

    /// The intended start of the request that a free connection should send now.
    pub fn next_request(&mut self) -> Option<Instant> {
        self.waiting.pop_front()
    }

    /// Those that wait and were due at or after `since`. At the end of the run they are the ones that were never sent.
    pub fn waiting_since(&self, since: Instant) -> u64 {
        self.waiting.iter().filter(|intended| **intended >= since).count() as u64
    }

    /// Computed from the beginning each time, so that rounding never adds up.
    fn intended_start(&self, index: u64) -> Instant {
        let per_second = u64::from(self.per_second);
        let nanoseconds = (index % per_second) * 1_000_000_000 / per_second;
        self.begin + Duration::from_secs(index / per_second) + Duration::from_nanos(nanoseconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn arrivals_keep_the_rate_without_drift() {
        let begin = Instant::now();
        for (per_second, after, expected) in [
            (1000, Duration::ZERO, 1),
            (1000, 999 * MS, 1000),
            (1000, 1000 * MS, 1001),
            (3, 1000 * MS, 4),
            (3, 333 * MS, 1),
            (7, 100_000 * MS, 701),
            (5000, 3_600_000 * MS, 18_000_001),
        ] {
            let mut schedule = Schedule::new(begin, per_second);
            assert_eq!(schedule.handle_time(begin + after), expected, "{per_second}/s after {after:?}");
            assert_eq!(schedule.handle_time(begin + after), 0);
        }
    }

    /// One connection, a server that answers in `service` but stands still for `stall` once. Returns the latencies.
    fn simulate(per_second: u32, run: Duration, service: Duration, stall_at: Duration, stall: Duration) -> (Vec<Duration>, u64) {
        let begin = Instant::now();
        let mut schedule = Schedule::new(begin, per_second);
        let mut free_at = begin;
        let mut stalled = false;
        let mut latencies = Vec::new();
        let mut now = begin;
        while now < begin + run {
            schedule.handle_time(now);
            if free_at <= now
                && let Some(intended) = schedule.next_request()
            {
                let pause = if !stalled && now >= begin + stall_at { stall } else { Duration::ZERO };
                stalled |= !pause.is_zero();
                free_at = now + service + pause;
                latencies.push(free_at - intended);
            }
            now += MS / 10;
        }
        (latencies, schedule.waiting_since(begin))
    }

    #[test]
    fn a_stall_is_charged_to_each_request_that_should_have_been_sent_during_it() {
        let (latencies, never_sent) = simulate(100, 4000 * MS, MS, 1000 * MS, 1000 * MS);
        let late = latencies.iter().filter(|latency| **latency > 100 * MS).count();
        // A hundred arrivals fall into the second of the stall; a generator that waits for answers would report one slow request.
        assert!((85..=105).contains(&late), "{late} late requests");
        assert!(latencies.iter().max() >= Some(&(1000 * MS)));
        assert_eq!(never_sent, 0);
    }

    #[test]
    fn what_a_slow_server_leaves_is_counted_as_never_sent() {
        let (latencies, never_sent) = simulate(1000, 1000 * MS, 2 * MS, 10_000 * MS, Duration::ZERO);
        assert!((495..=505).contains(&latencies.len()));
        assert!((495..=505).contains(&never_sent));
    }
}
