//! The memory budget: what the process may use, what it uses, and near the bound that new requests are refused, so that
//! those on their way are finished instead of all being killed. Refusing is done by the workers, which look at one
//! flag.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tidegate_model::Memory;
use tidegate_proxy::process_state::ProcessState;

/// How often what is used is looked at.
pub const SAMPLE_PERIOD: Duration = Duration::from_millis(250);
/// How often the bound of the cgroup is read again, which may be changed while the process runs.
const BUDGET_PERIOD: Duration = Duration::from_secs(10);
/// Of the budget: from here on requests are refused.
const HIGH_PERCENT: u64 = 90;
/// Of the budget: from here down they are taken again.
const LOW_PERCENT: u64 = 85;

/// What the process may use, as it was found last.
#[derive(Default)]
pub(crate) struct MemoryBudget(Option<Known>);

struct Known {
    setting: Memory,
    looked_at: Instant,
    bytes: Option<u64>,
}

impl MemoryBudget {
    /// Compares what is used with the budget, tells metrics, and has workers refuse or take requests again.
    pub fn look(&mut self, setting: Memory, process: &ProcessState) {
        let (pressure, metrics) = (&process.pressure, process.registry.memory());
        let Some(budget) = self.bytes(setting) else {
            if pressure.is_high() {
                pressure.set_high(false);
            }
            metrics.set_budget(None);
            return;
        };
        let used = used_bytes().unwrap_or(0);
        let was_high = pressure.is_high();
        let is_high = is_high(was_high, used, budget);
        metrics.set_budget(Some(budget));
        metrics.set_used(used);
        metrics.set_shedding(is_high);
        if was_high == is_high {
            return;
        }
        pressure.set_high(is_high);
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

    /// Bytes; `None` when there is no bound.
    pub fn bytes(&mut self, setting: Memory) -> Option<u64> {
        let now = Instant::now();
        if let Some(known) = &self.0
            && known.setting == setting
            && now.saturating_duration_since(known.looked_at) < BUDGET_PERIOD
        {
            return known.bytes;
        }
        let bytes = match setting {
            Memory::Auto => cgroup_bytes().or_else(machine_bytes),
            Memory::Bytes(bytes) => Some(bytes),
            Memory::Off => None,
        };
        self.0 = Some(Known { setting, looked_at: now, bytes });
        bytes
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

/// The least bound of the cgroup and those around it, version 2 or 1.
fn cgroup_bytes() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut least: Option<u64> = None;
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (controllers, path) = (parts.nth(1)?, parts.next()?);
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            controllers if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let within = Path::new(path.trim_start_matches('/'));
        let bounds = within.ancestors().filter_map(|part| fs::read_to_string(Path::new(root).join(part).join(file)).ok());
        least = bounds.filter_map(|text| bound(&text)).chain(least).min();
    }
    least
}

/// `max`, and the nearly endless number of version 1, are no bound.
fn bound(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < 1 << 60)
}

fn machine_bytes() -> Option<u64> {
    kib(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// A line of /proc, in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::{bound, is_high, kib, machine_bytes, used_bytes};

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
    fn bounds_are_read_as_the_kernel_writes_them() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(bound(text), expected, "{text}");
        check("max\n", None);
        check("536870912\n", Some(512 << 20));
        check("9223372036854771712\n", None);
        check("", None);
        assert_eq!(kib("MemFree: 1 kB\nMemTotal:       16316412 kB\n", "MemTotal:"), Some(16_316_412 * 1024));
        assert_eq!(kib("MemTotal: many\n", "MemTotal:"), None);
    }

    #[test]
    fn this_machine_has_memory_and_this_process_uses_some_of_it() {
        let (used, machine) = (used_bytes().expect("read"), machine_bytes().expect("read"));
        assert!(used > 1 << 16 && used < machine, "{used} of {machine}");
    }
}
