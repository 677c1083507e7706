//! Which processes run which configuration, as everybody on the machine may know: each has an abstract unix name that
//! says so, from before it listens until it ends. Nobody is connected to, so a process that hangs is known like any
//! other. Anybody can take such a name: what it says is good for advice, and for nothing that has to be safe.

use super::rendezvous::{UNIX_SOCKETS, UNIX_SOCKETS_BYTES_MAX, unreadable};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;

/// Processes of one configuration that are told of.
const PRESENT_MAX: usize = 256;

/// Says that this process runs a configuration, until it is dropped.
#[derive(Debug)]
pub struct Presence {
    /// Has a name and listens not, so that the kernel refuses whoever connects.
    _socket: OwnedFd,
    configuration: u64,
    name: String,
}

/// A process that says it runs a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    pub uid: u32,
    /// In the process's own namespace.
    pub pid: u32,
    /// Of the socket that bears the name: whoever has it open is the process.
    pub inode: u64,
}

impl Presence {
    /// `configuration` is a mark that tells configurations apart, in every version of the program.
    pub fn announce(configuration: u64) -> io::Result<Presence> {
        let (uid, pid) = (rustix::process::geteuid().as_raw(), std::process::id());
        // A number of a process is given again, and in each container.
        let once = RandomState::new().build_hasher().finish();
        let name = format!("{}{uid}-{pid}-{once:016x}", prefix(configuration));
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        Ok(Presence { _socket: socket, configuration, name })
    }

    /// Other processes that run this configuration.
    pub fn others(&self) -> io::Result<Vec<Present>> {
        read_list(self.configuration, &self.name)
    }
}

/// Processes that run a configuration.
pub fn present(configuration: u64) -> io::Result<Vec<Present>> {
    read_list(configuration, "")
}

fn read_list(configuration: u64, own_name: &str) -> io::Result<Vec<Present>> {
    let list = std::fs::File::open(UNIX_SOCKETS).map_err(|error| unreadable(&error))?;
    Ok(read_present(BufReader::new(list), configuration, own_name))
}

/// Not one of the names that are listened on, which begin with the number of a user.
fn prefix(configuration: u64) -> String {
    format!("tidegate-runs-{configuration:016x}-")
}

/// A list that cannot be read to its end is taken as far as it goes.
fn read_present(list: impl BufRead, configuration: u64, own_name: &str) -> Vec<Present> {
    let prefix = prefix(configuration);
    let lines = list.take(UNIX_SOCKETS_BYTES_MAX).split(b'\n').map_while(Result::ok);
    lines.filter_map(|line| present_in(&line, &prefix, own_name)).take(PRESENT_MAX).collect()
}

/// In a line of `Num RefCount Protocol Flags Type St Inode Path`.
fn present_in(line: &[u8], prefix: &str, own_name: &str) -> Option<Present> {
    let mut columns = str::from_utf8(line).ok()?.split_ascii_whitespace().skip(6);
    let (inode, name) = (columns.next()?.parse().ok()?, columns.next()?.strip_prefix('@')?);
    let mut numbers = name.strip_prefix(prefix).filter(|_| name != own_name)?.split('-');
    Some(Present { uid: numbers.next()?.parse().ok()?, pid: numbers.next()?.parse().ok()?, inode })
}

#[cfg(test)]
mod tests {
    use super::{PRESENT_MAX, Presence, Present, present, read_present};

    #[test]
    fn those_that_run_a_configuration_are_read_from_the_kernels_list() {
        let check = |line: &str, expected: &[Present]| {
            let list = format!("Num       RefCount Protocol Flags    Type St Inode Path\n{line}\n");
            assert_eq!(read_present(list.as_bytes(), 0xab, "tidegate-runs-00000000000000ab-7-1-0"), expected, "{line}");
        };
        const LINE: &str = "0000000000000000: 00000002 00000000 00000000 0001 01 4711 @tidegate-runs-00000000000000ab-7-12-f0";
        let seen = Present { uid: 7, pid: 12, inode: 4711 };
        check(LINE, std::slice::from_ref(&seen));
        check(&format!("{LINE}\n{LINE}"), &[seen.clone(), seen]);
        check(&LINE.replace("ab-7", "ac-7"), &[]);
        check(&LINE.replace("-7-12-f0", "-7-1-0"), &[]);
        check(&LINE.replace("-7-12-f0", "-7"), &[]);
        check(&LINE.replace("-7-12-f0", "-x-12"), &[]);
        check(&LINE.replace('@', "/run/"), &[]);
        check("0000000000000000: 00000003 00000000 00000000 0001 03 4712", &[]);
        check("\u{0}\u{1}", &[]);
        let many = format!("{LINE}\n").repeat(2 * PRESENT_MAX);
        assert_eq!(read_present(many.as_bytes(), 0xab, "").len(), PRESENT_MAX);
    }

    #[test]
    fn a_process_is_there_until_it_ends() {
        // Other tests run beside this one, and so do other runs of it.
        let configuration = u64::from(std::process::id()) << 32 | 0x7e57;
        assert_eq!(present(configuration).expect("a list"), []);
        let first = Presence::announce(configuration).expect("a name");
        assert_eq!(first.others().expect("a list"), []);
        let second = Presence::announce(configuration).expect("another name");
        let others = first.others().expect("a list");
        assert_eq!(others.iter().map(|other| other.pid).collect::<Vec<_>>(), [std::process::id()]);
        assert_eq!(present(configuration).expect("a list").len(), 2);
        assert_eq!(present(configuration + 1).expect("a list"), []);
        drop(second);
        assert_eq!(first.others().expect("a list"), []);
    }
}
