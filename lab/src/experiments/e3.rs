//! E3: under change. Five instances behind one port get a steady load while two more come and go, three times, and
//! while CORS headers and a redirect are added and removed. What is counted is what clients see, phase by phase: any
//! wrong answer, any connection refused or reset.

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::experiments::grid;
use crate::experiments::phased::PhasedLoad;
use crate::experiments::round;
use crate::experiments::session::{Session, note_configuration};
use crate::net::Error;
use crate::peers::{self, Program, Setup};
use crate::procfs::ProcessId;
use crate::results::figure::Figure;
use crate::results::{Cell, ExperimentRecord, Flavour, Outcome, Placement};
use crate::stage::free_address;
use crate::stage::interrupt::Interrupted;
use crate::stage::probe::Probe;
use crate::stage::running::{Participant, Running};

const INSTANCES: usize = 5;
const MORE: usize = 2;
const TIMES: usize = 3;
/// What is not gone this long after its graceful stop is killed, as Kubernetes does by default.
const STOP_TIME_MAX: Duration = Duration::from_secs(30);
/// The phase that waits for the last instances to leave: some peers take ten seconds for it.
const LAST_LEAVE: &str = "last instances gone";
/// A change that is not seen by then counts as not done.
const EFFECT_TIME_MAX: Duration = Duration::from_secs(10);
/// New connections in a row that must see a change: with five instances behind the port, one that does not would show.
const PROBES_IN_A_ROW: usize = 20;
const PROBE_PAUSE: Duration = Duration::from_millis(10);
/// As hey has it.
const REQUEST_TIMEOUT: &str = "20s";

/// The study's two ways to make the same load.
#[derive(Debug, Clone, Copy)]
struct Variant {
    name: &'static str,
    generators: usize,
    connections: usize,
}

const VARIANTS: [Variant; 2] =
    [Variant { name: "1×250", generators: 1, connections: 250 }, Variant { name: "5×50", generators: 5, connections: 250 }];

/// A change of the configuration, and what a new connection sees of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    CorsAdded,
    CorsRemoved,
    RedirectAdded,
    RedirectRemoved,
}

impl Change {
    const ALL: [Change; 4] = [Change::CorsAdded, Change::CorsRemoved, Change::RedirectAdded, Change::RedirectRemoved];

    fn name(self) -> &'static str {
        match self {
            Change::CorsAdded => "cors added",
            Change::CorsRemoved => "cors removed",
            Change::RedirectAdded => "redirect added",
            Change::RedirectRemoved => "redirect removed",
        }
    }

    fn apply(self, setup: &mut Setup) {
        match self {
            Change::CorsAdded => setup.cors = true,
            Change::CorsRemoved => setup.cors = false,
            Change::RedirectAdded => setup.redirect = true,
            Change::RedirectRemoved => setup.redirect = false,
        }
    }

    /// What a new connection saw. An answer that is no right one is an error, whatever was expected.
    fn is_seen(self, probe: &Probe) -> Result<bool, Error> {
        match self {
            Change::CorsAdded | Change::CorsRemoved => {
                let head = probe.head("/")?;
                if status_of(&head) != "200" {
                    return Err(format!("status {}", status_of(&head)).into());
                }
                Ok(head.contains("\r\naccess-control-allow-origin:") == (self == Change::CorsAdded))
            }
            Change::RedirectAdded | Change::RedirectRemoved => {
                let redirected = status_of(&probe.head("/old/page")?).starts_with('3');
                Ok(redirected == (self == Change::RedirectAdded))
            }
        }
    }
}

fn status_of(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

const FAIRNESS: [&str; 9] = [
    "Instances are processes that share one port by SO_REUSEPORT, for every peer; the study had pods behind a Kubernetes service. A process that \
     stops takes connections that wait in its accept queue with it, unless it hands them over: here the client sees that, behind a service it mostly \
     would not.",
    "Each peer is started, changed and stopped as its own documentation says: haproxy as master-worker, SIGUSR2 to reload, SIGUSR1 to stop; nginx \
     SIGHUP and SIGQUIT; Envoy routes from a watched file, drained over its admin port before it is stopped; Caddy its reload command and SIGTERM; \
     Traefik a watched file and SIGTERM; Tidegate SIGHUP and SIGTERM.",
    "Tidegate applies a changed configuration in the running process and keeps its connections; haproxy and nginx start workers with it, and the old ones \
     leave. A Tidegate that stops hands its listening sockets, with what waits in them, to the others on the port. That is its default, and \
     none of the others has it between processes that were started independently.",
    "The load is a closed loop over HTTP/1.1 as hey makes it, 250 connections from one thread or from five that know nothing of each other. The backend \
     answers 11 bytes instead of an echo.",
    "A request on a kept connection that is closed before a byte of the answer came is sent again once on a new one, as Go's client and browsers do; \
     these are counted as sent again and are no failure. Everything else is.",
    "The oldest instances leave, since they hold the connections of the load; the newest mostly would have none to lose. Nobody waits for them but the \
     phase before the changes: what a slow leaver does to its clients may be counted in a phase after the one in which it was told to go.",
    "Configurations are the shortest ones, as controllers are shipped; access logs are as each peer has them by default.",
    "One pass, peer by peer: the counts have no spread, and a difference of a few is chance. Latencies and rates are judged by the steady phase: where \
     generator or backend limited it, they are withheld.",
    "The phases are shorter than the study's 30 seconds; counts are of this run and its number of requests, not of a million.",
];

pub fn run(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    record.description.push(format!(
        "{INSTANCES} instances → {} → {INSTANCES}, {TIMES} times, each followed by {:?}; then CORS headers added and removed, a redirect added and removed, \
         each followed by the same time. Under load all the while, in two variants: one generator with 250 connections, five with 50.",
        INSTANCES + MORE,
        session.options.phase_time()
    ));
    record.fairness.extend(FAIRNESS.map(str::to_owned));
    session.stage.place(Placement::OwnCores).ok();
    let steps = VARIANTS.len() * session.peers();
    for (of_variant, variant) in VARIANTS.into_iter().enumerate() {
        for (index, program) in session.programs.clone().into_iter().enumerate() {
            session.check()?;
            let name = program.name.clone();
            let number = of_variant * session.peers() + index + 1;
            session.progress.step(&format!("{name}, {}", variant.name), number, steps);
            let first = record.cells.len();
            let Err(error) = run_peer(session, record, &program, variant) else { continue };
            session.check()?;
            session.remark(record, format!("{name} in {}: {error}", variant.name));
            // What was counted before the fault stands; without any of it, the fault is the outcome.
            if record.cells.len() == first {
                let participant = Participant::Peer { program, setup: Setup::of(Flavour::OutOfTheBox) };
                let mut cell = grid::cell(&format!("{} | steady", variant.name), &participant, session.stage.placement(), &[]);
                cell.outcome = Outcome::Failed { reason: error.to_string() };
                record.cells.push(cell);
            }
        }
    }
    session.check()
}

pub fn seconds(session: &Session) -> f64 {
    let phases = (2 + 2 * TIMES + Change::ALL.len()) as f64;
    let each = phases * session.options.phase_time().as_secs_f64() + 9.0;
    (VARIANTS.len() * session.peers()) as f64 * each
}

/// The instances of one peer and the load on them.
struct Fleet {
    program: Program,
    listen: SocketAddr,
    instances: Vec<Running>,
    /// Told to stop, and on their way.
    leaving: Vec<Leaving>,
    setup: Setup,
}

struct Leaving {
    running: Running,
    /// Telling one may take as long as its drain time.
    told: JoinHandle<Result<(), String>>,
    since: Instant,
}

impl Fleet {
    fn add(&mut self, session: &Session) -> Result<(), Error> {
        let participant = Participant::Peer { program: self.program.clone(), setup: self.setup.clone() };
        self.instances.push(Running::start_on(&session.stage, participant, Some(self.listen))?);
        Ok(())
    }

    /// Stops the oldest instances gracefully, all at once, and waits for none of them. The oldest hold connections,
    /// which the newest mostly do not: the load keeps its own.
    fn remove(&mut self, count: usize) {
        let kind = self.program.kind;
        for running in self.instances.drain(..count.min(self.instances.len())) {
            let order = running.process_id().map(|process| (process, running.places().clone()));
            let tell = move || order.map_or(Ok(()), |(process, places)| peers::stop(kind, process, &places));
            self.leaving.push(Leaving { running, told: std::thread::spawn(tell), since: Instant::now() });
        }
    }

    /// Until all that were told to stop have ended. Returns what was remarkable about it.
    fn await_leaving(&mut self) -> Vec<String> {
        let mut remarks = Vec::new();
        for mut leaving in self.leaving.drain(..) {
            let left = STOP_TIME_MAX.saturating_sub(leaving.since.elapsed());
            let ended = leaving.running.await_end(left).map_err(|error| error.to_string());
            let told = leaving.told.join().unwrap_or_else(|_| Err("could not be told to stop".into()));
            remarks.extend(told.and(ended).err());
        }
        remarks.dedup();
        remarks
    }

    /// All instances at once: one after the other, the last would wait for the first.
    fn change(&mut self, session: &Session, change: Change) -> Result<(), String> {
        change.apply(&mut self.setup);
        let templates = session.stage.templates();
        std::thread::scope(|scope| {
            let order = |running| scope.spawn(move || Running::reconfigure(running, templates, |setup| change.apply(setup)));
            let orders: Vec<_> = self.instances.iter_mut().map(order).collect();
            let done = orders.into_iter().map(|order| order.join().unwrap_or_else(|_| Err("could not be told to change".into())));
            // All are waited for before the first failure is told.
            done.collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// The last words of an instance that has ended although nobody told it to.
    fn find_ended(&mut self) -> Option<String> {
        self.instances.iter_mut().find_map(|running| running.check_alive().err()).map(|error| error.to_string())
    }

    fn processes(&self) -> Vec<ProcessId> {
        self.instances.iter().flat_map(|running| running.processes().to_vec()).collect()
    }
}

fn run_peer(session: &mut Session, record: &mut ExperimentRecord, program: &Program, variant: Variant) -> Result<(), Error> {
    let setup = Setup { shared_port: true, ..Setup::of(Flavour::OutOfTheBox) };
    let listen = free_address()?;
    let mut fleet = Fleet { program: program.clone(), listen, instances: Vec::new(), leaving: Vec::new(), setup };
    session.progress.spend(2.0, &format!("{}: starting {INSTANCES} instances", program.name));
    for _ in 0..INSTANCES {
        fleet.add(session)?;
    }
    note_configuration(record, &fleet.instances[0]);
    let probe = Probe::new(&session.stage.path().join("ca.pem"), fleet.listen)?;
    let mut load = Load::start(session, &fleet, variant)?;
    session.pause(grid::WARMUP).map_err(|Interrupted| "interrupted")?;
    let mut told = Vec::new();
    let led = lead(session, &mut fleet, &mut load, &probe, &mut told);
    // Whatever happened, what was counted until then is recorded before it is told.
    let cells = load.finish()?;
    add_cells(session, record, cells, told);
    led
}

/// What is known of a phase beside what the generator counts.
#[derive(Default)]
struct Told {
    seconds_to_take_effect: Option<f64>,
    /// Probes that got no answer or a wrong one.
    failed_probes: u64,
    /// Why the instances do not have the changed configuration.
    not_changed: Option<String>,
    remarks: Vec<String>,
}

fn add_cells(session: &Session, record: &mut ExperimentRecord, mut cells: Vec<Cell>, told: Vec<Told>) {
    // Whether generator or backend were what was slow is known from the steady phase, in which the instances stay the
    // same.
    let limited = cells.first().and_then(|steady| round::limited_by(steady, session.stage.cores()));
    for (index, cell) in cells.iter_mut().enumerate() {
        if let Some(by) = &limited {
            cell.outcome = Outcome::Limited { by: by.clone() };
        }
        if index > 0 {
            // Processes come and go, and their times with them.
            for round in &mut cell.rounds {
                for spoilt in [Figure::CpuUsPerRequest, Figure::ProxyCoresBusy, Figure::ResidentMb, Figure::OtherCoresBusy] {
                    round.figures.remove(&spoilt);
                }
            }
        }
    }
    for (cell, told) in cells.iter_mut().zip(told) {
        if let Some(round) = cell.rounds.first_mut() {
            round.figures.extend(told.seconds_to_take_effect.map(|seconds| (Figure::SecondsToTakeEffect, seconds)));
            if told.failed_probes > 0 {
                *round.failures.entry("probe".into()).or_default() += told.failed_probes;
                *round.figures.entry(Figure::Failed).or_default() += told.failed_probes as f64;
            }
        }
        if let Some(reason) = told.not_changed {
            cell.outcome = Outcome::Failed { reason };
        }
        for remark in told.remarks {
            session.remark(record, format!("{} in {}: {remark}", cell.participant, cell.case));
        }
    }
    record.cells.extend(cells);
}

/// Leads the load through the phases, and notes for each begun one what is known of it.
fn lead(session: &mut Session, fleet: &mut Fleet, load: &mut Load, probe: &Probe, told: &mut Vec<Told>) -> Result<(), Error> {
    let time = session.options.phase_time();
    let name = fleet.program.name.clone();
    let mut phase = |session: &mut Session, title: &str, act: &mut dyn FnMut(&Session, &mut Told) -> Result<(), Error>| {
        session.check().map_err(|Interrupted| "interrupted")?;
        session.progress.spend(time.as_secs_f64() + 0.7, &format!("{name}: {title}"));
        load.phased.begin(title)?;
        told.push(Told::default());
        act(session, told.last_mut().expect("just pushed"))?;
        session.pause(time).map_err(|Interrupted| Error::from("interrupted"))
    };
    phase(session, "steady", &mut |_, _| Ok(()))?;
    for round in 1..=TIMES {
        phase(session, &format!("instances {INSTANCES}→{} ({round})", INSTANCES + MORE), &mut |session, _| {
            (0..MORE).try_for_each(|_| fleet.add(session))
        })?;
        phase(session, &format!("instances {}→{INSTANCES} ({round})", INSTANCES + MORE), &mut |_, told| {
            told.remarks.extend(fleet.find_ended());
            fleet.remove(MORE);
            Ok(())
        })?;
    }
    // Before anything is changed: those that leave still answer, and are not told of it.
    phase(session, LAST_LEAVE, &mut |_, told| {
        told.remarks.extend(fleet.find_ended());
        told.remarks.extend(fleet.await_leaving());
        Ok(())
    })?;
    for change in Change::ALL {
        phase(session, change.name(), &mut |session, told| {
            let began = Instant::now();
            match fleet.change(session, change) {
                Ok(()) => await_effect(session, change, probe, began, told),
                Err(not_changed) => {
                    told.not_changed = Some(not_changed);
                    Ok(())
                }
            }
        })?;
    }
    Ok(())
}

/// Until enough new connections in a row saw the change. It took effect when the first of them did.
fn await_effect(session: &Session, change: Change, probe: &Probe, began: Instant, told: &mut Told) -> Result<(), Error> {
    let mut first_seen = None;
    let mut in_a_row = 0;
    while in_a_row < PROBES_IN_A_ROW {
        match change.is_seen(probe) {
            Ok(true) => {
                first_seen.get_or_insert_with(|| began.elapsed().as_secs_f64());
                in_a_row += 1;
                continue;
            }
            Ok(false) => {}
            Err(error) => {
                if told.failed_probes == 0 {
                    told.remarks.push(format!("a new connection failed: {error}"));
                }
                told.failed_probes += 1;
            }
        }
        first_seen = None;
        in_a_row = 0;
        if began.elapsed() > EFFECT_TIME_MAX {
            told.remarks.push(format!("not seen by new connections within {EFFECT_TIME_MAX:?}"));
            return Ok(());
        }
        session.pause(PROBE_PAUSE).map_err(|Interrupted| "interrupted")?;
    }
    told.seconds_to_take_effect = first_seen;
    Ok(())
}

/// The load of a variant, told its phases.
struct Load {
    phased: PhasedLoad,
    variant: Variant,
    cell: Cell,
}

impl Load {
    fn start(session: &Session, fleet: &Fleet, variant: Variant) -> Result<Load, Error> {
        let words = format!(
            "--path / --connections {} --threads {} --timeout {REQUEST_TIMEOUT}",
            variant.connections, variant.generators
        );
        let arguments: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let one = &fleet.instances[0];
        let mut command = session.stage.generator("load", one, &arguments)?;
        command.args(session.stage.observe_processes(&fleet.processes())?);
        let cell = grid::cell("", one.participant(), session.stage.placement(), &arguments);
        Ok(Load { phased: PhasedLoad::start(command)?, variant, cell })
    }

    /// One cell for each phase.
    fn finish(self) -> Result<Vec<Cell>, Error> {
        let report = self.phased.finish()?;
        let cell = |phase: &crate::load::PhaseReport| Cell {
            case: format!("{} | {}", self.variant.name, phase.name),
            rounds: vec![round::round(phase)],
            ..self.cell.clone()
        };
        Ok(report.phases.iter().chain(&report.whole).map(cell).collect())
    }
}
