//! A client connection as its requests see it: its two ends, its handshake, its listener, and the snapshot that is
//! valid for it. How it is served is in `serve`.

mod refused;
mod unread;

pub use self::unread::UnreadBounds;

use crate::listening::{ConnectionFacts, ConnectionKind, ListenerState};
use crate::snapshot::Listener;
use crate::worker::Worker;
use crate::worker_snapshot::WorkerSnapshot;
use std::cell::{Cell, OnceCell};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_exchange::Record;
use tidegate_exchange::forwarded::ShownCertificate;
use tidegate_geo::{GeoMemory, Whereabouts};
use tidegate_middleware::{DryRun, Refusal};
use tidegate_model::Scheme;
use tidegate_routing::decision::TlsIdentity;
use tidegate_telemetry::RecordIntroduction;
use tidegate_transport::{ReadLimit, Sock, Stream, TlsFacts, rt};
use tidegate_wire::ClientCertificate;
use tidegate_wire::proxy_protocol::Introduction;

/// A certificate that is not good.
pub struct UnverifiedCertificate {
    pub certificate: ClientCertificate,
    /// In the words of OpenSSL.
    pub why: &'static str,
}

/// After an answer that ends the connection, unread input is thrown away until the client is silent for so long:
/// closing at once would make the kernel send a reset, which can destroy the answer before the client has read it.
const LINGER: Duration = Duration::from_secs(2);

/// One client connection as its requests see it.
pub struct Connection<S: Sock> {
    pub worker: Rc<Worker<S>>,
    pub stream: Rc<Stream<S>>,
    pub client: SocketAddr,
    pub tls: Option<TlsFacts>,
    /// What the client has shown in its handshake, of a site that asks, and what is good.
    pub client_certificate: Option<Box<ClientCertificate>>,
    /// A certificate that is not good and was taken all the same. Nobody is known by it.
    pub unverified_certificate: Option<Box<UnverifiedCertificate>>,
    /// The name in the ClientHello.
    pub server_name: Option<Box<str>>,
    /// What its ClientHello says of the client, where the configuration asks for it.
    pub ja4: Option<Box<str>>,
    /// The site whose TLS settings the connection has.
    pub tls_identity: Option<Arc<TlsIdentity>>,
    pub listener: Rc<ListenerState<S>>,
    pub facts: Rc<ConnectionFacts>,
    /// What a load balancer has said besides the addresses.
    pub introduction: Option<Box<Introduction>>,
    /// Where the client connected to, where a load balancer has said it.
    destination: Option<SocketAddr>,
    /// By when a handshake has to be over whose time began before it.
    handshake_until: Option<Instant>,
    local_ip: OnceCell<IpAddr>,
    /// What is known of the client that was asked for last.
    geo: GeoMemory,
    client_ip_text: OnceCell<Box<str>>,
    /// The listener's place in the snapshot of that serial number. The snapshot itself is not held: an idle connection
    /// must not keep an old configuration alive.
    place: Cell<(u64, usize)>,
}

impl<S: Sock> Connection<S> {
    /// A connection of which nothing is known yet but its two ends.
    pub fn new(
        worker: Rc<Worker<S>>,
        stream: Rc<Stream<S>>,
        client: SocketAddr,
        listener: Rc<ListenerState<S>>,
        facts: Rc<ConnectionFacts>,
    ) -> Connection<S> {
        Connection {
            worker,
            stream,
            client,
            tls: None,
            client_certificate: None,
            unverified_certificate: None,
            server_name: None,
            ja4: None,
            tls_identity: None,
            listener,
            facts,
            introduction: None,
            destination: None,
            handshake_until: None,
            local_ip: OnceCell::new(),
            geo: GeoMemory::default(),
            client_ip_text: OnceCell::new(),
            place: Cell::new((0, 0)),
        }
    }

    /// A load balancer has said whose connection it is, and where to.
    pub fn introduce(&mut self, source: SocketAddr, destination: SocketAddr) {
        self.client = source;
        self.destination = Some(destination);
        self.facts.client.set(source);
    }

    /// What the client has shown in its handshake, good or not.
    pub fn shown_certificate(&self) -> ShownCertificate<'_> {
        match (&self.client_certificate, &self.unverified_certificate) {
            (Some(certificate), _) => ShownCertificate::Verified(certificate),
            (None, Some(unverified)) => ShownCertificate::Unverified(&unverified.certificate, unverified.why),
            (None, None) => ShownCertificate::Nothing,
        }
    }

    /// Where clients are, looked up when somebody asks.
    pub fn whereabouts(&self) -> Whereabouts<'_> {
        Whereabouts::new(&self.worker.process.geo, &self.geo)
    }

    /// What a load balancer has said besides that, for the log.
    pub fn said_by_balancer(&self) -> Option<RecordIntroduction<'_>> {
        let said = self.introduction.as_deref()?;
        Some(RecordIntroduction { authority: said.authority(), unique_id: said.unique_id_text() })
    }

    /// The snapshot that is valid now and this connection's listener in it. When the listener has left the
    /// configuration, the last snapshot that had it.
    #[inline]
    pub fn current_snapshot(&self) -> (Rc<WorkerSnapshot<S>>, usize) {
        let newest = self.worker.snapshot();
        let (serial, position) = self.place.get();
        if serial == newest.shared.serial {
            return (newest, position);
        }
        self.find_place(newest)
    }

    #[cold]
    fn find_place(&self, newest: Rc<WorkerSnapshot<S>>) -> (Rc<WorkerSnapshot<S>>, usize) {
        if let Some(last) = self.listener.last_snapshot() {
            return last;
        }
        // A listener without a last snapshot is in the newest: it leaves one and is given the other in the same turn of
        // the worker.
        let position = newest.shared.listener_position(self.listener.address, self.listener.protocol()).unwrap_or_default();
        self.place.set((newest.shared.serial, position));
        (newest, position)
    }

    /// The address the client connected to, asked for only where a site is named by its address.
    pub fn local_ip(&self, listener: &Listener) -> IpAddr {
        if !listener.needs_local_ip {
            return IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        }
        self.asked_local_ip()
    }

    /// As [`local_ip`](Self::local_ip), wherever it is wanted, with the port.
    /// Behind a load balancer that says it, it is the address there.
    pub fn local_address(&self) -> SocketAddr {
        self.destination.unwrap_or_else(|| SocketAddr::new(self.asked_local_ip(), self.listen_port()))
    }

    /// By when a handshake that begins now has to be over.
    pub fn handshake_until(&self, header_timeout: Duration) -> Instant {
        self.handshake_until.unwrap_or_else(|| rt::now() + header_timeout)
    }

    fn asked_local_ip(&self) -> IpAddr {
        let ask = || self.stream.sock.local_ip().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ip| ip.to_canonical());
        *self.local_ip.get_or_init(ask)
    }

    /// The client's address in text, made once per connection.
    pub fn client_ip_text(&self) -> &[u8] {
        self.client_ip_text.get_or_init(|| self.client.ip().to_string().into()).as_bytes()
    }

    /// As [`handshake_until`](Self::handshake_until); what comes before the handshake takes from its time.
    pub fn begin_handshake(&mut self, header_timeout: Duration) -> Instant {
        let until = self.handshake_until(header_timeout);
        self.handshake_until = Some(until);
        until
    }

    /// The address the client connected to, where it was asked for already.
    pub fn known_local_ip(&self) -> IpAddr {
        self.local_ip.get().copied().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    pub fn is_h2(&self) -> bool {
        self.facts.kind.get() == ConnectionKind::Http2
    }

    /// What the client sees; a trusted proxy in front may say otherwise to the upstream, which does not change what we
    /// match.
    pub fn scheme(&self) -> Scheme {
        self.listener.protocol().scheme()
    }

    /// Of a socket of this machine, which has none, it is the port of its scheme.
    fn listen_port(&self) -> u16 {
        self.listener.address.port().unwrap_or(Scheme::Http.default_port())
    }

    /// The port that clients ask for, as the configuration has it.
    pub fn public_port(&self) -> u16 {
        self.listener.public_port()
    }

    /// The port that the client connected to, which is another one than ours behind a load balancer that says so, or of
    /// which the configuration does.
    pub fn destination_port(&self) -> u16 {
        self.destination.map_or_else(|| self.public_port(), |destination| destination.port())
    }

    /// Whether the process ends it, and not its client.
    pub fn is_cut(&self) -> bool {
        self.facts.is_cut.get()
    }

    pub fn is_draining(&self) -> bool {
        self.listener.is_draining()
    }

    /// Counts what a limit with `dry-run` would have refused, and says it as a refusal is said.
    #[cold]
    pub fn note_dry_run(&self, dry_run: DryRun, client_ip: IpAddr, record: &mut Record) {
        let refused =
            [(dry_run.rate, "rate_limited", "rate-limit"), (dry_run.concurrency, "concurrency_limited", "concurrency-limit")];
        for (_, reason, setting) in refused.into_iter().filter(|(is_refused, ..)| *is_refused) {
            self.worker.metrics.refused_on_trial.increment(reason);
            record.tried(reason, setting);
            if let Some(suppressed) = self.worker.gates.refused.allow(Instant::now()) {
                let request_id = record.request_id().see(record.given_id.as_deref(), str::to_owned);
                tracing::info!(client = %client_ip, reason, setting, request_id, suppressed, "request would be refused");
            }
        }
    }

    /// Counts a refusal, and logs it without letting a flood of them flood the log.
    /// `record`: of what became a request.
    pub fn note_refusal(&self, refusal: Refusal, client_ip: IpAddr, record: Option<&Record>) {
        self.worker.metrics.refused.increment(refusal.reason());
        let Some(suppressed) = self.worker.gates.refused.allow(Instant::now()) else { return };
        let request_id = record.map(|record| record.request_id().see(record.given_id.as_deref(), str::to_owned));
        match refusal.setting() {
            Some(setting) => {
                tracing::info!(client = %client_ip, status = refusal.status(), reason = refusal.reason(), setting, request_id, suppressed, "request refused");
            }
            None => {
                tracing::debug!(client = %client_ip, status = refusal.status(), reason = refusal.reason(), request_id, suppressed, "request refused");
            }
        }
    }

    /// Adds what went over the socket since the last call to the worker's counters.
    pub fn account_bytes(&self) {
        self.worker.metrics.client_bytes_received.add(self.stream.take_received_bytes());
        self.worker.metrics.client_bytes_sent.add(self.stream.take_sent_bytes());
    }

    /// As [`account_bytes`](Self::account_bytes), for a connection to an upstream.
    pub fn account_upstream_bytes(&self, stream: &Stream<S>) {
        self.worker.metrics.upstream_bytes_received.add(stream.take_received_bytes());
        self.worker.metrics.upstream_bytes_sent.add(stream.take_sent_bytes());
    }

    /// Reads until the handshake is over, in the time that a handshake has.
    pub async fn finish_handshake(&self) -> io::Result<()> {
        let header_timeout = self.current_snapshot().0.shared.limits.header_timeout;
        self.stream.sock.set_read_limit(ReadLimit::Until(rt::now() + header_timeout));
        self.stream.finish_handshake().await
    }

    /// Ends our side and throws away what the client still sends, within the bounds of what is read behind an answer.
    pub async fn linger(&self) {
        self.throw_away(UnreadBounds::new(rt::now()), LINGER).await;
    }

    /// As [`linger`](Self::linger), for an end whose last words matter less.
    pub async fn linger_for(&self, time: Duration) {
        self.throw_away(UnreadBounds::within(rt::now(), time), time).await;
    }

    async fn throw_away(&self, mut bounds: UnreadBounds, silence: Duration) {
        self.stream.close().await;
        loop {
            let Some(left) = bounds.left(rt::now(), silence) else { return };
            self.stream.sock.set_read_limit(ReadLimit::Until(rt::now() + left));
            match self.stream.read().await {
                Ok(data) if !data.is_empty() => {
                    if bounds.note(data.len()) {
                        drop(data);
                        rt::yield_now().await;
                    }
                }
                Ok(_) | Err(_) => return,
            }
            if self.worker.process.pressure.is_high() {
                return;
            }
        }
    }
}
