//! Connections of the endpoint, bounded before anybody has shown a token: how many there are, how long a request's head
//! may take, and how long a client may leave an answer unread. What is answered is in `routes`; where the endpoint is,
//! and that it moves, in the crate's root.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tidegate_control::{AdminListener, AdminSocket};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Sleep, sleep};

/// What one place takes from its clients.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at once; the next one waits in the system's queue.
    pub connections_max: usize,
    /// From the begin of a connection, or from the last answer on it, until the head of a request is there.
    pub head_timeout: Duration,
    /// Without a byte of an answer taken.
    pub stall_timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        // Monitoring and a few people have a handful. Nobody types a head, and whoever keeps a connection open can open
        // another.
        Bounds { connections_max: 256, head_timeout: Duration::from_secs(10), stall_timeout: Duration::from_secs(30) }
    }
}

/// When the system has no descriptor for a connection that waits.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Who answers, by where a connection comes in: what listens on every address is asked by this machine as well.
#[derive(Clone)]
pub struct Routers {
    /// Connections that only processes of this machine can have opened.
    pub of_loopback: Router,
    pub of_network: Router,
}

impl Routers {
    pub fn one(router: Router) -> Routers {
        Routers { of_loopback: router.clone(), of_network: router }
    }

    fn of(&self, local: Option<SocketAddr>) -> Router {
        // What came by IPv4 to a socket of IPv6 has an address that says so.
        let is_loopback = local.is_some_and(|local| local.ip().to_canonical().is_loopback());
        if is_loopback { self.of_loopback.clone() } else { self.of_network.clone() }
    }
}

/// Serves until `left`, and then what is on its way.
pub async fn serve_at(
    listener: AdminListener,
    routers: Routers,
    bounds: Bounds,
    left: impl Future<Output = ()>,
) -> io::Result<()> {
    match listener.socket {
        AdminSocket::Tcp(listener) => {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let accept = async move || {
                let (stream, _) = listener.accept().await?;
                let router = routers.of(stream.local_addr().ok());
                Ok((stream, router))
            };
            serve_accepted(accept, bounds, left).await;
        }
        AdminSocket::Unix(listener) => {
            let listener = tokio::net::UnixListener::from_std(listener)?;
            let accept = async move || listener.accept().await.map(|(stream, _)| (stream, routers.of(None)));
            serve_accepted(accept, bounds, left).await;
        }
    }
    Ok(())
}

async fn serve_accepted<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    accept: impl AsyncFn() -> io::Result<(S, Router)>,
    bounds: Bounds,
    left: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(bounds.connections_max));
    let (leave, leaving) = watch::channel(());
    let mut left = pin!(left);
    loop {
        let next = async {
            // Before it is accepted: what waits in the system's queue costs nothing here.
            let place = places.clone().acquire_owned().await;
            (place, accept().await)
        };
        tokio::select! {
            () = &mut left => break,
            (place, accepted) = next => match accepted {
                Ok((stream, router)) => {
                    let stream = Patient { stream, limit: bounds.stall_timeout, stalled: None };
                    let serving = serve_connection(stream, router, bounds.head_timeout, leaving.clone());
                    tokio::task::spawn_local(async move {
                        serving.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection to the admin endpoint could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    // Nobody is accepted at this place any more, and who is there gets an answer at most.
    drop((accept, leave));
    let all = u32::try_from(bounds.connections_max).unwrap_or(u32::MAX);
    let _ = places.acquire_many(all).await;
}

async fn serve_connection<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    stream: Patient<S>,
    router: Router,
    head_timeout: Duration,
    mut leaving: watch::Receiver<()>,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head_timeout).keep_alive(true);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    tokio::select! {
        // Clients go away, and are late; it is nothing to log.
        _ = connection.as_mut() => return,
        // There never is a value: it ends.
        _ = leaving.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A stream whose peer has to take what is sent to it.
struct Patient<S> {
    stream: S,
    limit: Duration,
    /// While nothing could be sent.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> Patient<S> {
    fn bounded<T>(&mut self, cx: &mut Context<'_>, sent: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if sent.is_ready() {
            self.stalled = None;
            return sent;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bounded(cx, sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.bounded(cx, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_flush(cx);
        self.bounded(cx, sent)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.bounded(cx, sent)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Routers, serve_at};
    use axum::Router;
    use axum::routing::get;
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tidegate_control::AdminListener;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::{Notify, Semaphore, oneshot};
    use tokio::task::{JoinHandle, LocalSet, spawn_local};

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(300);
    const PATIENT: Bounds = Bounds { connections_max: 256, head_timeout: LONG, stall_timeout: LONG };
    const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

    fn on_this_thread(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        LocalSet::new().block_on(&runtime, test);
    }

    fn health() -> Router {
        Router::new().route("/healthz", get(|| async { "ok\n" }))
    }

    /// Where it serves, what makes it leave, and its end.
    fn start(router: Router, bounds: Bounds) -> (SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("bound");
        let (leave, left) = oneshot::channel::<()>();
        let serving = spawn_local(async move {
            let left = async move { drop(left.await) };
            let listener = AdminListener::tcp(listener).expect("an address");
            serve_at(listener, Routers::one(router), bounds, left).await.expect("it serves");
        });
        (address, leave, serving)
    }

    async fn opened(address: SocketAddr, sent: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(sent).await.expect("sent");
        stream
    }

    /// Everything that comes until the end.
    async fn rest(mut stream: TcpStream) -> String {
        let mut bytes = Vec::new();
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut bytes).await;
        String::from_utf8_lossy(&bytes).into_owned()
    }

    async fn is_healthy(address: SocketAddr) -> bool {
        rest(opened(address, HEALTH).await).await.ends_with("ok\n")
    }

    #[test]
    fn half_sent_heads_go_and_others_are_answered_meanwhile() {
        on_this_thread(async {
            let (address, _leave, _serving) = start(health(), Bounds { head_timeout: SHORT, ..PATIENT });
            let mut half_sent = Vec::new();
            for number in 0..300 {
                half_sent.push(opened(address, b"GET /healthz HTTP/1.1\r\nHo").await);
                if number == 200 {
                    assert!(is_healthy(address).await, "below the bound nobody waits");
                }
            }
            assert!(is_healthy(address).await, "beyond it somebody waits until the first have gone");
            for stream in half_sent {
                assert!(!rest(stream).await.contains("200 OK"));
            }
        });
    }

    #[test]
    fn a_connection_too_many_waits_for_its_turn() {
        on_this_thread(async {
            let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (arrived, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
            let shared = (at_once.clone(), most.clone(), arrived.clone(), go.clone());
            let slow = get(move || {
                let (at_once, most, arrived, go) = shared.clone();
                async move {
                    most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    arrived.add_permits(1);
                    go.acquire().await.expect("open").forget();
                    at_once.fetch_sub(1, Ordering::SeqCst);
                    "ok\n"
                }
            });
            let (address, _leave, _serving) =
                start(Router::new().route("/healthz", slow), Bounds { connections_max: 2, ..PATIENT });
            let mut waiting = Vec::new();
            for _ in 0..5 {
                waiting.push(opened(address, HEALTH).await);
            }
            arrived.acquire_many(2).await.expect("open").forget();
            go.add_permits(waiting.len());
            for stream in waiting {
                assert!(rest(stream).await.ends_with("ok\n"));
            }
            assert_eq!(most.load(Ordering::SeqCst), 2);
        });
    }

    #[test]
    fn an_answer_that_nobody_reads_is_given_up() {
        on_this_thread(async {
            let large = get(|| async { vec![b'a'; 64 << 20] });
            let bounds = Bounds { connections_max: 1, stall_timeout: SHORT, ..PATIENT };
            let (address, _leave, _serving) = start(health().route("/large", large), bounds);
            let unread = opened(address, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert!(is_healthy(address).await, "the only place is free again");
            assert!(rest(unread).await.len() < 64 << 20);
        });
    }

    #[test]
    fn who_is_being_answered_when_the_endpoint_moves_gets_the_answer() {
        on_this_thread(async {
            let (arrived, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let shared = (arrived.clone(), go.clone());
            let slow = get(move || {
                let (arrived, go) = shared.clone();
                async move {
                    arrived.notify_one();
                    go.notified().await;
                    "late\n"
                }
            });
            let (address, leave, serving) = start(health().route("/slow", slow), PATIENT);
            let idle = opened(address, b"").await;
            let answered = opened(address, b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
            arrived.notified().await;
            drop(leave);
            assert_eq!(rest(idle).await, "", "a connection without a request is closed");
            while TcpStream::connect(address).await.is_ok() {
                tokio::task::yield_now().await;
            }
            assert!(!serving.is_finished(), "somebody is still being answered");
            go.notify_one();
            assert!(rest(answered).await.ends_with("late\n"));
            serving.await.expect("it ends");
        });
    }
}
