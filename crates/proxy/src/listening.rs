//! A listening address as one worker has it: the sockets it accepts from, the connections that came in through it, and
//! how these are ended when the address, the worker or the process goes. What the address serves is in `snapshot`;
//! requests are lived in `request`.

use crate::snapshot::Listener;
use crate::worker_snapshot::WorkerSnapshot;
use ipnet::IpNet;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tidegate_message::h2::H2Shared;
use tidegate_model::ListenAddress;
use tidegate_model::listening::ListenerProtocol;
use tidegate_routing::{Greeting, Taker};
use tidegate_transport::memory::TakenShare;
use tidegate_transport::rt::{self, Signal, Task};
use tidegate_transport::{Sock, Stream, buffer};

/// A connection that served a request a moment ago is likely to bring the next one now; closing it would cross that on
/// the way. So long it is waited for, and answered with `Connection: close`.
pub const IDLE_GRACE: Duration = Duration::from_secs(1);
/// Idle connections are ended one after the other, so that their clients do not all come back in the same moment.
const IDLE_PACE: Duration = Duration::from_millis(2);
/// What a connection takes that waits for a request.
pub const CONNECTION_BYTES: usize = 10 << 10;
/// What one takes besides while its handshake is under way.
const HANDSHAKE_BYTES: usize = 8 << 10;
/// What one of HTTP/1 takes besides while it waits for an answer, with the connection to a server.
const REQUEST_BYTES: usize = 12 << 10;
/// After the drain time what is left has this long until it is cut: tunnels have said goodbye by then.
pub const CUT_GRACE: Duration = Duration::from_secs(1);

/// What the connections of one listening address have in common, until the address is left.
pub struct ListenerState<S: Sock> {
    pub address: ListenAddress,
    protocol: Cell<ListenerProtocol>,
    /// As the newest configuration has it.
    proxy_protocol_from: RefCell<Arc<[IpNet]>>,
    offers_websocket: Cell<bool>,
    public_port: Cell<u16>,
    /// Set when no request should come any more on these connections.
    pub draining: Signal,
    /// Set when what is left will be cut at some moment. Not always with the draining: a worker too many waits for its
    /// last connection, until its listener or the process is left.
    pub closing: Signal,
    /// Of a listener that is drained: when what is left is cut. `None`: when it ends by itself.
    cut_at: Cell<Option<Instant>>,
    /// How far apart idle connections are ended.
    spread: Cell<Duration>,
    /// Of a listener that is no longer in the configuration: the last snapshot that had it.
    last: RefCell<Option<(Rc<WorkerSnapshot<S>>, usize)>>,
    connections: RefCell<Slab<Entry<S>>>,
    /// Whether any of them is passed on, as the newest configuration has it.
    passes_on: Cell<bool>,
    passthrough: RefCell<Slab<Rc<Passthrough>>>,
}

/// How a connection began that is passed on. What decided it then decides after each change whether it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeted {
    Name(Box<str>),
    NoName,
    /// The connection is not TLS, or nobody looked.
    Otherwise,
}

impl Greeted {
    pub fn greeting(&self) -> Greeting<'_> {
        match self {
            Greeted::Name(name) => Greeting::Name(name.as_bytes()),
            Greeted::NoName => Greeting::NoName,
            Greeted::Otherwise => Greeting::NotTls,
        }
    }
}

/// A connection that is passed on.
pub struct Passthrough {
    greeted: Greeted,
    local_ip: IpAddr,
    /// Set when nothing passes such a connection on any more.
    pub leaving: Signal,
    cut_at: Cell<Option<Instant>>,
}

impl Passthrough {
    /// When it ends, once it is leaving.
    pub fn goodbye_at(&self, random: u64) -> Option<Instant> {
        Some(moment_until(self.cut_at.get()?, random))
    }
}

/// The place of a passed connection in the list of its listener; it leaves when dropped.
pub struct RegisteredPass<S: Sock> {
    listener: Rc<ListenerState<S>>,
    key: usize,
    pub passthrough: Rc<Passthrough>,
}

impl<S: Sock> Drop for RegisteredPass<S> {
    fn drop(&mut self) {
        self.listener.passthrough.borrow_mut().try_remove(self.key);
    }
}

struct Entry<S: Sock> {
    facts: Rc<ConnectionFacts>,
    stream: Weak<Stream<S>>,
    task: Option<Task>,
}

/// What `status` and the API can say of a connection without asking it.
#[derive(Debug)]
pub struct ConnectionFacts {
    pub id: u64,
    /// Of the client itself where a load balancer has said it.
    pub client: Cell<SocketAddr>,
    pub opened: SystemTime,
    pub kind: Cell<ConnectionKind>,
    pub requests: Cell<u64>,
    /// Of the request that it served last, or serves.
    pub site: RefCell<Option<Arc<str>>>,
    /// Of the request that it sent to one last, or sends.
    pub pool: RefCell<Option<Arc<str>>>,
    /// The configuration's generation with which its last request began.
    pub generation: Cell<u64>,
    /// Requests on their way.
    pub active: Cell<u32>,
    /// The request that is on its way over HTTP/1 brings a body.
    pub has_upload: Cell<bool>,
    /// Ended by the process, with whatever was on its way.
    pub is_cut: Cell<bool>,
    /// Of HTTP/2.
    pub streams: RefCell<Weak<H2Shared>>,
    /// What its requests take of memory that is nowhere else to be seen.
    pub other_bytes: Cell<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionKind {
    Handshake,
    Http1,
    Http2,
    /// After `101 Switching Protocols`.
    Tunnel,
}

impl ConnectionKind {
    pub const ALL: [ConnectionKind; 4] =
        [ConnectionKind::Handshake, ConnectionKind::Http1, ConnectionKind::Http2, ConnectionKind::Tunnel];

    pub fn as_str(self) -> &'static str {
        match self {
            ConnectionKind::Handshake => "handshake",
            ConnectionKind::Http1 => "http/1",
            ConnectionKind::Http2 => "http/2",
            ConnectionKind::Tunnel => "tunnel",
        }
    }
}

impl ConnectionFacts {
    pub fn new(id: u64, client: SocketAddr) -> ConnectionFacts {
        ConnectionFacts {
            id,
            client: Cell::new(client),
            opened: SystemTime::now(),
            kind: Cell::new(ConnectionKind::Handshake),
            requests: Cell::new(0),
            site: RefCell::default(),
            pool: RefCell::default(),
            generation: Cell::new(0),
            active: Cell::new(0),
            has_upload: Cell::new(false),
            is_cut: Cell::new(false),
            streams: RefCell::default(),
            other_bytes: Cell::new(0),
        }
    }

    /// A request begins.
    #[inline]
    pub fn begin(&self, generation: u64) {
        self.requests.set(self.requests.get() + 1);
        self.active.set(self.active.get() + 1);
        self.generation.set(generation);
    }

    #[inline]
    pub fn end(&self) {
        self.has_upload.set(false);
        self.active.set(self.active.get() - 1);
    }

    /// What the connection takes of memory beside its socket's buffers, as far as it is known; measured with an
    /// optimised program.
    pub fn held_bytes(&self) -> usize {
        let of_requests = match self.kind.get() {
            ConnectionKind::Handshake => HANDSHAKE_BYTES,
            ConnectionKind::Http1 | ConnectionKind::Http2 | ConnectionKind::Tunnel => match self.streams.borrow().upgrade() {
                Some(streams) => streams.held_bytes(),
                None if self.active.get() == 0 => 0,
                None if self.has_upload.get() => REQUEST_BYTES + buffer::TOTAL,
                None => REQUEST_BYTES,
            },
        };
        CONNECTION_BYTES + of_requests + self.other_bytes.get()
    }

    /// The request goes to that pool. Written as the site is.
    #[inline]
    pub fn at_pool(&self, name: &Arc<str>) {
        let is_known = self.pool.borrow().as_ref().is_some_and(|known| Arc::ptr_eq(known, name));
        if !is_known {
            *self.pool.borrow_mut() = Some(name.clone());
        }
    }

    /// The request is for that site. A shared name is written only when it is another one than before, since workers
    /// share its count.
    #[inline]
    pub fn at_site(&self, name: &Arc<str>) {
        let is_known = self.site.borrow().as_ref().is_some_and(|known| Arc::ptr_eq(known, name));
        if !is_known {
            *self.site.borrow_mut() = Some(name.clone());
        }
    }
}

/// What something takes that is a connection's, in its account and in that of the process.
pub struct HeldForConnection {
    facts: Rc<ConnectionFacts>,
    taken: TakenShare,
}

impl HeldForConnection {
    pub fn new(facts: &Rc<ConnectionFacts>, bytes: usize) -> HeldForConnection {
        let mut held = HeldForConnection { facts: facts.clone(), taken: TakenShare::default() };
        held.set(bytes);
        held
    }

    /// Makes it that much from here on.
    pub fn set(&mut self, bytes: usize) {
        let others = self.facts.other_bytes.get().saturating_sub(self.taken.bytes());
        self.facts.other_bytes.set(others + bytes);
        self.taken.set(bytes);
    }
}

impl Drop for HeldForConnection {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A connection's place in the list of its listener; it leaves when dropped.
pub struct Registered<S: Sock> {
    listener: Rc<ListenerState<S>>,
    key: usize,
    pub facts: Rc<ConnectionFacts>,
}

impl<S: Sock> Drop for Registered<S> {
    fn drop(&mut self) {
        self.listener.connections.borrow_mut().try_remove(self.key);
    }
}

impl<S: Sock> ListenerState<S> {
    pub fn new(listener: &Listener) -> Rc<ListenerState<S>> {
        Rc::new(ListenerState {
            address: listener.address,
            protocol: Cell::new(listener.protocol),
            proxy_protocol_from: RefCell::new(listener.proxy_protocol_from.clone()),
            offers_websocket: Cell::new(listener.offers_websocket),
            public_port: Cell::new(listener.public_port),
            draining: Signal::default(),
            closing: Signal::default(),
            cut_at: Cell::new(None),
            spread: Cell::new(Duration::ZERO),
            last: RefCell::new(None),
            connections: RefCell::default(),
            passes_on: Cell::new(!listener.passes.is_empty()),
            passthrough: RefCell::default(),
        })
    }

    /// What may change while its connections go on. Those that nothing passes on any more have until `limit`.
    pub fn take_options(&self, listener: &Listener, limit: Duration) {
        self.protocol.set(listener.protocol);
        self.passes_on.set(!listener.passes.is_empty());
        for (_, passthrough) in self.passthrough.borrow().iter() {
            let taker = listener.router.find_taker(passthrough.greeted.greeting(), passthrough.local_ip);
            if !matches!(taker, Some(Taker::Pass(_))) && !passthrough.leaving.is_set() {
                passthrough.cut_at.set(Some(rt::now() + limit));
                passthrough.leaving.set();
            }
        }
        *self.proxy_protocol_from.borrow_mut() = listener.proxy_protocol_from.clone();
        self.offers_websocket.set(listener.offers_websocket);
        self.public_port.set(listener.public_port);
    }

    /// A connection that is passed on from here.
    pub fn pass_on(self: &Rc<Self>, greeted: Greeted, local_ip: IpAddr) -> RegisteredPass<S> {
        let passthrough = Rc::new(Passthrough { greeted, local_ip, leaving: Signal::default(), cut_at: Cell::new(None) });
        let key = self.passthrough.borrow_mut().insert(passthrough.clone());
        RegisteredPass { listener: self.clone(), key, passthrough }
    }

    #[inline]
    pub fn passes_on(&self) -> bool {
        self.passes_on.get()
    }

    pub fn protocol(&self) -> ListenerProtocol {
        self.protocol.get()
    }

    /// The port that clients ask for.
    pub fn public_port(&self) -> u16 {
        self.public_port.get()
    }

    /// Whether clients are offered WebSockets on streams of HTTP/2.
    pub fn offers_websocket(&self) -> bool {
        self.offers_websocket.get()
    }

    /// Whether connections of that peer begin with a header that says whose they are.
    #[inline]
    pub fn expects_header_from(&self, peer: IpAddr) -> bool {
        self.proxy_protocol_from.borrow().iter().any(|network| network.contains(&peer))
    }

    pub fn register(self: &Rc<Self>, facts: ConnectionFacts, stream: &Rc<Stream<S>>) -> Registered<S> {
        let facts = Rc::new(facts);
        let entry = Entry { facts: facts.clone(), stream: Rc::downgrade(stream), task: None };
        let key = self.connections.borrow_mut().insert(entry);
        Registered { listener: self.clone(), key, facts }
    }

    /// The task that serves the connection, so that it can be cut.
    pub fn served_by(&self, key: usize, task: Task) {
        // A task that has ended already has taken its entry along.
        if let Some(entry) = self.connections.borrow_mut().get_mut(key) {
            entry.task = Some(task);
        }
    }

    pub fn is_draining(&self) -> bool {
        self.draining.is_set()
    }

    pub fn connection_count(&self) -> usize {
        self.connections.borrow().len()
    }

    pub fn each_connection(&self, mut see: impl FnMut(&ConnectionFacts)) {
        self.connections.borrow().iter().for_each(|(_, entry)| see(&entry.facts));
    }

    /// Sees what each connection takes of memory, by its number.
    pub fn each_held(&self, mut see: impl FnMut(u64, usize)) {
        for (_, entry) in self.connections.borrow().iter() {
            let of_stream = entry.stream.upgrade().map_or(0, |stream| stream.held_bytes());
            see(entry.facts.id, of_stream + entry.facts.held_bytes());
        }
    }

    /// Ends those of its connections, at once.
    pub fn end_those(&self, mut is_meant: impl FnMut(u64) -> bool) {
        for (_, entry) in self.connections.borrow().iter() {
            if let Some(task) = entry.task.as_ref().filter(|_| is_meant(entry.facts.id)) {
                entry.facts.is_cut.set(true);
                task.abort();
            }
        }
    }

    /// The snapshot and place that its connections go on with after it has left the configuration.
    pub fn last_snapshot(&self) -> Option<(Rc<WorkerSnapshot<S>>, usize)> {
        self.last.borrow().clone()
    }

    /// Notes that the listener is not in the configuration any more: its connections keep the last snapshot that had
    /// it.
    pub fn leave_configuration(&self, last: Rc<WorkerSnapshot<S>>, position: usize) {
        *self.last.borrow_mut() = Some((last, position));
    }

    /// Connections that wait for their next request wait no longer than to that moment.
    pub fn end_idle_by(&self, at: Instant) {
        for (_, entry) in self.connections.borrow().iter() {
            if let Some(stream) = entry.stream.upgrade() {
                stream.sock.end_idle_by(at);
            }
        }
    }

    /// Ends its connections gently: idle ones one after the other, those with a request after its answer. Tunnels and
    /// whatever else is left have until `limit`; without one they end by themselves.
    pub fn drain(&self, limit: Option<Duration>, random: &mut dyn FnMut() -> u64) {
        let now = rt::now();
        if let Some(limit) = limit {
            self.cut_at.set(Some(now + limit));
            self.closing.set();
        }
        if self.draining.is_set() {
            return;
        }
        let connections = self.connections.borrow();
        let pace = IDLE_PACE * u32::try_from(connections.len()).unwrap_or(u32::MAX);
        self.spread.set(limit.map_or(pace, |limit| pace.min(limit / 2)));
        for (_, entry) in connections.iter() {
            if let Some(stream) = entry.stream.upgrade() {
                stream.sock.end_idle_by(now + self.idle_time(random()));
            }
        }
        drop(connections);
        self.draining.set();
    }

    /// How long an idle connection of a draining listener still waits for a request.
    pub fn idle_time(&self, random: u64) -> Duration {
        let grace = IDLE_GRACE.min(self.cut_at.get().map_or(IDLE_GRACE, |at| at.saturating_duration_since(rt::now()) / 2));
        grace + self.goodbye_time(random)
    }

    /// After how long a client of a draining listener is told to open no more streams. What crosses that is answered,
    /// so nothing has to be waited for but its turn.
    pub fn goodbye_time(&self, random: u64) -> Duration {
        fraction(self.spread.get(), random)
    }

    /// When a tunnel of a draining listener says goodbye: at some moment of the second half of what is left. `None`:
    /// never.
    pub fn goodbye_at(&self, random: u64) -> Option<Instant> {
        Some(moment_until(self.cut_at.get()?, random))
    }

    /// What ends now is ended by us, and not by its clients.
    pub fn mark_cut(&self) {
        self.each_connection(|facts| facts.is_cut.set(true));
    }

    /// Ends what is left, at once.
    pub fn cut(&self) {
        self.mark_cut();
        for (_, entry) in self.connections.borrow().iter() {
            if let Some(task) = &entry.task {
                task.abort();
            }
        }
    }

    /// Waits until the last connection has ended; what is left when the time is up is cut.
    pub async fn cut_when_due(self: Rc<Self>) {
        loop {
            let Some(at) = self.cut_at.get() else { return };
            let left = (at + CUT_GRACE).saturating_duration_since(rt::now());
            if left.is_zero() || self.connection_count() == 0 {
                break;
            }
            rt::sleep(left.min(CUT_GRACE)).await;
        }
        self.cut();
    }
}

impl<S: Sock> Registered<S> {
    pub fn key(&self) -> usize {
        self.key
    }
}

/// At some moment of the second half of what is left.
fn moment_until(cut_at: Instant, random: u64) -> Instant {
    let now = rt::now();
    let left = cut_at.saturating_duration_since(now);
    now + left / 2 + fraction(left / 2, random)
}

/// A part of a duration; `random` is uniform over all its bits.
fn fraction(of: Duration, random: u64) -> Duration {
    of.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::fraction;
    use std::time::Duration;

    #[test]
    fn a_fraction_is_never_more_than_the_whole() {
        let whole = Duration::from_secs(30);
        for random in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(fraction(whole, random) <= whole);
        }
        assert_eq!(fraction(whole, 0), Duration::ZERO);
        assert!(fraction(whole, u64::MAX) > whole * 9 / 10);
        assert_eq!(fraction(Duration::ZERO, u64::MAX), Duration::ZERO);
    }
}
