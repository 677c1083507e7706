//! The life of the process: prepare everything that can fail, start the workers, follow what happens, drain.

use crate::compile::{Numbers, SharedState, gather};
use crate::confirm::{Baseline, SAMPLE_PERIOD};
use crate::control::{AdminPlace, Control, UnfitFiles, Watching};
use crate::discovery::Followers;
use crate::endpoint::AdminListener;
use crate::fault::StartFault;
use crate::generations::{Generation, Generations, Origin, WrittenFile};
use crate::handle::{ControlHandle, EVENTS_MAX, Event};
use crate::init::{self, Mailbox};
use crate::issuing::{Issuance, SHOW_PERIOD};
use crate::material::Material;
use crate::memory::{self, MemoryBudget};
use crate::names::{self, Found, Names};
use crate::pools::Checkers;
use crate::sharing::{ask_for_spares, offer_all};
use crate::signals::{Signals, Told};
use crate::sockets::{Inherited, SocketTable, Spare};
use crate::source::{Read, Source, Watched};
use crate::sticky::CookieKeys;
use crate::succession::{Heard, Inheritance, Program, Stage};
use crate::systemd::{self, ActivationSockets};
use crate::tickets::follow_ticket_keys;
use crate::watch::{DEBOUNCE, FileWatch};
use crate::workers::{Workers, worker_count};
use jiff::Timestamp;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_certs::{ExportedKeys, TlsProcessState};
use tidegate_config::LoadMemory;
use tidegate_model::{Admin, Configuration, Delta, PoolName};
use tidegate_proxy::command::{NewSocket, SocketId};
use tidegate_proxy::listening::CUT_GRACE;
use tidegate_proxy::process_state::ProcessState;
use tidegate_telemetry::{AccessLogSender, Readiness, ReadinessState, Registry, access_log};
use tidegate_transport::handover::Succession;
use tokio::sync::{mpsc, oneshot};

/// How often certificates are looked at that nothing was noticed of: those of the internal CA have an age, and notices
/// can be lost.
const RENEWAL_PERIOD: Duration = Duration::from_secs(3600);
/// How often a draining process looks whether its workers have ended.
const DRAIN_POLL: Duration = Duration::from_millis(20);
/// Workers that were told to abort end within this, or with the process.
const ABORT_LIMIT: Duration = Duration::from_millis(500);
/// By then a predecessor has told systemd who its successor is.
const STORE_AGAIN: Duration = Duration::from_secs(3);
/// Lines of the last requests are written within this, drain or not.
const LOG_FLUSH: Duration = Duration::from_secs(2);

/// How the process is to run, beside its configuration.
pub struct StartOptions {
    pub source: Source,
    /// As the first load left it.
    pub memory: LoadMemory,
    /// Keeps the internal CA.
    pub state_dir: PathBuf,
    pub version: &'static str,
    /// A changed file of the configuration is applied.
    pub watch: bool,
    /// Sockets and all from the process before.
    pub inheritance: Option<Inheritance>,
    /// What systemd opened, or kept over a crash. Asked for before any thread runs, since the environment is changed.
    pub activation: ActivationSockets,
}

/// Everything that can fail has not failed: sockets are bound, certificates loaded, logs open. Nothing runs yet.
pub struct Prepared {
    control: Control,
    events: Events,
    admin: Option<(AdminListener, mpsc::UnboundedReceiver<AdminListener>)>,
    handle: ControlHandle,
    workers: Vec<(usize, Option<AccessLogSender>, Vec<NewSocket>)>,
    succession: Option<Succession>,
    borrowed: Borrowed,
}

/// Sockets that another process could do without. Until this one accepts from them, they go back when it gives up.
#[derive(Default)]
struct Borrowed(Vec<TcpListener>);

impl Borrowed {
    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            offer_all("", &self.0.iter().collect::<Vec<_>>());
        }
    }
}

pub fn prepare(read: Read, options: StartOptions) -> Result<Prepared, StartFault> {
    raise_descriptor_limit();
    let StartOptions { source, memory, state_dir, version, watch, inheritance, mut activation } = options;
    let configuration = Arc::new(read.configuration);
    let process = ProcessState::new(Arc::new(Registry::new(version)));
    let (mut inherited, inherited_admin, carried, succession) = match inheritance {
        Some(Inheritance { sockets, admin, carried, succession }) => (sockets, admin, carried, Some(succession)),
        None => (Vec::new(), None, crate::succession::CarriedOver::default(), None),
    };
    let tls = open_tls(state_dir, carried.tickets.as_ref())?;
    let indices: Vec<usize> = (0..worker_count(configuration.threads)).collect();
    let numbers = Numbers { generation: carried.generation + 1, serial: 1, workers: indices.len() };
    let ((events_sender, asked), (processes, heard)) = (mpsc::channel(EVENTS_MAX), mpsc::channel(EVENTS_MAX));
    let names = names_of_system(events_sender.clone());
    let cookie_keys = CookieKeys::new(tls.state_dir().to_owned());
    let state = SharedState { process: &process, tls: &tls, names: &names, cookie_keys: &cookie_keys };
    let running = gather(configuration.clone(), &Delta::all_of(&configuration), None, state, numbers, Timestamp::now())?;
    set_drained(&running, &carried.drained);
    let out_of_descriptors = |error: io::Error| StartFault::Internal(error.to_string());
    let admin = open_admin(&configuration, inherited_admin, &mut activation)?;
    let (senders, log) = access_log::start(&configuration.access_log, &process.registry, indices.len())
        .map_err(|error| StartFault::AccessLog { target: configuration.access_log.target.clone(), error })?;
    // Last: a socket that shares its address gets connections at once, and closing it again would reset them.
    inherited.extend(activation.tcp.into_iter().map(|(_, socket)| socket));
    let (mut sockets, workers_sockets, borrowed) = open_sockets(&running, &indices, inherited, succession.is_some())?;
    let workers = share_out(&indices, senders, sockets.adopt(workers_sockets).map_err(out_of_descriptors)?);
    let readiness = Arc::new(Readiness::default());
    let handle = ControlHandle::new(events_sender.clone(), &process.registry, &readiness);
    let (serve_admin, admin_places) = mpsc::unbounded_channel();
    let started = Timestamp::now();
    let generations = first_generation(numbers.generation, started, succession.is_some(), &configuration, read.files);
    process.registry.configuration().set_generation(numbers.generation, started.as_second());
    process.registry.configuration().set_workers(indices.len());
    let mut control = Control {
        source,
        memory: RefCell::new(memory),
        written: read.written,
        running,
        process,
        tls,
        workers: Workers::default(),
        sockets,
        log,
        admin: AdminPlace { listener: admin.try_clone().map_err(out_of_descriptors)?, serve: serve_admin },
        readiness,
        generations,
        on_disk: std::collections::BTreeMap::new(),
        serial: numbers.serial,
        baseline: Baseline::default(),
        pending: None,
        refused: None,
        superseded: Vec::new(),
        store_again_at: None,
        unfit: UnfitFiles::default(),
        lists_end: None,
        watch: Watching::new(watch),
        started,
        succession: Stage::new(Program::current(), processes),
        names,
        cookie_keys,
        followers: Followers::default(),
        checkers: Checkers::default(),
        budget: MemoryBudget::default(),
        issuance: Issuance::default(),
        ticket_sharing: None,
        stapling: None,
    };
    begin_to_hear(&mut control, events_sender, read.watched);
    let (events, admin) = (Events { asked, heard }, Some((admin, admin_places)));
    Ok(Prepared { control, events, admin, handle, workers, succession, borrowed })
}

/// What a look-up in the background finds is an event.
fn names_of_system(events: mpsc::Sender<Event>) -> Names {
    let tell = move |found: Found, is_over: bool| {
        let take = move |control: &mut Control| control.take_addresses(found, is_over);
        // Nobody to be told: the process ends.
        let _ = events.blocking_send(Event::Ask(Box::new(take)));
    };
    Names::new(names::of_system, names::CHANGE_LIMIT, tell)
}

/// What moves the control thread.
struct Events {
    asked: mpsc::Receiver<Event>,
    /// Of other processes.
    heard: mpsc::Receiver<Heard>,
}

/// Of what workers ask for in the middle of a connection, and of files that change.
fn begin_to_hear(control: &mut Control, events: mpsc::Sender<Event>, watched: Watched) {
    let asked_for = events.clone();
    control.process.inquiries.are_taken_by(move |asked| {
        // Workers wait for an answer within a bound; with this thread behind, they get none.
        let _ = asked_for.try_send(Event::Ask(Box::new(move |control: &mut Control| {
            control.issuance.answer_inquiry(asked, &control.running.configuration, &control.process);
        })));
    });
    control.watch.watch = start_watch(events);
    control.watch_files(watched);
}

/// With the ticket keys of a process before this one.
fn open_tls(state_dir: PathBuf, tickets: Option<&ExportedKeys>) -> Result<TlsProcessState, StartFault> {
    let tls = TlsProcessState::new(state_dir).map_err(|error| StartFault::Internal(error.message()))?;
    if tickets.is_some_and(|tickets| !tls.tickets.adopt(tickets)) {
        tracing::warn!("the ticket keys of the process before cannot be used; its clients make full handshakes");
    }
    Ok(tls)
}

fn first_generation(
    number: u64,
    applied: Timestamp,
    is_successor: bool,
    configuration: &Configuration,
    files: Vec<WrittenFile>,
) -> Generations {
    let origin = if is_successor { Origin::Upgrade } else { Origin::Start };
    let summary = counted(&[("site", configuration.sites.len()), ("pool", configuration.pools.len())]);
    let mut generations = Generations::default();
    generations.add(Generation { number, applied, origin, summary, files });
    generations
}

/// `1 site, 2 pools`
fn counted(things: &[(&str, usize)]) -> String {
    let one = |(name, count): &(&str, usize)| format!("{count} {name}{}", if *count == 1 { "" } else { "s" });
    things.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn set_drained(running: &Material, drained: &[(String, String)]) {
    for (pool, server) in drained {
        let Some(pool) = running.snapshot.pool_named(&PoolName(pool.as_str().into())) else { continue };
        if let Some(server) = pool.servers.iter().find(|known| *known.authority == **server) {
            server.shared.health.set_drained(true);
        }
    }
}

fn open_sockets(
    running: &Material,
    indices: &[usize],
    mut inherited: Vec<TcpListener>,
    is_successor: bool,
) -> Result<(SocketTable, crate::sockets::Prepared, Borrowed), StartFault> {
    let mut sockets = SocketTable::default();
    let listeners = &running.snapshot.listeners;
    let addresses: Vec<_> = listeners.iter().map(|listener| listener.address).collect();
    let spares = if is_successor { Vec::new() } else { ask_for_spares(&addresses) };
    let borrowed = Borrowed(spares.iter().filter_map(|socket| socket.try_clone().ok()).collect());
    inherited.extend(spares);
    let mut inherited = Inherited::new(inherited);
    let prepared = sockets.prepare(listeners, indices, &mut inherited).map_err(StartFault::Bind)?;
    for socket in inherited.into_rest() {
        if let Ok(address) = socket.local_addr() {
            tracing::warn!(%address, "a listening socket was given to this process for an address that no site has");
        }
    }
    Ok((sockets, prepared, borrowed))
}

fn open_admin(
    configuration: &Configuration,
    inherited: Option<AdminListener>,
    activation: &mut ActivationSockets,
) -> Result<AdminListener, StartFault> {
    if let Some(inherited) = inherited.filter(|inherited| inherited.is_at(&configuration.admin)) {
        return Ok(inherited);
    }
    let is_at = |(_, socket): &(String, TcpListener)| matches!(&configuration.admin, Admin::Tcp(address) if socket.local_addr().is_ok_and(|local| local == *address));
    if let Some(position) = activation.tcp.iter().position(is_at) {
        return Ok(AdminListener::Tcp(activation.tcp.swap_remove(position).1));
    }
    AdminListener::bind(&configuration.admin).map_err(|error| StartFault::Admin { admin: configuration.admin.clone(), error })
}

fn share_out(
    indices: &[usize],
    senders: Vec<AccessLogSender>,
    mut sockets: Vec<(usize, NewSocket)>,
) -> Vec<(usize, Option<AccessLogSender>, Vec<NewSocket>)> {
    let mut senders = senders.into_iter();
    let mut shares = Vec::new();
    for index in indices.iter().copied() {
        let (own, others) = sockets.into_iter().partition(|(worker, _)| *worker == index);
        sockets = others;
        let own: Vec<(usize, NewSocket)> = own;
        shares.push((index, senders.next(), own.into_iter().map(|(_, socket)| socket).collect()));
    }
    shares
}

fn start_watch(events: mpsc::Sender<Event>) -> Option<FileWatch> {
    let report = move |changed| {
        let _ = events.blocking_send(Event::FilesChanged(changed));
    };
    FileWatch::start(DEBOUNCE, report).inspect_err(|error| tracing::error!(%error, "changes of files will not be noticed")).ok()
}

impl Prepared {
    pub fn handle(&self) -> ControlHandle {
        self.handle.clone()
    }

    /// Where the admin endpoint is, and then each place that it moves to. To be taken once.
    pub fn take_admin(&mut self) -> Option<(AdminListener, mpsc::UnboundedReceiver<AdminListener>)> {
        self.admin.take()
    }

    /// Runs until a signal asks to stop and the requests in flight are done, or the drain time has passed. `admin` is
    /// served on the control thread meanwhile; `started` is called once the workers run.
    pub fn run(self, admin: impl Future<Output = ()> + 'static, started: impl FnOnce()) -> io::Result<ExitCode> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build_local(tokio::runtime::LocalOptions::default())?;
        let Prepared { mut control, mut events, workers, succession, borrowed, .. } = self;
        runtime.block_on(async move {
            let mut signals = Signals::new()?;
            control.succession.mailbox = Mailbox::open()?;
            tokio::task::spawn_local(admin);
            follow_ticket_keys(&control.tls, &control.running);
            control.workers.start(workers, &control.running.snapshot, &control.process)?;
            borrowed.keep();
            control.succession.answer_peers();
            control.look_after_all();
            control.readiness.set(ReadinessState::Ready);
            let sites = control.configuration().sites.len();
            tracing::info!(workers = control.workers.indices().len(), sites, generation = control.generation(), "ready");
            started();
            let is_successor = succession.is_some();
            if let Some(succession) = succession
                && let Err(fault) = succession.ready()
            {
                tracing::warn!(%fault, "the process before has gone already");
            }
            notify(systemd::notify_ready());
            control.store_sockets();
            // Of a successor systemd hears only when its predecessor has said who follows it.
            control.store_again_at = is_successor.then(|| Instant::now() + STORE_AGAIN);
            control.follow(&mut signals, &mut events).await;
            // All else is freed before the wait, which may last for years.
            match control.leave(&mut signals).await {
                (Some(successor), Some(mailbox)) => Ok(init::outlive(successor, &mut signals, mailbox).await),
                (Some(_), None) | (None, _) => Ok(ExitCode::SUCCESS),
            }
        })
    }
}

impl Control {
    /// Returns when the process is to stop.
    async fn follow(&mut self, signals: &mut Signals, events: &mut Events) {
        let mut renewal = tokio::time::interval(RENEWAL_PERIOD);
        let mut seconds = tokio::time::interval(SAMPLE_PERIOD);
        let mut watchdog = systemd::watchdog_interval().map(tokio::time::interval);
        let mut memory = tokio::time::interval(memory::SAMPLE_PERIOD);
        let mut certificates = tokio::time::interval(SHOW_PERIOD);
        let heard = self.followers.heard();
        renewal.tick().await;
        loop {
            tokio::select! {
                told = next_told(signals, self.succession.mailbox.as_mut()) => match told {
                    Told::Stop => return,
                    Told::ReopenLogs => {
                        self.log.reopen();
                        tracing::info!("log files reopened");
                    }
                    Told::Reload => {
                        notify(systemd::notify_reloading());
                        self.reload(Origin::Signal);
                        notify(systemd::notify_ready());
                    }
                    Told::Upgrade => self.upgrade(None, oneshot::channel().0),
                },
                _ = renewal.tick() => {
                    self.renew_certificates();
                    self.renew_users();
                }
                _ = memory.tick() => {
                    self.show_cache();
                    self.budget.look(self.running.configuration.memory, &self.process);
                }
                _ = certificates.tick() => self.show_certificates(),
                () = heard.wait() => self.take_news(),
                () = next_tick(&mut watchdog) => notify(systemd::notify_watchdog()),
                event = events.asked.recv() => match event {
                    Some(Event::Ask(question)) => question(self),
                    Some(Event::FilesChanged(changed)) => self.files_changed(&changed),
                    None => return,
                },
                Some(heard) = events.heard.recv() => match heard {
                    Heard::Peer(request) => self.answer_peer(request),
                    Heard::Successor { pid, news } => {
                        if self.hear_of_successor(pid, news) {
                            return;
                        }
                    }
                },
                _ = seconds.tick() => {
                    self.tick();
                    if self.workers.collect_ended() {
                        tracing::error!("a worker has ended unasked");
                        return;
                    }
                }
            }
        }
    }

    /// Hands the sockets over to whoever stays, and ends what is on its way. Says who has taken over.
    async fn leave(mut self, signals: &mut Signals) -> (Option<u32>, Option<Mailbox>) {
        self.issuance.stop(&self.process);
        self.ticket_sharing = None;
        self.stapling = None;
        self.succession.abandon_successor();
        let successor = self.succession.successor();
        self.readiness.set(ReadinessState::Draining);
        let handed_on = self.hand_sockets_on(successor);
        let limit = self.configuration().drain;
        tracing::info!(drain = ?limit, handed_on = handed_on.len(), "draining");
        self.workers.drain(&handed_on, limit);
        let told = ToldWhileDraining { signals, mailbox: self.succession.mailbox.as_mut(), has_successor: successor.is_some() };
        let complete = wait_for_end(&self.workers, limit + CUT_GRACE, Some(told)).await;
        if !complete {
            self.workers.abort();
            wait_for_end(&self.workers, ABORT_LIMIT, None).await;
        }
        if successor.is_none() {
            self.admin.listener.remove_file();
        }
        self.workers.join_ended();
        let logged = self.log.finish(Instant::now() + LOG_FLUSH);
        tracing::info!(complete, logged, "stopped");
        (successor, self.succession.mailbox)
    }

    /// Sockets that somebody else accepts from by now: their queues are not ours to empty.
    fn hand_sockets_on(&mut self, successor: Option<u32>) -> Vec<SocketId> {
        let spares = self.sockets.take_all();
        let name = self.succession.stop_answering();
        let is_handed_on = if let Some(pid) = successor {
            // From here on the endpoint is the successor's, and so is the name under which systemd knows the service.
            let _ = self.admin.serve.send(AdminListener::Off);
            notify(systemd::notify_main_pid(pid));
            vec![true; spares.len()]
        } else {
            notify(systemd::notify_stopping());
            offer_all(&name, &spares.iter().map(Spare::socket).collect::<Vec<_>>())
        };
        spares.iter().zip(is_handed_on).filter(|(_, handed_on)| *handed_on).map(|(spare, _)| spare.left(true).id).collect()
    }

    /// A copy of each socket with systemd, so that a crash loses no connection that waits to be accepted.
    pub(crate) fn store_sockets(&self) {
        const NAME: &str = "listeners";
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return;
        }
        use std::os::fd::AsFd;
        notify(systemd::remove_stored(NAME));
        match self.sockets.duplicates() {
            Ok(sockets) => {
                let named: Vec<_> = sockets.iter().map(|(_, _, socket)| (NAME, socket.as_fd())).collect();
                notify(systemd::store_sockets(&named));
            }
            Err(error) => tracing::warn!(%error, "the listening sockets are not stored with systemd"),
        }
    }
}

async fn next_tick(interval: &mut Option<tokio::time::Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

/// A signal, or what the first process of a container hands on.
async fn next_told(signals: &mut Signals, mailbox: Option<&mut Mailbox>) -> Told {
    match mailbox {
        None => signals.next().await,
        Some(mailbox) => tokio::select! {
            told = signals.next() => told,
            told = mailbox.next() => told,
        },
    }
}

/// Who tells a process something that drains.
struct ToldWhileDraining<'a> {
    signals: &'a mut Signals,
    /// Within a container. With a successor it is the successor's to read, and what comes here goes there.
    mailbox: Option<&'a mut Mailbox>,
    has_successor: bool,
}

impl ToldWhileDraining<'_> {
    /// Whether the drain is to be cut short.
    async fn next(&mut self) -> bool {
        match &mut self.mailbox {
            Some(mailbox) if self.has_successor => {
                mailbox.put(self.signals.next().await);
                false
            }
            mailbox => match next_told(self.signals, mailbox.as_deref_mut()).await {
                Told::Stop => true,
                Told::ReopenLogs | Told::Reload | Told::Upgrade => false,
            },
        }
    }
}

/// False when time or a signal cut it short.
async fn wait_for_end(workers: &Workers, limit: Duration, mut told: Option<ToldWhileDraining<'_>>) -> bool {
    let until = Instant::now() + limit;
    while !workers.all_ended() {
        if Instant::now() >= until {
            return false;
        }
        match &mut told {
            None => tokio::time::sleep(DRAIN_POLL).await,
            Some(told) => tokio::select! {
                () = tokio::time::sleep(DRAIN_POLL) => {}
                is_cut = told.next() => if is_cut {
                    return false;
                },
            },
        }
    }
    true
}

fn notify(outcome: io::Result<()>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "systemd cannot be told");
    }
}

/// Every connection takes a descriptor and every proxied request a second one; the soft limit of 1,024 is for programs
/// that use `select`.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
