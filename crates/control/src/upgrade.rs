//! What other processes of ours ask of this one: a successor that takes everything over, one that leaves and offers its
//! sockets, one that starts beside it. Where a succession stands is in `succession`, how sockets travel in `sharing`.

use crate::control::Control;
use crate::endpoint::{AdminListener, AdminSocket};
use crate::generations::Origin;
use crate::init::Mailbox;
use crate::sharing::{PEER_PATIENCE, lend, tcp_sockets};
use crate::sockets::Duplicate;
use crate::source::Source;
use crate::succession::{
    CarriedOver, PREDECESSOR, PeerEvent, READY_LIMIT, Reply, Successor, SuccessorOutcome, UpgradeFault, kill, watch_child,
};
use crate::systemd;
use crate::workers::ChangeParts;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use tidegate_telemetry::ReadinessState;
use tidegate_transport::handover::{self, Lent, Offer, Outcome, Place, Purpose, Request, SpareWanted, Upgrade};
use tokio::sync::oneshot;

impl Control {
    /// Starts the binary that this process was started from, or another, and lets it take over. The reply comes when it
    /// has, or has failed to.
    pub fn upgrade(&mut self, binary: Option<PathBuf>, reply: oneshot::Sender<Result<u32, UpgradeFault>>) {
        if let Err(fault) = self.try_upgrade(binary, reply) {
            tracing::error!(%fault, "upgrade");
        }
    }

    fn try_upgrade(&mut self, binary: Option<PathBuf>, reply: Reply) -> Result<(), UpgradeFault> {
        let refuse = |reply: Reply, fault: UpgradeFault| {
            let _ = reply.send(Err(fault.clone()));
            Err(fault)
        };
        if self.succession.is_under_way() || self.readiness.state() == ReadinessState::Draining {
            return refuse(reply, UpgradeFault::UnderWay);
        }
        if self.confirmation.pending.is_some() {
            return refuse(reply, UpgradeFault::AwaitsConfirmation);
        }
        if self.succession.name().is_empty() {
            return refuse(reply, UpgradeFault::Unavailable);
        }
        for difference in self.drift() {
            tracing::warn!(difference, "the successor reads the files anew");
        }
        let binary = binary.unwrap_or_else(|| self.succession.program.binary.clone());
        let child = Command::new(&binary)
            .arg0(&self.succession.program.binary)
            .args(&self.succession.program.arguments)
            .env(PREDECESSOR, self.succession.name())
            .envs(self.succession.mailbox.as_ref().map(Mailbox::environment))
            // It is for this process alone; the successor finds its own.
            .env_remove("WATCHDOG_PID")
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(error) => return refuse(reply, UpgradeFault::CannotStart { binary, error: error.to_string() }),
        };
        tracing::info!(pid = child.id(), binary = %binary.display(), "a successor starts");
        self.succession.successor = Some(Successor { pid: child.id(), reply: Some(reply) });
        let events = self.succession.events.clone();
        watch_child(child, events);
        Ok(())
    }

    /// The successor asks for everything.
    pub(crate) fn hand_over(&mut self, upgrade: Upgrade) {
        let Some(pid) = self.succession.successor.as_ref().map(|successor| successor.pid) else {
            let _ = upgrade.refuse("no upgrade is under way");
            return;
        };
        let outcome = self.lend_everything().and_then(|(sockets, admin)| {
            let mut lent = Vec::with_capacity(sockets.len() + admin.len());
            for (_, worker, socket) in &sockets {
                lent.push(Lent::tcp(socket, Purpose::Site, u16::try_from(*worker).ok())?);
            }
            for admin in &admin {
                lent.push(match &admin.socket {
                    AdminSocket::Tcp(listener) => Lent::tcp(listener, Purpose::Admin, None)?,
                    AdminSocket::Unix(listener) => Lent::unix(listener, Purpose::Admin)?,
                });
            }
            let state = self.carried_over().encode();
            upgrade.hand_over(pid, &lent, &state, handover::PATIENCE).map_err(|fault| io::Error::other(fault.to_string()))
        });
        match outcome {
            Ok(verdict) => {
                let events = self.succession.events.clone();
                let waiting = std::thread::Builder::new().name("succession".into()).spawn(move || {
                    let news = match verdict.outcome(READY_LIMIT) {
                        Ok(Outcome::Ready) => SuccessorOutcome::Ready,
                        Ok(Outcome::Failed { reason }) => SuccessorOutcome::NotReady(UpgradeFault::Failed { reason }),
                        // Its end is noticed by whoever waits for the process.
                        Ok(Outcome::Gone) => return,
                        Err(fault) => SuccessorOutcome::NotReady(UpgradeFault::Failed { reason: fault.to_string() }),
                    };
                    let _ = events.blocking_send(PeerEvent::Successor { pid, news });
                });
                if let Err(error) = waiting {
                    tracing::error!(%error, "a successor cannot be waited for");
                }
            }
            Err(error) => tracing::error!(%error, "the listening sockets could not be given to the successor"),
        }
    }

    fn lend_everything(&self) -> io::Result<(Vec<Duplicate>, Vec<AdminListener>)> {
        let admin = self.admin.listeners.iter().map(AdminListener::try_clone).collect::<io::Result<_>>()?;
        Ok((self.sockets.duplicates()?, admin))
    }

    fn carried_over(&self) -> CarriedOver {
        let source = matches!(self.source, Source::Text { .. }).then(|| self.source.clone());
        CarriedOver { generation: self.generation(), drained: self.drained_servers(), tickets: self.tls.tickets.export(), source }
    }

    /// True when the successor has taken over, and this process is to drain.
    pub(crate) fn hear_of_successor(&mut self, pid: u32, news: SuccessorOutcome) -> bool {
        // The end of one that had given up may be heard of when the next has been started.
        let Some(successor) = self.succession.successor.as_mut().filter(|successor| successor.pid == pid) else { return false };
        let reply = successor.reply.take();
        match news {
            SuccessorOutcome::Ready => {
                tracing::info!(pid, "a successor has taken over");
                self.succession.is_replaced = true;
                if let Some(reply) = reply {
                    let _ = reply.send(Ok(pid));
                }
                true
            }
            SuccessorOutcome::NotReady(_) if self.succession.is_replaced => false,
            SuccessorOutcome::NotReady(fault) => {
                tracing::error!(pid, %fault, "the upgrade failed; this process goes on");
                // It may still hang.
                kill(pid);
                self.succession.successor = None;
                if let Some(reply) = reply {
                    let _ = reply.send(Err(fault));
                }
                if std::mem::take(&mut self.succession.reload_wanted) {
                    self.reload(Origin::Signal);
                }
                false
            }
        }
    }

    pub(crate) fn answer_peer(&mut self, request: Request) {
        match request {
            Request::Offer(offer) => self.take_in(offer),
            Request::Spare(wanted) => self.give_spares(wanted),
            Request::Upgrade(upgrade) => self.hand_over(upgrade),
        }
    }

    /// A process that leaves offers its sockets: those on our addresses are accepted from here from now on.
    fn take_in(&mut self, offer: Offer) {
        let is_staying = self.readiness.state() == ReadinessState::Ready && !self.succession.is_under_way();
        let addresses = if is_staying { self.sockets.addresses() } else { Vec::new() };
        let pid = offer.pid();
        let listens_there = |place: &Place| match place {
            Place::Tcp { address, .. } => addresses.iter().any(|own| crate::sockets::is_same_address(*address, *own)),
            Place::Unix { .. } => false,
        };
        let adopted = match offer.take(|announced| announced.purpose == Purpose::Site && listens_there(&announced.place)) {
            Ok(adopted) => adopted,
            Err(fault) => return tracing::debug!(%fault, "sockets that another process offered were not taken"),
        };
        let sockets = tcp_sockets(adopted.sockets);
        if sockets.is_empty() {
            return;
        }
        let count = sockets.len();
        let (prepared, unwanted) = self.sockets.take_in(sockets, &self.workers.indices());
        if !unwanted.is_empty() {
            tracing::error!(
                count = unwanted.len(),
                "sockets of another process were taken and cannot be used; what waits in them is lost"
            );
        }
        match self.sockets.adopt(prepared) {
            Ok(sockets) => {
                self.workers.change(ChangeParts { sockets, ..ChangeParts::default() });
                systemd::store_listeners(&self.sockets);
                tracing::info!(count, pid, "took over the listening sockets of a process that leaves");
            }
            Err(error) => {
                tracing::error!(%error, "sockets of another process cannot be accepted from; what waits in them is lost");
            }
        }
    }

    /// A process that starts beside this one takes what this one has too many of.
    fn give_spares(&mut self, wanted: SpareWanted) {
        let spares = self.sockets.take_surplus(wanted.addresses());
        // More than one answer carries stays here.
        let some = &spares[..spares.len().min(handover::OFFERED_MAX)];
        let lent: Vec<Lent<'_>> = some.iter().filter_map(|spare| lend(spare.socket())).collect();
        let taken = if lent.len() == some.len() { wanted.give(&lent, PEER_PATIENCE).unwrap_or_default() } else { Vec::new() };
        drop(lent);
        let (mut given, mut kept) = (Vec::new(), Vec::new());
        for (position, spare) in spares.into_iter().enumerate() {
            if taken.contains(&position) { given.push(spare) } else { kept.push(spare) }
        }
        self.sockets.put_back(kept);
        if !given.is_empty() {
            let old_sockets = given.iter().map(|spare| spare.left(true)).collect();
            self.workers.change(ChangeParts { old_sockets, ..ChangeParts::default() });
            systemd::store_listeners(&self.sockets);
        }
    }
}
