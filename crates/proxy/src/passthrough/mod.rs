//! A connection that is passed on as it is (`tcp`): who takes it, a server of the pool, then bytes both ways until it
//! ends. By the name in the ClientHello where there are names or sites on the port, and else without waiting for a
//! byte. What the decision is, is in `routing`; how bytes go both ways, in `tunnel`; what is written down of it, in
//! `record`.

mod record;

use self::record::PassRecord;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::introduction::introduction;
use crate::listening::{ConnectionFacts, ConnectionKind, Greeted};
use crate::surroundings::{context, key_hash};
use crate::tunnel::{self, CutBy, Farewell, Parting, Side};
use crate::worker_snapshot::GenerationMark;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tidegate_balancing::Draw;
use tidegate_exchange::{ClientFault, Record};
use tidegate_middleware::RequestId;
use tidegate_model::RouteRetry;
use tidegate_routing::Taker;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, ReadLimit, Sock, Stream, rt};
use tidegate_upstream::awaited::wait_for_server;
use tidegate_upstream::call::ActiveConnection;
use tidegate_upstream::choose::{Choice, NoChoice, choose_at, unserved};
use tidegate_upstream::connect::{self, Client, Need, Opener, Upgrade};
use tidegate_upstream::errand::{Errand, Failed, carry_out};
use tidegate_upstream::fault::{UpstreamFault, Was};
use tidegate_upstream::pool::{H1Connection, WorkerPool};
use tidegate_upstream::retry::{Terms, Tries};
use tidegate_upstream::verdict::Attempt;
use tidegate_wire::HeadLimits;
use tidegate_wire::client_hello::{CLIENT_HELLO_BYTES_MAX, Sniffed, sniff};
use tidegate_wire::head::{RequestHead, Span};

/// Where a connection goes, out of one snapshot: it is not held while bytes go both ways.
struct PassthroughTarget<S: Sock> {
    name: Arc<str>,
    pool: Rc<WorkerPool<S>>,
    /// Whether the pool is one of several.
    is_split: bool,
    retry: RouteRetry,
    /// Keeps the generation among those that are in use.
    mark: Rc<GenerationMark>,
    greeted: Greeted,
}

/// Passes a new connection on, to its end, when that is what the configuration wants of it. `false`: a site takes it,
/// or refuses it, and what was read is read again.
pub async fn take<S: Sock>(connection: &mut Connection<S>) -> bool {
    let Some(way) = find_way(connection).await else { return false };
    pass_on(connection, way).await;
    true
}

async fn find_way<S: Sock>(connection: &mut Connection<S>) -> Option<PassthroughTarget<S>> {
    let looks = {
        let (snapshot, position) = connection.current_snapshot();
        let looks = snapshot.shared.listeners[position].router.looks_at_greetings();
        looks.then_some(snapshot.shared.limits.header_timeout)
    };
    // Without a look where nothing depends on it: a server that speaks first would wait for its client, and its client
    // for it.
    let greeted = match looks {
        None => Greeted::Otherwise,
        Some(header_timeout) => {
            let until = connection.begin_handshake(header_timeout);
            connection.stream.sock.set_read_limit(ReadLimit::Until(until));
            read_greeting(&connection.stream).await?
        }
    };
    // There may be another configuration by now.
    let (snapshot, position) = connection.current_snapshot();
    let listener = &snapshot.shared.listeners[position];
    let pass = match listener.router.find_taker(greeted.greeting(), connection.local_ip(listener))? {
        Taker::Pass(id) => listener.pass(id)?,
        Taker::Site(_) => return None,
    };
    let upstream = pass.upstream(connection.client.ip(), || connection.worker.random());
    let pool = snapshot.pool(upstream.pool, || connection.worker.of())?.clone();
    Some(PassthroughTarget {
        name: pass.name.clone(),
        pool,
        is_split: pass.is_split(),
        retry: upstream.retry.clone(),
        mark: snapshot.mark.clone(),
        greeted,
    })
}

/// Reads until it is known how the connection begins; what was read is read again. `None`: it ends, or begins as TLS
/// does and is no ClientHello, which a handshake refuses with an alert.
async fn read_greeting<S: Sock>(stream: &Stream<S>) -> Option<Greeted> {
    let mut scratch = Vec::new();
    loop {
        let first = stream.read().await.ok().filter(|first| !first.is_empty())?;
        let greeted = match sniff(&first, &mut scratch) {
            Sniffed::NeedMore if first.len() <= CLIENT_HELLO_BYTES_MAX => {
                stream.need_more(first);
                continue;
            }
            Sniffed::ClientHello { server_name: Some(name), .. } => Some(Greeted::Name(name.into())),
            Sniffed::ClientHello { server_name: None, .. } => Some(Greeted::NoName),
            Sniffed::NotTls => Some(Greeted::Otherwise),
            Sniffed::NeedMore | Sniffed::Bad => None,
        };
        stream.unread(first);
        return greeted;
    }
}

async fn pass_on<S: Sock>(connection: &mut Connection<S>, way: PassthroughTarget<S>) {
    if let Greeted::Name(name) = &way.greeted {
        connection.server_name = Some(name.clone());
    }
    let PassthroughTarget { name, pool, is_split, retry, mark, greeted } = way;
    let registered = connection.listener.pass_on(greeted, connection.known_local_ip());
    let connection = &*connection;
    connection.facts.kind.set(ConnectionKind::Tunnel);
    connection.facts.begin(mark.generation);
    connection.facts.at_site(&name);
    let mut record = PassRecord::new(connection, name, (pool.clone(), is_split));
    let (attempt, upstream) = match connect(connection, &pool, &retry, &mut record).await {
        Ok(connected) => connected,
        Err(failure) => {
            record.failed(failure);
            // An orderly end would look like an answer without a byte.
            connection.stream.sock.reset_when_closed();
            return;
        }
    };
    let pool = attempt.pool();
    let _active = ActiveConnection::new(pool.clone());
    let farewell = Farewell {
        listener: &connection.listener,
        random: connection.worker.random(),
        parting: Parting::AtMoment,
        passthrough: Some(&registered.passthrough),
    };
    let idle = pool.compiled.model.timeouts.idle;
    let (client, server) = (Side::Connection(&connection.stream), Side::Connection(&upstream.stream));
    let cut_by = tunnel::run(client, server, Buf::empty(), idle, farewell, &record.bytes).await;
    if cut_by == Some(CutBy::Reset) {
        connection.stream.sock.reset_when_closed();
        upstream.stream.sock.reset_when_closed();
    }
    connection.account_upstream_bytes(&upstream.stream);
    record.ended(cut_by);
    drop(attempt);
}

/// A connection to a server of the pool; to another one when one cannot be reached, as `retry` allows. Nothing was
/// sent, so that is always safe.
async fn connect<S: Sock>(
    connection: &Connection<S>,
    pool: &Rc<WorkerPool<S>>,
    retry: &RouteRetry,
    record: &mut PassRecord<'_, S>,
) -> Result<(Attempt<S>, Box<H1Connection<S>>), Failure> {
    if connection.worker.process.pressure.is_high() {
        return Err(unserved(pool, UpstreamError::Overloaded).into());
    }
    pool.budget.note_request(connection.worker.process.since_start(rt::now()));
    let key_hash = key_of(connection, pool, record);
    carry_out(&mut Passing { connection, retry, record, key_hash }, pool.clone()).await
}

/// A connection on its way to some server of a pool.
struct Passing<'a, 'c, S: Sock> {
    connection: &'a Connection<S>,
    retry: &'a RouteRetry,
    record: &'a mut PassRecord<'c, S>,
    key_hash: u64,
}

impl<S: Sock> Errand<S> for Passing<'_, '_, S> {
    type Done = (Attempt<S>, Box<H1Connection<S>>);
    type Failure = Failure;

    fn choose(&self, pool: &WorkerPool<S>, tried: &[usize]) -> Result<Choice, NoChoice> {
        let draw = Draw { key_hash: self.key_hash, random: self.connection.worker.random(), now: rt::now(), tried };
        choose_at(pool, None, draw)
    }

    async fn wait(&mut self, pool: &mut Rc<WorkerPool<S>>, _: &[usize]) -> Result<Choice, Failure> {
        Err(unserved(pool, UpstreamError::PoolFull).into())
    }

    async fn wait_for_server(&mut self, pool: &mut Rc<WorkerPool<S>>, until: Instant) -> Result<bool, Failure> {
        let since_start = self.connection.worker.process.since_start(rt::now());
        let waited = wait_for_server(pool, until, since_start).await;
        if let Some(newer) = self.connection.worker.newer_pool(pool) {
            *pool = newer;
        }
        Ok(waited)
    }

    fn newer(&self, pool: &Rc<WorkerPool<S>>) -> Option<Rc<WorkerPool<S>>> {
        self.connection.worker.newer_pool(pool)
    }

    async fn attempt(&mut self, attempt: Attempt<S>, tries: &mut Tries) -> Result<Self::Done, Failed<Failure>> {
        let position = attempt.position();
        self.record.sent_to(attempt.pool(), position);
        attempt.pool().count_request(position);
        let asked_at = rt::now();
        let connect = tries.connect_within(attempt.pool().compiled.model.timeouts.connect);
        match open(self.connection, attempt.pool(), position, connect, self.record.id).await {
            Ok(opened) => {
                attempt.connected(rt::now().saturating_duration_since(asked_at));
                Ok((attempt, opened))
            }
            Err(failure) => {
                let was = Was::Fresh;
                if let Failure::Upstream(fault) = failure {
                    attempt.note(fault, was);
                }
                Err(Failed { failure, was, position, permit: None })
            }
        }
    }

    /// Nothing was sent, so another server is always safe.
    fn random(&self) -> u64 {
        self.connection.worker.random()
    }

    fn terms<'a>(&'a self, pool: &'a WorkerPool<S>) -> Terms<'a> {
        Terms {
            retry: pool.compiled.retry(self.retry),
            is_idempotent: false,
            is_whole: true,
            try_until: None,
            since_start: self.connection.worker.process.since_start(rt::now()),
        }
    }

    fn fault(failure: &Failure) -> Option<UpstreamFault> {
        failure.fault()
    }
}

/// By which the connection is placed, for `balance "hash"`. Nothing is known of it but its client and its name.
fn key_of<S: Sock>(connection: &Connection<S>, pool: &WorkerPool<S>, record: &PassRecord<'_, S>) -> u64 {
    if pool.compiled.hash.is_none() {
        return 0;
    }
    let nothing = Record::new(record.started, record.id, Span::default(), None);
    key_hash(pool, &context(connection, None, &nothing, connection.client.ip(), None), &RequestHead::default())
}

/// A fresh connection, unless the client is reset while it is made. One that has only ended its own side may still want
/// an answer.
async fn open<S: Sock>(
    connection: &Connection<S>,
    pool: &Rc<WorkerPool<S>>,
    position: usize,
    connect: Duration,
    id: RequestId,
) -> Result<Box<H1Connection<S>>, Failure> {
    let model = &pool.compiled.model;
    let client = || Client { source: connection.client, destination: connection.local_address() };
    let need = Need {
        certain: true,
        upgrade: Upgrade::None,
        prefers_h2: false,
        fresh: true,
        connect,
        head_limits: HeadLimits::default(),
        client: model.send_proxy_protocol.map(|_| client()),
    };
    let id = id.see(None, str::to_owned);
    let introduction = introduction(connection, model.send_proxy_protocol, &id);
    let client = Rc::<ConnectionFacts>::downgrade(&connection.facts);
    let opener = Opener { introduction, ..Opener::new(connection.worker.random(), client) };
    let mut opening = pin!(connect::open_bare(pool, position, need, &opener));
    // The pool's own times bound this.
    connection.stream.sock.set_read_limit(ReadLimit::Never);
    let mut is_watched = true;
    poll_fn(|cx| {
        if let Poll::Ready(opened) = opening.as_mut().poll(cx) {
            return Poll::Ready(opened.map_err(Failure::from));
        }
        if is_watched && let Poll::Ready(gone) = connection.stream.poll_gone(cx) {
            is_watched = false;
            if gone == tidegate_transport::stream::Gone::Reset {
                return Poll::Ready(Err(Failure::Client(ClientFault::Gone)));
            }
        }
        Poll::Pending
    })
    .await
}
