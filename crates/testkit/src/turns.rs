//! WebSockets and streams on a thread of their own, for tests that replace the proxy meanwhile: each client opens one
//! after the other. A WebSocket sends a frame now and then and has it back, until a close frame comes; a stream is read
//! for a time that every drain grants. Any other end is a fault. What lasts for a whole test is in `lasting`.

use crate::client::Client;
use crate::load::Goal;
use crate::pattern;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

/// Between two frames.
const PAUSE: Duration = Duration::from_millis(200);
/// No answer and no frame takes longer, however busy the machine.
const BOUND: Duration = Duration::from_secs(20);
/// More of them say nothing new.
const FAULTS_SHOWN_MAX: usize = 8;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const MASKED: u8 = 0x80;
/// Opcode, length and masking key of what these send, and four bytes.
const FRAME_BYTES: usize = 10;

/// What a client opens, over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// `/upgrade` of a server that sends everything back.
    WebSocket,
    /// `/drip`, which is read for so long.
    Stream(Duration),
}

/// What became of all of them.
#[derive(Debug, Clone, Default)]
pub struct TurnTally {
    pub websockets: u64,
    /// Frames that came back.
    pub frames: u64,
    /// When a close frame ended a WebSocket, since the start.
    pub closed: Vec<Duration>,
    /// Streams that were read for their whole time.
    pub streams: u64,
    pub stream_bytes: u64,
    pub faults: Vec<String>,
}

struct TurnsShared {
    is_over: AtomicBool,
    began: Instant,
    tally: Mutex<TurnTally>,
}

/// Running clients.
pub struct Turns {
    shared: Arc<TurnsShared>,
    thread: JoinHandle<()>,
}

impl Turns {
    /// Begins with so many clients of each.
    pub fn start(goal: &Goal, clients: &[(Turn, usize)]) -> Result<Turns, String> {
        let (is_over, tally) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(TurnsShared { is_over, began: Instant::now(), tally });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let (goal, of_thread) = (goal.clone(), shared.clone());
        let turns: Vec<Turn> = clients.iter().flat_map(|(turn, count)| std::iter::repeat_n(*turn, *count)).collect();
        let run = move || {
            let all = async {
                let tasks: Vec<_> =
                    turns.into_iter().map(|turn| spawn_local(follow(turn, goal.clone(), of_thread.clone()))).collect();
                for task in tasks {
                    if let Err(error) = task.await {
                        of_thread.fault(error.to_string());
                    }
                }
            };
            LocalSet::new().block_on(&runtime, all);
        };
        let thread = thread::Builder::new().name("turns".into()).spawn(run).map_err(|error| error.to_string())?;
        Ok(Turns { shared, thread })
    }

    pub fn tally(&self) -> TurnTally {
        self.shared.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends them.
    pub fn finish(self) -> TurnTally {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if self.thread.join().is_err() {
            self.shared.fault("the clients panicked".to_owned());
        }
        self.shared.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl TurnsShared {
    fn count(&self, add: impl FnOnce(&mut TurnTally)) {
        add(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn fault(&self, text: String) {
        self.count(|tally| {
            if tally.faults.len() < FAULTS_SHOWN_MAX {
                tally.faults.push(text);
            }
        });
    }
}

async fn follow(turn: Turn, goal: Goal, shared: Arc<TurnsShared>) {
    while !shared.is_over.load(Ordering::Relaxed) {
        let outcome = match turn {
            Turn::WebSocket => websocket(&goal, &shared).await,
            Turn::Stream(lasts) => stream(&goal, &shared, lasts).await,
        };
        if let Err(error) = outcome {
            shared.fault(format!("{turn:?} after {:?}: {error}", shared.began.elapsed()));
        }
        sleep(PAUSE).await;
    }
}

async fn in_time<T>(future: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    timeout(BOUND, future).await.map_err(|_| format!("nothing within {BOUND:?}"))?
}

async fn websocket(goal: &Goal, shared: &TurnsShared) -> Result<(), String> {
    let client = in_time(open(goal)).await.map_err(|error| format!("not opened: {error}"))?;
    shared.count(|tally| tally.websockets += 1);
    exchange(client, shared).await
}

/// Reads for its time, or until it is over. The stream itself has no end.
async fn stream(goal: &Goal, shared: &TurnsShared, lasts: Duration) -> Result<(), String> {
    let began = Instant::now();
    let connecting = Client::connect_tls(goal.secure, goal.tls.clone(), &goal.host);
    let mut client = in_time(connecting).await?;
    client.send("GET", &goal.host, "/drip", &[]).await?;
    let head = in_time(client.connection.read_head()).await?;
    if head.status() != Some(200) {
        return Err(format!("no stream: {}", head.text()));
    }
    let mut seen = 0;
    while began.elapsed() < lasts && !shared.is_over.load(Ordering::Relaxed) {
        let piece = in_time(client.connection.read_data()).await?.ok_or("it ended")?;
        pattern::check(seen, &piece).map_err(|place| format!("wrong byte at {place}"))?;
        seen += piece.len() as u64;
    }
    shared.count(|tally| {
        tally.streams += 1;
        tally.stream_bytes += seen;
    });
    Ok(())
}

async fn open(goal: &Goal) -> Result<Client, String> {
    let mut client = Client::connect_tls(goal.secure, goal.tls.clone(), &goal.host).await?;
    let host = &goal.host;
    let request = format!("GET /upgrade HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    client.connection.write(request.as_bytes()).await.map_err(|error| format!("send: {error}"))?;
    let head = client.connection.read_head().await?;
    if head.status() == Some(101) { Ok(client) } else { Err(format!("no WebSocket: {}", head.text())) }
}

/// Until it is over, or a close frame has come; everything else is a fault.
async fn exchange(mut client: Client, shared: &TurnsShared) -> Result<(), String> {
    let mut number = 0_u32;
    while !shared.is_over.load(Ordering::Relaxed) {
        let mut frame = vec![BINARY, MASKED | 4, 0, 0, 0, 0];
        frame.extend_from_slice(&number.to_be_bytes());
        let sent = client.connection.write(&frame).await;
        loop {
            let received = &client.connection.received;
            if received.first() == Some(&CLOSE) && received.len() >= 2 {
                shared.count(|tally| tally.closed.push(shared.began.elapsed()));
                return Ok(());
            }
            if received.len() >= FRAME_BYTES {
                break;
            }
            // What had come is looked at before what could not be sent.
            let is_more = timeout(BOUND, client.connection.receive()).await;
            if !is_more.map_err(|_| format!("no frame within {BOUND:?}"))? {
                return Err(format!(
                    "it ended without a close frame after {number} frames: {:?}, {sent:?}",
                    client.connection.end
                ));
            }
        }
        let back: Vec<u8> = client.connection.received.drain(..FRAME_BYTES).collect();
        if back != frame {
            return Err(format!("{back:?} came back instead of {frame:?}"));
        }
        shared.count(|tally| tally.frames += 1);
        number = number.wrapping_add(1);
        sleep(PAUSE).await;
    }
    Ok(())
}
