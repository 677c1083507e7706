//! How near the process is to its memory's bound. Near it, connections that hold most are ended; nearer, no new
//! requests are taken: then those on their way are finished, instead of all being killed. The control thread looks a
//! few times a second, and a worker does when connections have taken much since: a burst of clients is faster than any
//! clock.
//! Which connections are ended is `relief`'s, what a control group uses is `control_group`'s.

use crate::control_group::ControlGroup;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tidegate_transport::memory;

/// Of the budget: from here on requests are refused.
const HIGH_PERCENT: u64 = 90;
/// Of the budget: from here down they are taken again.
const LOW_PERCENT: u64 = 85;
/// Of the budget: from here on those who hold most are ended, so that others need not be refused.
const NEAR_PERCENT: u64 = 75;
/// Of the budget: down to here they are.
const RELIEVED_PERCENT: u64 = 68;
/// The part of the budget that connections may take whatever else does.
const CONNECTIONS_PART: u64 = 8;
/// Of the budget: from here on what waits to be sent is kept in no larger a buffer than it needs.
const TIGHT_PERCENT: u64 = 50;
/// Of the budget: from here on connections are accepted one by one with pauses. They wait in the kernel meanwhile.
const LAST_PERCENT: u64 = 95;
/// The part of the budget that connections may take before somebody looks what the process uses. Small beside what is
/// left from [`HIGH_PERCENT`] on, as requests that were let in take more later.
const LOOK_PART: u64 = 32;
/// Of the budget: from here on nothing is read before some is freed. Below what has requests refused, so that those who
/// hold most are ended first.
const STOP_PERCENT: u64 = 85;
/// The part of what is left up to there that connections may take before somebody looks: what they take beside what
/// they tell of is seen by then.
const LEASE_PART: u64 = 4;
/// The part of the budget that may be used to compress answers: slow readers keep an encoder for minutes.
const ENCODERS_PART: u64 = 8;
/// While requests are refused, one of so many has it looked at anew.
const REFUSED_PER_LOOK: u64 = 8;
/// At the least, so that a small budget does not make every request look.
const LOOK_BYTES_LEAST: u64 = 1 << 20;

/// The state that all workers read.
#[derive(Debug)]
pub struct Pressure {
    is_high: AtomicBool,
    /// Nearly nothing is left.
    is_last: AtomicBool,
    /// What connections will have taken when a worker looks. Nobody does at [`NEVER`].
    look_at: AtomicU64,
    /// Asks of workers to end connections, counted; each worker answers one once.
    relief_round: AtomicU64,
    /// What they are to free together.
    relief_bytes: AtomicU64,
    /// What the connection held that held most, as far as workers know.
    heaviest_bytes: AtomicU64,
    /// Requests that found it high.
    refused: AtomicU64,
    /// A worker looks for its readers.
    is_looking: AtomicBool,
    group: Mutex<Option<ControlGroup>>,
}

const NEVER: u64 = u64::MAX;

impl Default for Pressure {
    fn default() -> Pressure {
        Pressure {
            is_high: AtomicBool::new(false),
            is_last: AtomicBool::new(false),
            look_at: AtomicU64::new(NEVER),
            relief_round: AtomicU64::new(0),
            relief_bytes: AtomicU64::new(0),
            heaviest_bytes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            is_looking: AtomicBool::new(false),
            group: Mutex::default(),
        }
    }
}

/// What workers are asked to free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relief {
    pub round: u64,
    pub bytes: u64,
}

impl Pressure {
    /// Asked for each request that would take memory.
    #[inline]
    pub fn is_high(&self) -> bool {
        self.look_if_due();
        self.is_high.load(Ordering::Relaxed) && self.is_still_high()
    }

    /// Looks again now and then while requests are refused: those who held most may have been ended meanwhile.
    #[cold]
    fn is_still_high(&self) -> bool {
        if self.refused.fetch_add(1, Ordering::Relaxed).is_multiple_of(REFUSED_PER_LOOK) {
            self.look(memory::budget_bytes());
        }
        self.is_high.load(Ordering::Relaxed)
    }

    /// Whether connections are to be accepted slowly.
    pub fn is_last(&self) -> bool {
        self.look_if_due();
        self.is_last.load(Ordering::Relaxed)
    }

    #[inline]
    fn look_if_due(&self) {
        if memory::taken_bytes() >= self.look_at.load(Ordering::Relaxed) {
            self.look_early();
        }
    }

    /// What a worker is to do that has done so up to that round.
    #[inline]
    pub fn relief_since(&self, round: u64) -> Option<Relief> {
        let now = self.relief_round.load(Ordering::Acquire);
        (now != round).then(|| Relief { round: now, bytes: self.relief_bytes.load(Ordering::Relaxed) })
    }

    /// Notes what the heaviest connection of a worker holds, and says what the heaviest of all does.
    pub fn note_heaviest(&self, bytes: u64) -> u64 {
        self.heaviest_bytes.fetch_max(bytes, Ordering::Relaxed).max(bytes)
    }

    /// The control group whose bound is the process's as well.
    pub fn set_group(&self, group: Option<ControlGroup>) {
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = group;
    }

    /// Looks because readers wait for it, unless another worker does.
    pub fn look_for_readers(&self) {
        if !self.is_looking.swap(true, Ordering::Acquire) {
            self.look(memory::budget_bytes());
            self.is_looking.store(false, Ordering::Release);
        }
    }

    /// Looks, unless another worker is about to: then this one goes on with what is known.
    #[cold]
    fn look_early(&self) {
        if self.look_at.swap(NEVER, Ordering::Relaxed) != NEVER {
            self.look(memory::budget_bytes());
        }
    }

    /// Takes note of the budget, compares what is used with it, and has requests refused or taken again and those
    /// ended who hold most. What is used; nothing is where there is no bound.
    pub fn look(&self, budget: Option<u64>) -> u64 {
        memory::set_budget(budget);
        tidegate_coding::give_encoders(budget.map(|bytes| bytes / ENCODERS_PART));
        let Some(budget) = budget else {
            memory::lease_to(None);
            self.look_at.store(NEVER, Ordering::Relaxed);
            self.is_high.store(false, Ordering::Relaxed);
            self.is_last.store(false, Ordering::Relaxed);
            memory::set_tight(false);
            return 0;
        };
        // Before what is used: what comes between the two counts twice, and not never.
        let (ever_taken, taken) = (memory::ever_taken_bytes(), memory::taken_bytes());
        let mut usage = self.usage(budget);
        if usage.is_from(NEAR_PERCENT) {
            // What the allocator keeps is nobody's, and nobody is ended for it.
            memory::purge();
            usage = self.usage(budget);
        }
        self.ask_for_relief(usage, memory::taken_bytes());
        memory::lease_to(Some(ever_taken + usage.lease(taken)));
        memory::set_tight(usage.is_from(TIGHT_PERCENT) || memory::is_lease_used_up());
        self.is_last.store(usage.is_from(LAST_PERCENT), Ordering::Relaxed);
        let was_high = self.is_high.load(Ordering::Relaxed);
        let is_high = usage.is_from(if was_high { LOW_PERCENT } else { HIGH_PERCENT });
        self.look_at.store(memory::taken_bytes() + usage.look_bytes(), Ordering::Relaxed);
        // Told by the one who makes the change.
        if self.is_high.swap(is_high, Ordering::Relaxed) != is_high {
            tell(is_high, usage);
        }
        usage.used
    }

    /// Where it is not connections that use the memory, but a large configuration, what is kept or another process of
    /// the group, ending them would help nobody.
    fn ask_for_relief(&self, usage: Usage, taken: u64) {
        let relieved = usage.budget / 100 * RELIEVED_PERCENT;
        let wanted = usage.used.saturating_sub(relieved).min(taken.saturating_sub(usage.budget / CONNECTIONS_PART));
        if !usage.is_from(NEAR_PERCENT) || wanted == 0 {
            return;
        }
        self.relief_bytes.store(wanted, Ordering::Relaxed);
        // What one held that has been ended is forgotten by and by.
        self.heaviest_bytes.store(self.heaviest_bytes.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        self.relief_round.fetch_add(1, Ordering::Release);
    }

    /// What the process uses of its budget, or its control group of its bound: whichever is the nearer.
    fn usage(&self, budget: u64) -> Usage {
        let own = Usage { used: used_bytes().unwrap_or(0), budget };
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        match group.as_ref().and_then(ControlGroup::usage) {
            Some(of_group) if of_group.is_nearer_than(own) => of_group,
            Some(_) | None => own,
        }
    }
}

/// What is used of what may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub used: u64,
    pub budget: u64,
}

impl Usage {
    fn is_from(self, percent: u64) -> bool {
        u128::from(self.used) * 100 >= u128::from(self.budget) * u128::from(percent)
    }

    /// What connections may take before somebody looks.
    fn look_bytes(self) -> u64 {
        (self.budget / LOOK_PART).max(LOOK_BYTES_LEAST)
    }

    /// What connections may take beside what they have before somebody looks and readers go on: the less is left the
    /// less, and nothing at the bound. What else uses memory leaves them their part.
    fn lease(self, taken: u64) -> u64 {
        let left = (self.budget / 100 * STOP_PERCENT).saturating_sub(self.used);
        let lease = (left / LEASE_PART).max(self.look_bytes()).min(left);
        lease.max((self.budget / CONNECTIONS_PART + self.look_bytes()).saturating_sub(taken))
    }

    fn is_nearer_than(self, other: Usage) -> bool {
        u128::from(self.used) * u128::from(other.budget) > u128::from(other.used) * u128::from(self.budget)
    }
}

fn tell(is_high: bool, usage: Usage) {
    let Usage { used, budget } = usage;
    if is_high {
        tracing::error!(
            used_bytes = used,
            budget_bytes = budget,
            "near the memory budget: new requests are refused with 503 until some is free; `memory` sets the budget"
        );
    } else {
        tracing::info!(used_bytes = used, budget_bytes = budget, "memory is free again: requests are taken");
    }
}

/// What is in RAM and has no file behind it. The program's own text is there as well, and the kernel takes it back when
/// memory is short.
fn used_bytes() -> Option<u64> {
    kib(&fs::read_to_string("/proc/self/status").ok()?, "RssAnon:")
}

/// A line of /proc, in bytes.
pub fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::{Pressure, Usage, kib, used_bytes};
    use tidegate_transport::memory;

    #[test]
    fn a_percentage_is_reached_from_its_bound_on() {
        let check = |used: u64, percent: u64, expected: bool| {
            assert_eq!(Usage { used, budget: 1000 }.is_from(percent), expected, "{used} {percent}");
        };
        check(899, 90, false);
        check(900, 90, true);
        check(u64::MAX, 90, true);
        check(849, 85, false);
        assert!(Usage { used: 60, budget: 64 }.is_nearer_than(Usage { used: 90, budget: 100 }));
        assert!(!Usage { used: 90, budget: 100 }.is_nearer_than(Usage { used: 60, budget: 64 }));
    }

    #[test]
    fn the_less_is_left_the_less_is_leased() {
        const MEBIBYTE: u64 = 1 << 20;
        let check = |used: u64, taken: u64, expected: u64| {
            let usage = Usage { used: used * MEBIBYTE, budget: 100 * MEBIBYTE };
            let leased = usage.lease(taken * MEBIBYTE) as f64 / MEBIBYTE as f64;
            assert!((leased - expected as f64).abs() < 0.5, "{used} used, {taken} taken: {leased} and not {expected}");
        };
        check(5, 2, 20);
        check(45, 30, 10);
        // No less at once than is worth a look, and no more than is left.
        check(77, 60, 3);
        check(83, 60, 2);
        check(85, 60, 0);
        check(200, 60, 0);
        // A cache or a configuration that takes it all leaves connections their part.
        check(95, 1, 15);
    }

    #[test]
    fn each_round_is_answered_once() {
        let pressure = Pressure::default();
        assert_eq!(pressure.relief_since(0), None);
        pressure.ask_for_relief(Usage { used: 700, budget: 1000 }, 700);
        assert_eq!(pressure.relief_since(0), None, "there is no need");
        pressure.ask_for_relief(Usage { used: 800, budget: 1000 }, 125);
        assert_eq!(pressure.relief_since(0), None, "it is not connections that use it");
        pressure.ask_for_relief(Usage { used: 800, budget: 1000 }, 700);
        let relief = pressure.relief_since(0).expect("asked for");
        assert_eq!(relief.bytes, 120);
        assert_eq!(pressure.relief_since(relief.round), None);
        assert_eq!(pressure.note_heaviest(100), 100);
        assert_eq!(pressure.note_heaviest(10), 100);
        pressure.ask_for_relief(Usage { used: 800, budget: 1000 }, 165);
        assert_eq!(pressure.relief_since(relief.round).map(|relief| relief.bytes), Some(40));
        assert_eq!(pressure.note_heaviest(10), 50);
    }

    #[test]
    fn a_line_is_read_as_the_kernel_writes_it() {
        assert_eq!(kib("MemFree: 1 kB\nMemTotal:       16316412 kB\n", "MemTotal:"), Some(16_316_412 * 1024));
        assert_eq!(kib("MemTotal: many\n", "MemTotal:"), None);
    }

    /// What the control thread found is not looked at again until connections have taken more; the process of the test
    /// uses more than this budget.
    #[test]
    fn a_worker_looks_when_much_was_taken() {
        let budget = used_bytes().expect("read") / 2;
        let pressure = Pressure::default();
        assert!(!pressure.is_high());
        memory::set_budget(Some(budget));
        pressure.look_at.store(memory::taken_bytes() + (1 << 20), std::sync::atomic::Ordering::Relaxed);
        assert!(!pressure.is_high());
        memory::take(1 << 20);
        assert!(pressure.is_high(), "it was looked at when that much was taken");
        assert_eq!(pressure.look(None), 0);
        assert!(!pressure.is_high());
        memory::give_back(1 << 20);
    }
}
