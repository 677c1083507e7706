//! The last descriptors that the process may have, which no client takes: whoever asks whether it is well, changes its
//! configuration or looks for what is wrong needs some while clients hold all others. How many there are in all is the
//! system's, and `tidegate_control::descriptors` raises it.

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use socket2::{Domain, Socket, Type};
use std::io;
use std::sync::OnceLock;

/// Kept from connections of clients. The first half is for what their requests have opened, such as connections to
/// servers, the second for the process alone: its admin endpoint, files that it reads and writes, its checks.
pub const RESERVE: u64 = 64;
/// Of a low limit the reserve is this part at most.
const RESERVE_PART: u64 = 8;

/// The first numbers that are not for everybody.
#[derive(Debug, PartialEq, Eq)]
struct Ends {
    clients: u64,
    requests: u64,
}

impl Ends {
    fn of(limit: Option<u64>) -> Ends {
        let limit = limit.unwrap_or(u64::MAX);
        let reserve = RESERVE.min(limit / RESERVE_PART);
        Ends { clients: limit - reserve, requests: limit - reserve / 2 }
    }

    fn now() -> &'static Ends {
        static ENDS: OnceLock<Ends> = OnceLock::new();
        ENDS.get_or_init(|| Ends::of(getrlimit(Resource::Nofile).current))
    }
}

/// A new descriptor has the lowest number that is free (open(2)), so that so many are in use as its number says. Nobody
/// has to count them.
fn number(descriptor: impl AsFd) -> u64 {
    u64::try_from(descriptor.as_fd().as_raw_fd()).unwrap_or_default()
}

/// Whether clients have all that are for them: no more of them are accepted until some have left.
pub fn is_reserved(descriptor: impl AsFd) -> bool {
    number(descriptor) >= Ends::now().clients
}

/// Whether the process alone may have it.
pub fn is_of_process(descriptor: impl AsFd) -> bool {
    number(descriptor) >= Ends::now().requests
}

/// Whether another client may be accepted, by the number that it would get.
pub fn has_room() -> bool {
    Socket::new(Domain::UNIX, Type::STREAM, None).is_ok_and(|socket| !is_reserved(&socket))
}

/// What a request has opened, unless the process needs it.
pub(crate) fn for_request<D: AsFd>(descriptor: D) -> io::Result<D> {
    if is_of_process(&descriptor) { Err(Errno::MFILE.into()) } else { Ok(descriptor) }
}

/// Whether the process, or the machine, has no descriptor left.
pub fn is_used_up(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(test)]
mod tests {
    use super::{Ends, is_used_up};
    use rustix::io::Errno;
    use std::io;

    #[test]
    fn clients_and_their_requests_leave_the_last_ones() {
        let check = |limit, clients, requests| assert_eq!(Ends::of(limit), Ends { clients, requests }, "{limit:?}");
        check(Some(1 << 20), (1 << 20) - 64, (1 << 20) - 32);
        check(Some(1024), 960, 992);
        check(Some(512), 448, 480);
        check(Some(100), 88, 94);
        check(Some(64), 56, 60);
        check(None, u64::MAX - 64, u64::MAX - 32);
    }

    #[test]
    fn both_limits_are_known_by_their_errors() {
        assert!(is_used_up(&Errno::MFILE.into()) && is_used_up(&Errno::NFILE.into()));
        assert!(!is_used_up(&Errno::NOMEM.into()) && !is_used_up(&io::Error::other("24")));
    }
}
