//! System calls per request, counted by strace. Two loads of different length are counted and subtracted,
//! so that accepting, handshakes and opening upstream connections cancel out and the steady state is left.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde::Serialize;

use crate::net::Error;
use crate::procfs::ProcessId;
use crate::stage::child::{self, Child};

/// Attaching to one or two processes takes a few milliseconds.
const ATTACH_TIME: Duration = Duration::from_millis(300);

/// Calls by name.
pub type SyscallCounts = BTreeMap<String, u64>;

/// Per request, in the steady state.
#[derive(Debug, Clone, Serialize)]
pub struct SystemCalls {
    /// Calls that move bytes through a socket.
    pub socket: f64,
    pub all: f64,
    pub by_name: BTreeMap<String, f64>,
}

pub fn is_available() -> bool {
    Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Counts the calls of `processes` while `load` runs.
pub fn count(
    processes: &[ProcessId],
    cores: &[usize],
    folder: &Path,
    load: impl FnOnce() -> Result<u64, Error>,
) -> Result<(SyscallCounts, u64), Error> {
    let table = folder.join("strace.table");
    let mut command = child::pinned(cores, Path::new("strace"))?;
    command.args(["-f", "-c", "-o"]).arg(&table);
    for process in processes {
        command.arg("-p").arg(process.to_string());
    }
    let mut strace = Child::spawn("strace", command, &folder.join("strace.log"))?;
    std::thread::sleep(ATTACH_TIME);
    strace.check_alive()?;
    let requests = load()?;
    // On SIGINT it lets go of the processes and writes its table.
    strace.stop(Signal::INT);
    Ok((parse_table(&std::fs::read_to_string(table)?), requests))
}

/// What the longer load made more than the shorter one, per request that it had more.
pub fn per_request(shorter: &(SyscallCounts, u64), longer: &(SyscallCounts, u64)) -> SystemCalls {
    let requests = longer.1.saturating_sub(shorter.1).max(1) as f64;
    let by_name: BTreeMap<String, f64> = longer
        .0
        .iter()
        .map(|(name, calls)| (name.clone(), calls.saturating_sub(shorter.0.get(name).copied().unwrap_or(0)) as f64 / requests))
        .filter(|(_, calls)| *calls >= 0.005)
        .collect();
    // From zero: the sum of nothing, as of a ring's calls of sockets, is -0.
    let socket = by_name.iter().filter(|(name, _)| moves_bytes(name)).fold(0.0, |sum, (_, calls)| sum + calls);
    let all = by_name.values().fold(0.0, |sum, calls| sum + calls);
    SystemCalls { socket, all, by_name }
}

fn moves_bytes(call: &str) -> bool {
    matches!(
        call,
        "read"
            | "readv"
            | "recvfrom"
            | "recvmsg"
            | "recvmmsg"
            | "write"
            | "writev"
            | "sendto"
            | "sendmsg"
            | "sendmmsg"
            | "sendfile"
            | "splice"
    )
}

/// Lines of `% time, seconds, usecs/call, calls, [errors,] syscall`, between two rules of dashes.
fn parse_table(text: &str) -> SyscallCounts {
    let mut counts = SyscallCounts::new();
    for line in text.lines().skip_while(|line| !line.starts_with("---")).skip(1).take_while(|line| !line.starts_with("---")) {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        if let [_, _, _, calls, .., name] = words[..]
            && let Ok(calls) = calls.parse::<u64>()
        {
            *counts.entry(name.to_owned()).or_default() += calls;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
strace: Process 12 attached
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 51.02    0.100000           2     40000           sendto
 40.00    0.080000           2     40064        64 recvfrom
  8.98    0.020000           4      5000           epoll_wait
------ ----------- ----------- --------- --------- ----------------
100.00    0.200000           2     85064        64 total
";

    #[test]
    fn the_table_is_read() {
        let expected = [("sendto", 40000), ("recvfrom", 40064), ("epoll_wait", 5000)];
        assert_eq!(parse_table(TABLE), expected.map(|(name, calls)| (name.to_owned(), calls)).into());
        assert_eq!(parse_table(""), SyscallCounts::new());
    }

    #[test]
    fn what_both_loads_have_in_common_cancels_out() {
        let counts = |calls: [(&str, u64); 3]| calls.map(|(name, calls)| (name.to_owned(), calls)).into();
        let shorter = (counts([("sendto", 2100), ("epoll_wait", 700), ("accept4", 64)]), 1000);
        let longer = (counts([("sendto", 22100), ("epoll_wait", 3200), ("accept4", 64)]), 11000);
        let calls = per_request(&shorter, &longer);
        assert_eq!(calls.by_name, [("epoll_wait".to_owned(), 0.25), ("sendto".to_owned(), 2.0)].into());
        assert_eq!((calls.socket, calls.all), (2.0, 2.25));
        let none = per_request(&shorter, &shorter);
        assert_eq!([none.socket, none.all].map(f64::to_bits), [0.0_f64.to_bits(); 2]);
    }
}
