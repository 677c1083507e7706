//! One connection between two processes: packets with descriptors attached, each wait bounded by a deadline.
//! SOCK_SEQPACKET keeps packets apart and descriptors with the packet that announces them. What packets mean is
//! `message`'s business.

use super::fault::Fault;
use super::message::{MESSAGE_BYTES_MAX, Malformed, Message, SOCKETS_PER_MESSAGE_MAX};
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Before a packet is tried again that the system could not take for a reason that it does not wake us for.
const SEND_PAUSE: Duration = Duration::from_millis(10);
/// The kernel takes zero for "for ever".
const CONNECT_TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// When an exchange has to be over.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinkDeadline(Instant);

impl LinkDeadline {
    pub fn after(patience: Duration) -> LinkDeadline {
        let now = Instant::now();
        // More than a clock can count is a year too many.
        LinkDeadline(now.checked_add(patience).unwrap_or(now + Duration::from_secs(365 * 86_400)))
    }

    fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Credentials {
    pub uid: u32,
    /// `None` for a process of a PID namespace that this process does not see.
    pub pid: Option<u32>,
}

/// A connection to a process of the same user.
#[derive(Debug)]
pub(super) struct Link {
    socket: OwnedFd,
    pid: Option<u32>,
}

impl Link {
    /// Connects to an abstract name that is known to be a process of ours, and waits for its turn if others are before
    /// it.
    pub fn connect(name: &str, deadline: LinkDeadline, witness: &Witness) -> Result<Link, Fault> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let timeout = deadline.left().max(CONNECT_TIMEOUT_MIN);
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Send, Some(timeout))?;
        connect_to(&socket, name, Fault::TimedOut)?;
        witness.trusted(socket)
    }

    /// Connects to an abstract name that anybody may have: waits for nothing, because a stranger may have filled its
    /// own queue.
    pub fn connect_at_once(name: &str, witness: &Witness) -> Result<Link, Fault> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect_to(&socket, name, Fault::Crowded)?;
        witness.trusted(socket)
    }

    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Sends one packet; `descriptors` are at most [`SOCKETS_PER_MESSAGE_MAX`].
    pub fn send(&self, message: &Message, descriptors: &[BorrowedFd<'_>], deadline: LinkDeadline) -> Result<(), Fault> {
        let packet = message.encode();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(SOCKETS_PER_MESSAGE_MAX))];
        loop {
            let mut attached = SendAncillaryBuffer::new(&mut space);
            if !descriptors.is_empty() && !attached.push(SendAncillaryMessage::ScmRights(descriptors)) {
                return Err(Fault::TooMuch { what: "sockets in one message", max: SOCKETS_PER_MESSAGE_MAX });
            }
            match sendmsg(&self.socket, &[IoSlice::new(&packet)], &mut attached, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, deadline)?,
                Err(Errno::INTR) => {}
                // As many descriptors of this user are on their way as one process may have open: they have to arrive
                // first.
                Err(Errno::TOOMANYREFS | Errno::NOBUFS) if !deadline.left().is_zero() => std::thread::sleep(SEND_PAUSE),
                Err(Errno::TOOMANYREFS | Errno::NOBUFS) => return Err(Fault::TimedOut),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Fault::Closed),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Receives one packet with what is attached. Descriptors that are not handed out are closed.
    pub fn receive(&self, deadline: LinkDeadline) -> Result<(Message, Vec<OwnedFd>), Fault> {
        let mut packet = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(SOCKETS_PER_MESSAGE_MAX))];
        let mut attached = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut into = [IoSliceMut::new(&mut packet)];
            match recvmsg(&self.socket, &mut into, &mut attached, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => break received,
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, deadline)?,
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(Fault::Closed),
                Err(errno) => return Err(errno.into()),
            }
        };
        let mut descriptors = Vec::new();
        for piece in attached.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = piece {
                descriptors.extend(some);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Fault::TooManyFiles);
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(Malformed::TooMany("bytes").into());
        }
        if received.bytes == 0 {
            return Err(Fault::Closed);
        }
        Ok((Message::decode(&packet[..received.bytes])?, descriptors))
    }

    /// For messages that bring no descriptors.
    pub fn receive_bare(&self, deadline: LinkDeadline) -> Result<Message, Fault> {
        let (message, descriptors) = self.receive(deadline)?;
        if descriptors.is_empty() {
            Ok(message)
        } else {
            Err(Malformed::Descriptors { announced: 0, attached: descriptors.len() }.into())
        }
    }

    fn wait(&self, ready: PollFlags, deadline: LinkDeadline) -> Result<(), Fault> {
        let left = deadline.left();
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.socket, ready)], Some(&timeout)) {
            Ok(0) => Err(Fault::TimedOut),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// `on_full_queue` is what it means that the connection is not there yet.
fn connect_to(socket: &OwnedFd, name: &str, on_full_queue: Fault) -> Result<(), Fault> {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    loop {
        match rustix::net::connect(socket, &address) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(on_full_queue),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Tells who is at the other end of a connection. Made once for many, because strangers can have us ask as often as
/// they connect.
///
/// Asks tokio and not rustix: to rustix a process ID is never zero, but the kernel says zero for a process of another
/// PID namespace, which shares our network namespace in a pod.
#[derive(Debug)]
pub(super) struct Witness {
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
    own_uid: u32,
}

impl Witness {
    /// For processes of our own user.
    pub fn new() -> io::Result<Witness> {
        Witness::of(rustix::process::geteuid().as_raw())
    }

    pub(super) fn of(own_uid: u32) -> io::Result<Witness> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        Ok(Witness { runtime: Some(runtime), own_uid })
    }

    /// A connection that was made or accepted, if our own user is at its other end.
    pub fn trusted(&self, socket: OwnedFd) -> Result<Link, Fault> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let (socket, peer) = self.credentials(socket)?;
        Ok(Link { socket, pid: trust(peer, self.own_uid)? })
    }

    /// Of a socket that does not block.
    fn credentials(&self, socket: OwnedFd) -> io::Result<(OwnedFd, Credentials)> {
        let _entered = self.runtime.as_ref().map(Runtime::enter);
        let stream = tokio::net::UnixStream::from_std(UnixStream::from(socket))?;
        let read = stream.peer_cred()?;
        let pid = read.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
        Ok((stream.into_std()?.into(), Credentials { uid: read.uid(), pid }))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // Waits for nothing, so that this may be dropped within another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Whoever holds our sockets reads our clients' requests, so it must be ourselves.
fn trust(peer: Credentials, own_uid: u32) -> Result<Option<u32>, Fault> {
    if peer.uid == own_uid { Ok(peer.pid) } else { Err(Fault::Stranger { uid: peer.uid }) }
}

#[cfg(test)]
mod tests {
    use super::{Credentials, Fault, Witness, trust};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn only_processes_of_the_same_user_are_trusted() {
        fn check(uid: u32, pid: Option<u32>, own_uid: u32, trusted: bool) {
            match trust(Credentials { uid, pid }, own_uid) {
                Ok(seen) => assert!(trusted && seen == pid),
                Err(fault) => assert!(!trusted && matches!(fault, Fault::Stranger { uid: seen } if seen == uid)),
            }
        }
        check(7, Some(42), 7, true);
        check(7, None, 7, true);
        check(8, Some(42), 7, false);
        check(0, Some(1), 7, false);
        check(7, Some(42), 0, false);
    }

    /// Within another runtime as well, because the control thread has one.
    #[test]
    fn the_kernel_says_who_is_at_the_other_end() {
        fn check() {
            let (one, _other) = UnixStream::pair().expect("a pair");
            one.set_nonblocking(true).expect("non-blocking");
            let own = Credentials { uid: rustix::process::geteuid().as_raw(), pid: Some(std::process::id()) };
            let witness = Witness::new().expect("a witness");
            assert_eq!(witness.credentials(OwnedFd::from(one)).expect("credentials").1, own);
        }
        check();
        tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime").block_on(async { check() });
    }
}
