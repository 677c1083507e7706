//! A client connection from accept to end: whose it is, whether it is passed on, the handshake, then requests over
//! HTTP/1 or HTTP/2. What requests see of their connection is in `connection`; they are lived in `request`.

mod h1;
mod h2;
mod introduced;
mod tls;
mod unread;

use crate::connection::Connection;
use crate::listening::{CONNECTION_BYTES, ConnectionFacts, ConnectionKind, ListenerState};
use crate::passthrough;
use crate::worker::Worker;
use futures_util::FutureExt;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Instant;
use tidegate_exchange::responder::CLIENT_WRITE_IDLE;
use tidegate_model::listening::ListenerProtocol;
use tidegate_telemetry::{Counter, ListenerKind};
use tidegate_transport::memory::TakenShare;
use tidegate_transport::{Sock, Stream, rt};

/// Takes over an accepted socket: counts it, refuses it when its address has too many, else serves it in a task of its
/// own.
pub fn spawn<S: Sock>(worker: &Rc<Worker<S>>, sock: S, peer: SocketAddr, listener: Rc<ListenerState<S>>) {
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    // A load balancer says first whose connection it is. Until then it is nobody's.
    let is_introduced = listener.expects_header_from(peer.ip());
    if !is_introduced && !may_connect(worker, peer.ip()) {
        return;
    }
    let mut counted = Counted::new(worker.clone(), (!is_introduced).then_some(peer.ip()), listener.protocol());
    sock.set_write_idle(CLIENT_WRITE_IDLE);
    let stream = Rc::new(Stream::plain(sock));
    let facts = ConnectionFacts::new(counted.id, peer);
    let registered = listener.register(facts, &stream);
    let mut connection = Connection::new(worker.clone(), stream, peer, listener.clone(), registered.facts.clone());
    let key = registered.key();
    let task = rt::spawn_abortable(async move {
        let _registered = registered;
        if is_introduced && !Box::pin(introduced::accept(&mut connection, &mut counted)).await {
            return;
        }
        serve(connection).await;
    });
    listener.served_by(key, task);
}

/// Counts a connection of a client, unless it has too many.
fn may_connect<S: Sock>(worker: &Worker<S>, client: IpAddr) -> bool {
    let connections_per_ip = worker.snapshot().shared.limits.connections_per_ip;
    if worker.process.clients().try_add(client, connections_per_ip) {
        return true;
    }
    worker.metrics.connections_refused.increment("connections_per_ip");
    if let Some(suppressed) = worker.gates.accept.allow(Instant::now()) {
        tracing::warn!(%client, suppressed, setting = "limits connections-per-ip", "a client has too many connections");
    }
    false
}

async fn serve<S: Sock>(mut connection: Connection<S>) {
    // Boxed: few listeners pass anything on, and connections must not carry the size of it.
    if connection.listener.passes_on() && Box::pin(passthrough::take(&mut connection)).await {
        return;
    }
    let is_h2 = match connection.listener.protocol() {
        ListenerProtocol::Http => false,
        ListenerProtocol::Https | ListenerProtocol::Tcp => match Box::pin(tls::accept(&mut connection)).await {
            Some(facts) => {
                connection.tls = Some(facts);
                facts.h2
            }
            None => return,
        },
    };
    connection.facts.kind.set(if is_h2 { ConnectionKind::Http2 } else { ConnectionKind::Http1 });
    // Each boxed, so that a connection carries the size of one only: HTTP/1's is that of a request, as much as all else
    // that an idle connection of HTTP/2 holds.
    if is_h2 {
        Box::pin(h2::serve(Rc::new(connection))).await;
        return;
    }
    let switched = Box::pin(h1::serve(Rc::new(connection))).await;
    if let Some((connection, first)) = switched {
        Box::pin(h2::serve_prior_knowledge(connection, first)).await;
    }
}

/// Counts a connection as long as it lives, panics included.
struct Counted<S: Sock> {
    worker: Rc<Worker<S>>,
    id: u64,
    /// Among whose connections it is counted.
    client: Option<IpAddr>,
    kind: ListenerKind,
    _taken: TakenShare,
}

impl<S: Sock> Counted<S> {
    fn new(worker: Rc<Worker<S>>, client: Option<IpAddr>, protocol: ListenerProtocol) -> Counted<S> {
        let kind = match protocol {
            ListenerProtocol::Http => ListenerKind::Http,
            ListenerProtocol::Https => ListenerKind::Https,
            ListenerProtocol::Tcp => ListenerKind::Tcp,
        };
        let listener = worker.metrics.listener(kind);
        listener.connections_opened.increment();
        listener.connections_active.increment();
        let id = worker.connection_opened();
        Counted { worker, id, client, kind, _taken: TakenShare::new(CONNECTION_BYTES) }
    }
}

impl<S: Sock> Drop for Counted<S> {
    fn drop(&mut self) {
        count_if_panicking(&self.worker.metrics.panics_caught);
        self.worker.metrics.listener(self.kind).connections_active.decrement();
        if let Some(client) = self.client {
            self.worker.process.clients().remove(client);
        }
        self.worker.connection_ended();
    }
}

/// Of a request that shares its connection with others: a panic ends this one, and is counted.
/// Not an `async fn`, which would have room for the request twice.
fn contain(served: impl Future<Output = ()>, panics_caught: &Counter) -> impl Future<Output = ()> {
    AssertUnwindSafe(served).catch_unwind().map(|outcome| {
        if outcome.is_err() {
            panics_caught.increment();
        }
    })
}

/// Called by what a connection drops at its end: a panic ends the task of one connection, and is counted.
fn count_if_panicking(panics_caught: &Counter) {
    if std::thread::panicking() {
        panics_caught.increment();
    }
}

/// Nothing that a client can send makes the program panic, so what a panic would end is shown here.
#[cfg(test)]
mod tests {
    use super::{contain, count_if_panicking};
    use std::cell::Cell;
    use std::panic::resume_unwind;
    use std::rc::Rc;
    use tidegate_telemetry::Counter;
    use tidegate_transport::{Driver, rt};

    struct Connection(Rc<Counter>);

    impl Drop for Connection {
        fn drop(&mut self) {
            count_if_panicking(&self.0);
        }
    }

    /// As a panic somewhere in it, without its message.
    async fn panicking() {
        rt::yield_now().await;
        resume_unwind(Box::new("as if"));
    }

    #[test]
    fn a_panic_ends_one_connection_and_leaves_the_rest_alone() {
        rt::run(Driver::Epoll, async {
            let (panics, served) = (Rc::new(Counter::default()), Rc::new(Cell::new(0)));
            for number in 0..4 {
                let (connection, served) = (Connection(panics.clone()), served.clone());
                rt::spawn(async move {
                    let _connection = connection;
                    if number == 1 {
                        panicking().await;
                    }
                    rt::yield_now().await;
                    served.set(served.get() + 1);
                });
            }
            while Rc::strong_count(&panics) > 1 {
                rt::yield_now().await;
            }
            assert_eq!((served.get(), panics.value()), (3, 1));
        })
        .expect("a runtime");
    }

    #[test]
    fn a_panic_ends_one_stream_and_leaves_its_connection_alone() {
        rt::run(Driver::Epoll, async {
            let panics = Counter::default();
            contain(panicking(), &panics).await;
            contain(async {}, &panics).await;
            contain(panicking(), &panics).await;
            assert_eq!(panics.value(), 2);
        })
        .expect("a runtime");
    }
}
