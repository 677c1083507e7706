//! E3: under change. Five instances behind one port get a steady load while two more come and go, three times, and while CORS headers and a
//! redirect are added and removed. What is counted is what clients see, phase by phase: any wrong answer, any connection refused or reset.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Stdio};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::experiments::grid;
use crate::experiments::round;
use crate::experiments::session::{Session, note_configuration};
use crate::net::Error;
use crate::peers::{self, Program, Setup};
use crate::procfs;
use crate::results::figure::Figure;
use crate::results::{Cell, ExperimentRecord, Flavour, Outcome, Placement};
use crate::stage::interrupt::Interrupted;
use crate::stage::probe::Probe;
use crate::stage::running::{Participant, Running};
use crate::stage::{free_address, read_report};

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

    fn is_seen(self, probe: &Probe) -> bool {
        match self {
            Change::CorsAdded | Change::CorsRemoved => {
                let seen = probe.head("/").is_ok_and(|head| head.contains("\r\naccess-control-allow-origin:"));
                seen == (self == Change::CorsAdded)
            }
            Change::RedirectAdded | Change::RedirectRemoved => {
                let Ok(head) = probe.head("/old/page") else { return false };
                let redirected = head.split(' ').nth(1).is_some_and(|status| status.starts_with('3'));
                redirected == (self == Change::RedirectAdded)
            }
        }
    }
}

const FAIRNESS: [&str; 7] = [
    "Instances are processes that share one port by SO_REUSEPORT, for every peer; the study had pods behind a Kubernetes service. A process that \
     stops takes connections that wait in its accept queue with it, unless it hands them over: here the client sees that, behind a service it mostly \
     would not.",
    "Each peer is started, changed and stopped as its own documentation says: haproxy as master-worker, SIGUSR2 to reload, SIGUSR1 to stop; nginx \
     SIGHUP and SIGQUIT; Envoy routes from a watched file, drained over its admin port before it is stopped; Caddy its reload command and SIGTERM; \
     Traefik a watched file and SIGTERM; Tidegate SIGTERM.",
    "The load is a closed loop over HTTP/1.1 as hey makes it, 250 connections from one thread or from five that know nothing of each other. The backend \
     answers 11 bytes instead of an echo.",
    "A request on a kept connection that is closed before a byte of the answer came is sent again once on a new one, as Go's client and browsers do; \
     these are counted as sent again and are no failure. Everything else is.",
    "The oldest instances leave, since they hold the connections of the load; the newest mostly would have none to lose. Nobody waits for them but the \
     last phase: what a slow leaver does to its clients may be counted in a phase after the one in which it was told to go.",
    "Configurations are the shortest ones, as controllers are shipped; access logs are as each peer has them by default.",
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
    for variant in VARIANTS {
        for program in session.programs.clone() {
            session.check()?;
            let name = program.kind.name();
            if let Err(error) = run_peer(session, record, &program, variant) {
                session.check()?;
                session.remark(record, format!("{name} in {}: {error}", variant.name));
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

    /// Stops the oldest instances gracefully, all at once, and waits for none of them. The oldest hold connections, which the newest mostly do
    /// not: the load keeps its own.
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

    fn change(&mut self, session: &Session, change: Change) -> Result<(), Error> {
        change.apply(&mut self.setup);
        self.instances.iter_mut().try_for_each(|running| running.reconfigure(&session.stage, |setup| change.apply(setup)))
    }

    fn cpu_us(&self) -> f64 {
        let processes: Vec<_> = self.instances.iter().flat_map(Running::current_processes).collect();
        procfs::cpu_ns(&processes).map_or(f64::NAN, |ns| ns as f64 / 1000.0)
    }
}

fn run_peer(session: &mut Session, record: &mut ExperimentRecord, program: &Program, variant: Variant) -> Result<(), Error> {
    let setup = Setup { shared_port: true, ..Setup::of(Flavour::OutOfTheBox) };
    let mut fleet =
        Fleet { program: program.clone(), listen: free_address()?, instances: Vec::new(), leaving: Vec::new(), setup };
    session.progress.spend(2.0, &format!("{}: starting {INSTANCES} instances", program.kind));
    for _ in 0..INSTANCES {
        fleet.add(session)?;
    }
    note_configuration(record, &fleet.instances[0]);
    let probe = Probe::new(&session.stage.path().join("ca.pem"), fleet.listen)?;
    let mut load = Load::start(session, &fleet, variant)?;
    let led = lead(session, &mut fleet, &mut load, &probe, program.kind.name());
    // Whatever happened, what was counted until then is told.
    let finished = load.finish();
    let led = led?;
    let mut cells = finished?;
    for (cell, told) in cells.iter_mut().zip(led) {
        if let (Some(round), Some(seconds)) = (cell.rounds.first_mut(), told.seconds_to_take_effect) {
            round.figures.insert(Figure::SecondsToTakeEffect, seconds);
        }
        if let (Some(round), Some(cpu)) = (cell.rounds.first_mut(), told.cpu_us.filter(|cpu| cpu.is_finite())) {
            let requests = round.figures.get(&Figure::Requests).copied().unwrap_or(0.0).max(1.0);
            round.figures.insert(Figure::CpuUsPerRequest, cpu / requests);
        }
        if let Some(reason) = told.unavailable {
            cell.rounds.clear();
            cell.outcome = Outcome::Unavailable { reason };
        }
        if let Some(remark) = told.remark {
            session.remark(record, format!("{} in {}: {remark}", cell.participant, cell.case));
        }
    }
    record.cells.extend(cells);
    Ok(())
}

/// What is known of a phase beside what the generator counts.
#[derive(Default)]
struct Told {
    seconds_to_take_effect: Option<f64>,
    /// Only while the processes stay the same; some peers replace theirs on each change.
    cpu_us: Option<f64>,
    unavailable: Option<String>,
    remark: Option<String>,
}

fn lead(session: &mut Session, fleet: &mut Fleet, load: &mut Load, probe: &Probe, name: &str) -> Result<Vec<Told>, Error> {
    let time = session.options.phase_time();
    let mut told = Vec::new();
    let phase = |session: &mut Session, load: &mut Load, title: &str| {
        session.check().map_err(|Interrupted| "interrupted")?;
        session.progress.spend(time.as_secs_f64() + 0.7, &format!("{name}: {title}"));
        load.begin_phase(title)
    };
    phase(session, load, "steady")?;
    let before = fleet.cpu_us();
    sleep(time);
    told.push(Told { cpu_us: Some(fleet.cpu_us() - before), ..Told::default() });
    for round in 1..=TIMES {
        phase(session, load, &format!("instances {INSTANCES}→{} ({round})", INSTANCES + MORE))?;
        for _ in 0..MORE {
            fleet.add(session)?;
        }
        sleep(time);
        told.push(Told::default());
        phase(session, load, &format!("instances {}→{INSTANCES} ({round})", INSTANCES + MORE))?;
        fleet.remove(MORE);
        sleep(time);
        told.push(Told::default());
    }
    for change in Change::ALL {
        phase(session, load, change.name())?;
        let began = Instant::now();
        if let Err(error) = fleet.change(session, change) {
            told.push(Told { unavailable: Some(error.to_string()), ..Told::default() });
            continue;
        }
        let effect = await_effect(change, probe, began);
        sleep(time);
        let remark = effect.is_none().then(|| format!("not seen by new connections within {EFFECT_TIME_MAX:?}"));
        told.push(Told { seconds_to_take_effect: effect, remark, ..Told::default() });
    }
    phase(session, load, LAST_LEAVE)?;
    let remark = fleet.await_leaving().join("; ");
    sleep(time);
    told.push(Told { remark: (!remark.is_empty()).then_some(remark), ..Told::default() });
    Ok(told)
}

/// When the first of enough new connections in a row saw the change.
fn await_effect(change: Change, probe: &Probe, began: Instant) -> Option<f64> {
    let mut first_seen = None;
    let mut in_a_row = 0;
    while in_a_row < PROBES_IN_A_ROW {
        if change.is_seen(probe) {
            first_seen.get_or_insert_with(|| began.elapsed().as_secs_f64());
            in_a_row += 1;
            continue;
        }
        first_seen = None;
        in_a_row = 0;
        if began.elapsed() > EFFECT_TIME_MAX {
            return None;
        }
        sleep(PROBE_PAUSE);
    }
    first_seen
}

/// A generator that is told its phases.
struct Load {
    child: Child,
    phases: Option<ChildStdin>,
    variant: Variant,
    cell: Cell,
}

impl Load {
    fn start(session: &Session, fleet: &Fleet, variant: Variant) -> Result<Load, Error> {
        let words = format!(
            "--path / --phases --connections {} --threads {} --timeout {REQUEST_TIMEOUT}",
            variant.connections, variant.generators
        );
        let arguments: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let one = &fleet.instances[0];
        let mut command = session.stage.generator("load", one, &arguments)?;
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let cell = grid::cell("", one.participant(), session.stage.placement(), &arguments);
        Ok(Load { phases: child.stdin.take(), child, variant, cell })
    }

    fn begin_phase(&mut self, name: &str) -> Result<(), Error> {
        let phases = self.phases.as_mut().ok_or("the generator has ended")?;
        writeln!(phases, "{name}").map_err(|error| format!("the generator has ended: {error}").into())
    }

    /// One cell for each phase.
    fn finish(mut self) -> Result<Vec<Cell>, Error> {
        drop(self.phases.take());
        let report = read_report(self.child.wait_with_output()?)?;
        let cell = |phase: &crate::load::PhaseReport| Cell {
            case: format!("{} | {}", self.variant.name, phase.name),
            rounds: vec![round::round(phase)],
            ..self.cell.clone()
        };
        Ok(report.phases.iter().chain(&report.whole).map(cell).collect())
    }
}
