//! Arrivals at a constant rate: which requests are due, which wait for a client, which are dropped. Pure; time is
//! handed in. Each arrival keeps the moment at which it was meant to begin. Its latency counts from there, so a stall
//! of the server is charged to every request that should have been sent during it, not only to the one that was (no
//! coordinated omission).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub struct Schedule {
    begin: Instant,
    /// Of all threads together.
    per_second: u32,
    /// This thread takes every `threads`th arrival, beginning with number `thread`.
    threads: u64,
    thread: u64,
    /// Arrivals of this thread that have become due since the beginning.
    due: u64,
    waiting: VecDeque<Instant>,
}

impl Schedule {
    pub fn new(begin: Instant, per_second: u32, thread: usize, threads: usize) -> Schedule {
        let (thread, threads) = (thread as u64, threads.max(1) as u64);
        Schedule { begin, per_second: per_second.max(1), threads, thread, due: 0, waiting: VecDeque::new() }
    }

    /// Time between two arrivals of this thread.
    pub fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.per_second * self.threads as u32
    }

    /// Takes in all that has become due by `now`.
    pub fn handle_time(&mut self, now: Instant) {
        while self.intended_start(self.due) <= now {
            self.waiting.push_back(self.intended_start(self.due));
            self.due += 1;
        }
    }

    /// The intended start of the request that a free client should send now.
    pub fn next_request(&mut self) -> Option<Instant> {
        self.waiting.pop_front()
    }

    /// Gives up what waits, and returns how many arrivals that were.
    pub fn drop_waiting(&mut self) -> u64 {
        let count = self.waiting.len() as u64;
        self.waiting.clear();
        count
    }

    /// Arrivals that wait. At the end of the run they are the ones that were never sent.
    pub fn waiting(&self) -> impl Iterator<Item = Instant> {
        self.waiting.iter().copied()
    }

    /// Computed from the beginning each time, so that rounding never adds up.
    fn intended_start(&self, index: u64) -> Instant {
        let index = index * self.threads + self.thread;
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
            for threads in [1, 3] {
                let due = |thread| {
                    let mut schedule = Schedule::new(begin, per_second, thread, threads);
                    schedule.handle_time(begin + after);
                    let due = schedule.waiting().count();
                    schedule.handle_time(begin + after);
                    assert_eq!(schedule.waiting().count(), due);
                    due
                };
                assert_eq!((0..threads).map(due).sum::<usize>(), expected, "{per_second}/s after {after:?}, {threads} threads");
            }
        }
    }

    /// One client, a server that answers in `service` but stands still for `stall` once. Returns the latencies.
    fn simulate(
        per_second: u32,
        run: Duration,
        service: Duration,
        stall_at: Duration,
        stall: Duration,
    ) -> (Vec<Duration>, usize) {
        let begin = Instant::now();
        let mut schedule = Schedule::new(begin, per_second, 0, 1);
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
        (latencies, schedule.waiting().count())
    }

    #[test]
    fn a_stall_is_charged_to_each_request_that_should_have_been_sent_during_it() {
        let (latencies, never_sent) = simulate(100, 4000 * MS, MS, 1000 * MS, 1000 * MS);
        let late = latencies.iter().filter(|latency| **latency > 100 * MS).count();
        // A hundred arrivals fall into the second of the stall; a generator that waits for answers would report one
        // slow request.
        assert!((85..=105).contains(&late), "{late} late requests");
        assert!(latencies.iter().max() >= Some(&(1000 * MS)));
        assert_eq!(never_sent, 0);
    }

    #[test]
    fn what_a_slow_server_leaves_is_never_sent() {
        let (latencies, never_sent) = simulate(1000, 1000 * MS, 2 * MS, 10_000 * MS, Duration::ZERO);
        assert!((495..=505).contains(&latencies.len()));
        assert!((495..=505).contains(&never_sent));
    }

    #[test]
    fn what_is_dropped_does_not_come_back() {
        let begin = Instant::now();
        let mut schedule = Schedule::new(begin, 1000, 0, 1);
        schedule.handle_time(begin + 10 * MS);
        assert_eq!(schedule.next_request(), Some(begin));
        assert_eq!((schedule.drop_waiting(), schedule.next_request()), (10, None));
    }
}
