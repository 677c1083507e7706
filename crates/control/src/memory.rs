//! The memory budget: what the process may use, found out and looked at. Near the bound new requests are refused, which
//! is decided and done in `proxy::pressure`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tidegate_model::Memory;
use tidegate_proxy::control_group::{ControlGroup, GroupVersion};
use tidegate_proxy::pressure::kib;
use tidegate_proxy::process_state::ProcessState;

/// Who has the allocator says how it gives memory back.
pub use tidegate_transport::memory::set_purge;

/// How often what is used is looked at.
pub const SAMPLE_PERIOD: Duration = Duration::from_millis(250);
/// How often the bound of the cgroup is read again, which may be changed while the process runs.
const BUDGET_PERIOD: Duration = Duration::from_secs(10);

/// What the program reserves of addresses, most of it never used: threads' stacks and what the allocator keeps apart.
/// A build of two workers did not start reliably with half of it.
const ADDRESS_SPACE_LEAST: u64 = 1 << 30;

/// Fails where fewer addresses may be reserved (`ulimit -v`) than the program does. The allocator and the library of
/// threads abort without a word that helps when they get none; this says it while there are enough to say so.
pub fn check_address_space() -> Result<(), String> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
    match limit.filter(|bytes| *bytes < ADDRESS_SPACE_LEAST) {
        None => Ok(()),
        Some(bytes) => Err(format!(
            "the address space is limited to {} MiB, and Tidegate reserves up to {} MiB, of which it uses little\n  \
             help: raise the limit (`ulimit -v unlimited`, or LimitAS of the unit) and bound what is used with `memory`",
            bytes >> 20,
            ADDRESS_SPACE_LEAST >> 20,
        )),
    }
}

/// What the process may use, as it was found last.
#[derive(Default)]
pub(crate) struct MemoryBudget(Option<Known>);

struct Known {
    setting: Memory,
    looked_at: Instant,
    bytes: Option<u64>,
    group: Option<ControlGroup>,
}

impl MemoryBudget {
    /// Compares what is used with the budget, tells metrics, and has workers refuse or take requests again.
    pub fn look(&mut self, setting: Memory, process: &ProcessState) {
        let (pressure, metrics) = (&process.pressure, process.registry.memory());
        let budget = self.bytes(setting);
        pressure.set_group(self.0.as_ref().and_then(|known| known.group.clone()));
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
        // The kernel knows no setting: who takes more than the group may is ended.
        let group = if setting == Memory::Off { None } else { least_group(Path::new(CGROUP_MOUNT), &own_groups()) };
        let of_group = group.as_ref().map(ControlGroup::bound_bytes);
        let bytes = match setting {
            Memory::Auto => of_group.or_else(machine_bytes),
            Memory::Bytes(bytes) => Some(bytes),
            Memory::Off => None,
        };
        self.0 = Some(Known { setting, looked_at: now, bytes, group });
        bytes
    }
}

/// Where every distribution and container engine shows control groups.
const CGROUP_MOUNT: &str = "/sys/fs/cgroup";

/// A line for each hierarchy: its number, its controllers, the path of the process's group in it.
fn own_groups() -> String {
    fs::read_to_string("/proc/self/cgroup").unwrap_or_default()
}

/// Of the process's group and those around it, in version 2 and 1, the one with the least bound. Inside a container
/// the path may be the host's, and what is mounted the container's own: then the mount is the group.
fn least_group(mount: &Path, own: &str) -> Option<ControlGroup> {
    let groups = own.lines().filter_map(hierarchy).flat_map(|(version, folder, path)| {
        let root = mount.join(folder);
        let within = PathBuf::from(path.trim_start_matches('/'));
        let around: Vec<PathBuf> = within.ancestors().map(|part| root.join(part)).collect();
        around.into_iter().filter_map(move |folder| ControlGroup::at(&folder, version))
    });
    groups.min_by_key(ControlGroup::bound_bytes)
}

/// The version of a hierarchy that bounds memory, its folder in the mount, and the path in it.
fn hierarchy(line: &str) -> Option<(GroupVersion, &'static str, &str)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    match controllers {
        "" => Some((GroupVersion::Two, "", path)),
        controllers if controllers.split(',').any(|name| name == "memory") => Some((GroupVersion::One, "memory", path)),
        _ => None,
    }
}

fn machine_bytes() -> Option<u64> {
    kib(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

#[cfg(test)]
mod tests {
    use super::{least_group, machine_bytes};
    use std::fs;
    use tidegate_proxy::control_group::ControlGroup;

    /// Folders as `/sys/fs/cgroup` shows them, of each way in which systems are set up.
    #[test]
    fn the_least_bound_counts_of_the_group_and_those_around_it() {
        let check = |own: &str, files: &[(&str, &str)], expected: Option<u64>| {
            let mount = tempfile::tempdir().expect("a folder");
            for (file, text) in files {
                let file = mount.path().join(file);
                fs::create_dir_all(file.parent().expect("in the mount")).expect("a folder");
                fs::write(file, text).expect("written");
            }
            let group = least_group(mount.path(), own);
            assert_eq!(group.as_ref().map(ControlGroup::bound_bytes), expected, "{own} {files:?}");
        };
        // Version 2: a service of systemd, and a container that sees its own group as the root.
        check("0::/system.slice/a.service\n", &[("system.slice/a.service/memory.max", "1000\n")], Some(1000));
        check(
            "0::/system.slice/a.service\n",
            &[("system.slice/memory.max", "900\n"), ("system.slice/a.service/memory.max", "max\n")],
            Some(900),
        );
        check("0::/a\n", &[("a/memory.max", "1000\n"), ("a/memory.high", "800\n")], Some(800));
        check("0::/\n", &[("memory.max", "1000\n")], Some(1000));
        check("0::/host/path/of/a/container\n", &[("memory.max", "700\n")], Some(700));
        check("0::/a\n", &[("a/memory.max", "max\n")], None);
        // Version 1, and both at the same time.
        let one = "9:name=systemd:/\n4:cpu,memory:/docker/a\n0::/\n";
        check(one, &[("memory/docker/a/memory.limit_in_bytes", "500\n")], Some(500));
        check(
            one,
            &[("memory/memory.limit_in_bytes", "9223372036854771712\n"), ("memory/docker/a/memory.limit_in_bytes", "500\n")],
            Some(500),
        );
        check(one, &[("memory/memory.limit_in_bytes", "600\n")], Some(600));
        check("", &[("memory.max", "1000\n")], None);
        check("what no kernel writes\n0::/a\n", &[("a/memory.max", "1000\n")], Some(1000));
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(machine_bytes().expect("read") > 1 << 20);
    }
}
