//! The life of the process: prepare everything that can fail, start the workers, follow signals, drain.

use crate::bind::{Bound, bind_all};
use crate::compile::{Material, gather};
use crate::fault::StartFault;
use jiff::Timestamp;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tidegate_certs::{Renewal, SiteCertificates, TlsSurvivors};
use tidegate_model::{Configuration, Threads};
use tidegate_proxy::snapshot::Snapshot;
use tidegate_proxy::survivors::ProcessSurvivors;
use tidegate_proxy::worker::{self, Command, WorkerParts};
use tidegate_telemetry::{AccessLogSender, AccessLogWriter, Readiness, ReadinessState, Registry, access_log};
use tidegate_transport::rt;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Commands that may wait for a worker; it takes them between two polls of its tasks.
const COMMANDS_MAX: usize = 16;
/// How often certificates are looked at.
const RENEWAL_PERIOD: Duration = Duration::from_secs(3600);
/// How often a draining process looks whether its workers have ended.
const DRAIN_POLL: Duration = Duration::from_millis(20);
/// A worker that takes longer to start will not.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Workers that were told to abort end within this, or with the process.
const ABORT_LIMIT: Duration = Duration::from_millis(500);
/// Lines of the last requests are written within this, drain or not.
const LOG_FLUSH: Duration = Duration::from_secs(2);
/// Workers that `threads` may ask for at most, as `config` has it; `auto` stays below as well.
const THREADS_MAX: usize = 1024;

/// Everything that can fail has not failed: sockets are bound, certificates loaded, logs open. Nothing runs yet.
pub struct Prepared {
    configuration: Configuration,
    material: Material,
    sockets: Vec<Bound>,
    process: Arc<ProcessSurvivors>,
    log_senders: Vec<AccessLogSender>,
    log_writer: AccessLogWriter,
    readiness: Arc<Readiness>,
}

/// What the admin endpoint serves from.
#[derive(Clone)]
pub struct AdminState {
    pub registry: Arc<Registry>,
    pub readiness: Arc<Readiness>,
}

/// `state_dir` keeps the internal CA.
pub fn prepare(configuration: Configuration, state_dir: PathBuf, version: &'static str) -> Result<Prepared, StartFault> {
    raise_descriptor_limit();
    let registry = Arc::new(Registry::new(version));
    let process = ProcessSurvivors::new(registry.clone());
    let tls = TlsSurvivors::new(state_dir).map_err(|error| StartFault::Internal(error.message()))?;
    let material = gather(&configuration, 1, &process, &tls, Timestamp::now())?;
    let workers = worker_count(configuration.threads);
    let sockets = bind_all(&material.snapshot.listeners, workers).map_err(StartFault::Bind)?;
    let (log_senders, log_writer) = access_log::start(&configuration.access_log, &registry, workers)
        .map_err(|error| StartFault::AccessLog { target: configuration.access_log.target.clone(), error })?;
    let readiness = Arc::new(Readiness::default());
    Ok(Prepared { configuration, material, sockets, process, log_senders, log_writer, readiness })
}

impl Prepared {
    pub fn admin_state(&self) -> AdminState {
        AdminState { registry: self.process.registry.clone(), readiness: self.readiness.clone() }
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.material.snapshot
    }

    /// Runs until a signal asks to stop and the requests in flight are done, or the drain time has passed. `admin` is served on the
    /// control thread meanwhile; `started` is called once the workers run.
    pub fn run(self, admin: impl Future<Output = ()> + 'static, started: impl FnOnce()) -> io::Result<()> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build_local(tokio::runtime::LocalOptions::default())?;
        runtime.block_on(async move {
            let mut signals = Signals::new()?;
            tokio::task::spawn_local(admin);
            let drain = self.configuration.drain;
            let workers = start_workers(self.sockets, &self.material.snapshot, &self.process, self.log_senders)?;
            self.readiness.set(ReadinessState::Ready);
            tracing::info!(workers = workers.threads.len(), sites = self.configuration.sites.len(), "ready");
            started();
            follow_signals(&mut signals, &self.log_writer, &self.material.certificates, &workers).await;
            self.readiness.set(ReadinessState::Draining);
            tracing::info!(drain = ?drain, "draining");
            let complete = workers.drain(drain, &mut signals).await;
            let logged = self.log_writer.finish(Instant::now() + LOG_FLUSH);
            tracing::info!(complete, logged, "stopped");
            Ok(())
        })
    }
}

struct Workers {
    threads: Vec<JoinHandle<io::Result<()>>>,
    commands: Vec<rt::Sender<Command>>,
}

fn start_workers(
    sockets: Vec<Bound>,
    snapshot: &Arc<Snapshot>,
    process: &Arc<ProcessSurvivors>,
    log_senders: Vec<AccessLogSender>,
) -> io::Result<Workers> {
    let mut workers = Workers { threads: Vec::new(), commands: Vec::new() };
    let (started, running) = std::sync::mpsc::channel();
    let mut log_senders = log_senders.into_iter();
    for (index, listeners) in sockets.into_iter().enumerate() {
        let (sender, commands) = rt::mailbox(COMMANDS_MAX);
        let parts = WorkerParts {
            index,
            snapshot: snapshot.clone(),
            listeners,
            survivors: process.clone(),
            access_log: log_senders.next(),
            commands,
            started: started.clone(),
        };
        let thread = std::thread::Builder::new().name(format!("tidegate-{index}")).spawn(move || worker::run(parts))?;
        workers.threads.push(thread);
        workers.commands.push(sender);
    }
    // Ready means that every worker accepts connections.
    for _ in 0..workers.threads.len() {
        let outcome = running.recv_timeout(START_LIMIT);
        outcome.map_err(|_| io::Error::other("a worker did not start; see the log for its error"))?;
    }
    Ok(workers)
}

impl Workers {
    fn any_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Tells every worker to drain and waits for the last; false when time or a second signal cut it short.
    async fn drain(self, limit: Duration, signals: &mut Signals) -> bool {
        for commands in &self.commands {
            // A full mailbox would mean a worker that is stuck; it ends with the process.
            let _ = commands.try_send(Command::Drain);
        }
        let complete = self.wait_for_end(limit, Some(signals)).await;
        if !complete {
            for commands in &self.commands {
                let _ = commands.try_send(Command::Abort);
            }
            self.wait_for_end(ABORT_LIMIT, None).await;
        }
        for thread in self.threads.into_iter().filter(JoinHandle::is_finished) {
            if let Ok(Err(error)) = thread.join() {
                tracing::error!(%error, "a worker failed");
            }
        }
        complete
    }

    /// False when time or a signal cut it short.
    async fn wait_for_end(&self, limit: Duration, mut signals: Option<&mut Signals>) -> bool {
        let until = Instant::now() + limit;
        while !self.threads.iter().all(JoinHandle::is_finished) {
            if Instant::now() >= until {
                return false;
            }
            match &mut signals {
                None => tokio::time::sleep(DRAIN_POLL).await,
                Some(signals) => tokio::select! {
                    () = tokio::time::sleep(DRAIN_POLL) => {}
                    () = signals.stop() => return false,
                },
            }
        }
        true
    }
}

/// Returns when the process is to stop.
async fn follow_signals(signals: &mut Signals, log: &AccessLogWriter, certificates: &[Arc<SiteCertificates>], workers: &Workers) {
    let mut renewal = tokio::time::interval(RENEWAL_PERIOD);
    let mut watch = tokio::time::interval(Duration::from_secs(1));
    renewal.tick().await;
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => return,
            _ = signals.interrupt.recv() => return,
            _ = signals.reopen.recv() => {
                log.reopen();
                tracing::info!("log files reopened");
            }
            _ = signals.reload.recv() => {
                tracing::warn!("SIGHUP: this version applies a changed configuration only when it is started again");
            }
            _ = renewal.tick() => renew(certificates),
            _ = watch.tick() => {
                if workers.any_ended() {
                    tracing::error!("a worker has ended unasked");
                    return;
                }
            }
        }
    }
}

fn renew(certificates: &[Arc<SiteCertificates>]) {
    for site in certificates {
        match site.renew_if_due(Timestamp::now()) {
            Ok(Renewal::NotDue) => {}
            Ok(renewal) => tracing::info!(?renewal, "certificates renewed"),
            Err(errors) => {
                for error in errors {
                    tracing::error!(error = error.message(), "certificates were not renewed");
                }
            }
        }
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reopen: Signal,
    reload: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reopen: signal(SignalKind::user_defined1())?,
            reload: signal(SignalKind::hangup())?,
        })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn worker_count(threads: Threads) -> usize {
    match threads {
        Threads::Count(count) => usize::from(count).max(1),
        // The standard library reads the cgroup's CPU quota and the affinity mask.
        Threads::Auto => std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX),
    }
}

/// Every connection takes a descriptor and every proxied request a second one; the soft limit of 1,024 is for programs that use `select`.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
