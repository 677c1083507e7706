//! How many connections one address of a server can have: what the system has of ports and descriptors, and what of
//! that one server may take where nobody says.

use rustix::process::{Resource, getrlimit};
use std::fs;
use std::sync::OnceLock;

/// The ports that the kernel takes for connections, first and last.
const PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// As the kernel has them where nobody changed that.
const PORTS_USUAL: u64 = 60_999 - 32_768 + 1;

/// The part of the ports that one address may take. The kernel looks for a port among every second one first: once half
/// of them are in use, each further connection costs a walk over all of these.
const PORTS_PART: u64 = 2;
/// The part of the descriptors. Each connection to a server has one of a client beside it, and as many clients again
/// are between two requests or wait for their turn: with half of them, clients who wait would take what the requests
/// before them need.
const DESCRIPTORS_PART: u64 = 3;
/// What the process has open itself: sockets that listen, logs, what its workers wait in.
const DESCRIPTORS_OWN: u64 = 64;

/// Connections to one address, of all workers, where the configuration says nothing.
pub fn connections_max() -> u32 {
    static MAX: OnceLock<u32> = OnceLock::new();
    *MAX.get_or_init(|| {
        let ports = fs::read_to_string(PORTS).ok().as_deref().and_then(count_ports).unwrap_or(PORTS_USUAL);
        part_of(ports, getrlimit(Resource::Nofile).current)
    })
}

fn part_of(ports: u64, descriptors: Option<u64>) -> u32 {
    let of_descriptors = descriptors.map_or(u64::MAX, |all| all.saturating_sub(DESCRIPTORS_OWN) / DESCRIPTORS_PART);
    let most = (ports / PORTS_PART).min(of_descriptors);
    u32::try_from(most).unwrap_or(u32::MAX).max(1)
}

/// Of `32768\t60999`.
fn count_ports(text: &str) -> Option<u64> {
    let (first, last) = text.trim().split_once(char::is_whitespace)?;
    (last.trim().parse::<u64>().ok()? + 1).checked_sub(first.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::{connections_max, count_ports, part_of};

    #[test]
    fn ports_are_counted_as_the_kernel_writes_them() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(count_ports(text), expected, "{text:?}");
        check("32768\t60999\n", Some(28_232));
        check("1024 65535", Some(64_512));
        check("5 5", Some(1));
        check("9 5", None);
        check("", None);
        check("a b", None);
    }

    #[test]
    fn one_server_takes_half_of_the_ports_and_leaves_clients_their_descriptors() {
        let check = |ports, descriptors, expected| assert_eq!(part_of(ports, descriptors), expected);
        check(28_232, None, 14_116);
        check(28_232, Some(1 << 20), 14_116);
        check(28_232, Some(1024), 320);
        // Twice as many clients, and the process itself.
        check(28_232, Some(300), 78);
        check(28_232, Some(64), 1);
        check(1, Some(1), 1);
        assert!(connections_max() >= 1);
    }
}
