//! The loop of one worker, on top of this crate: it accepts connections and has them served, carries out what the
//! control plane asks, looks after idle connections to upstreams, and ends when it was told to and its last connection
//! has ended. What the worker knows meanwhile is in `worker`; how a listening address is left is in `listening`.

use crate::command::{Change, Command};
use crate::listeners::{Accepting, Listening, NewSocket};
use crate::listening::ListenerState;
use crate::process_state::ProcessState;
use crate::relief::relieve_if_asked;
use crate::serve;
use crate::snapshot::Snapshot;
use crate::worker::Worker;
use std::fmt::Display;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tidegate_model::ListenAddress;
use tidegate_telemetry::AccessLogSenders;
use tidegate_transport::{Driver, DriverListener, DriverSock, buffer, descriptors, held_back, memory, rt};
use tidegate_upstream::connect::warm;

/// How often idle upstream connections are looked through.
const SWEEP_PERIOD: Duration = Duration::from_millis(100);
/// Sweeps between two times that buffers and encoders are given back which were not used meanwhile.
const SWEEPS_PER_GIVING_BACK: u32 = 10;
/// A pause after each accept while hardly any memory is left.
const MEMORY_PAUSE: Duration = Duration::from_millis(10);
/// How often a worker to which nothing comes looks whether it is to free memory.
const RELIEF_PERIOD: Duration = Duration::from_millis(250);
/// How often it does while memory is tight: other workers may wait for what this one frees.
const TIGHT_RELIEF_PERIOD: Duration = Duration::from_millis(20);
/// How long readers wait between two looks for memory.
const HELD_BACK_PAUSE: Duration = Duration::from_millis(5);
/// A pause between the two when this worker has made room: the others need a moment for their part of it.
const RELIEVED_PAUSE: Duration = Duration::from_millis(1);
/// After so many looks without any, some of them read all the same, and so many after each look from then on.
const HELD_BACK_LOOKS_MAX: u32 = 20;
const HELD_BACK_PASSES: usize = 4;
/// A pause after an accept that failed for want of descriptors or memory: trying again at once would only burn the
/// core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Said where the next connection would have a descriptor that is none of a client's.
const KEPT_BACK: &str = "the last descriptors are kept for the admin endpoint and the process itself";
/// Connections that are taken from a queue that is being emptied before others get their turn.
const ACCEPT_TURN: usize = 64;
/// Errors after which a queue is given up that cannot be emptied.
const ACCEPT_ERRORS_MAX: usize = 100;
/// How often a draining worker looks whether its last connection has ended.
const DRAIN_POLL: Duration = Duration::from_millis(10);

/// What a worker starts with.
pub struct WorkerParts {
    pub index: usize,
    pub driver: Driver,
    pub snapshot: Arc<Snapshot>,
    pub sockets: Vec<NewSocket>,
    pub state: Arc<ProcessState>,
    pub access_log: Option<AccessLogSenders>,
    pub commands: rt::Receiver<Command>,
    /// Told once the worker accepts connections, or why it will not.
    pub started: std::sync::mpsc::Sender<io::Result<()>>,
}

/// Runs a worker on this thread until it was told to drain and has ended its last connection.
pub fn run(parts: WorkerParts) -> io::Result<()> {
    let started = parts.started.clone();
    // What ends a worker later is found by whoever takes leave of its thread.
    let tell = |error: &io::Error| {
        let _ = started.send(Err(io::Error::new(error.kind(), error.to_string())));
    };
    rt::run(parts.driver, async move { obey(parts).await }).flatten().inspect_err(tell)
}

async fn obey(parts: WorkerParts) -> io::Result<()> {
    let WorkerParts { index, driver: _, snapshot, sockets, state, access_log, mut commands, started } = parts;
    let worker: Rc<Worker<DriverSock>> = Rc::new(Worker::new(index, snapshot, state, access_log));
    worker.listen();
    accept_from(&worker, sockets)?;
    worker.make_warm_pools();
    rt::spawn(sweep(worker.clone()));
    rt::spawn(relieve(worker.clone()));
    // Nobody listens any more when the control plane has given up; then the commands end as well.
    let _ = started.send(Ok(()));
    drop(started);
    let mut is_draining = false;
    loop {
        let wait = if is_draining { rt::timeout(DRAIN_POLL, commands.recv()).await } else { Some(commands.recv().await) };
        match wait {
            None => {}
            Some(Some(Command::Change(change))) => take_on(&worker, *change),
            Some(Some(Command::Look(look))) => look(&worker),
            Some(Some(Command::Drain { sockets, limit })) => {
                is_draining = true;
                worker.listeners.drain(&sockets, limit, &mut || worker.random());
            }
            Some(Some(Command::Abort) | None) => {
                worker.listeners.each(ListenerState::mark_cut);
                return Ok(());
            }
        }
        if is_draining && worker.has_ended() {
            return Ok(());
        }
    }
}

/// Takes on what a change brings. Nothing in it can fail: what can was tried before it was sent.
fn take_on(worker: &Rc<Worker<DriverSock>>, change: Change) {
    let Change { snapshot, sockets, old_sockets, access_log, done } = change;
    if let (Some(plan), Some(senders)) = (&access_log, &mut *worker.access_log.borrow_mut()) {
        senders.apply(plan);
    }
    if let Some(snapshot) = snapshot {
        worker.publish(snapshot);
    }
    worker.listeners.stop(&old_sockets);
    worker.listen();
    if let Err(error) = accept_from(worker, sockets) {
        tracing::error!(%error, "a worker cannot accept from a socket");
    }
    let _ = done.send(worker.index);
}

/// Begins to accept; the listener is one of the snapshot's.
///
/// Fails with the last error when some cannot be; the others are.
fn accept_from(worker: &Rc<Worker<DriverSock>>, sockets: Vec<NewSocket>) -> io::Result<()> {
    let mut outcome = Ok(());
    for NewSocket { id, address, socket } in sockets {
        let Some(listening) = worker.listeners.at(address) else { continue };
        let listener = match DriverListener::adopt(socket) {
            Ok(listener) => listener,
            Err(error) => {
                outcome = Err(error);
                continue;
            }
        };
        let how = listening.add(id);
        let worker = worker.clone();
        let accepting = &worker.listeners.accepting;
        accepting.set(accepting.get() + 1);
        rt::spawn(async move {
            accept(&worker, &listening, listener, &how).await;
            let accepting = &worker.listeners.accepting;
            accepting.set(accepting.get() - 1);
        });
    }
    outcome
}

async fn accept(worker: &Rc<Worker<DriverSock>>, listening: &Listening<DriverSock>, listener: DriverListener, how: &Accepting) {
    let stop = how.stop.waiter();
    loop {
        let accepted = poll_fn(|cx| {
            // First: a socket that somebody else accepts from is left at once.
            if stop.poll_set(cx).is_ready() {
                return Poll::Ready(None);
            }
            listener.poll_accept(cx).map(Some)
        });
        match accepted.await {
            None => break,
            Some(Ok((sock, client))) => {
                let is_reserved = descriptors::is_reserved(&sock);
                // Where several accept at once, each has the first that is too many.
                if !descriptors::is_of_process(&sock) {
                    serve::spawn(worker, sock, client, listening.state());
                }
                if is_reserved {
                    note_used_up(worker, listening.address, &KEPT_BACK);
                    accept_sparingly(worker, listening, &listener, how).await;
                }
                let is_last = worker.process.pressure.is_last();
                if is_last {
                    rt::sleep(MEMORY_PAUSE).await;
                }
                // What was ended goes before the next comes, and what has come takes what it needs: a hundred that are
                // accepted in one turn take megabytes before anybody looks.
                if relieve_if_asked(worker) || memory::is_tight() {
                    rt::yield_now().await;
                }
            }
            Some(Err(error)) => {
                note_accept_error(worker, listening.address, &error);
                rt::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    listener.stop().await;
    // A handed-on socket is left as it is, but for what was accepted from it.
    if how.is_handed_on.get() {
        empty_queue(worker, listening, || Ok(listener.next_accepted())).await;
    } else {
        empty_queue(worker, listening, || listener.accept_now()).await;
    }
}

/// Accepts what waits one by one, each when there is a descriptor for it, until nothing waits any more.
async fn accept_sparingly(
    worker: &Rc<Worker<DriverSock>>,
    listening: &Listening<DriverSock>,
    listener: &DriverListener,
    how: &Accepting,
) {
    // Nothing is accepted ahead meanwhile.
    listener.stop().await;
    while let Some((sock, client)) = listener.next_accepted() {
        serve::spawn(worker, sock, client, listening.state());
    }
    while !how.stop.is_set() {
        if !descriptors::has_room() {
            rt::sleep(ACCEPT_PAUSE).await;
            continue;
        }
        match listener.accept_now() {
            Ok(None) => return,
            Ok(Some((sock, client))) => serve::spawn(worker, sock, client, listening.state()),
            Err(error) => {
                note_accept_error(worker, listening.address, &error);
                rt::sleep(ACCEPT_PAUSE).await;
            }
        }
        // What has ended gives its descriptor back before the next is accepted.
        rt::yield_now().await;
    }
}

/// Accepts what waits: closing the socket would reset it.
async fn empty_queue(
    worker: &Rc<Worker<DriverSock>>,
    listening: &Listening<DriverSock>,
    next: impl Fn() -> io::Result<Option<(DriverSock, SocketAddr)>>,
) {
    let mut turn = 0;
    let mut errors = 0;
    loop {
        match next() {
            Ok(None) => return,
            Ok(Some((sock, client))) => serve::spawn(worker, sock, client, listening.state()),
            // One that was reset while it waited, or no descriptor for the moment: requests that end give some back.
            Err(error) => {
                errors += 1;
                if errors > ACCEPT_ERRORS_MAX {
                    return note_accept_error(worker, listening.address, &error);
                }
                rt::sleep(ACCEPT_PAUSE).await;
            }
        }
        turn += 1;
        if turn % ACCEPT_TURN == 0 {
            rt::yield_now().await;
        }
    }
}

fn note_accept_error(worker: &Worker<DriverSock>, address: ListenAddress, error: &io::Error) {
    if descriptors::is_used_up(error) {
        note_used_up(worker, address, error);
    } else if let Some(suppressed) = worker.gates.accept.allow(Instant::now()) {
        tracing::error!(%address, %error, suppressed, "a connection could not be accepted");
    }
}

fn note_used_up(worker: &Worker<DriverSock>, address: ListenAddress, error: &dyn Display) {
    if let Some(suppressed) = worker.gates.accept.allow(Instant::now()) {
        let help =
            "let it have more: `LimitNOFILE=` of the unit, or `ulimit -n`; or one client fewer: `connections-per-ip` in `limits`";
        tracing::error!(%address, %error, suppressed, help, "a connection could not be accepted");
    }
}

/// Ends connections when the process asks for it, also where nobody connects and nothing is requested.
async fn relieve(worker: Rc<Worker<DriverSock>>) {
    loop {
        let period = if memory::is_tight() { TIGHT_RELIEF_PERIOD } else { RELIEF_PERIOD };
        let somebody_waits = rt::timeout(period, held_back::somebody_waits()).await.is_some();
        let _ = relieve_if_asked(&worker);
        if somebody_waits {
            look_for_readers(&worker).await;
        }
    }
}

/// Looks whether there is memory for those who want to read, makes some, and lets them go on.
async fn look_for_readers(worker: &Worker<DriverSock>) {
    let mut looks = 0;
    while held_back::is_anybody_waiting() {
        worker.process.pressure.look_for_readers();
        let is_relieved = relieve_if_asked(worker);
        // Connections that were ended are gone before those that wait go on.
        rt::yield_now().await;
        if !memory::is_lease_used_up() {
            break;
        }
        looks += 1;
        if looks > HELD_BACK_LOOKS_MAX {
            held_back::let_some_read(HELD_BACK_PASSES);
        }
        rt::sleep(if is_relieved { RELIEVED_PAUSE } else { HELD_BACK_PAUSE }).await;
    }
    held_back::let_all_go();
}

async fn sweep(worker: Rc<Worker<DriverSock>>) {
    let mut sweeps = 0_u32;
    loop {
        rt::sleep(SWEEP_PERIOD).await;
        sweeps = sweeps.wrapping_add(1);
        if sweeps.is_multiple_of(SWEEPS_PER_GIVING_BACK) {
            buffer::free_unused();
            tidegate_coding::give_back_unused();
        }
        let now = rt::now();
        let snapshot = worker.snapshot();
        snapshot.each_pool(|pool| {
            pool.sweep(now, &worker.metrics);
            // A worker that accepts nothing any more needs nothing in advance.
            if worker.listeners.accepting.get() > 0 {
                let head_limits = snapshot.shared.head_limits();
                warm::fill(pool, now, head_limits, &mut || worker.random());
            }
        });
    }
}
