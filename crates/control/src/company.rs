//! With whom an address is shared. The kernel lets every process of a user listen where one that shares listens, and
//! spreads connections over both: right for processes of one configuration, and a mistake that nobody sees for others.
//! Which processes run a configuration is told by [`Presence`]; which of them listens where, by the kernel's tables.

use crate::source::Source;
use std::collections::HashSet;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use tidegate_model::{ListenAddress, SocketName};
use tidegate_transport::handover::{Presence, Present, present};

/// Not `/proc/net`, which is not there where `/proc` shows only processes (`ProcSubset=pid` of systemd).
const NETWORK: &str = "/proc/self/net";
/// Lines of a table that are read: a machine with more listening sockets is not asked about the others.
const LINES_MAX: usize = 1 << 17;

/// With whom this process shares its addresses.
#[derive(Debug, Default)]
pub(crate) struct Company {
    /// `None` where the system has no names for it: then nobody is told from others.
    presence: Option<Presence>,
    takes_anybody: bool,
}

impl Company {
    /// Others know from here on what this process runs.
    pub fn of(source: &Source, takes_anybody: bool) -> Company {
        let presence = Presence::announce(source.mark())
            .inspect_err(|error| tracing::debug!(%error, "other processes are not told which configuration this one runs"));
        Company { presence: presence.ok(), takes_anybody }
    }

    /// Whether an address may be shared with those who listen there. Where they cannot be told apart it may.
    pub fn admits(&self) -> bool {
        let Some(presence) = &self.presence else { return true };
        self.takes_anybody || presence.others().map_or(true, |others| !others.is_empty())
    }
}

/// Whether all that listens there are sockets of this process: workers close those that a change has left a moment
/// later.
pub(crate) fn is_ours_alone(address: ListenAddress) -> bool {
    let ours = || -> io::Result<bool> {
        let own = sockets_of(Path::new("/proc/self/fd"))?;
        let listening = listening_on(Path::new(NETWORK), address)?;
        Ok(!listening.is_empty() && listening.iter().all(|inode| own.contains(inode)))
    };
    ours().unwrap_or(false)
}

/// Whose a socket is that listens on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A process's that runs the configuration.
    Own,
    /// Perhaps such a process's: this user may not see what it has open.
    Unknown,
    Another,
}

/// The processes that run a configuration.
#[derive(Debug, Default)]
pub(crate) struct Running(Vec<Present>);

impl Running {
    pub fn of(source: &Source) -> Running {
        Running(present(source.mark()).unwrap_or_default())
    }

    /// Whose the sockets are that listen there.
    pub fn whose(&self, address: ListenAddress) -> Whose {
        if self.0.is_empty() {
            return Whose::Another;
        }
        let Ok(listening) = listening_on(Path::new(NETWORK), address) else { return Whose::Unknown };
        let seen: Vec<Whose> = self.0.iter().map(|process| whose(process, &listening)).collect();
        let is_any = |whose: Whose| seen.contains(&whose);
        [Whose::Own, Whose::Unknown].into_iter().find(|whose| is_any(*whose)).unwrap_or(Whose::Another)
    }

    /// Whether one of them is of this user: who shares an address with this process is.
    pub fn has_own_user(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        self.0.iter().any(|process| process.uid == own)
    }

    /// As a sentence names them.
    pub fn shown(&self) -> String {
        let pids: Vec<String> = self.0.iter().map(|process| process.pid.to_string()).collect();
        match pids.as_slice() {
            [one] => format!("process {one}"),
            several => format!("one of the processes {}", several.join(", ")),
        }
    }
}

fn whose(process: &Present, listening: &HashSet<u64>) -> Whose {
    // In another namespace the number is another process's, who does not have the socket that bears the name.
    match sockets_of(&PathBuf::from(format!("/proc/{}/fd", process.pid))) {
        Ok(open) if open.contains(&process.inode) => {
            if open.is_disjoint(listening) {
                Whose::Another
            } else {
                Whose::Own
            }
        }
        Ok(_) | Err(_) => Whose::Unknown,
    }
}

/// The sockets that a process has open, by its folder of descriptors.
fn sockets_of(descriptors: &Path) -> io::Result<HashSet<u64>> {
    let inode_of = |entry: std::fs::DirEntry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Ok(std::fs::read_dir(descriptors)?.filter_map(|entry| inode_of(entry.ok()?)).collect())
}

/// Sockets that are in the way of listening there, by the tables in this folder.
fn listening_on(network: &Path, address: ListenAddress) -> io::Result<HashSet<u64>> {
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
    let octets = mapped.octets();
    let (words, _) = octets.as_chunks::<4>();
    let hex: String = words.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect();
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
    use super::{Company, NETWORK, Running, Whose, is_ours_alone, listening_as, listening_at, listening_on, sockets_of};
    use crate::bind::bind_one;
    use crate::source::Source;
    use std::net::SocketAddr;
    use std::path::Path;
    use tidegate_model::SocketName;

    fn source(text: &str) -> Source {
        // Other runs of this test are none of these processes.
        let text = format!("{text} of {}", std::process::id());
        Source::Text { name: "test".into(), text, directory: "/".into() }
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

    #[test]
    fn who_listens_is_found_by_what_processes_have_open() {
        let socket = bind_one("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = socket.local_addr().expect("an address").into();
        assert_eq!(listening_on(Path::new(NETWORK), address).expect("tables").len(), 1);
        assert!(!sockets_of(Path::new("/proc/self/fd")).expect("descriptors").is_empty());
        assert!(is_ours_alone(address));

        let (own, other) = (source("own"), source("other"));
        assert_eq!(Running::of(&own).whose(address), Whose::Another, "nobody runs it");
        let company = Company::of(&own, false);
        assert_eq!(Running::of(&own).whose(address), Whose::Own);
        assert!(Running::of(&own).has_own_user() && !Running::of(&other).has_own_user());
        assert_eq!(Running::of(&own).shown(), format!("process {}", std::process::id()));
        assert_eq!(Running::of(&other).whose(address), Whose::Another);
        drop(socket);
        assert_eq!(Running::of(&own).whose(address), Whose::Another, "it runs, and does not listen there");
        assert!(!is_ours_alone(address), "nobody listens");
        drop(company);
    }

    #[test]
    fn an_address_is_shared_with_processes_of_the_same_configuration() {
        let (own, other) = (source("first"), source("second"));
        let first = Company::of(&own, false);
        assert!(!first.admits(), "who listens there is none of ours");
        let stranger = Company::of(&other, false);
        assert!(!first.admits());
        let second = Company::of(&own, false);
        assert!(first.admits() && second.admits());
        drop(second);
        assert!(!first.admits() && !stranger.admits());
        assert!(Company::of(&other, true).admits(), "it was told to share");
        assert!(Company::default().admits(), "processes cannot be told apart");
    }
}
