//! A new binary takes over from the old one that spawned it: all sockets, and whatever the program carries over. Both
//! have all sockets until the successor says that it is ready; if it never does, the predecessor goes on as if nothing
//! had happened.

use super::fault::Fault;
use super::link::{Link, LinkDeadline, Witness};
use super::message::{Malformed, Message, STATE_PIECE_BYTES_MAX, bounded_reason};
use super::sharing::{Arrived, Exchange, send_all, unexpected};
use super::socket::{Handed, Lent, Rejected};
use super::{PATIENCE, STATE_BYTES_MAX};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// What a successor gets.
#[derive(Debug)]
pub struct Inherited {
    pub sockets: Vec<Handed>,
    /// What was not what it was announced as; for the log.
    pub rejected: Vec<Rejected>,
    /// As the predecessor gave it; at most [`STATE_BYTES_MAX`].
    pub state: Vec<u8>,
}

/// The successor's word that is still due. Dropped without one, as when the process dies, the predecessor goes on.
#[derive(Debug)]
#[must_use = "the predecessor waits for the word"]
pub struct Succession {
    link: Link,
}

/// The successor asks its predecessor, whose rendezvous is called `name`, for everything.
pub fn take_over(name: &str, patience: Duration) -> Result<(Inherited, Succession), Fault> {
    let deadline = LinkDeadline::after(patience);
    let link = Link::connect(name, deadline, &Witness::new()?)?;
    link.send(&Message::Upgrade, &[], deadline)?;
    let (message, descriptors) = link.receive(deadline)?;
    let Message::Sockets { sockets, more } = message else { return Err(unexpected(message)) };
    let (sockets, rejected) = Arrived::collect(&link, Exchange::Upgrade, sockets, more, descriptors, deadline)?.keep();
    let state = receive_state(&link, deadline)?;
    Ok((Inherited { sockets, rejected, state }, Succession { link }))
}

impl Succession {
    /// We accept connections: the predecessor may leave. A fault means that it is gone already, and changes nothing.
    pub fn ready(self) -> Result<(), Fault> {
        self.link.send(&Message::Ready, &[], LinkDeadline::after(PATIENCE))
    }

    /// We end, and the predecessor stays. What is beyond 4 KiB of the reason is cut off.
    pub fn failed(self, reason: &str) -> Result<(), Fault> {
        self.link.send(&Message::Failed { reason: bounded_reason(reason) }, &[], LinkDeadline::after(PATIENCE))
    }
}

/// Somebody asks for everything. Dropped unanswered, it gets nothing.
#[derive(Debug)]
pub struct Upgrade {
    link: Link,
}

impl Upgrade {
    /// Who asks; `None` in another PID namespace.
    pub fn pid(&self) -> Option<u32> {
        self.link.pid()
    }

    /// Gives everything to the process `spawned`, and to no other. That process must not have been waited for yet, so
    /// that its ID is still its own.
    pub fn hand_over(self, spawned: u32, lent: &[Lent<'_>], state: &[u8], patience: Duration) -> Result<Verdict, Fault> {
        let pid = self.pid();
        if pid != Some(spawned) {
            return Err(Fault::NotSpawned { pid });
        }
        if state.len() > STATE_BYTES_MAX {
            return Err(Fault::TooMuch { what: "bytes of state", max: STATE_BYTES_MAX });
        }
        let deadline = LinkDeadline::after(patience);
        send_all(&self.link, Exchange::Upgrade, lent, deadline)?;
        send_state(&self.link, state, deadline)?;
        Ok(Verdict { link: self.link })
    }

    /// Not now, and why. What is beyond 4 KiB of the reason is cut off.
    pub fn refuse(self, reason: &str) -> Result<(), Fault> {
        self.link.send(&Message::Failed { reason: bounded_reason(reason) }, &[], LinkDeadline::after(PATIENCE))
    }
}

pub(super) fn upgrade_wanted(link: Link) -> Upgrade {
    Upgrade { link }
}

/// The predecessor has given everything and waits for the successor's word. Its descriptor becomes readable when that
/// is there.
#[derive(Debug)]
pub struct Verdict {
    link: Link,
}

/// What became of the successor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The successor accepts connections: drain and leave.
    Ready,
    /// The successor cannot: go on.
    Failed { reason: String },
    /// The successor ended without a word: go on.
    Gone,
}

impl Verdict {
    /// Waits for the successor's word; with no patience at all, says whether it is there. [`Fault::TimedOut`] may be
    /// asked again; after another fault the successor talks nonsense, and whoever spawned it should end it and go on.
    pub fn outcome(&self, patience: Duration) -> Result<Outcome, Fault> {
        match self.link.receive_bare(LinkDeadline::after(patience)) {
            Ok(Message::Ready) => Ok(Outcome::Ready),
            Ok(Message::Failed { reason }) => Ok(Outcome::Failed { reason }),
            Ok(other) => Err(unexpected(other)),
            Err(Fault::Closed) => Ok(Outcome::Gone),
            Err(fault) => Err(fault),
        }
    }
}

impl AsFd for Verdict {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

fn send_state(link: &Link, state: &[u8], deadline: LinkDeadline) -> Result<(), Fault> {
    let mut rest = state;
    loop {
        let (now, later) = rest.split_at(rest.len().min(STATE_PIECE_BYTES_MAX));
        let more = !later.is_empty();
        link.send(&Message::State { piece: now.to_vec(), more }, &[], deadline)?;
        if !more {
            return Ok(());
        }
        rest = later;
    }
}

fn receive_state(link: &Link, deadline: LinkDeadline) -> Result<Vec<u8>, Fault> {
    let mut state = Vec::new();
    loop {
        match link.receive_bare(deadline)? {
            Message::State { piece, more } => {
                if state.len() + piece.len() > STATE_BYTES_MAX {
                    return Err(Malformed::TooMany("bytes of state").into());
                }
                state.extend(piece);
                if !more {
                    return Ok(state);
                }
            }
            other => return Err(unexpected(other)),
        }
    }
}
