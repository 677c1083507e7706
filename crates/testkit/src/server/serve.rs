//! What the process of a [`Server`](super::Server) does: it reads from its environment how to behave, listens, answers,
//! and ends on SIGTERM when its answers are given. It ends as well when its parent is gone.

use super::{Conduct, ENVIRONMENT, Seen, Settings};
use crate::connection::{Connection, Socket};
use crate::ports::listen_beside;
use crate::upstream::{After, PathOrder, by_path, drip};
use crate::{http2, pattern};
use bytes::Bytes;
use std::cell::Cell;
use std::net::SocketAddr;
use std::os::unix::process::parent_id;
use std::rc::Rc;
use std::time::Duration;
use std::{io, thread};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

pub(super) const SEEN_PATH: &str = "/seen";
const HEALTH_PATH: &str = "/healthz";
/// What it promises, and what it sends, when it lies about the length of a body.
const LONGER_BYTES: usize = 1000;
const SHORTER_BYTES: usize = 400;
/// How often it looks whether its parent is still there.
const PARENT_PERIOD: Duration = Duration::from_millis(500);
/// What it waits for its last answers after SIGTERM.
const LEAVE_BOUND: Duration = Duration::from_secs(20);
const LEAVE_POLL: Duration = Duration::from_millis(2);

/// In a process that was started as a server this never returns.
pub fn serve_if_asked() {
    let Ok(told) = std::env::var(ENVIRONMENT) else { return };
    let (address, settings) = read_told(&told).unwrap_or_else(|| panic!("{ENVIRONMENT} says {told:?}"));
    end_with(parent_id());
    thread::sleep(settings.start_pause);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let outcome = LocalSet::new().block_on(&runtime, run(address, settings));
    if let Err(error) = &outcome {
        eprintln!("{address}: {error}");
    }
    std::process::exit(i32::from(outcome.is_err()));
}

/// What [`read_told`] reads.
pub(super) fn told(address: SocketAddr, settings: &Settings) -> String {
    let Settings { name, conduct, h2c, start_pause, delay, at_once, idle_close } = settings;
    let conduct = Conduct::ALL.iter().find(|(_, known)| known == conduct).map_or("", |(word, _)| word);
    let idle_close = idle_close.map_or(0, |limit| limit.as_millis());
    let (start_pause, delay) = (start_pause.as_millis(), delay.as_millis());
    format!("{address} {name} {conduct} {h2c} {start_pause} {delay} {at_once} {idle_close}")
}

fn read_told(text: &str) -> Option<(SocketAddr, Settings)> {
    let mut words = text.split(' ');
    let address = words.next()?.parse().ok()?;
    let name = words.next()?.to_owned();
    let conduct = words.next()?;
    let conduct = Conduct::ALL.iter().find(|(known, _)| *known == conduct)?.1;
    let h2c = words.next()?.parse().ok()?;
    let mut milliseconds = || Some(Duration::from_millis(words.next()?.parse().ok()?));
    let (start_pause, delay) = (milliseconds()?, milliseconds()?);
    let at_once = words.next()?.parse().ok()?;
    let idle_close = Duration::from_millis(words.next()?.parse().ok()?);
    let idle_close = Some(idle_close).filter(|limit| !limit.is_zero());
    Some((address, Settings { name, conduct, h2c, start_pause, delay, at_once, idle_close }))
}

fn end_with(parent: u32) {
    thread::spawn(move || {
        while parent_id() == parent {
            thread::sleep(PARENT_PERIOD);
        }
        std::process::exit(1);
    });
}

struct Process {
    settings: Settings,
    seen: Cell<Seen>,
    in_flight: Cell<u64>,
    open: Cell<u64>,
    work: Semaphore,
}

async fn run(address: SocketAddr, settings: Settings) -> io::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let listener = listen_beside(address)?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let (leave, leaving) = watch::channel(false);
    let work = Semaphore::new(settings.at_once);
    let process = Rc::new(Process { settings, seen: Cell::default(), in_flight: Cell::new(0), open: Cell::new(0), work });
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A connection that is gone before it was taken is its client's affair.
                let Ok((tcp, _)) = accepted else { continue };
                let (process, leaving) = (process.clone(), leaving.clone());
                process.note(|seen| seen.connections += 1);
                process.open.set(process.open.get() + 1);
                spawn_local(async move {
                    process.serve(Socket::Plain(tcp), leaving).await;
                    process.open.set(process.open.get() - 1);
                });
            }
            _ = terminated.recv() => break,
        }
    }
    drop(listener);
    let _ = leave.send(true);
    let all = async {
        while process.open.get() > 0 {
            sleep(LEAVE_POLL).await;
        }
    };
    timeout(LEAVE_BOUND, all).await.map_err(|_| io::Error::other("clients did not let go"))
}

/// Until the process leaves.
async fn left(leaving: &mut watch::Receiver<bool>) {
    // The sender outlives all connections.
    let _ = leaving.wait_for(|leaving| *leaving).await;
}

/// A request that is worked on.
struct InFlight<'p>(&'p Process);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
    }
}

impl Process {
    fn note(&self, change: impl FnOnce(&mut Seen)) {
        let mut seen = self.seen.get();
        change(&mut seen);
        self.seen.set(seen);
    }

    fn begin(&self) -> InFlight<'_> {
        self.in_flight.set(self.in_flight.get() + 1);
        self.note(|seen| {
            seen.requests += 1;
            seen.requests_at_once = seen.requests_at_once.max(self.in_flight.get());
        });
        InFlight(self)
    }

    async fn work(&self) {
        let _place = self.work.acquire().await;
        if !self.settings.delay.is_zero() {
            sleep(self.settings.delay).await;
        }
    }

    async fn serve(self: &Rc<Self>, socket: Socket, leaving: watch::Receiver<bool>) {
        if self.settings.h2c {
            self.serve_http2(socket, leaving).await;
        } else {
            // Faults of the peer are seen by the tests themselves.
            let _ = self.serve_http1(Connection::new(socket), leaving).await;
        }
    }

    async fn serve_http1(&self, mut connection: Connection, mut leaving: watch::Receiver<bool>) -> Result<(), String> {
        let mut idle_close = None;
        loop {
            let has_begun = tokio::select! {
                biased;
                has_begun = async { !connection.received.is_empty() || connection.receive().await } => has_begun,
                () = left(&mut leaving) => false,
                () = async { sleep(idle_close.unwrap_or_default()).await }, if idle_close.is_some() => false,
            };
            if !has_begun {
                return Ok(());
            }
            let head = connection.read_head().await?;
            let is_last = head.value("connection").is_some_and(|value| value.eq_ignore_ascii_case(b"close"));
            match self.answer_http1(&mut connection, &head.start, &leaving).await? {
                After::Keep if is_last || *leaving.borrow() => return Ok(()),
                After::Keep => {}
                After::Close => return Ok(()),
                After::Reset => {
                    connection.reset();
                    return Ok(());
                }
            }
            idle_close = self.settings.idle_close;
        }
    }

    async fn answer_http1(
        &self,
        connection: &mut Connection,
        request_line: &str,
        leaving: &watch::Receiver<bool>,
    ) -> Result<After, String> {
        let path = request_line.split(' ').nth(1).unwrap_or_default();
        if path == SEEN_PATH {
            let seen = self.seen.take();
            let text = format!("{} {} {}", seen.requests, seen.requests_at_once, seen.connections);
            return write_whole(connection, 200, text.as_bytes(), text.len(), true).await.map(|()| After::Close);
        }
        while connection.read_data().await?.is_some() {}
        let name = self.settings.name.as_bytes();
        let conduct =
            if path == HEALTH_PATH && self.settings.conduct != Conduct::Hangs { Conduct::Honest } else { self.settings.conduct };
        let _in_flight = self.begin();
        self.work().await;
        let closes = *leaving.borrow();
        match (conduct, PathOrder::read(request_line)) {
            (Conduct::Honest, PathOrder::Unknown) => {
                write_whole(connection, 200, name, name.len(), closes).await.map(|()| After::Keep)
            }
            (Conduct::Honest, order) => by_path(connection, order, false).await,
            (Conduct::Fails, _) => write_whole(connection, 500, name, name.len(), closes).await.map(|()| After::Keep),
            (Conduct::Hangs, _) => by_path(connection, PathOrder::Hang, false).await,
            (Conduct::Drips, _) => drip(connection).await,
            (Conduct::TooShort, _) => {
                let body = pattern::pattern(0, SHORTER_BYTES);
                write_whole(connection, 200, &body, LONGER_BYTES, closes).await.map(|()| After::Close)
            }
            (Conduct::TooLong, _) => {
                let body = pattern::pattern(0, LONGER_BYTES);
                write_whole(connection, 200, &body, SHORTER_BYTES, closes).await.map(|()| After::Keep)
            }
            (Conduct::Resets, _) => Ok(After::Reset),
        }
    }

    /// Honest only: what else a server can do wrong with HTTP/2, scripted upstreams do.
    async fn serve_http2(self: &Rc<Self>, socket: Socket, mut leaving: watch::Receiver<bool>) {
        let Ok(mut connection) = h2::server::handshake(socket).await else { return };
        let mut has_said_so = false;
        loop {
            let accepted = tokio::select! {
                accepted = connection.accept() => accepted,
                () = left(&mut leaving), if !has_said_so => {
                    // GOAWAY; streams that have begun are answered.
                    connection.graceful_shutdown();
                    has_said_so = true;
                    continue;
                }
            };
            let Some(Ok((request, respond))) = accepted else { return };
            let process = self.clone();
            // An error here is the client's going away.
            spawn_local(async move { drop(process.answer_http2(request, respond).await) });
        }
    }

    async fn answer_http2(
        &self,
        request: http::Request<h2::RecvStream>,
        mut respond: h2::server::SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let mut body = request.into_body();
        while let Some(piece) = http2::receive_data(&mut body).await {
            piece?;
        }
        let _in_flight = self.begin();
        self.work().await;
        let mut stream = respond.send_response(http::Response::new(()), false)?;
        http2::send_all(&mut stream, Bytes::copy_from_slice(self.settings.name.as_bytes()), true).await
    }
}

async fn write_whole(connection: &mut Connection, status: u16, body: &[u8], length: usize, closes: bool) -> Result<(), String> {
    let close = if closes { "Connection: close\r\n" } else { "" };
    let mut answer = format!("HTTP/1.1 {status} As Told\r\nContent-Length: {length}\r\n{close}\r\n").into_bytes();
    answer.extend_from_slice(body);
    connection.write(&answer).await.map_err(|error| error.to_string())
}

/// What is answered at [`SEEN_PATH`].
pub(super) fn read_seen(text: &str) -> Option<Seen> {
    let mut numbers = text.split(' ').map(|word| word.parse().ok());
    Some(Seen { requests: numbers.next()??, requests_at_once: numbers.next()??, connections: numbers.next()?? })
}

#[cfg(test)]
mod tests {
    use super::{read_seen, read_told, told};
    use crate::server::{Conduct, Seen, Settings};
    use std::net::SocketAddr;
    use std::time::Duration;

    #[test]
    fn what_a_process_is_told_arrives() {
        let address = SocketAddr::from(([127, 0, 0, 2], 80));
        for (_, conduct) in Conduct::ALL {
            let mut settings = Settings { conduct, ..Settings::new("a") };
            assert_eq!(read_told(&told(address, &settings)), Some((address, settings.clone())));
            settings.h2c = true;
            settings.at_once = 3;
            settings.delay = Duration::from_millis(7);
            settings.start_pause = Duration::from_millis(300);
            settings.idle_close = Some(Duration::from_millis(50));
            assert_eq!(read_told(&told(address, &settings)), Some((address, settings.clone())));
        }
        assert_eq!(read_told("127.0.0.2:80 a cruel false 0 0 1 0"), None);
        assert_eq!(read_seen("3 2 1"), Some(Seen { requests: 3, requests_at_once: 2, connections: 1 }));
        assert_eq!(read_seen("not found"), None);
    }
}
