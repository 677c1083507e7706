//! The start of the process: everything that can fail is done before a worker runs. How it goes on is in `run`.

use crate::additions::Additions;
use crate::company::Company;
use crate::compile::{Numbers, SharedState, gather};
use crate::confirm::Confirmation;
use crate::containers::Containers;
use crate::control::{Control, Watching};
use crate::descriptors;
use crate::discovery::Followers;
use crate::driver::Chosen;
use crate::endpoint::{AdminListener, AdminPlaces, AdminSockets};
use crate::fault::StartFault;
use crate::generations::{Generation, Generations, Origin, WrittenFile};
use crate::geo_files::{GeoFiles, ReadDatabase, gather_databases};
use crate::handle::{ControlHandle, EVENTS_MAX, Event};
use crate::history::History;
use crate::issuing::Issuance;
use crate::map_files::{GatheredMaps, MapFiles, gather_maps};
use crate::material::Material;
use crate::memory::MemoryBudget;
use crate::names::{self, Found, Names};
use crate::objects::{ObjectSource, Objects};
use crate::pools::Checkers;
use crate::renewal::Renewals;
use crate::rest::Rest;
use crate::sharing::{ask_for_spares, offer_all};
use crate::sockets::{Inherited, SocketTable};
use crate::source::{Read, Source, WatchedFiles, with_additions};
use crate::sticky::CookieKeys;
use crate::succession::{CarriedOver, Inheritance, PeerEvent, Program, Stage};
use crate::systemd::ActivationSockets;
use crate::watch::{DEBOUNCE, FileWatch};
use crate::workers::{Workers, worker_count};
use jiff::Timestamp;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_certs::{ExportedKeys, TlsProcessState};
use tidegate_cluster::Fault;
use tidegate_config::LoadMemory;
use tidegate_model::{AdminPlace, Configuration, Delta, PoolName};
use tidegate_proxy::command::NewSocket;
use tidegate_proxy::process_state::ProcessState;
use tidegate_tables::MapSet;
use tidegate_telemetry::{AccessLogSenders, AccessLogs, Readiness, Registry};
use tidegate_transport::handover::Succession;
use tokio::sync::{mpsc, watch};
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
    /// Addresses are shared with processes of another configuration.
    pub share_port: bool,
    /// SIGHUP ends it, as when its terminal is closed: there is no file to read again.
    pub ends_with_terminal: bool,
    /// Sockets and all from the process before.
    pub inheritance: Option<Inheritance>,
    /// Objects of a cluster say what is served, beside the configuration.
    pub objects: Option<ObjectSource>,
    /// What systemd opened, or kept over a crash. Asked for before any thread runs, since the environment is changed.
    pub activation: ActivationSockets,
}

/// Everything that can fail has not failed: sockets are bound, certificates loaded, logs open. Nothing runs yet.
pub struct Prepared {
    pub(crate) control: Control,
    pub(crate) events: Events,
    pub(crate) admin: Option<mpsc::UnboundedReceiver<Vec<AdminListener>>>,
    pub(crate) handle: ControlHandle,
    pub(crate) workers: Vec<(usize, Option<AccessLogSenders>, Vec<NewSocket>)>,
    pub(crate) succession: Option<Succession>,
    pub(crate) borrowed: Borrowed,
    pub(crate) ends_with_terminal: bool,
}

/// Sockets that another process could do without. Until this one accepts from them, they go back when it gives up.
#[derive(Default)]
pub(crate) struct Borrowed(Vec<TcpListener>);

impl Borrowed {
    pub fn keep(mut self) {
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
    descriptors::raise_limit();
    let StartOptions { source, memory, state_dir, version, watch, share_port, ends_with_terminal, .. } = options;
    let (inheritance, mut activation, objects) = (options.inheritance, options.activation, options.objects);
    let (configuration, containers) = with_first_containers(&read)?;
    let driver = Chosen::by(configuration.driver, worker_count(configuration.threads))?;
    let process = ProcessState::new(Arc::new(Registry::new(version)));
    let (mut inherited, inherited_admin, carried, succession) = parts_of(inheritance);
    let tls = open_tls(state_dir, carried.tickets.as_ref())?;
    process.set_state_folder(tls.state_dir());
    let indices: Vec<usize> = (0..worker_count(configuration.threads)).collect();
    let numbers = Numbers { generation: carried.generation + 1, serial: 1, workers: indices.len() };
    let (events_sender, processes, events) = Events::to_be_heard();
    let (names, cookie_keys) = (names_of_system(events_sender.clone()), CookieKeys::new(tls.state_dir().to_owned()));
    let followers = Followers::beside(containers.board());
    let objects = objects.map(|source| Objects::start(source, followers.clusters())).transpose().map_err(no_cluster)?;
    let state = SharedState { process: &process, tls: &tls, names: &names, cookie_keys: &cookie_keys, followers: &followers };
    let (running, maps, databases) = gather_first(&configuration, state, numbers)?;
    set_drained(&running, &carried.drained);
    let places = open_admin(&configuration, tls.state_dir(), inherited_admin, &mut activation)?;
    let (logs, senders) = start_logs(&configuration, &process.registry, &indices)?;
    // Last: a socket that shares its address gets connections at once, and closing it again would reset them.
    inherited.extend(listening(activation));
    let table = SocketTable::in_company(Company::of(&source, share_port));
    let (mut sockets, workers_sockets, borrowed) = open_sockets(table, &running, &indices, inherited, succession.is_some())?;
    let workers = share_out(&indices, senders, sockets.adopt(workers_sockets).map_err(out_of_descriptors)?);
    let (readiness, started) = (Arc::new(Readiness::default()), show_start(&process, numbers));
    let ((endpoints, settings), (serve, admin)) = (watch::channel(Vec::new().into()), mpsc::unbounded_channel());
    let handle = ControlHandle::new(events_sender.clone(), &process.registry, &readiness, settings);
    let generations = first_generation(numbers.generation, started, succession.is_some(), &configuration, read.files);
    let mut control = Control {
        source,
        memory: RefCell::new(memory),
        running,
        process,
        tls,
        workers: Workers::new(driver),
        sockets,
        logs,
        admin: AdminSockets::at(places, serve, endpoints),
        readiness,
        history: History::new(generations, read.written, read.of_files),
        serial: numbers.serial,
        confirmation: Confirmation::default(),
        superseded: Vec::new(),
        store_again_at: None,
        rest: Rest::after_start(std::time::Instant::now()),
        renewals: Renewals::default(),
        watch: Watching::new(watch),
        started,
        succession: Stage::new(Program::current(), processes),
        names,
        cookie_keys,
        followers,
        containers,
        objects: objects.map(RefCell::new),
        checkers: Checkers::default(),
        budget: MemoryBudget::default(),
        issuance: Issuance::default(),
        ticket_sharing: None,
        map_files: MapFiles::default(),
        geo_files: GeoFiles::default(),
        map_rows: None,
        stapling: None,
        key_fetching: None,
        log_ins: None,
    };
    share_pairs(&mut control);
    begin_to_hear(&mut control, events_sender, read.watched, (maps, databases));
    Ok(Prepared { control, events, admin: Some(admin), handle, workers, succession, borrowed, ends_with_terminal })
}

/// Where objects have certificates obtained, Secrets of theirs are to have them.
fn share_pairs(control: &mut Control) {
    if control.objects_mut().is_some_and(|objects| objects.obtains()) {
        let pairs = control.issuance.keep_pairs();
        if let Some(objects) = control.objects_mut() {
            objects.give_pairs(pairs);
        }
    }
}

/// What runs first: the configuration of the files, with what containers say by then.
fn with_first_containers(read: &Read) -> Result<(Arc<Configuration>, Containers), StartFault> {
    let mut containers = Containers::first(&read.configuration);
    let additions = Additions::of(&containers, None, &read.of_files);
    let (configuration, _) = with_additions(&read.of_files, &additions).map_err(StartFault::Internal)?;
    containers.taken_on(additions.labelled);
    Ok((Arc::new(configuration), containers))
}

/// What a process has from the one before, if there was one.
fn parts_of(inheritance: Option<Inheritance>) -> (Vec<TcpListener>, Vec<AdminListener>, CarriedOver, Option<Succession>) {
    match inheritance {
        Some(Inheritance { sockets, admin, carried, succession }) => (sockets, admin, carried, Some(succession)),
        None => (Vec::new(), Vec::new(), CarriedOver::default(), None),
    }
}

/// The sockets of socket activation. Unix sockets are descriptors that listen, as those of TCP.
fn listening(activation: ActivationSockets) -> impl Iterator<Item = TcpListener> {
    let tcp = activation.tcp.into_iter().map(|(_, socket)| socket);
    tcp.chain(activation.unix.into_iter().map(|(_, socket)| TcpListener::from(OwnedFd::from(socket))))
}

fn no_cluster(fault: Fault) -> StartFault {
    StartFault::Internal(format!("the API server {fault}"))
}

fn out_of_descriptors(error: io::Error) -> StartFault {
    StartFault::Internal(error.to_string())
}

/// By file.
type Databases = BTreeMap<PathBuf, ReadDatabase>;

/// What the configuration needs from outside, at the start.
fn gather_first(
    configuration: &Arc<Configuration>,
    state: SharedState<'_>,
    numbers: Numbers,
) -> Result<(Material, GatheredMaps, Databases), StartFault> {
    let maps = gather_maps(configuration, &MapSet::default())?;
    let databases = gather_databases(configuration, &GeoFiles::default())?;
    let delta = Delta::all_of(configuration);
    state.followers.clusters().begin(configuration.pools.iter().flat_map(|pool| &pool.discover));
    Ok((gather(configuration.clone(), &delta, None, state, numbers, Timestamp::now())?, maps, databases))
}

/// Tells metrics what starts, and says when that is.
fn show_start(process: &ProcessState, numbers: Numbers) -> Timestamp {
    let started = Timestamp::now();
    process.registry.configuration().set_generation(numbers.generation, started.as_second());
    process.registry.configuration().set_workers(numbers.workers);
    started
}

/// The access logs, and what each worker writes to them with.
fn start_logs(
    configuration: &Configuration,
    registry: &Registry,
    workers: &[usize],
) -> Result<(AccessLogs, Vec<AccessLogSenders>), StartFault> {
    let settings = &configuration.access_logs;
    let logs = AccessLogs::start(settings, registry).map_err(|(target, error)| StartFault::AccessLog { target, error })?;
    let plan = logs.plan(settings);
    let senders = workers.iter().map(|worker| AccessLogSenders::new(registry, *worker, &plan)).collect();
    Ok((logs, senders))
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
pub(crate) struct Events {
    pub asked: mpsc::Receiver<Event>,
    /// Of other processes.
    pub heard: mpsc::Receiver<PeerEvent>,
}

impl Events {
    /// Empty queues, and the ends that are written to.
    fn to_be_heard() -> (mpsc::Sender<Event>, mpsc::Sender<PeerEvent>, Self) {
        let ((events, asked), (processes, heard)) = (mpsc::channel(EVENTS_MAX), mpsc::channel(EVENTS_MAX));
        (events, processes, Self { asked, heard })
    }
}

/// Of what workers ask for in the middle of a connection, and of files that change.
fn begin_to_hear(
    control: &mut Control,
    events: mpsc::Sender<Event>,
    watched: WatchedFiles,
    (maps, databases): (GatheredMaps, Databases),
) {
    control.publish_maps(maps);
    let configuration = control.running.configuration.clone();
    control.publish_databases(&configuration, databases);
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
    mut sockets: SocketTable,
    running: &Material,
    indices: &[usize],
    mut inherited: Vec<TcpListener>,
    is_successor: bool,
) -> Result<(SocketTable, crate::sockets::PreparedSockets, Borrowed), StartFault> {
    let listeners = &running.snapshot.listeners;
    let spares = if is_successor {
        Vec::new()
    } else {
        let addresses = listeners.iter().filter_map(|listener| listener.address.tcp());
        // Those of others are refused below, where it is known what follows from that.
        ask_for_spares(&addresses.filter(|address| sockets.share((*address).into()).is_ok()).collect::<Vec<_>>())
    };
    let borrowed = Borrowed(spares.iter().filter_map(|socket| socket.try_clone().ok()).collect());
    inherited.extend(spares);
    let mut inherited = Inherited::new(inherited);
    let prepared = sockets.prepare(listeners, indices, &mut inherited).map_err(StartFault::Bind)?;
    for socket in inherited.into_rest() {
        if let Some(address) = crate::sockets::listens_on(&socket) {
            tracing::warn!(%address, "a listening socket was given to this process for an address that no site has");
        }
    }
    Ok((sockets, prepared, borrowed))
}

fn open_admin(
    configuration: &Configuration,
    state_dir: &Path,
    inherited: Vec<AdminListener>,
    activation: &mut ActivationSockets,
) -> Result<AdminPlaces, StartFault> {
    let wanted = configuration.admin.endpoints(state_dir);
    let mut given = inherited;
    let is_wanted = |(_, socket): &mut (String, TcpListener)| {
        socket.local_addr().is_ok_and(|local| wanted.iter().any(|endpoint| endpoint.place == AdminPlace::Tcp(local)))
    };
    let activated = activation.tcp.extract_if(.., is_wanted).filter_map(|(_, socket)| AdminListener::tcp(socket).ok());
    given.extend(activated);
    AdminPlaces::open(configuration, state_dir, |_| false, given)
}

fn share_out(
    indices: &[usize],
    senders: Vec<AccessLogSenders>,
    mut sockets: Vec<(usize, NewSocket)>,
) -> Vec<(usize, Option<AccessLogSenders>, Vec<NewSocket>)> {
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
