//! What the kernel says about processes: CPU time, memory, children, the machine itself.
//! CPU time is the scheduler's own count in nanoseconds, user and system together; the clock-tick figures of `stat` are
//! too coarse for one-second rounds and serve for what has ended alone.

use std::fs;
use std::io;

pub type ProcessId = u32;

/// What Linux counts in where it tells programs of time; the same on all common processors.
const TICKS_PER_SECOND: u64 = 100;
/// Fields of `stat` between the name and the times of the process itself, its ended threads among them, and those of
/// children that have ended.
const OWN_TICKS: usize = 11;
const ENDED_CHILDREN_TICKS: usize = 13;

/// CPU time that the living threads of these processes have used, in nanoseconds.
pub fn cpu_ns(processes: &[ProcessId]) -> io::Result<u64> {
    let mut sum = 0;
    for process in processes {
        for task in fs::read_dir(format!("/proc/{process}/task"))? {
            // A thread may end between the listing and the reading, and takes its time with it. The threads that serve
            // requests stay.
            let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
            sum += parse_schedstat(&text).ok_or_else(|| io::Error::other(format!("schedstat says {text:?}")))?;
        }
    }
    Ok(sum)
}

/// CPU time that all processors have been busy since the machine started, interrupts and what a hypervisor took
/// included, in microseconds. It counts in hundredths of a second. Zero where the kernel does not tell.
pub fn machine_cpu_us() -> f64 {
    parse_machine_cpu_us(&fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or(0.0)
}

/// Resident memory of these processes together, in bytes. Pages that they share are counted in each.
pub fn resident_bytes(processes: &[ProcessId]) -> io::Result<u64> {
    sum_of_status(processes, "VmRSS:")
}

/// Memory with pages that several processes share divided among them, so that each is counted once.
pub fn proportional_bytes(processes: &[ProcessId]) -> io::Result<u64> {
    let of = |process: &ProcessId| {
        let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
        parse_kib(&text, "Pss:").ok_or_else(|| io::Error::other("no Pss:"))
    };
    processes.iter().map(of).sum()
}

/// CPU time of a process, of all that descend from it, and of threads and processes of them that have ended, in
/// nanoseconds. Of what has ended it is known in hundredths of a second only.
pub fn family_cpu_ns(root: ProcessId) -> io::Result<u64> {
    let mut sum = 0;
    for process in with_descendants(root)? {
        // One that ends between the listing and the reading is in the time of its parent, at the next reading.
        sum += process_cpu_ns(process) + ended_children_cpu_ns(process).unwrap_or(0);
    }
    Ok(sum)
}

/// The time of its living threads is exact and lacks those that have ended; that of the process has them, rounded down.
fn process_cpu_ns(process: ProcessId) -> u64 {
    cpu_ns(&[process]).unwrap_or(0).max(stat_cpu_ns(process, OWN_TICKS).unwrap_or(0))
}

/// CPU time of the children of a process that it has waited for, with theirs.
pub fn ended_children_cpu_ns(process: ProcessId) -> io::Result<u64> {
    stat_cpu_ns(process, ENDED_CHILDREN_TICKS)
}

fn stat_cpu_ns(process: ProcessId, skipped: usize) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let ticks = parse_ticks(&stat, skipped).ok_or_else(|| io::Error::other("no time of the process"))?;
    Ok(ticks * (1_000_000_000 / TICKS_PER_SECOND))
}

fn sum_of_status(processes: &[ProcessId], field: &str) -> io::Result<u64> {
    let mut sum = 0;
    for process in processes {
        let text = fs::read_to_string(format!("/proc/{process}/status"))?;
        sum += parse_kib(&text, field).ok_or_else(|| io::Error::other(format!("no {field}")))?;
    }
    Ok(sum)
}

/// The most that was resident of these processes since they started, together, in bytes.
pub fn peak_resident_bytes(processes: &[ProcessId]) -> io::Result<u64> {
    sum_of_status(processes, "VmHWM:")
}

/// Whether one of these processes holds a listening TCP socket on the port. Connecting would not tell: another process
/// may share the port.
pub fn listen_on(processes: &[ProcessId], port: u16) -> bool {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<String> =
        tables.iter().flat_map(|table| listening_inodes(table, port)).map(|inode| format!("socket:[{inode}]")).collect();
    let holds_one = |process: &ProcessId| {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
        // A descriptor may be closed between the listing and the reading.
        let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        targets.any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
    };
    processes.iter().any(holds_one)
}

/// A process and all that descend from it, itself first.
pub fn with_descendants(root: ProcessId) -> io::Result<Vec<ProcessId>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(process) = entry?.file_name().to_str().and_then(|name| name.parse::<ProcessId>().ok()) else { continue };
        // A process may be gone between the listing and the reading.
        let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { continue };
        if let Some(parent) = parse_parent(&stat) {
            parents.push((process, parent));
        }
    }
    let mut family = vec![root];
    let mut next = 0;
    while next < family.len() {
        let parent_id = family[next];
        family.extend(parents.iter().filter(|(_, parent)| *parent == parent_id).map(|(process, _)| *process));
        next += 1;
    }
    Ok(family)
}

/// A report is for others: folders of its author's machine are nobody's business, and differ from run to run.
pub fn without_private_folders(text: &str) -> String {
    let mut text = text.to_owned();
    // From the root of all folders nothing would be left of any path.
    let here =
        std::env::current_dir().ok().filter(|folder| folder.parent().is_some()).map(|folder| format!("{}/", folder.display()));
    let home = std::env::var("HOME").ok().filter(|home| home.len() > 1).map(|home| format!("{home}/"));
    for (folder, short) in [(here, ""), (home, "~/")] {
        if let Some(folder) = folder.filter(|folder| folder.len() > 1) {
            text = text.replace(&folder, short);
        }
    }
    text
}

/// What a report says about where it was measured.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    pub system: String,
}

pub fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let field = |name: &str| {
        cpuinfo.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    };
    let family = [("cpu family", "family"), ("model\t", "model")]
        .iter()
        .filter_map(|(name, label)| Some(format!("{label} {}", field(name)?)))
        .collect::<Vec<_>>()
        .join(" ");
    let memory_kib =
        read("/proc/meminfo").lines().next().and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    let os_release = read("/etc/os-release");
    let system = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("unknown").trim_matches('"');
    Machine {
        cpu: format!("{} ({family})", field("model name").unwrap_or("unknown")),
        cores: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
        memory_bytes: memory_kib.unwrap_or(0) * 1024,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        system: system.to_owned(),
    }
}

/// The first of three numbers is time on the CPU in nanoseconds.
fn parse_schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The first line is `cpu user nice system idle iowait irq softirq steal …` in ticks; guests are within user already.
fn parse_machine_cpu_us(stat: &str) -> Option<f64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_ascii_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = ticks[..] else { return None };
    Some((user + nice + system + irq + softirq + steal) * 1e6 / TICKS_PER_SECOND as f64)
}

fn parse_kib(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Of `/proc/net/tcp`: sockets in state LISTEN (0A) with this local port, which stands in hexadecimal behind the
/// address.
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    let wanted = format!(":{port:04X}");
    let inode = |line: &str| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let listening = words.get(3) == Some(&"0A") && words.get(1).is_some_and(|address| address.ends_with(&wanted));
        listening.then(|| words.get(9).map(|inode| (*inode).to_owned())).flatten()
    };
    table.lines().skip(1).filter_map(inode).collect()
}

/// The command name stands in parentheses and may hold anything, so fields are counted from the last one.
fn parse_parent(stat: &str) -> Option<ProcessId> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// User and system time, which stand side by side behind `skipped` fields.
fn parse_ticks(stat: &str, skipped: usize) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(skipped);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_files_are_read() {
        assert_eq!(parse_schedstat("534677775 3299445 119\n"), Some(534_677_775));
        assert_eq!(parse_schedstat(""), None);
        let stat = "cpu  10 1 5 1000 9 2 3 4 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(parse_machine_cpu_us(stat).map(|us| us as u64), Some(250_000));
        assert_eq!(parse_machine_cpu_us("cpu 1 2"), None);
        assert_eq!(parse_kib("Name:\tx\nVmRSS:\t    1234 kB\nRssAnon:\t 1 kB\n", "VmRSS:"), Some(1234 * 1024));
        assert_eq!(parse_kib("Name:\tkthreadd\n", "VmRSS:"), None);
        assert_eq!(parse_parent("12 (a) b) (c) S 7 12 12 0"), Some(7));
        let stat = "12 (a) b) (c) S 7 12 12 0 -1 4194560 1 2 3 4 100 200 30 5 20 0 1 0 99 1000 10";
        assert_eq!(parse_ticks(stat, ENDED_CHILDREN_TICKS), Some(35));
        assert_eq!(parse_ticks(stat, OWN_TICKS), Some(300));
        assert_eq!(parse_ticks("12 (a) S 7 12", OWN_TICKS), None);
    }

    #[test]
    fn a_thread_that_has_ended_is_in_the_time_of_its_process() {
        let of_this_thread = || parse_schedstat(&fs::read_to_string("/proc/thread-self/schedstat").unwrap()).unwrap();
        let before = family_cpu_ns(std::process::id()).unwrap();
        std::thread::spawn(move || while of_this_thread() < 50_000_000 {}).join().unwrap();
        assert!(family_cpu_ns(std::process::id()).unwrap() - before >= 30_000_000);
    }

    #[test]
    fn private_folders_are_not_told() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(without_private_folders(&format!("{}/target/x -c /etc/y", here.display())), "target/x -c /etc/y");
    }

    #[test]
    fn a_listening_socket_is_found_with_its_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listen_on(&[std::process::id()], port));
        assert!(!listen_on(&[1], port));
        drop(listener);
        assert!(!listen_on(&[std::process::id()], port));
    }

    #[test]
    fn this_process_uses_memory() {
        let own = [std::process::id()];
        assert!(resident_bytes(&own).unwrap() > 100_000);
        assert!((100_000..=resident_bytes(&own).unwrap() * 2).contains(&proportional_bytes(&own).unwrap()));
    }

    #[test]
    fn children_of_children_are_found() {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "sleep 30 & echo $!; wait"]).stdout(std::process::Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut line).unwrap();
        let grandchild: ProcessId = line.trim().parse().unwrap();
        let family = with_descendants(shell.id()).unwrap();
        shell.kill().unwrap();
        shell.wait().unwrap();
        let signalled = rustix::process::kill_process(
            rustix::process::Pid::from_raw(grandchild as i32).unwrap(),
            rustix::process::Signal::KILL,
        );
        assert_eq!(family, [shell.id(), grandchild]);
        assert!(signalled.is_ok());
    }
}
