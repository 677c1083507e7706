//! Exchanges that last for as long as a test changes the proxy around them: a tunnel, a stream that drips, a stream
//! both ways over HTTP/2, a download that is read slowly. Every byte is checked by its place. Clients with short
//! requests are in `load`.

use crate::client::{Client, tls_socket};
use crate::load::Goal;
use crate::{http2, pattern};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

/// Between two pieces: slow, so that much of a download waits in buffers on its whole way.
const PAUSE: Duration = Duration::from_millis(10);
const PIECE_BYTES: usize = 700;
/// A download that no test gets to the end of.
const DOWNLOAD_BYTES: u64 = 1 << 40;
/// An exchange that gets no byte for so long hangs, however busy the machine.
const SILENCE_MAX: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// `/upgrade`: each piece has to come back before the next is sent.
    Tunnel,
    /// `/drip`.
    Stream,
    /// `/bytes/N`, more than anybody reads.
    Download,
    /// `/grpc` over HTTP/2 with TLS to an upstream that sends the body back: each piece before the next.
    BothWays,
}

impl Exchange {
    pub const ALL: [Exchange; 4] = [Exchange::Tunnel, Exchange::Stream, Exchange::Download, Exchange::BothWays];
}

#[derive(Debug)]
struct LastingShared {
    exchange: Exchange,
    is_over: AtomicBool,
    bytes: AtomicU64,
    fault: Mutex<Option<String>>,
}

/// Running exchanges, each of them once.
pub struct Lasting {
    running: Vec<Arc<LastingShared>>,
    thread: JoinHandle<()>,
}

impl Lasting {
    /// Begins; each has got its first bytes when this returns.
    pub fn start(goal: &Goal, exchanges: &[Exchange]) -> Result<Lasting, String> {
        let share = |exchange: &Exchange| {
            let (is_over, bytes, fault) = (AtomicBool::new(false), AtomicU64::new(0), Mutex::new(None));
            Arc::new(LastingShared { exchange: *exchange, is_over, bytes, fault })
        };
        let running: Vec<_> = exchanges.iter().map(share).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let (goal, shared) = (goal.clone(), running.clone());
        let run = move || {
            let all = async {
                let tasks: Vec<_> = shared.into_iter().map(|shared| spawn_local(follow(goal.clone(), shared))).collect();
                for task in tasks {
                    let _ = task.await;
                }
            };
            LocalSet::new().block_on(&runtime, all);
        };
        let thread = thread::Builder::new().name("lasting".into()).spawn(run).map_err(|error| error.to_string())?;
        let lasting = Lasting { running, thread };
        lasting.go_on()?;
        Ok(lasting)
    }

    /// Waits until each has got more bytes than it had.
    pub fn go_on(&self) -> Result<(), String> {
        let before: Vec<u64> = self.running.iter().map(|shared| shared.bytes.load(Ordering::Relaxed)).collect();
        let begin = Instant::now();
        for (shared, before) in self.running.iter().zip(before) {
            // Two pieces: the first may have been on its way already.
            while shared.bytes.load(Ordering::Relaxed) < before + 2 * PIECE_BYTES as u64 {
                self.faults()?;
                if begin.elapsed() > SILENCE_MAX {
                    return Err(format!("{:?} does not go on", shared.exchange));
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    fn faults(&self) -> Result<(), String> {
        let of_one = |shared: &Arc<LastingShared>| {
            let fault = shared.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
            fault.map(|fault| format!("{:?}: {fault}", shared.exchange))
        };
        let faults: Vec<String> = self.running.iter().filter_map(of_one).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
    }

    /// Waits for the end of an exchange; says how it ended, or that it has not within the bound.
    pub fn wait_for_end(&self, exchange: Exchange, bound: Duration) -> Result<String, String> {
        let shared = self.running.iter().find(|shared| shared.exchange == exchange).ok_or("no such exchange")?;
        let begin = Instant::now();
        loop {
            if let Some(fault) = shared.fault.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Ok(fault);
            }
            if begin.elapsed() > bound {
                return Err(format!("{exchange:?} has not ended within {bound:?}"));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends them all; `Err` when one had ended before, or had a wrong byte.
    pub fn finish(self) -> Result<(), String> {
        for shared in &self.running {
            shared.is_over.store(true, Ordering::Relaxed);
        }
        let faults = |lasting: &Lasting| lasting.faults();
        let outcome = faults(&self);
        self.thread.join().map_err(|_| "a panic".to_owned())?;
        outcome
    }
}

async fn follow(goal: Goal, shared: Arc<LastingShared>) {
    let outcome = match shared.exchange {
        Exchange::Tunnel => tunnel(&goal, &shared).await,
        Exchange::Stream => download(&goal, &shared, "/drip").await,
        Exchange::Download => download(&goal, &shared, &format!("/bytes/{DOWNLOAD_BYTES}")).await,
        Exchange::BothWays => both_ways(&goal, &shared).await,
    };
    if let Err(error) = outcome {
        *shared.fault.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(format!("after {} bytes: {error}", shared.bytes.load(Ordering::Relaxed)));
    }
}

impl LastingShared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The next bytes are those of the pattern.
    fn take(&self, piece: &[u8]) -> Result<(), String> {
        let seen = self.bytes.load(Ordering::Relaxed);
        pattern::check(seen, piece).map_err(|place| format!("wrong byte at {place}"))?;
        self.bytes.store(seen + piece.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

async fn in_time<T>(future: impl Future<Output = T>) -> Result<T, String> {
    timeout(SILENCE_MAX, future).await.map_err(|_| format!("nothing for {SILENCE_MAX:?}"))
}

async fn tunnel(goal: &Goal, shared: &LastingShared) -> Result<(), String> {
    let mut client = Client::connect(goal.plain).await?;
    let host = &goal.host;
    let request = format!("GET /upgrade HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    client.connection.write(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let head = in_time(client.connection.read_head()).await??;
    if head.status() != Some(101) {
        return Err(format!("no tunnel: {}", head.text()));
    }
    while !shared.is_over() {
        let piece = pattern::pattern(shared.bytes.load(Ordering::Relaxed), PIECE_BYTES);
        client.connection.write(&piece).await.map_err(|error| error.to_string())?;
        while client.connection.received.len() < piece.len() {
            if !in_time(client.connection.receive()).await? {
                return Err(format!("the tunnel ended: {:?}", client.connection.end));
            }
        }
        shared.take(&std::mem::take(&mut client.connection.received))?;
        sleep(PAUSE).await;
    }
    Ok(())
}

async fn download(goal: &Goal, shared: &LastingShared, path: &str) -> Result<(), String> {
    let mut client = Client::connect(goal.plain).await?;
    client.send("GET", &goal.host, path, &[]).await?;
    let head = in_time(client.connection.read_head()).await??;
    if head.status() != Some(200) {
        return Err(format!("no download: {}", head.text()));
    }
    while !shared.is_over() {
        match in_time(client.connection.read_data()).await?? {
            Some(piece) => shared.take(&piece)?,
            None => return Err("ended".to_owned()),
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

async fn both_ways(goal: &Goal, shared: &LastingShared) -> Result<(), String> {
    let text = |error: h2::Error| error.to_string();
    let socket = tls_socket(goal.secure, goal.tls_h2.clone(), &goal.host).await?;
    let (sender, connection) = h2::client::handshake(socket).await.map_err(text)?;
    let driver = spawn_local(connection);
    let mut sender = in_time(sender.ready()).await?.map_err(text)?;
    let request = http::Request::post(format!("https://{}/grpc", goal.host)).body(()).map_err(|error| error.to_string())?;
    let (response, mut sending) = sender.send_request(request, false).map_err(text)?;
    let first = pattern::pattern(0, PIECE_BYTES);
    in_time(http2::send_all(&mut sending, first.into(), false)).await?.map_err(text)?;
    let response = in_time(response).await?.map_err(text)?;
    if response.status().as_u16() != 200 {
        return Err(format!("status {}", response.status()));
    }
    let mut body = response.into_body();
    let mut sent = PIECE_BYTES as u64;
    while !shared.is_over() {
        while shared.bytes.load(Ordering::Relaxed) < sent {
            let piece: Bytes = in_time(http2::receive_data(&mut body)).await?.ok_or("ended")?.map_err(text)?;
            shared.take(&piece)?;
        }
        sleep(PAUSE).await;
        let piece = Bytes::from(pattern::pattern(sent, PIECE_BYTES));
        sent += PIECE_BYTES as u64;
        in_time(http2::send_all(&mut sending, piece, false)).await?.map_err(text)?;
    }
    driver.abort();
    Ok(())
}
