//! The worker threads as the control thread knows them: started, told of changes, asked, and ended. What they do is in
//! `proxy::worker`.

use crate::descriptors;
use crate::driver::Chosen;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tidegate_model::Threads;
use tidegate_proxy::command::{Change, Command, NewSocket, OldSocket, SocketId};
use tidegate_proxy::process_state::ProcessState;
use tidegate_proxy::run::{self, WorkerParts};
use tidegate_proxy::snapshot::Snapshot;
use tidegate_proxy::worker::Worker;
use tidegate_telemetry::{AccessLogSenders, LogPlan};
use tidegate_transport::{DriverSock, rt};

/// Commands that may wait for a worker; it takes them between two polls of its tasks.
const COMMANDS_MAX: usize = 64;
/// A worker that takes longer to start will not.
const START_LIMIT: Duration = Duration::from_secs(10);
/// A worker answers between two polls of its tasks, each of which takes microseconds. One that does not answer for so
/// long hangs.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// While a mailbox is full.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// Workers that `threads` may ask for at most, as `config` has it; `auto` stays below as well.
pub const THREADS_MAX: usize = 1024;

struct WorkerThread {
    index: usize,
    thread: JoinHandle<io::Result<()>>,
    commands: rt::Sender<Command>,
}

/// All workers of the process.
pub struct Workers {
    /// Of those that are started.
    pub driver: Chosen,
    running: Vec<WorkerThread>,
    /// Workers that take no new connections and end with their last one.
    leaving: Vec<WorkerThread>,
}

/// What one worker is told of a change.
#[derive(Default)]
pub struct ChangeParts {
    pub snapshot: Option<Arc<Snapshot>>,
    /// With the index of the worker that is to accept from it.
    pub sockets: Vec<(usize, NewSocket)>,
    pub old_sockets: Vec<OldSocket>,
    pub access_log: Option<LogPlan>,
}

impl Workers {
    pub fn new(driver: Chosen) -> Workers {
        Workers { driver, running: Vec::new(), leaving: Vec::new() }
    }

    /// Indices of those that take connections.
    pub fn indices(&self) -> Vec<usize> {
        self.running.iter().map(|worker| worker.index).collect()
    }

    /// The lowest indices that no thread has: counters belong to an index, and have one writer.
    pub fn free_indices(&self, count: usize) -> Vec<usize> {
        let is_free = |index: &usize| !self.running.iter().chain(&self.leaving).any(|worker| worker.index == *index);
        (0..).filter(is_free).take(count).collect()
    }

    /// Counters are needed for indices below this, of threads that leave as well.
    pub fn index_bound(&self) -> usize {
        self.running.iter().chain(&self.leaving).map(|worker| worker.index + 1).max().unwrap_or(1)
    }

    pub fn leaving_count(&self) -> usize {
        self.leaving.len()
    }

    /// Starts threads of these indices; they accept connections when this returns.
    pub fn start(
        &mut self,
        parts: Vec<(usize, Option<AccessLogSenders>, Vec<NewSocket>)>,
        snapshot: &Arc<Snapshot>,
        process: &Arc<ProcessState>,
    ) -> io::Result<()> {
        let (started, running) = channel();
        let mut fresh = Vec::new();
        for (index, access_log, sockets) in parts {
            let (sender, commands) = rt::mailbox(COMMANDS_MAX);
            let parts = WorkerParts {
                index,
                driver: self.driver.driver,
                snapshot: snapshot.clone(),
                sockets,
                state: process.clone(),
                access_log,
                commands,
                started: started.clone(),
            };
            let thread = std::thread::Builder::new().name(format!("tidegate-{index}")).spawn(move || run::run(parts))?;
            fresh.push(WorkerThread { index, thread, commands: sender });
        }
        for _ in &fresh {
            let outcome = running.recv_timeout(START_LIMIT).map_err(|_| io::Error::other("a worker did not start in time"))?;
            outcome
                .map_err(|error| io::Error::other(format!("a worker did not start: {error}{}", descriptors::remedy(&error))))?;
        }
        self.running.extend(fresh);
        Ok(())
    }

    /// Tells all workers, and waits until all have taken it on.
    pub fn change(&self, parts: ChangeParts) {
        let (done, taken) = channel();
        let mut sockets = parts.sockets;
        let mut told = 0;
        for worker in self.running.iter().chain(&self.leaving) {
            let (own, others) = sockets.into_iter().partition(|(index, _)| *index == worker.index);
            sockets = others;
            let own: Vec<(usize, NewSocket)> = own;
            let change = Change {
                snapshot: parts.snapshot.clone(),
                sockets: own.into_iter().map(|(_, socket)| socket).collect(),
                old_sockets: parts.old_sockets.clone(),
                access_log: parts.access_log.clone(),
                done: done.clone(),
            };
            told += usize::from(worker.send(Command::Change(Box::new(change))));
        }
        drop(done);
        let taken = wait_for(&taken, told).len();
        if taken < told {
            tracing::error!(workers = told, taken, "a worker hangs: it did not take on a change of the configuration");
        }
    }

    /// Asks every worker, those that leave included.
    pub fn ask<T: Send + 'static>(&self, look: impl Fn(&Worker<DriverSock>) -> T + Clone + Send + 'static) -> Vec<T> {
        let (answer, answers) = channel();
        let mut asked = 0;
        for worker in self.running.iter().chain(&self.leaving) {
            let (look, answer) = (look.clone(), answer.clone());
            let command = Command::Look(Box::new(move |worker| {
                let _ = answer.send(look(worker));
            }));
            asked += usize::from(worker.send(command));
        }
        drop(answer);
        wait_for(&answers, asked)
    }

    /// These take no new connections any more; their sockets are accepted from by others. They go on until their last
    /// connection ends.
    pub fn retire(&mut self, indices: &[usize], sockets: &[SocketId]) {
        let (leave, stay) = std::mem::take(&mut self.running).into_iter().partition(|worker| indices.contains(&worker.index));
        self.running = stay;
        for worker in &leave {
            let worker: &WorkerThread = worker;
            worker.send(Command::Drain { sockets: sockets.to_vec(), limit: None });
        }
        self.leaving.extend(leave);
    }

    /// Takes leave of threads that have ended; says whether one ended that should not have.
    pub fn collect_ended(&mut self) -> bool {
        let (ended, leaving) = std::mem::take(&mut self.leaving).into_iter().partition(WorkerThread::has_ended);
        self.leaving = leaving;
        let ended: Vec<WorkerThread> = ended;
        ended.into_iter().for_each(WorkerThread::join);
        self.running.iter().any(WorkerThread::has_ended)
    }

    /// Tells every worker to drain. Sockets that were handed on are left alone, the queues of the others are emptied
    /// first.
    pub fn drain(&self, handed_on: &[SocketId], limit: Duration) {
        for worker in self.running.iter().chain(&self.leaving) {
            worker.send(Command::Drain { sockets: handed_on.to_vec(), limit: Some(limit) });
        }
    }

    pub fn abort(&self) {
        for worker in self.running.iter().chain(&self.leaving) {
            worker.send(Command::Abort);
        }
    }

    pub fn all_ended(&self) -> bool {
        self.running.iter().chain(&self.leaving).all(WorkerThread::has_ended)
    }

    /// Says why those that failed did.
    pub fn join_ended(self) {
        self.running.into_iter().chain(self.leaving).filter(WorkerThread::has_ended).for_each(WorkerThread::join);
    }
}

impl WorkerThread {
    fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    fn join(self) {
        if let Ok(Err(error)) = self.thread.join() {
            tracing::error!(%error, "a worker failed");
        }
    }

    /// False when the worker has ended, or hangs.
    fn send(&self, mut command: Command) -> bool {
        let until = Instant::now() + ANSWER_LIMIT;
        while let Err(refused) = self.commands.try_send(command) {
            if self.has_ended() || Instant::now() >= until {
                return false;
            }
            command = refused;
            std::thread::sleep(FULL_PAUSE);
        }
        true
    }
}

/// As many answers as come in time.
fn wait_for<T>(answers: &Receiver<T>, count: usize) -> Vec<T> {
    let until = Instant::now() + ANSWER_LIMIT;
    let mut seen = Vec::with_capacity(count);
    while seen.len() < count {
        match answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(answer) => seen.push(answer),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    seen
}

pub fn worker_count(threads: Threads) -> usize {
    match threads {
        Threads::Count(count) => usize::from(count).max(1),
        // The standard library reads the cgroup's CPU quota and the affinity mask.
        Threads::Auto => std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX),
    }
}
