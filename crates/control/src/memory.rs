//! The memory budget: what the process may use, found out and looked at. Near the bound new requests are refused, which
//! is decided and done in `proxy::pressure`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tidegate_model::Memory;
use tidegate_proxy::pressure::kib;
use tidegate_proxy::process_state::ProcessState;

/// How often what is used is looked at.
pub const SAMPLE_PERIOD: Duration = Duration::from_millis(250);
/// How often the bound of the cgroup is read again, which may be changed while the process runs.
const BUDGET_PERIOD: Duration = Duration::from_secs(10);

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
        let budget = self.bytes(setting);
        let used = pressure.look(budget);
        metrics.set_budget(budget);
        metrics.set_used(used);
        metrics.set_shedding(pressure.is_high());
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

#[cfg(test)]
mod tests {
    use super::{bound, machine_bytes};

    #[test]
    fn bounds_are_read_as_the_kernel_writes_them() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(bound(text), expected, "{text}");
        check("max\n", None);
        check("536870912\n", Some(512 << 20));
        check("9223372036854771712\n", None);
        check("", None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(machine_bytes().expect("read") > 1 << 20);
    }
}
