//! Every listening socket of the process, and which worker accepts from it. The control thread keeps a descriptor of
//! its own of each, so that a socket outlives the worker that used it: it can be given to another worker, to another
//! process or to the next binary, with what waits in its queue. How an address is bound is in `bind`.

use crate::bind::{BindFault, Obstacle, bind_one, is_shared};
use crate::company::{Company, is_ours_alone};
use crate::socket_file::{self, SocketFile};
use std::io;
use std::net::{SocketAddr, TcpListener};
use tidegate_model::{ListenAddress, SocketName};
use tidegate_proxy::command::{NewSocket, OldSocket, SocketId};
use tidegate_proxy::snapshot::Listener;
use tidegate_transport::sockets::unix_path;

/// Sockets that the process may have: 1,024 workers on some tens of addresses, and those that others have left behind.
pub const SOCKETS_MAX: usize = 65_536;

#[derive(Debug)]
struct Entry {
    id: SocketId,
    /// As the snapshot's listener has it; what the socket is bound to may be its IPv4 form.
    address: ListenAddress,
    socket: TcpListener,
    worker: usize,
    /// Of a socket of this machine that was bound here.
    file: Option<SocketFile>,
}

#[derive(Debug, Default)]
pub struct SocketTable {
    entries: Vec<Entry>,
    next: u64,
    /// Addresses of which it was said that others listen there as well.
    announced: Vec<ListenAddress>,
    company: Company,
}

/// A socket, and the index of the worker that is to accept from it.
pub type Given = (usize, NewSocket);

/// A socket that stays in use here: its listener's address, and the worker that accepts from it.
pub type Duplicate = (ListenAddress, usize, TcpListener);

/// Sockets that came from elsewhere and nobody accepts from yet.
#[derive(Debug, Default)]
pub struct Inherited(Vec<TcpListener>);

impl Inherited {
    pub fn new(sockets: Vec<TcpListener>) -> Inherited {
        Inherited(sockets)
    }

    /// Takes an inherited socket that listens where the listener does.
    fn take(&mut self, address: ListenAddress) -> Option<TcpListener> {
        let fits = |socket: &TcpListener| listens_on(socket).is_some_and(|local| is_same_place(local, address));
        let position = self.0.iter().position(fits)?;
        Some(self.0.swap_remove(position))
    }

    pub fn into_rest(self) -> Vec<TcpListener> {
        self.0
    }
}

/// A further socket for a worker, bound beside the others. Of a unix socket there is one, which all workers share; so
/// they do with one that systemd opened: it is another user's, and the kernel lets nobody bind beside it.
fn bind_beside(listener: &Listener, own: Option<&Entry>) -> io::Result<(TcpListener, Option<SocketFile>)> {
    match (listener.address, own) {
        (ListenAddress::Unix(name), None) => socket_file::bind(&name, &listener.access),
        (ListenAddress::Unix(_), Some(own)) => Ok((own.socket.try_clone()?, None)),
        (ListenAddress::Tcp(address), own) => match (bind_one(address), own) {
            (Err(error), Some(own)) if error.kind() == io::ErrorKind::AddrInUse => Ok((own.socket.try_clone()?, None)),
            (bound, _) => Ok((bound?, None)),
        },
    }
}

/// Where a socket listens by the system's word.
pub fn listens_on(socket: &TcpListener) -> Option<ListenAddress> {
    match socket.local_addr() {
        Ok(address) => Some(address.into()),
        Err(_) => SocketName::of_path(&unix_path(socket)?).map(ListenAddress::Unix),
    }
}

fn is_same_place(bound: ListenAddress, listener: ListenAddress) -> bool {
    match (bound, listener) {
        (ListenAddress::Tcp(bound), ListenAddress::Tcp(listener)) => is_same_address(bound, listener),
        (ListenAddress::Unix(_), _) | (_, ListenAddress::Unix(_)) => bound == listener,
    }
}

/// `[::]:443` is bound as `0.0.0.0:443` on a machine without IPv6.
pub fn is_same_address(bound: SocketAddr, listener: SocketAddr) -> bool {
    bound.port() == listener.port()
        && (bound.ip().to_canonical() == listener.ip().to_canonical()
            || bound.ip().is_unspecified() && listener.ip().is_unspecified())
}

/// Sockets that were opened for a change and are not in use yet: dropped, they leave no trace.
#[derive(Debug, Default)]
pub struct PreparedSockets {
    fresh: Vec<Entry>,
    /// Sockets of workers that have more than one, and which worker is to have them.
    moves: Vec<(SocketId, usize)>,
}

impl Drop for PreparedSockets {
    fn drop(&mut self) {
        self.fresh.iter().filter_map(|entry| entry.file.as_ref()).for_each(SocketFile::remove);
    }
}

impl PreparedSockets {
    /// What workers that have it now are to leave to others.
    pub fn moved(&self) -> Vec<OldSocket> {
        self.moves.iter().map(|(id, _)| OldSocket { id: *id, is_handed_on: true }).collect()
    }
}

impl SocketTable {
    pub(crate) fn in_company(company: Company) -> SocketTable {
        SocketTable { company, ..SocketTable::default() }
    }

    /// Opens what the listeners need so that each of these workers accepts on every address; takes inherited sockets
    /// first. All faults are reported; a fault of an implied listener is only a warning in the log.
    pub fn prepare(
        &mut self,
        listeners: &[impl AsRef<Listener>],
        workers: &[usize],
        inherited: &mut Inherited,
    ) -> Result<PreparedSockets, Vec<BindFault>> {
        let mut prepared = PreparedSockets::default();
        let mut faults = Vec::new();
        // New addresses first: on them nobody waits when another turns out to be taken. One more socket of an address
        // in use gets its part of the connections at once.
        let is_known = |address: ListenAddress| self.entries.iter().any(|entry| entry.address == address);
        let (known, new): (Vec<&Listener>, Vec<&Listener>) =
            listeners.iter().map(AsRef::as_ref).partition(|listener| is_known(listener.address));
        for listener in new.into_iter().chain(known) {
            if let Err(obstacle) = self.prepare_one(listener, workers, inherited, &mut prepared) {
                if listener.implied {
                    tracing::warn!(address = %listener.address, error = %obstacle, "plain HTTP is not redirected to HTTPS: its port cannot be listened on");
                } else {
                    faults.push(BindFault { address: listener.address, obstacle });
                }
            }
        }
        if faults.is_empty() { Ok(prepared) } else { Err(faults) }
    }

    /// Says it where others listen, once, and refuses to share with those of another configuration: a forgotten process
    /// takes its part of the connections, and one that hands a socket over goes on with those that it keeps.
    pub fn share(&mut self, address: ListenAddress) -> Result<(), Obstacle> {
        if self.announced.contains(&address) || !is_shared(address) || is_ours_alone(address) {
            return Ok(());
        }
        if !self.company.admits() {
            return Err(Obstacle::OtherConfiguration);
        }
        self.announced.push(address);
        tracing::warn!(%address, "another process listens on this address as well; the system gives each of them a part of the connections");
        Ok(())
    }

    fn prepare_one(
        &mut self,
        listener: &Listener,
        workers: &[usize],
        inherited: &mut Inherited,
        prepared: &mut PreparedSockets,
    ) -> Result<(), Obstacle> {
        let address = listener.address;
        let PreparedSockets { fresh, moves } = prepared;
        let begin = fresh.len();
        let is_known = self.entries.iter().any(|entry| entry.address == address);
        if let Some(path) = address.socket().and_then(SocketName::file).filter(|_| is_known) {
            socket_file::give(path, &listener.access)?;
        }
        let mut is_announced = is_known;
        for worker in workers.iter().copied() {
            if self.entries.iter().any(|entry| entry.address == address && entry.worker == worker) {
                continue;
            }
            // Workers that left have given theirs to those that stayed; another one here would be one more with each
            // turn.
            if let Some(id) = self.surplus(address, moves) {
                moves.push((id, worker));
                continue;
            }
            let socket = match inherited.take(address) {
                Some(socket) => {
                    is_announced = true;
                    socket
                }
                None => {
                    if !std::mem::replace(&mut is_announced, true) {
                        self.share(address)?;
                    }
                    let own = fresh.get(begin).or_else(|| self.entries.iter().find(|entry| entry.address == address));
                    match bind_beside(listener, own) {
                        Ok((socket, file)) => {
                            let entry = self.entry(address, socket, worker);
                            fresh.push(Entry { file, ..entry });
                            continue;
                        }
                        Err(error) => {
                            fresh.truncate(begin);
                            return Err(error.into());
                        }
                    }
                }
            };
            fresh.push(self.entry(address, socket, worker));
        }
        // More of them than workers: each of the first few has two.
        let mut turn = workers.iter().copied().cycle();
        while let Some((socket, worker)) = inherited.take(address).zip(turn.next()) {
            fresh.push(self.entry(address, socket, worker));
        }
        Ok(())
    }

    /// A socket on the address whose worker has another one there.
    fn surplus(&self, address: ListenAddress, moves: &[(SocketId, usize)]) -> Option<SocketId> {
        let stays = |entry: &&Entry| entry.address == address && !moves.iter().any(|(id, _)| *id == entry.id);
        let has_another =
            |entry: &&Entry| self.entries.iter().filter(stays).any(|other| other.worker == entry.worker && other.id != entry.id);
        self.entries.iter().filter(stays).find(has_another).map(|entry| entry.id)
    }

    fn entry(&mut self, address: ListenAddress, socket: TcpListener, worker: usize) -> Entry {
        self.next += 1;
        Entry { id: SocketId(self.next), address, socket, worker, file: None }
    }

    /// Puts prepared sockets into use: what each worker is to accept from besides. Fails when the process has no
    /// descriptor left.
    pub fn adopt(&mut self, mut prepared: PreparedSockets) -> io::Result<Vec<Given>> {
        let mut given = Vec::with_capacity(prepared.fresh.len());
        for entry in &prepared.fresh {
            given.push((entry.worker, entry.for_worker()?));
        }
        for (id, worker) in &prepared.moves {
            if let Some(entry) = self.entries.iter().find(|entry| entry.id == *id) {
                given.push((*worker, entry.for_worker()?));
            }
        }
        // Nothing can fail any more.
        let moved = given.iter_mut().skip(prepared.fresh.len());
        for ((id, worker), (_, socket)) in prepared.moves.iter().zip(moved) {
            if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == *id) {
                // Every worker is told to leave the socket of the old name, the one that has it now as well.
                self.next += 1;
                entry.id = SocketId(self.next);
                entry.worker = *worker;
                socket.id = entry.id;
            }
        }
        self.entries.append(&mut prepared.fresh);
        Ok(given)
    }

    /// Sockets of workers that leave go to those that stay, in turn: whom to tell, and which to leave.
    pub fn move_from(&mut self, leaving: &[usize], staying: &[usize]) -> io::Result<(Vec<Given>, Vec<SocketId>)> {
        let (mut given, mut left) = (Vec::new(), Vec::new());
        let mut turn = staying.iter().copied().cycle();
        // All or none: one without a worker would be a hole that connections fall into.
        for entry in self.entries.iter().filter(|entry| leaving.contains(&entry.worker)) {
            let Some(worker) = turn.next() else { break };
            given.push((worker, entry.for_worker()?));
            left.push(entry.id);
        }
        for ((worker, _), id) in given.iter().zip(&left) {
            if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == *id) {
                entry.worker = *worker;
            }
        }
        Ok((given, left))
    }

    /// Sockets whose address is no listener's any more.
    pub fn take_unlisted(&mut self, listeners: &[impl AsRef<Listener>]) -> Vec<Spare> {
        let is_listed = |entry: &Entry| listeners.iter().any(|listener| listener.as_ref().address == entry.address);
        let (stay, leave) = std::mem::take(&mut self.entries).into_iter().partition(is_listed);
        self.entries = stay;
        leave.into_iter().map(Entry::into_spare).collect()
    }

    /// Takes sockets of other processes that listen where this one does; gives back those that it has no use for.
    pub fn take_in(&mut self, sockets: Vec<TcpListener>, workers: &[usize]) -> (PreparedSockets, Vec<TcpListener>) {
        let (mut prepared, mut unwanted) = (PreparedSockets::default(), Vec::new());
        for socket in sockets {
            let address = listens_on(&socket)
                .and_then(|local| self.entries.iter().map(|entry| entry.address).find(|address| is_same_place(local, *address)));
            // The worker that has the fewest gets it.
            let count = |worker: &usize| {
                let of_worker = |entry: &&Entry| entry.worker == *worker;
                self.entries.iter().filter(of_worker).count() + prepared.fresh.iter().filter(of_worker).count()
            };
            let worker = workers.iter().copied().min_by_key(count);
            match address.zip(worker).filter(|_| self.entries.len() + prepared.fresh.len() < SOCKETS_MAX) {
                Some((address, worker)) => {
                    let entry = self.entry(address, socket, worker);
                    prepared.fresh.push(entry);
                }
                None => unwanted.push(socket),
            }
        }
        (prepared, unwanted)
    }

    /// Sockets beyond one per worker and address, of the addresses asked for: for a process that starts beside this
    /// one.
    pub fn take_surplus(&mut self, addresses: &[SocketAddr]) -> Vec<Spare> {
        let mut surplus = Vec::new();
        let mut seen = std::collections::HashSet::new();
        let mut kept = Vec::with_capacity(self.entries.len());
        for entry in std::mem::take(&mut self.entries) {
            let is_first = seen.insert((entry.address, entry.worker));
            let own = entry.address.tcp();
            let is_wanted = own.is_some_and(|own| addresses.iter().any(|address| is_same_address(*address, own)));
            if !is_first && is_wanted {
                surplus.push(entry.into_spare());
            } else {
                kept.push(entry);
            }
        }
        self.entries = kept;
        surplus
    }

    /// Puts sockets back that nobody wanted.
    pub fn put_back(&mut self, spares: Vec<Spare>) {
        self.entries.extend(spares.into_iter().map(|spare| spare.0));
    }

    /// All of them, to be given away as the process leaves.
    pub fn take_all(&mut self) -> Vec<Spare> {
        std::mem::take(&mut self.entries).into_iter().map(Entry::into_spare).collect()
    }

    /// Descriptors of all of them, which stay in use here.
    pub fn duplicates(&self) -> io::Result<Vec<Duplicate>> {
        self.entries.iter().map(|entry| Ok((entry.address, entry.worker, entry.socket.try_clone()?))).collect()
    }

    /// Addresses that other processes may share.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses: Vec<_> = self.entries.iter().filter_map(|entry| entry.address.tcp()).collect();
        addresses.sort();
        addresses.dedup();
        addresses
    }

    pub fn count(&self, address: ListenAddress) -> usize {
        self.entries.iter().filter(|entry| entry.address == address).count()
    }
}

/// A socket that is leaving this process, or an address of it.
#[derive(Debug)]
pub struct Spare(Entry);

impl Spare {
    pub fn socket(&self) -> &TcpListener {
        &self.0.socket
    }

    /// Of a socket of this machine: clients find no way here any more.
    pub fn remove_file(&self) {
        if let Some(file) = &self.0.file {
            file.remove();
        }
    }

    pub fn left(&self, is_handed_on: bool) -> OldSocket {
        OldSocket { id: self.0.id, is_handed_on }
    }
}

impl Entry {
    fn for_worker(&self) -> io::Result<NewSocket> {
        Ok(NewSocket { id: self.id, address: self.address, socket: self.socket.try_clone()? })
    }

    fn into_spare(self) -> Spare {
        Spare(self)
    }
}
