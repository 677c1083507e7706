//! Which sockets listen on an address, by the kernel's tables, and which processes have them open, by what `/proc`
//! shows to this user. For advice: who is told of may have gone a moment later.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use tidegate_model::{ListenAddress, SocketName};

/// Not `/proc/net`, which is not there where `/proc` shows only processes (`ProcSubset=pid` of systemd).
const NETWORK: &str = "/proc/self/net";
/// Lines of a table that are read: a machine with more listening sockets is not asked about the others.
const LINES_MAX: usize = 1 << 17;
/// Programs that a sentence names.
const NAMED_MAX: usize = 3;
/// Who hands sockets of `.socket` units to the programs that they are for.
const INIT: u32 = 1;

/// Processes by the sockets that they have open, as far as this user may see. A process that has forked may share them
/// with others.
#[derive(Debug)]
pub(crate) struct Holders {
    by_inode: HashMap<u64, Vec<u32>>,
}

/// Who has the sockets open that are in the way on an address, a list for each socket; it is empty where this user may
/// not see.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Held(Vec<Vec<u32>>);

impl Holders {
    pub fn look() -> Holders {
        let mut by_inode: HashMap<u64, Vec<u32>> = HashMap::new();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        for process in processes {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            for inode in sockets_of(&process.path().join("fd")).unwrap_or_default() {
                by_inode.entry(inode).or_default().push(pid);
            }
        }
        Holders { by_inode }
    }

    pub fn of(&self, address: ListenAddress) -> Held {
        let listening = listening_on(address).unwrap_or_default();
        Held(listening.iter().map(|inode| self.by_inode.get(inode).cloned().unwrap_or_default()).collect())
    }
}

impl Held {
    /// Whether each socket is open in one of these processes; `None` where that cannot be seen, and nothing speaks
    /// against it.
    pub fn is_by(&self, pids: &[u32]) -> Option<bool> {
        let is_theirs = |open_in: &Vec<u32>| open_in.iter().any(|pid| pids.contains(pid));
        if self.0.iter().any(|open_in| !open_in.is_empty() && !is_theirs(open_in)) {
            return Some(false);
        }
        let is_seen = !self.0.is_empty() && self.0.iter().all(|open_in| !open_in.is_empty());
        is_seen.then_some(true)
    }

    /// Whether the system holds the address for a unit.
    pub fn is_by_init(&self) -> bool {
        self.0.iter().flatten().any(|pid| *pid == INIT)
    }

    /// As a sentence names them; `None` where none is seen.
    pub fn shown(&self) -> Option<String> {
        named(self.0.iter().flatten().map(|pid| (*pid, program_of(*pid))))
    }
}

/// `nginx (pid 77) and redis-server (pid 9)`: each program once, by its first process.
fn named(processes: impl Iterator<Item = (u32, String)>) -> Option<String> {
    let mut programs: BTreeMap<String, u32> = BTreeMap::new();
    for (pid, program) in processes {
        programs.entry(program).and_modify(|first| *first = pid.min(*first)).or_insert(pid);
    }
    let mut shown: Vec<String> = programs.iter().map(|(program, pid)| format!("{program} (pid {pid})")).collect();
    let left_out = shown.len().saturating_sub(NAMED_MAX);
    shown.truncate(NAMED_MAX);
    if left_out > 0 {
        shown.push(format!("{left_out} more"));
    }
    let last = shown.pop()?;
    Some(if shown.is_empty() { last } else { format!("{} and {last}", shown.join(", ")) })
}

/// By the name that the kernel has of a process, which anybody may read, and which the process may have given itself.
fn program_of(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = name.trim_end_matches('\n');
    if name.is_empty() { "a process".to_owned() } else { name.escape_debug().to_string() }
}

/// The sockets that a process has open, by its folder of descriptors.
pub(crate) fn sockets_of(descriptors: &Path) -> io::Result<HashSet<u64>> {
    let inode_of = |entry: std::fs::DirEntry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Ok(std::fs::read_dir(descriptors)?.filter_map(|entry| inode_of(entry.ok()?)).collect())
}

/// Sockets that are in the way of listening there.
pub(crate) fn listening_on(address: ListenAddress) -> io::Result<HashSet<u64>> {
    let network = Path::new(NETWORK);
    match address {
        ListenAddress::Unix(name) => {
            let lines = lines_of(&network.join("unix"))?;
            Ok(lines.filter_map(|line| listening_as(&line, &name)).collect())
        }
        ListenAddress::Tcp(address) => {
            // IPv6 may be missing on a machine.
            let lines = lines_of(&network.join("tcp"))?.chain(lines_of(&network.join("tcp6")).into_iter().flatten());
            Ok(lines.filter_map(|line| listening_at(&line, address)).collect())
        }
    }
}

fn lines_of(table: &Path) -> io::Result<impl Iterator<Item = String> + use<>> {
    let file = std::fs::File::open(table)?;
    Ok(BufReader::new(file).lines().skip(1).take(LINES_MAX).map_while(Result::ok))
}

/// The inode in a line of `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …`.
fn listening_at(line: &str, address: SocketAddr) -> Option<u64> {
    const LISTEN: &str = "0A";
    let mut columns = line.split_ascii_whitespace().skip(1);
    let (local, state) = (columns.next()?, columns.nth(1)?);
    let (ip, port) = local.rsplit_once(':')?;
    if state != LISTEN || u16::from_str_radix(port, 16) != Ok(address.port()) {
        return None;
    }
    let is_in_the_way = address.ip().is_unspecified() || ip.bytes().all(|digit| digit == b'0') || ip_in_table(address.ip(), ip);
    is_in_the_way.then(|| columns.nth(5)?.parse().ok())?
}

/// Words of 32 bits in the order of the machine; an IPv4 address may stand as a mapped one.
fn ip_in_table(ip: IpAddr, written: &str) -> bool {
    let mapped = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = mapped.octets();
    let words = [[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]];
    let hex = words.map(|word| format!("{:08X}", u32::from_ne_bytes(word))).concat();
    written == hex || (written.len() == 8 && ip.to_canonical().is_ipv4() && hex.ends_with(written))
}

/// The inode in a line of `Num RefCount Protocol Flags Type St Inode Path`, if that socket listens under the name.
fn listening_as(line: &str, name: &SocketName) -> Option<u64> {
    const ACCEPTS_CONNECTIONS: &str = "00010000";
    // A path may have blanks, so what is left of the line is it.
    let (mut columns, mut path) = ([""; 7], line);
    for column in &mut columns {
        (*column, path) = path.trim_start().split_once(' ')?;
    }
    let [_, _, _, flags, _, _, inode] = columns;
    (flags == ACCEPTS_CONNECTIONS && Path::new(path) == name.path()).then(|| inode.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::{Held, Holders, listening_as, listening_at, listening_on, named, sockets_of};
    use crate::bind::bind_one;
    use std::net::SocketAddr;
    use std::path::Path;
    use tidegate_model::SocketName;

    #[test]
    fn holders_of_an_address_are_seen() {
        let own = std::process::id();
        let socket = bind_one("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = socket.local_addr().expect("an address").into();
        assert_eq!(listening_on(address).expect("tables").len(), 1);
        assert!(!sockets_of(Path::new("/proc/self/fd")).expect("descriptors").is_empty());
        let held = Holders::look().of(address);
        assert_eq!(held.is_by(&[own]), Some(true));
        assert_eq!(held.is_by(&[own + 1]), Some(false));
        assert!(held.shown().is_some_and(|shown| shown.contains(&format!("(pid {own})"))), "{held:?}");
        drop(socket);
        assert_eq!(Holders::look().of(address).shown(), None);
    }

    #[test]
    fn what_is_not_seen_is_not_decided() {
        let check = |held: &[&[u32]], expected: Option<bool>, expected_init: bool| {
            let held = Held(held.iter().map(|pids| pids.to_vec()).collect());
            assert_eq!((held.is_by(&[7, 8]), held.is_by_init()), (expected, expected_init), "{held:?}");
        };
        check(&[&[7]], Some(true), false);
        check(&[&[1, 7], &[8]], Some(true), true);
        check(&[&[7], &[9]], Some(false), false);
        check(&[&[7], &[]], None, false);
        check(&[&[9], &[]], Some(false), false);
        check(&[&[]], None, false);
        check(&[], None, false);
    }

    #[test]
    fn programs_are_named_once() {
        let check = |processes: &[(u32, &str)], expected: Option<&str>| {
            let processes = processes.iter().map(|(pid, program)| (*pid, (*program).to_owned()));
            assert_eq!(named(processes).as_deref(), expected);
        };
        check(&[], None);
        check(&[(77, "nginx")], Some("nginx (pid 77)"));
        check(&[(78, "nginx"), (77, "nginx"), (79, "nginx")], Some("nginx (pid 77)"));
        check(&[(9, "b"), (8, "a")], Some("a (pid 8) and b (pid 9)"));
        check(&[(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")], Some("a (pid 1), b (pid 2), c (pid 3) and 2 more"));
    }

    #[test]
    fn lines_of_the_tables_are_read() {
        let check = |line: &str, address: &str, expected: Option<u64>| {
            let address: SocketAddr = address.parse().expect("an address");
            assert_eq!(listening_at(line, address), expected, "{line} for {address}");
        };
        const REST: &str = "00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000 100 0 0 10 0";
        let any = format!("   0: 00000000:1F90 {REST}");
        check(&any, "127.0.0.1:8080", Some(4711));
        check(&any, "[::]:8080", Some(4711));
        check(&any, "127.0.0.1:8081", None);
        let one = format!("   1: 0100007F:1F90 {REST}");
        check(&one, "127.0.0.1:8080", Some(4711));
        check(&one, "127.0.0.2:8080", None);
        check(&one, "0.0.0.0:8080", Some(4711));
        check(&one.replace(" 0A ", " 01 "), "127.0.0.1:8080", None);
        let six = format!("   0: 00000000000000000000000001000000:1F90 {REST}");
        check(&six, "[::1]:8080", Some(4711));
        check(&six, "[::2]:8080", None);
        let mapped = format!("   0: 0000000000000000FFFF00000100007F:1F90 {REST}");
        check(&mapped, "127.0.0.1:8080", Some(4711));
        check("", "127.0.0.1:8080", None);

        let check = |line: &str, name: &str, expected: Option<u64>| {
            let name = SocketName::of_path(Path::new(name)).expect("a short name");
            assert_eq!(listening_as(line, &name), expected, "{line}");
        };
        const UNIX: &str = "0000000000000000: 00000002 00000000 00010000 0001 01 4711 /run/app one.sock";
        check(UNIX, "/run/app one.sock", Some(4711));
        check(UNIX, "/run/app", None);
        check(&UNIX.replace("00010000", "00000000"), "/run/app one.sock", None);
        check(&UNIX.replace("/run/app one.sock", "@front"), "@front", Some(4711));
        check(&UNIX.replace("01 4711", "01    47"), "/run/app one.sock", Some(47));
        check("0000000000000000: 00000003 00000000 00000000 0001 03 4712", "/run/app", None);
    }
}
