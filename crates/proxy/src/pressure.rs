//! Whether the process is so near its memory's bound that it takes no new requests: then those on their way are
//! finished, instead of all being killed. The control thread looks a few times a second, and a worker does when
//! connections have taken much since: a burst of clients is faster than any clock.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tidegate_transport::memory;

/// Of the budget: from here on requests are refused.
const HIGH_PERCENT: u64 = 90;
/// Of the budget: from here down they are taken again.
const LOW_PERCENT: u64 = 85;
/// The part of the budget that connections may take before somebody looks what the process uses. Small beside what is
/// left from [`HIGH_PERCENT`] on, as requests that were let in take more later.
const LOOK_PART: u64 = 32;
/// The part of the budget that each worker may use to compress answers: slow readers keep an encoder for minutes.
const ENCODERS_PART: u64 = 16;
/// At the least, so that a small budget does not make every request look.
const LOOK_BYTES_LEAST: u64 = 1 << 20;

/// The state that all workers read.
#[derive(Debug)]
pub struct Pressure {
    is_high: AtomicBool,
    /// What connections will have taken when a worker looks. Nobody does at [`NEVER`].
    look_at: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl Default for Pressure {
    fn default() -> Pressure {
        Pressure { is_high: AtomicBool::new(false), look_at: AtomicU64::new(NEVER) }
    }
}

impl Pressure {
    /// Asked for each request that would take memory.
    #[inline]
    pub fn is_high(&self) -> bool {
        if memory::taken_bytes() >= self.look_at.load(Ordering::Relaxed) {
            self.look_early();
        }
        self.is_high.load(Ordering::Relaxed)
    }

    /// Looks, unless another worker is about to: then this one goes on with what is known.
    #[cold]
    fn look_early(&self) {
        if self.look_at.swap(NEVER, Ordering::Relaxed) != NEVER {
            self.look(memory::budget_bytes());
        }
    }

    /// Takes note of the budget, compares what is used with it, and has requests refused or taken again. What is used;
    /// nothing is where there is no bound.
    pub fn look(&self, budget: Option<u64>) -> u64 {
        memory::set_budget(budget);
        tidegate_coding::give_encoders(budget.map_or(u64::MAX, |bytes| bytes / ENCODERS_PART));
        let Some(budget) = budget else {
            self.look_at.store(NEVER, Ordering::Relaxed);
            self.is_high.store(false, Ordering::Relaxed);
            return 0;
        };
        let taken = memory::taken_bytes();
        let used = used_bytes().unwrap_or(0);
        let was_high = self.is_high.load(Ordering::Relaxed);
        let is_high = is_high(was_high, used, budget);
        self.look_at.store(taken + (budget / LOOK_PART).max(LOOK_BYTES_LEAST), Ordering::Relaxed);
        // Told by the one who makes the change.
        if self.is_high.swap(is_high, Ordering::Relaxed) != is_high {
            tell(is_high, used, budget);
        }
        used
    }
}

fn tell(is_high: bool, used: u64, budget: u64) {
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

/// Between both bounds it stays as it was: otherwise every request that ends would change it.
fn is_high(was_high: bool, used: u64, budget: u64) -> bool {
    let percent = if was_high { LOW_PERCENT } else { HIGH_PERCENT };
    u128::from(used) * 100 >= u128::from(budget) * u128::from(percent)
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
    use super::{Pressure, is_high, kib, used_bytes};
    use tidegate_transport::memory;

    #[test]
    fn it_sheds_from_ninety_percent_until_eighty_five() {
        let check = |was_high: bool, used: u64, expected: bool| assert_eq!(is_high(was_high, used, 1000), expected, "{used}");
        check(false, 899, false);
        check(false, 900, true);
        check(true, 899, true);
        check(true, 850, true);
        check(true, 849, false);
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
