//! Connections to servers, against real sockets. Time is given where it decides, so nothing here depends on the
//! machine's speed.

use super::{Client, Connection, Need, Opener, Upgrade, open, take, warm};
use crate::compiled::{CompiledPool, CompiledServer};
use crate::fault::{Standing, UpstreamFault};
use crate::pool::{Of, WorkerPool};
use crate::shared::PoolShared;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};
use tidegate_message::h2::{Request, StreamFault, StreamHandle};
use tidegate_model::{Pool, PoolName, Protocol, ProxyFacts, ProxyProtocol, Server, ServerAddresses, UpstreamAddress};
use tidegate_telemetry::{Registry, UpstreamError, WorkerMetrics};
use tidegate_transport::{DriverSock, rt};
use tidegate_wire::HeadLimits;
use tidegate_wire::head::RequestHead;
use tidegate_wire::http1::parse_request;

/// How long something may take that does not fail.
const PATIENCE: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) struct World {
    pub pool: Rc<WorkerPool<DriverSock>>,
    worker: Arc<WorkerMetrics>,
    /// The connection that all requests come over.
    client: Rc<()>,
}

impl World {
    /// A pool with one server.
    pub fn new(address: SocketAddr, change: impl FnOnce(&mut Pool)) -> World {
        let name = PoolName("app".into());
        let mut model = Pool::new(name.clone(), Vec::new());
        change(&mut model);
        let registry = Arc::new(Registry::new("test"));
        let authority: Arc<str> = address.to_string().into();
        let shared = Arc::new(PoolShared::new(Instant::now()));
        let server = CompiledServer {
            model: Server::new(UpstreamAddress::parse(&authority).expect("an address")),
            bounds: model.bounds,
            identity: 0,
            shared: shared.server(&authority),
            authority,
            addresses: ServerAddresses::Tcp(vec![address]),
            tls_name: None,
            is_local: true,
            cookie_value: None,
        };
        let counts_requests = model.bounds.counts_requests();
        let (model, servers) = (Arc::new(model), vec![server]);
        let compiled = CompiledPool { name, model, servers, hash: None, sticky: None, tls: None, counts_requests, shared };
        let of = Of { worker: 0, registry: &registry, random: 0 };
        let pool = Rc::new(WorkerPool::new(Arc::new(compiled), None, of));
        World { pool, worker: registry.worker(0), client: Rc::new(()) }
    }

    fn opener(&self) -> Opener {
        Opener::new(0, Rc::<()>::downgrade(&self.client))
    }

    pub fn take(&self, client: Option<Client>) -> Option<Connection<DriverSock>> {
        take(&self.pool, 0, need(client))
    }

    pub async fn open(&self, client: Option<Client>) -> Connection<DriverSock> {
        open(&self.pool, 0, need(client), &self.opener()).await.map_err(|failure| format!("{failure:?}")).expect("a connection")
    }

    fn put_idle(&self, connection: Connection<DriverSock>, now: Instant) {
        let Connection::H1(connection) = connection else { panic!("not HTTP/1.1") };
        self.pool.servers[0].put_idle(connection, now);
    }

    fn idle(&self) -> usize {
        self.pool.servers[0].idle_count()
    }

    pub fn open_connections(&self) -> u32 {
        self.pool.compiled.servers[0].shared.open_connections()
    }

    fn sweep(&self, now: Instant) {
        self.pool.sweep(now, &self.worker);
    }

    fn warm(&self, now: Instant) {
        warm::fill(&self.pool, now, HeadLimits::default(), &mut || 0);
    }
}

fn need(client: Option<Client>) -> Need {
    Need {
        certain: true,
        upgrade: Upgrade::None,
        prefers_h2: false,
        fresh: false,
        connect: Duration::from_secs(5),
        head_limits: HeadLimits::default(),
        client,
    }
}

fn client(port: u16) -> Client {
    let address = |port| SocketAddr::from(([192, 0, 2, 1], port));
    Client { source: address(port), destination: address(443) }
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    rt::run(tidegate_transport::Driver::Epoll, test).expect("a runtime");
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        rt::sleep(Duration::from_millis(5)).await;
    }
}

/// Serves every connection in a thread of its own. The threads end with their connections.
pub(crate) fn server(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Takes connections and says nothing.
fn silent_server() -> SocketAddr {
    server(|mut stream| drop(stream.read_to_end(&mut Vec::new())))
}

/// What a scripted HTTP/2 server has seen.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Ping,
    End,
}

/// Greets, reads frames, and answers a PING if it `is_alive`, but never a request.
fn h2_server(is_alive: bool) -> (SocketAddr, Receiver<Seen>) {
    let (sender, seen) = channel();
    (server(move |stream| drop(serve_h2(stream, is_alive, &sender))), seen)
}

fn serve_h2(mut stream: TcpStream, is_alive: bool, seen: &Sender<Seen>) -> std::io::Result<()> {
    const PING: u8 = 6;
    let frame = |kind: u8, flags: u8, length: u8| [0, 0, length, kind, flags, 0, 0, 0, 0];
    stream.read_exact(&mut [0; 24])?;
    // Empty SETTINGS.
    stream.write_all(&frame(4, 0, 0))?;
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).is_err() {
            let _ = seen.send(Seen::End);
            return Ok(());
        }
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut payload)?;
        if head[3] == PING && head[4] == 0 {
            if is_alive {
                stream.write_all(&[&frame(PING, 1, 8)[..], &payload].concat())?;
            }
            let _ = seen.send(Seen::Ping);
        }
    }
}

#[test]
fn an_http1_connection_serves_as_many_requests_as_it_may() {
    run(async {
        let address = silent_server();
        let check = async |requests: Option<u32>, served: usize| {
            let world = World::new(address, |pool| pool.keep_alive.requests = requests);
            let now = rt::now();
            world.put_idle(world.open(None).await, now);
            let mut seen = 1;
            while let Some(connection) = world.take(None).filter(|_| seen < 50) {
                world.put_idle(connection, now);
                seen += 1;
            }
            assert_eq!(seen, served, "at most {requests:?}");
        };
        check(Some(1), 1).await;
        check(Some(2), 2).await;
        check(Some(7), 7).await;
        check(None, 50).await;
    });
}

#[test]
fn connections_are_bounded_by_what_the_system_has_where_nobody_says() {
    let check = |written: Option<u32>, expected: u32| {
        let world = World::new(([127, 0, 0, 1], 1).into(), |pool| pool.bounds.connections_per_server = written);
        assert_eq!(world.pool.compiled.servers[0].connections_max(), expected, "{written:?}");
    };
    check(None, tidegate_transport::destination::connections_max());
    check(Some(7), 7);
    check(Some(1_000_000), 1_000_000);
}

#[test]
fn an_old_http1_connection_is_not_used_again() {
    run(async {
        let world = World::new(silent_server(), |pool| {
            pool.keep_alive.age = Some(HOUR);
            pool.keep_alive.idle = HOUR * 100;
        });
        let opened = rt::now();
        let server = &world.pool.servers[0];
        let taken = |at| server.take_idle(at, true, None, &world.pool.metrics).map(Connection::H1);
        world.put_idle(world.open(None).await, opened);
        let young = taken(opened + HOUR * 8 / 10).expect("it is young");
        world.put_idle(young, opened + HOUR * 8 / 10);
        assert!(taken(opened + HOUR * 2).is_none() && world.idle() == 0, "old before it was taken");
        let connection = world.open(None).await;
        world.put_idle(connection, opened + HOUR * 2);
        assert_eq!(world.idle(), 0, "old when it came back");
        world.put_idle(world.open(None).await, opened);
        world.sweep(opened + HOUR / 2);
        assert_eq!(world.idle(), 1);
        world.sweep(opened + HOUR * 2);
        assert_eq!(world.idle(), 0, "old while it was idle");
        assert_eq!(world.open_connections(), 0);
    });
}

#[test]
fn idle_connections_are_kept_as_long_as_the_pool_says() {
    run(async {
        let world = World::new(silent_server(), |pool| pool.keep_alive.idle = HOUR);
        let now = rt::now();
        world.put_idle(world.open(None).await, now);
        // What a server announces is taken for less, never for more.
        world.pool.servers[0].learn_announced(3600 * 24);
        world.sweep(now + HOUR * 9 / 10);
        assert_eq!(world.idle(), 1);
        world.sweep(now + HOUR);
        assert_eq!(world.idle(), 0);
    });
}

#[test]
fn a_silent_http2_connection_is_given_up_when_no_request_is_there_at_a_sweep() {
    run(async {
        let world = World::new(silent_server(), |pool| {
            pool.protocol = Protocol::H2c;
            pool.keep_alive.ping = Some(Duration::from_secs(3));
        });
        drop(world.open(None).await);
        let opened = rt::now();
        for second in 1..=6 {
            // Each request is over before the connection is looked at.
            drop(world.take(None).expect("nobody has noticed yet"));
            world.sweep(opened + Duration::from_secs(second));
        }
        assert!(world.take(None).is_none(), "others get another connection");
        until("it has ended", || world.open_connections() == 0).await;
    });
}

#[test]
fn an_http2_connection_ends_with_its_last_request() {
    run(async {
        let (address, seen) = h2_server(true);
        let world = World::new(address, |pool| {
            pool.protocol = Protocol::H2c;
            pool.keep_alive.requests = Some(3);
        });
        let first = world.open(None).await;
        let second = world.take(None).expect("room for two more");
        let third = world.take(None).expect("room for one more");
        assert!(world.take(None).is_none(), "it has served its three");
        let fresh = world.open(None).await;
        assert_eq!(world.open_connections(), 2, "others have a fresh one");
        drop((first, second));
        assert!(seen.try_recv().is_err(), "its last request is still there");
        drop(third);
        until("the first connection has ended", || world.open_connections() == 1).await;
        drop(fresh);
        world.sweep(rt::now());
        assert!(world.take(None).is_some(), "and that one is used again");
    });
}

#[test]
fn an_old_http2_connection_gets_no_new_request() {
    run(async {
        let (address, _seen) = h2_server(true);
        let world = World::new(address, |pool| {
            pool.protocol = Protocol::H2c;
            pool.keep_alive.age = Some(HOUR);
            pool.keep_alive.ping = None;
        });
        let lease = world.open(None).await;
        world.sweep(rt::now());
        assert!(world.take(None).is_some());
        world.sweep(rt::now() + HOUR);
        assert!(world.take(None).is_none());
        assert_eq!(world.open_connections(), 1, "the request on it goes on");
        drop(lease);
        until("it has ended", || world.open_connections() == 0).await;
    });
}

/// Says at once that it takes no streams, and whether it is sent a request before it says that it takes one. It does so
/// when `more` says so, on each connection once.
fn withholding_server(more: Receiver<()>) -> (SocketAddr, Receiver<&'static str>) {
    let (sender, seen) = channel();
    let more = Arc::new(Mutex::new(more));
    let serve = move |mut stream: TcpStream| -> std::io::Result<()> {
        const HEADERS: u8 = 1;
        let settings = |streams: u8| [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, streams];
        stream.read_exact(&mut [0; 24])?;
        let _ = sender.send("opened");
        if more.lock().expect("nobody panicked").recv().is_err() {
            return Ok(());
        }
        stream.write_all(&settings(0))?;
        let mut writing = stream.try_clone()?;
        let (more, frames) = (more.clone(), sender.clone());
        std::thread::spawn(move || {
            let mut head = [0; 9];
            while stream.read_exact(&mut head).is_ok() {
                let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
                if stream.read_exact(&mut payload).is_err() {
                    return;
                }
                if head[3] == HEADERS {
                    let _ = frames.send("asked");
                }
            }
        });
        if more.lock().expect("nobody panicked").recv().is_ok() {
            let _ = sender.send("taken");
            writing.write_all(&settings(1))?;
        }
        Ok(())
    };
    (server(move |stream| drop(serve(stream))), seen)
}

#[test]
fn a_server_that_takes_no_streams_gets_one_connection_and_no_request() {
    run(async {
        let (more, moments) = channel();
        let (address, seen) = withholding_server(moments);
        let world = World::new(address, |pool| {
            pool.protocol = Protocol::H2c;
            pool.bounds.queue_timeout = Duration::from_millis(300);
        });
        let opened = async || {
            let opened = open(&world.pool, 0, need(None), &world.opener()).await;
            opened.map(|connection| match connection {
                Connection::H2(lease) => lease.standing(),
                Connection::H1(_) | Connection::FastCgi(_) => panic!("not HTTP/2"),
            })
        };
        // Nothing is known of it yet, so the first request would go ahead.
        assert_eq!(opened().await, Ok(Standing::New));
        more.send(()).expect("it is there");
        until("its settings came", || world.pool.servers[0].h2.is_withheld(None)).await;
        for _ in 0..3 {
            let late = Err(UpstreamFault::unsent(UpstreamError::QueueTimeout));
            assert_eq!((opened().await, world.open_connections()), (late, 1));
        }
        more.send(()).expect("it is there");
        until("it takes one again", || !world.pool.servers[0].h2.is_withheld(None)).await;
        let Some(Connection::H2(lease)) = world.take(None) else { panic!("no stream") };
        assert_eq!(lease.standing(), Standing::Untried);
        assert_eq!((world.open_connections(), world.pool.metrics.queued.value()), (1, 0));
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["opened", "taken"]);
    });
}

#[test]
fn a_server_that_took_no_streams_is_asked_before_it_gets_a_request() {
    run(async {
        let (more, moments) = channel();
        let (address, seen) = withholding_server(moments);
        let world = World::new(address, |pool| pool.protocol = Protocol::H2c);
        drop(world.open(None).await);
        more.send(()).expect("it is there");
        until("its settings came", || world.pool.servers[0].h2.is_withheld(None)).await;
        assert!(world.take(None).is_none() && world.pool.servers[0].h2.end_an_idle_one());
        until("it has ended", || world.open_connections() == 0).await;
        // Answers for the first connection, which is gone, and twice for the one that two requests wait for.
        (0..3).for_each(|_| more.send(()).expect("it is there"));
        let standings = RefCell::new(Vec::new());
        let ask = async || {
            let Connection::H2(lease) = world.open(None).await else { panic!("not HTTP/2") };
            assert!(lease.connection().has_begun());
            standings.borrow_mut().push(lease.standing());
        };
        let mut asking = vec![Box::pin(ask()), Box::pin(ask())];
        poll_fn(|cx| {
            asking.retain_mut(|ask| ask.as_mut().poll(cx).is_pending());
            if asking.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert_eq!(*standings.borrow(), [Standing::New, Standing::Untried]);
        assert_eq!(world.open_connections(), 1);
        assert_eq!(seen.try_iter().filter(|what| *what == "asked").count(), 0);
    });
}

/// Waits for a request that is never answered. The outcome is why it failed.
async fn request(world: &World) -> (StreamHandle, Connection<DriverSock>) {
    let connection = world.open(None).await;
    let Connection::H2(lease) = &connection else { panic!("not HTTP/2") };
    let mut head = RequestHead::default();
    parse_request(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", &HeadLimits::default(), &mut head).expect("a request");
    let request = Request { head: &head, scheme: "http", wants_trailers: false, protocol: None, ends_stream: true };
    let stream = lease.connection().send_request(&request).expect("a place");
    (stream, connection)
}

#[test]
fn a_silent_http2_connection_is_asked_and_then_given_up() {
    run(async {
        let (address, seen) = h2_server(false);
        let world = World::new(address, |pool| {
            pool.protocol = Protocol::H2c;
            pool.keep_alive.ping = Some(Duration::from_secs(5));
        });
        let (response, connection) = request(&world).await;
        // What the server sent first has to be read before silence can begin.
        let mut now = rt::now();
        until("its settings came", || {
            world.sweep(now);
            world.worker.upstream_bytes_received.value() > 0
        })
        .await;
        for _ in 0..5 {
            assert_eq!(world.open_connections(), 1);
            now += Duration::from_secs(1);
            world.sweep(now);
        }
        until("it was asked", || seen.try_recv() == Ok(Seen::Ping)).await;
        for _ in 0..5 {
            assert_eq!(world.open_connections(), 1);
            now += Duration::from_secs(1);
            world.sweep(now);
        }
        let end = rt::timeout(PATIENCE, poll_fn(|cx| response.poll_head(cx))).await.expect("an end");
        assert_eq!(end, Err(StreamFault::Lost));
        until("it is closed", || world.open_connections() == 0).await;
        assert!(world.take(None).is_none());
        drop(connection);
    });
}

#[test]
fn a_slow_http2_server_that_answers_pings_is_waited_for() {
    run(async {
        let (address, seen) = h2_server(true);
        let world = World::new(address, |pool| {
            pool.protocol = Protocol::H2c;
            pool.keep_alive.ping = Some(Duration::from_secs(5));
        });
        let (_response, _connection) = request(&world).await;
        let mut now = rt::now();
        let received = || world.worker.upstream_bytes_received.value();
        for round in 0..4 {
            let mut before = received();
            // Until it is asked; the clock stands still for what comes meanwhile.
            let begun = Instant::now();
            while seen.try_recv() != Ok(Seen::Ping) {
                assert!(begun.elapsed() < PATIENCE, "never asked in round {round}");
                before = received();
                now += Duration::from_millis(500);
                world.sweep(now);
                rt::sleep(Duration::from_millis(50)).await;
            }
            until("the answer came", || {
                world.sweep(now);
                received() > before
            })
            .await;
            assert_eq!(world.open_connections(), 1, "in round {round}");
        }
    });
}

#[test]
fn connections_are_opened_before_they_are_needed() {
    run(async {
        let world = World::new(silent_server(), |pool| pool.keep_alive.warm = 6);
        let now = rt::now();
        until("all are there", || {
            world.warm(now);
            world.idle() == 6
        })
        .await;
        world.warm(now);
        assert_eq!(world.open_connections(), 6, "and no more");
        let connection = world.take(None).expect("one is there");
        until("another has taken its place", || {
            world.warm(now);
            world.idle() == 6
        })
        .await;
        assert_eq!(world.open_connections(), 7);
        world.put_idle(connection, now);
        world.warm(now);
        assert_eq!((world.idle(), world.open_connections()), (7, 7));
    });
}

#[test]
fn one_http2_connection_is_opened_before_it_is_needed() {
    run(async {
        let (address, _seen) = h2_server(true);
        let world = World::new(address, |pool| {
            pool.protocol = Protocol::H2c;
            pool.keep_alive.warm = 6;
        });
        let now = rt::now();
        world.warm(now);
        assert_eq!(world.open_connections(), 1);
        // A request that comes meanwhile waits for it.
        let connection = world.open(None).await;
        world.warm(now);
        assert_eq!(world.open_connections(), 1);
        drop(connection);
        world.warm(now + HOUR);
        assert_eq!(world.open_connections(), 1);
    });
}

#[test]
fn what_is_opened_in_advance_stays_within_every_bound() {
    run(async {
        let now = rt::now();
        let bounded = World::new(silent_server(), |pool| {
            pool.keep_alive.warm = 6;
            pool.bounds.connections_per_server = Some(3);
        });
        until("as many are there as may be", || {
            bounded.warm(now);
            bounded.idle() == 3
        })
        .await;
        bounded.warm(now);
        assert_eq!(bounded.open_connections(), 3);

        let drained = World::new(silent_server(), |pool| pool.keep_alive.warm = 6);
        drained.pool.compiled.servers[0].shared.health.set_drained(true);
        drained.warm(now);
        assert_eq!(drained.open_connections(), 0);

        // A port that nobody listens on any more.
        let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let dead = World::new(gone, |pool| pool.keep_alive.warm = 6);
        dead.warm(now);
        assert_eq!(dead.open_connections(), 4, "a few at a time");
        until("all have failed", || dead.open_connections() == 0).await;
        dead.warm(now);
        assert_eq!(dead.open_connections(), 0, "not at once again");
        dead.warm(rt::now() + Duration::from_secs(1));
        assert_eq!(dead.open_connections(), 4);
    });
}

/// Tells the first line of each connection.
fn line_server() -> (SocketAddr, Receiver<String>) {
    let (sender, lines) = channel();
    let address = server(move |stream| {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        if reader.read_line(&mut line).is_ok() {
            let _ = sender.send(line);
        }
        let _ = reader.read_to_end(&mut Vec::new());
    });
    (address, lines)
}

#[test]
fn a_connection_that_says_whose_it_is_serves_nobody_else() {
    run(async {
        let (address, lines) = line_server();
        let world = World::new(address, |pool| pool.send_proxy_protocol = Some(ProxyProtocol::V1));
        let now = rt::now();
        let (one, other) = (client(1111), client(2222));
        world.put_idle(world.open(Some(one)).await, now);
        assert_eq!(lines.recv_timeout(PATIENCE).as_deref(), Ok("PROXY TCP4 192.0.2.1 192.0.2.1 1111 443\r\n"));
        assert!(world.take(Some(other)).is_none());
        world.put_idle(world.open(Some(other)).await, now);
        assert_eq!(lines.recv_timeout(PATIENCE).as_deref(), Ok("PROXY TCP4 192.0.2.1 192.0.2.1 2222 443\r\n"));
        let elsewhere = Client { destination: SocketAddr::from(([192, 0, 2, 1], 80)), ..one };
        assert!(world.take(Some(elsewhere)).is_none(), "the same client, connected to another port");
        assert!(world.take(Some(one)).is_some(), "also behind a newer one of another client");
        assert!(world.take(Some(one)).is_none());
        assert!(world.take(Some(other)).is_some());
    });
}

#[test]
fn idle_connections_of_other_clients_make_room() {
    run(async {
        let (address, _lines) = line_server();
        let world = World::new(address, |pool| {
            pool.send_proxy_protocol = Some(ProxyProtocol::V2(ProxyFacts::NONE));
            pool.bounds.connections_per_server = Some(1);
        });
        world.put_idle(world.open(Some(client(1))).await, rt::now());
        world.put_idle(world.open(Some(client(2))).await, rt::now());
        assert_eq!((world.idle(), world.open_connections()), (1, 1));
        let second = world.take(Some(client(2))).expect("it is the second client's");
        // The third waits until the second is done, and not until the pool counts as full.
        let mut third = pin!(world.open(Some(client(3))));
        let mut second = Some(second);
        let opened = poll_fn(|cx| {
            let polled = third.as_mut().poll(cx);
            if let Some(second) = second.take() {
                assert!(polled.is_pending());
                world.put_idle(second, rt::now());
            }
            polled
        });
        let third = opened.await;
        assert_eq!((world.idle(), world.open_connections()), (0, 1));
        drop(third);
    });
}

#[test]
fn a_connection_ends_with_the_only_client_that_could_use_it() {
    run(async {
        let check = async |protocol: Protocol| {
            let (address, _lines) = line_server();
            let mut world = World::new(address, |pool| {
                pool.protocol = protocol;
                pool.send_proxy_protocol = Some(ProxyProtocol::V1);
            });
            let now = rt::now();
            if let connection @ Connection::H1(_) = world.open(Some(client(1))).await {
                world.put_idle(connection, now);
            }
            world.sweep(now);
            rt::yield_now().await;
            assert_eq!(world.open_connections(), 1, "{protocol:?}: its client is there");
            world.client = Rc::new(());
            world.sweep(now);
            until("it has ended", || world.open_connections() == 0).await;
        };
        check(Protocol::Http1).await;
        check(Protocol::H2c).await;
    });
}

#[test]
fn http2_connections_that_say_whose_they_are_are_not_shared_by_clients() {
    run(async {
        let (sender, seen) = channel();
        let address = server(move |mut stream| {
            let mut header = [0; 28];
            if stream.read_exact(&mut header).is_ok() {
                let _ = sender.send(u16::from_be_bytes([header[24], header[25]]));
                let _ = serve_h2(stream, true, &channel().0);
            }
        });
        let world = World::new(address, |pool| {
            pool.protocol = Protocol::H2c;
            pool.send_proxy_protocol = Some(ProxyProtocol::V2(ProxyFacts::NONE));
        });
        // Two clients at once, each with two requests at once.
        let mut opened = Vec::new();
        let mut openings: Vec<_> =
            [1, 2, 1, 2].map(|port| Box::pin(world.open(Some(client(port))))).into_iter().map(Some).collect();
        poll_fn(|cx| {
            for slot in &mut openings {
                let Some(opening) = slot else { continue };
                if let std::task::Poll::Ready(connection) = opening.as_mut().poll(cx) {
                    opened.push(connection);
                    *slot = None;
                }
            }
            if openings.iter().all(Option::is_none) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        assert_eq!(opened.len(), 4);
        assert_eq!(world.open_connections(), 2, "one for each client");
        let mut told = [0; 2].map(|_: u16| seen.recv_timeout(PATIENCE).expect("a header"));
        told.sort_unstable();
        assert_eq!(told, [1, 2]);
        assert!(world.take(Some(client(3))).is_none());
        assert!(world.take(Some(client(1))).is_some());
        assert_eq!(world.open_connections(), 2);
    });
}

/// The first requests to a server go out before it has said how many it takes. What it said then holds for its next
/// connections from their beginning, and each is opened for as many of those who wait.
#[test]
fn a_connection_begins_with_as_many_streams_as_the_one_before_had() {
    run(async {
        let address = server(|mut stream| {
            // MAX_CONCURRENT_STREAMS is 2.
            let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2];
            let mut preface = [0; 24];
            let begun = stream.read_exact(&mut preface).and_then(|()| stream.write_all(&settings));
            drop(begun.map(|()| stream.read_to_end(&mut Vec::new())));
        });
        let world = World::new(address, |pool| pool.protocol = Protocol::H2c);
        let first = world.open(None).await;
        let mut leases = vec![first];
        leases.extend(std::iter::from_fn(|| world.take(None)));
        assert_eq!(leases.len(), 100, "nothing is known");
        let Connection::H2(lease) = &leases[0] else { panic!("not HTTP/2") };
        let connection = lease.connection().clone();
        until("it has said so", || connection.has_begun()).await;
        assert!(world.take(None).is_none(), "it is more than full");

        let mut openings: Vec<_> = (0..5).map(|_| Box::pin(world.open(None))).map(Some).collect();
        poll_fn(|cx| {
            for slot in &mut openings {
                if let Some(opening) = slot
                    && let std::task::Poll::Ready(connection) = opening.as_mut().poll(cx)
                {
                    leases.push(connection);
                    *slot = None;
                }
            }
            if openings.iter().all(Option::is_none) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        assert_eq!(world.open_connections(), 1 + 3, "two requests each, and one alone");
    });
}
