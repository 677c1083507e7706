//! How processes of one user on one machine find each other: each listens on an abstract unix name, and the kernel's
//! list of unix sockets says which names there are. Names end with their process, leave no file, and are seen within
//! one network namespace, which is where ports are shared as well. What is said after connecting is `sharing` and
//! `succession`.

use super::fault::Fault;
use super::link::{Link, LinkDeadline, Witness};
use super::message::Message;
use super::sharing::{self, Adopted, Offer, SpareWanted};
use super::socket::Lent;
use super::succession::{Upgrade, upgrade_wanted};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, socket_with};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Connections that wait to be accepted; more processes than that do not leave at once.
const BACKLOG: i32 = 64;
/// Names that are tried. Anybody may take some that look like ours, so there may be more of them than anybody runs
/// processes.
const NAMES_MAX: usize = 4096;
/// The kernel's list of unix sockets, at about 100 bytes a line.
pub(super) const UNIX_SOCKETS_BYTES_MAX: u64 = 16 << 20;
/// Not below `/proc/net`: that is not there where `/proc` shows only processes (`ProcSubset=pid` of systemd).
pub(super) const UNIX_SOCKETS: &str = "/proc/self/net/unix";
/// `sun_path` without the zero that makes a name abstract.
const NAME_BYTES_MAX: usize = 107;
/// When no connection can be accepted for want of descriptors or memory, so that the thread does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where this process can be found. Nobody is answered before [`Rendezvous::serve`].
#[derive(Debug)]
pub struct Rendezvous {
    listener: OwnedFd,
    name: String,
}

impl Rendezvous {
    pub fn open() -> io::Result<Rendezvous> {
        let name = format!("{}{}-{:016x}", prefix(), std::process::id(), RandomState::new().build_hasher().finish());
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::net::bind(&listener, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        rustix::net::listen(&listener, BACKLOG)?;
        Ok(Rendezvous { listener, name })
    }

    /// What a successor is told, to find its predecessor.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Answers on a thread of its own, one peer after the other; `patience` bounds how long a peer may take to say what
    /// it wants. `receive` is called there: it may send requests on to whoever answers them, and while it works on one,
    /// other peers wait. It gets a fault for each peer that was turned away, as often as strangers like; it must
    /// neither keep nor queue these.
    pub fn serve(self, patience: Duration, receive: impl FnMut(Result<Request, Fault>) + Send + 'static) -> io::Result<Serving> {
        self.serve_those(Witness::new()?, patience, receive)
    }

    pub(super) fn serve_those(
        self,
        witness: Witness,
        patience: Duration,
        receive: impl FnMut(Result<Request, Fault>) + Send + 'static,
    ) -> io::Result<Serving> {
        let listener = Arc::new(self.listener);
        let serving = Serving { listener: Arc::clone(&listener), name: self.name };
        std::thread::Builder::new()
            .name("handover".to_owned())
            .spawn(move || accept_all(&listener, &witness, patience, receive))?;
        Ok(serving)
    }
}

/// Answers until it is dropped. From then on nobody new gets through, so that a leaving process is not offered sockets.
#[derive(Debug)]
pub struct Serving {
    listener: Arc<OwnedFd>,
    name: String,
}

impl Serving {
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Wakes the thread, which ends after what it is at. A listening socket cannot refuse to be shut down.
        let _ = rustix::net::shutdown(&*self.listener, Shutdown::Both);
    }
}

/// What a peer wants. Each holds the connection to it and is answered by its own methods.
#[derive(Debug)]
pub enum Request {
    Offer(Offer),
    Spare(SpareWanted),
    Upgrade(Upgrade),
}

fn accept_all(listener: &OwnedFd, witness: &Witness, patience: Duration, mut receive: impl FnMut(Result<Request, Fault>)) {
    loop {
        match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => receive(hear(socket, witness, LinkDeadline::after(patience))),
            // What accepting on a socket says that was shut down.
            Err(Errno::INVAL) => return,
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(_) => std::thread::sleep(ACCEPT_PAUSE),
        }
    }
}

fn hear(socket: OwnedFd, witness: &Witness, deadline: LinkDeadline) -> Result<Request, Fault> {
    let link = witness.trusted(socket)?;
    let (message, descriptors) = link.receive(deadline)?;
    match message {
        Message::Offer { sockets, more } => sharing::offered(link, sockets, more, descriptors, deadline).map(Request::Offer),
        Message::Spare { addresses } => Ok(Request::Spare(sharing::spare_wanted(link, addresses))),
        Message::Upgrade => Ok(Request::Upgrade(upgrade_wanted(link))),
        Message::Sockets { .. } | Message::Taken { .. } | Message::State { .. } | Message::Ready | Message::Failed { .. } => {
            Err(Fault::Unexpected)
        }
    }
}

/// What may be another process, by its name; it may be gone by now, and it may be a stranger.
#[derive(Debug, Clone)]
pub struct Peer {
    name: String,
    witness: Arc<Witness>,
}

impl Peer {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Offers at most [`OFFERED_MAX`](super::OFFERED_MAX) listening sockets before leaving. Says which of `lent` the
    /// peer has now, in ascending order: only these may be closed. After a fault all are still ours, and another peer
    /// may be asked. Strangers, and whoever has a full queue, cost no wait.
    pub fn offer(&self, lent: &[Lent<'_>], patience: Duration) -> Result<Vec<usize>, Fault> {
        let deadline = LinkDeadline::after(patience);
        sharing::offer(&Link::connect_at_once(&self.name, &self.witness)?, lent, deadline)
    }

    /// Asks for sockets on these addresses that the peer can do without, before binding own ones. Strangers, and
    /// whoever has a full queue, cost no wait.
    pub fn ask_spare(&self, addresses: &[SocketAddr], patience: Duration) -> Result<Adopted, Fault> {
        let deadline = LinkDeadline::after(patience);
        sharing::ask_spare(&Link::connect_at_once(&self.name, &self.witness)?, addresses, deadline)
    }
}

/// The names of other processes of this user in this network namespace, at most 4,096, and of whoever pretends to be
/// one: who is behind a name is seen on connecting ([`Fault::Stranger`]). Fails where the kernel's list cannot be read,
/// and then nobody is found.
pub fn peers(own_name: &str) -> io::Result<Vec<Peer>> {
    peers_for(Witness::new()?, own_name)
}

pub(super) fn peers_for(witness: Witness, own_name: &str) -> io::Result<Vec<Peer>> {
    let list = std::fs::File::open(UNIX_SOCKETS).map_err(|error| unreadable(&error))?;
    let names = read_names(BufReader::new(list), &prefix(), own_name);
    let witness = Arc::new(witness);
    Ok(names.into_iter().map(|name| Peer { name, witness: Arc::clone(&witness) }).collect())
}

pub(super) fn unreadable(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{UNIX_SOCKETS}: {error}"))
}

fn prefix() -> String {
    format!("tidegate-{}-", rustix::process::geteuid().as_raw())
}

/// A list that cannot be read to its end is taken as far as it goes.
fn read_names(list: impl BufRead, prefix: &str, own_name: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in list.take(UNIX_SOCKETS_BYTES_MAX).split(b'\n').map_while(Result::ok) {
        if let Some(name) = listening_name(&line).filter(|name| name.starts_with(prefix) && *name != own_name) {
            // Nobody can listen twice on one name, but a name may hold a line end and so write lines of its own.
            names.insert(name.to_owned());
        }
        if names.len() == NAMES_MAX {
            break;
        }
    }
    names
}

/// The abstract name in a line of `Num RefCount Protocol Flags Type St Inode Path`, if it is a SEQPACKET socket that
/// listens.
fn listening_name(line: &[u8]) -> Option<&str> {
    const ACCEPTS_CONNECTIONS: &str = "00010000";
    const SEQPACKET: &str = "0005";
    let mut columns = str::from_utf8(line).ok()?.split_ascii_whitespace().skip(3);
    let (flags, kind, name) = (columns.next()?, columns.next()?, columns.nth(2)?);
    let name = name.strip_prefix('@')?;
    (flags == ACCEPTS_CONNECTIONS && kind == SEQPACKET && name.len() <= NAME_BYTES_MAX).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::{NAMES_MAX, read_names};

    #[test]
    fn peers_are_the_listening_names_of_this_user() {
        fn check(line: &str, expected: &[&str]) {
            let list = format!("Num       RefCount Protocol Flags    Type St Inode Path\n{line}\n");
            let names = read_names(list.as_bytes(), "tidegate-7-", "tidegate-7-1-own");
            assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{line}");
        }
        const PEER: &str = "0000000000000000: 00000002 00000000 00010000 0005 01 4711 @tidegate-7-2-ab";
        check(PEER, &["tidegate-7-2-ab"]);
        check(&format!("{PEER}\n{PEER}c\n{PEER}"), &["tidegate-7-2-ab", "tidegate-7-2-abc"]);
        check(&PEER.replace("2-ab", "1-own"), &[]);
        check(&PEER.replace("-7-", "-8-"), &[]);
        check(&PEER.replace("00010000", "00000000"), &[]);
        check(&PEER.replace(" 0005 ", " 0001 "), &[]);
        check(&PEER.replace('@', "/run/"), &[]);
        check(&PEER.replace('@', ""), &[]);
        check(&PEER.replace("-ab", &"a".repeat(200)), &[]);
        check("0000000000000000: 00000003 00000000 00000000 0001 03 4712", &[]);
        check("\u{0}\u{1}", &[]);
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let lines = (0..2 * NAMES_MAX).map(|n| format!("0: 00000002 00000000 00010000 0005 01 4711 @tidegate-7-{n}-ab"));
        let list = lines.collect::<Vec<_>>().join("\n");
        assert_eq!(read_names(list.as_bytes(), "tidegate-7-", "").len(), NAMES_MAX);
    }
}
