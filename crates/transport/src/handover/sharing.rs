//! Sockets that change hands between processes that both stay what they are: a leaving process offers, a starting one
//! asks for what others have too much of. Who gives sockets away closes its own only when it has heard which were
//! taken.

use super::fault::Fault;
use super::link::{Link, LinkDeadline};
use super::message::{ADDRESSES_MAX, Announced, Malformed, Message, SOCKETS_PER_MESSAGE_MAX};
use super::socket::{Handed, Lent, Rejected, examine};
use super::{OFFERED_MAX, PATIENCE, SOCKETS_MAX};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::net::SocketAddr;
use std::time::Duration;

/// Sockets that a leaving process offers. Dropped unanswered, nothing is taken.
#[derive(Debug)]
pub struct Offer {
    link: Link,
    arrived: Arrived,
}

impl Offer {
    /// Who leaves; `None` in another PID namespace.
    pub fn pid(&self) -> Option<u32> {
        self.link.pid()
    }

    /// Keeps the sockets that are wanted and closes the others. Fails when the offerer has gone meanwhile; then nothing
    /// is kept, because it may have offered them to somebody else.
    pub fn take(self, wanted: impl FnMut(&Announced) -> bool) -> Result<Adopted, Fault> {
        self.arrived.take(&self.link, wanted, LinkDeadline::after(PATIENCE))
    }
}

/// A starting process asks for surplus sockets. Dropped unanswered, it gets none.
#[derive(Debug)]
pub struct SpareWanted {
    link: Link,
    addresses: Vec<SocketAddr>,
}

impl SpareWanted {
    /// Who asks; `None` in another PID namespace.
    pub fn pid(&self) -> Option<u32> {
        self.link.pid()
    }

    /// Where it is going to listen.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Gives at most [`OFFERED_MAX`] sockets away. Says which of `lent` the asker has now, in ascending order: these
    /// are to be closed here.
    pub fn give(self, lent: &[Lent<'_>], patience: Duration) -> Result<Vec<usize>, Fault> {
        lend(&self.link, Exchange::Spare, lent, LinkDeadline::after(patience))
    }
}

/// What came of a handover.
#[derive(Debug, Default)]
pub struct Adopted {
    /// Now ours, and no longer the other process's.
    pub sockets: Vec<Handed>,
    /// What was not what it was announced as; for the log.
    pub rejected: Vec<Rejected>,
}

/// What sockets are sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exchange {
    /// Nobody asked for them.
    Offer,
    Spare,
    Upgrade,
}

impl Exchange {
    /// How many it carries.
    pub fn sockets_max(self) -> usize {
        match self {
            Exchange::Offer | Exchange::Spare => OFFERED_MAX,
            Exchange::Upgrade => SOCKETS_MAX,
        }
    }

    fn message(self, sockets: Vec<Announced>, more: bool) -> Message {
        match self {
            Exchange::Offer => Message::Offer { sockets, more },
            Exchange::Spare | Exchange::Upgrade => Message::Sockets { sockets, more },
        }
    }
}

/// The side that leaves. Says which of `lent` the peer has now.
pub(super) fn offer(link: &Link, lent: &[Lent<'_>], deadline: LinkDeadline) -> Result<Vec<usize>, Fault> {
    lend(link, Exchange::Offer, lent, deadline)
}

/// The side that starts.
pub(super) fn ask_spare(link: &Link, addresses: &[SocketAddr], deadline: LinkDeadline) -> Result<Adopted, Fault> {
    if addresses.len() > ADDRESSES_MAX {
        return Err(Fault::TooMuch { what: "addresses", max: ADDRESSES_MAX });
    }
    link.send(&Message::Spare { addresses: addresses.to_vec() }, &[], deadline)?;
    let (message, descriptors) = link.receive(deadline)?;
    let Message::Sockets { sockets, more } = message else { return Err(unexpected(message)) };
    let arrived = Arrived::collect(link, Exchange::Spare, sockets, more, descriptors, deadline)?;
    arrived.take(link, |announced| matches_any(announced, addresses), deadline)
}

/// The first message of a peer that offers.
pub(super) fn offered(
    link: Link,
    sockets: Vec<Announced>,
    more: bool,
    descriptors: Vec<OwnedFd>,
    deadline: LinkDeadline,
) -> Result<Offer, Fault> {
    let arrived = Arrived::collect(&link, Exchange::Offer, sockets, more, descriptors, deadline)?;
    Ok(Offer { link, arrived })
}

pub(super) fn spare_wanted(link: Link, addresses: Vec<SocketAddr>) -> SpareWanted {
    SpareWanted { link, addresses }
}

/// Sends all sockets in as many packets as it takes, at least one.
pub(super) fn send_all(link: &Link, exchange: Exchange, lent: &[Lent<'_>], deadline: LinkDeadline) -> Result<(), Fault> {
    let max = exchange.sockets_max();
    if lent.len() > max {
        return Err(Fault::TooMuch { what: "sockets", max });
    }
    let mut rest = lent;
    loop {
        let (now, later) = rest.split_at(rest.len().min(SOCKETS_PER_MESSAGE_MAX));
        let sockets = now.iter().map(|lent| lent.announced.clone()).collect();
        let descriptors: Vec<BorrowedFd<'_>> = now.iter().map(|lent| lent.socket).collect();
        let more = !later.is_empty();
        link.send(&exchange.message(sockets, more), &descriptors, deadline)?;
        if !more {
            return Ok(());
        }
        rest = later;
    }
}

fn lend(link: &Link, exchange: Exchange, lent: &[Lent<'_>], deadline: LinkDeadline) -> Result<Vec<usize>, Fault> {
    send_all(link, exchange, lent, deadline)?;
    match link.receive_bare(deadline)? {
        Message::Taken { indices } => Ok(checked_indices(indices, lent.len())?),
        other => Err(unexpected(other)),
    }
}

/// Each once, none beyond what was announced: for each of them a socket is going to be closed.
fn checked_indices(indices: Vec<u16>, announced: usize) -> Result<Vec<usize>, Malformed> {
    let mut indices: Vec<usize> = indices.into_iter().map(usize::from).collect();
    indices.sort_unstable();
    indices.dedup();
    if indices.last().is_some_and(|last| *last >= announced) { Err(Malformed::Value("an index")) } else { Ok(indices) }
}

/// `0.0.0.0:443` and `[::]:443` are different sockets, so addresses are compared as they are.
fn matches_any(announced: &Announced, addresses: &[SocketAddr]) -> bool {
    match announced.place {
        super::Place::Tcp { address, .. } => addresses.contains(&address),
        super::Place::Unix { .. } => false,
    }
}

/// A reason where something else was awaited is an answer; anything else has no place there.
pub(super) fn unexpected(message: Message) -> Fault {
    match message {
        Message::Failed { reason } => Fault::Refused { reason },
        Message::Offer { .. }
        | Message::Sockets { .. }
        | Message::Taken { .. }
        | Message::Spare { .. }
        | Message::Upgrade
        | Message::State { .. }
        | Message::Ready => Fault::Unexpected,
    }
}

/// All sockets of one exchange, looked at.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    /// With the index that each was announced as.
    fit: Vec<(usize, Handed)>,
    rejected: Vec<Rejected>,
    announced: usize,
}

impl Arrived {
    /// From the first packet to the last.
    pub fn collect(
        link: &Link,
        exchange: Exchange,
        sockets: Vec<Announced>,
        more: bool,
        descriptors: Vec<OwnedFd>,
        deadline: LinkDeadline,
    ) -> Result<Arrived, Fault> {
        let mut arrived = Arrived::default();
        arrived.add(sockets, descriptors, exchange.sockets_max())?;
        let mut more = more;
        while more {
            let (message, descriptors) = link.receive(deadline)?;
            let (sockets, further) = match (message, exchange) {
                (Message::Offer { sockets, more }, Exchange::Offer) => (sockets, more),
                (Message::Sockets { sockets, more }, Exchange::Spare | Exchange::Upgrade) => (sockets, more),
                (other, _) => return Err(unexpected(other)),
            };
            arrived.add(sockets, descriptors, exchange.sockets_max())?;
            more = further;
        }
        Ok(arrived)
    }

    fn add(&mut self, sockets: Vec<Announced>, descriptors: Vec<OwnedFd>, sockets_max: usize) -> Result<(), Malformed> {
        if sockets.len() != descriptors.len() {
            return Err(Malformed::Descriptors { announced: sockets.len(), attached: descriptors.len() });
        }
        if self.announced + sockets.len() > sockets_max {
            return Err(Malformed::TooMany("sockets"));
        }
        for (announced, descriptor) in sockets.into_iter().zip(descriptors) {
            match examine(announced, descriptor) {
                Ok(handed) => self.fit.push((self.announced, handed)),
                Err(rejected) => self.rejected.push(rejected),
            }
            self.announced += 1;
        }
        Ok(())
    }

    fn take(self, link: &Link, mut wanted: impl FnMut(&Announced) -> bool, deadline: LinkDeadline) -> Result<Adopted, Fault> {
        let kept: Vec<(usize, Handed)> = self.fit.into_iter().filter(|(_, handed)| wanted(&handed.announced)).collect();
        // What is answered is at most `OFFERED_MAX`.
        let indices = kept.iter().map(|(index, _)| *index as u16).collect();
        link.send(&Message::Taken { indices }, &[], deadline)?;
        Ok(Adopted { sockets: kept.into_iter().map(|(_, handed)| handed).collect(), rejected: self.rejected })
    }

    /// Everything, where nothing is chosen.
    pub fn keep(self) -> (Vec<Handed>, Vec<Rejected>) {
        (self.fit.into_iter().map(|(_, handed)| handed).collect(), self.rejected)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrived, Exchange, Malformed, OFFERED_MAX, SOCKETS_MAX, checked_indices};
    use crate::handover::{Announced, Place, Purpose};

    #[test]
    fn only_announced_sockets_can_be_taken() {
        fn check(indices: &[u16], announced: usize, expected: Result<&[usize], Malformed>) {
            assert_eq!(checked_indices(indices.to_vec(), announced), expected.map(<[usize]>::to_vec));
        }
        check(&[], 0, Ok(&[]));
        check(&[2, 0, 2], 3, Ok(&[0, 2]));
        check(&[3], 3, Err(Malformed::Value("an index")));
        check(&[0], 0, Err(Malformed::Value("an index")));
    }

    #[test]
    fn no_exchange_brings_more_than_it_carries() {
        fn check(exchange: Exchange, announced: usize, expected: Result<(), Malformed>) {
            let place = Place::Tcp { address: ([127, 0, 0, 1], 443).into(), only_v6: false };
            let one_more = vec![Announced { purpose: Purpose::Site, place, worker: None }];
            let descriptor = std::fs::File::open("/dev/null").expect("a descriptor").into();
            let mut arrived = Arrived { announced, ..Arrived::default() };
            assert_eq!(arrived.add(one_more, vec![descriptor], exchange.sockets_max()), expected, "{exchange:?}");
        }
        for (exchange, max) in [(Exchange::Offer, OFFERED_MAX), (Exchange::Spare, OFFERED_MAX), (Exchange::Upgrade, SOCKETS_MAX)]
        {
            check(exchange, max - 1, Ok(()));
            check(exchange, max, Err(Malformed::TooMany("sockets")));
        }
    }
}
