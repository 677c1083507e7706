//! What the kernel says about this process: memory, CPU time, open files. Each is missing where `/proc` is.

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

#[derive(Debug)]
pub(super) struct ProcessNumbers {
    pub resident_bytes: Option<u64>,
    pub cpu_seconds: f64,
    pub open_fds: Option<u64>,
    /// As many as may be open; `None` where nothing bounds them.
    pub max_fds: Option<u64>,
}

pub(super) fn read() -> ProcessNumbers {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    ProcessNumbers {
        resident_bytes: std::fs::read_to_string("/proc/self/status").ok().and_then(|text| resident_bytes(&text)),
        cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
        // Less one: the directory itself is open while it is being read.
        open_fds: std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count().saturating_sub(1) as u64),
        max_fds: getrlimit(Resource::Nofile).current,
    }
}

/// Among other lines: `VmRSS:   12345 kB`
fn resident_bytes(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::{read, resident_bytes};

    #[test]
    fn resident_memory_is_read_from_the_status_file() {
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t   12345 kB\nRssAnon:\t 1 kB\n"), Some(12345 * 1024));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
        assert_eq!(resident_bytes("VmRSS:\tmany kB\n"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_all_of_them() {
        let numbers = read();
        assert!(numbers.resident_bytes.is_some_and(|bytes| bytes > 100_000));
        assert!(numbers.open_fds.is_some_and(|count| count >= 3));
        assert!(numbers.max_fds.is_none_or(|max| numbers.open_fds.is_some_and(|open| open <= max)));
        assert!(numbers.cpu_seconds > 0.0);
    }
}
