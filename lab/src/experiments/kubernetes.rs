//! E3 in a cluster: the real control plane of Kubernetes, pods in network namespaces, and controllers that read the
//! same Ingresses, one after the other. Backends and replicas of the controller come and go, CORS headers and a
//! redirect are put on and taken off, and every answer that clients get is counted, phase by phase.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::experiments::grid;
use crate::experiments::phased::PhasedLoad;
use crate::experiments::round;
use crate::experiments::session::Session;
use crate::net::Error;
use crate::peers::{PeerKind, Program, Setup};
use crate::results::figure::Figure;
use crate::results::{Cell, Configuration, ExperimentRecord, Flavour, Outcome};
use crate::stage::child;
use crate::stage::cluster::{self, Cluster, Pods};
use crate::stage::interrupt::Interrupted;
use crate::stage::probe::Probe;
use crate::stage::running::Participant;

const FEWER: usize = 5;
const MORE: usize = 7;
const TIMES: usize = 3;
/// A change that is not seen by then counts as not done.
const EFFECT_TIME_MAX: Duration = Duration::from_secs(20);
/// New connections in a row that must see a change: with five replicas behind the address, one that does not would
/// show.
const PROBES_IN_A_ROW: usize = 30;
const PROBE_PAUSE: Duration = Duration::from_millis(10);
/// The study's two ways to make the same load.
const VARIANTS: [(&str, usize); 2] = [("1×250", 1), ("5×50", 5)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Scaled(Pods, usize),
    Cors(bool),
    Redirect(bool),
}

/// All of a variant, in order.
fn steps() -> Vec<(String, Step)> {
    let mut steps = Vec::new();
    for (pods, what) in [(Pods::Backends, "backends"), (Pods::Proxies, "replicas")] {
        for time in 1..=TIMES {
            steps.push((format!("{what} {FEWER}→{MORE} ({time})"), Step::Scaled(pods, MORE)));
            steps.push((format!("{what} {MORE}→{FEWER} ({time})"), Step::Scaled(pods, FEWER)));
        }
    }
    for (name, step) in [
        ("cors added", Step::Cors(true)),
        ("cors removed", Step::Cors(false)),
        ("redirect added", Step::Redirect(true)),
        ("redirect removed", Step::Redirect(false)),
    ] {
        steps.push((name.to_owned(), step));
    }
    steps
}

const FAIRNESS: [&str; 8] = [
    "The API server, etcd and the controllers are Kubernetes' own, built from its modules. The node is the lab's: pods are processes in network \
     namespaces on a bridge, readiness is asked every 25 ms, an end is SIGTERM, the time of grace (60 s), SIGKILL.",
    "Clients go to the address of the controller's Service. nftables lead each new connection to one of its ready endpoints, as kube-proxy does, and look \
     for changes every 50 ms; connections that stand stay where they are.",
    "All controllers read the same objects: Ingresses of the class of ingress-nginx with its annotations. Traefik has a provider for these, which its version \
     calls experimental; it is started with that and nothing else beside entry points and ping.",
    "Each is set up as its own chart does as far as it matters here; both have all rights in the cluster.",
    "The oldest pods leave, by the annotation that Kubernetes has for it, since they hold the connections of the load. A backend serves on for 3 s after SIGTERM, \
     as with the usual preStop sleep, and ends then with whatever it has.",
    "The load is a closed loop over HTTP/1.1 with TLS as hey makes it, 250 connections from one thread or from five. The backend answers 11 bytes.",
    "A request on a kept connection that is closed before a byte of the answer came is sent again once on a new one, as Go's client and browsers do; \
     these are counted as sent again and are no failure. Everything else is.",
    "Controllers, backends and the control plane share the processors that the generator leaves, on a small machine all of them, so rates and latencies \
     say how the machine is shared. The counts of wrong answers are what this is for; one pass, so a difference of a few is chance.",
];

pub fn run(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    record.description.push(format!(
        "{FEWER} replicas of a controller before {FEWER} pods. Backends {FEWER} → {MORE} → {FEWER}, {TIMES} times; replicas {FEWER} → {MORE} → {FEWER}, {TIMES} \
         times; CORS headers and a redirect added and removed; each change followed by {:?} of load. In two variants: one generator with 250 connections, five \
         with 50.",
        session.options.phase_time()
    ));
    record.fairness.extend(FAIRNESS.map(str::to_owned));
    let programs: Vec<Program> = session.builds();
    let (fit, unfit): (Vec<Program>, Vec<Program>) = programs.into_iter().partition(|one| cluster::unfit(one.kind).is_none());
    for program in unfit {
        record.remarks.extend(cluster::unfit(program.kind).map(|why| format!("{} is left out: {why}.", program.name)));
    }
    let started = Cluster::start(&fit, FEWER, session.stage.path());
    let mut cluster = match started {
        Ok(Some(cluster)) => cluster,
        Ok(None) => {
            session.remark(record, "There is no control plane: `cargo xtask kubernetes build` builds one.".to_owned());
            return session.check();
        }
        Err(error) => {
            session.remark(record, format!("the cluster does not start: {error}"));
            return session.check();
        }
    };
    for variant in VARIANTS {
        for program in &fit {
            session.check()?;
            record.configurations.extend(configuration(program, record));
            let first = record.cells.len();
            let Err(error) = run_peer(session, record, &mut cluster, program, variant) else { continue };
            session.check()?;
            session.remark(record, format!("{} in {}: {error}", program.name, variant.0));
            if record.cells.len() == first {
                let mut cell =
                    grid::cell(&format!("{} | steady", variant.0), &participant(program), session.stage.placement(), &[]);
                cell.outcome = Outcome::Failed { reason: error.to_string() };
                record.cells.push(cell);
            }
        }
    }
    session.check()
}

pub fn seconds(session: &Session) -> f64 {
    let fit = session.builds().iter().filter(|program| cluster::unfit(program.kind).is_none()).count();
    let each = (1 + steps().len()) as f64 * (session.options.phase_time().as_secs_f64() + 3.0) + 30.0;
    (VARIANTS.len() * fit) as f64 * each + 20.0
}

fn participant(program: &Program) -> Participant {
    Participant::Peer { program: program.clone(), setup: Setup::of(Flavour::OutOfTheBox) }
}

fn configuration(program: &Program, record: &ExperimentRecord) -> Option<Configuration> {
    let (arguments, _) = cluster::arguments(program.kind);
    let name = match program.kind {
        PeerKind::Traefik => "traefik",
        _ => "tidegate",
    };
    let configuration = Configuration {
        participant: program.name.clone(),
        flavour: Flavour::OutOfTheBox,
        command: format!("{name} {}", arguments.join(" ")),
        files: Vec::new(),
        note: "The Ingresses and everything else are the same for all; see `lab/src/stage/cluster.rs`.".to_owned(),
    };
    (!record.configurations.contains(&configuration)).then_some(configuration)
}

fn run_peer(
    session: &mut Session,
    record: &mut ExperimentRecord,
    cluster: &mut Cluster,
    program: &Program,
    variant: (&str, usize),
) -> Result<(), Error> {
    session.progress.spend(10.0, &format!("{}, {}: {FEWER} replicas", program.name, variant.0));
    let outcome = cluster.deploy(program, FEWER).and_then(|address| measure(session, record, cluster, program, variant, address));
    // The next one begins as this one did, whatever happened.
    let _ = cluster.set_cors(false);
    let _ = cluster.set_redirect(false);
    cluster.scale(Pods::Backends, FEWER)?;
    cluster.await_pods(Pods::Backends, FEWER)?;
    cluster.remove()?;
    outcome
}

fn measure(
    session: &mut Session,
    record: &mut ExperimentRecord,
    cluster: &Cluster,
    program: &Program,
    (name, generators): (&str, usize),
    address: SocketAddr,
) -> Result<(), Error> {
    let probe = Probe::new(&session.stage.path().join("ca.pem"), address)?;
    let began = Instant::now();
    while !probe.head("/").is_ok_and(|head| head.starts_with("http/1.1 200")) {
        if began.elapsed() > EFFECT_TIME_MAX {
            return Err("it does not serve the Ingress".into());
        }
        session.pause(PROBE_PAUSE).map_err(|Interrupted| "interrupted")?;
    }
    let words = format!("--path / --connections 250 --threads {generators} --timeout 20s");
    let arguments: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let mut command = child::pinned(session.stage.cores_of_generator(), &std::env::current_exe()?)?;
    command.args(["load", "--to", &address.to_string(), "--ca"]).arg(session.stage.path().join("ca.pem")).args(&arguments);
    let list = |pods: Pods| cluster.processes(pods).iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    command.arg(format!("--observe=proxy={}", list(Pods::Proxies))).arg(format!("--observe=backend={}", list(Pods::Backends)));
    let mut load = PhasedLoad::start(command)?;
    session.pause(grid::WARMUP).map_err(|Interrupted| "interrupted")?;
    let mut told = Vec::new();
    let led = lead(session, cluster, &mut load, &probe, program, &mut told);
    // Whatever happened, what was counted until then is recorded before it is told.
    let report = load.finish()?;
    let cell = grid::cell("", &participant(program), session.stage.placement(), &arguments);
    let phases = report.phases.iter().chain(&report.whole);
    let mut cells: Vec<Cell> = phases
        .map(|phase| Cell { case: format!("{name} | {}", phase.name), rounds: vec![round::round(phase)], ..cell.clone() })
        .collect();
    for (index, cell) in cells.iter_mut().enumerate().skip(1) {
        // Processes come and go, and their times with them.
        for round in &mut cell.rounds {
            for spoilt in [Figure::CpuUsPerRequest, Figure::ProxyCoresBusy, Figure::ResidentMb, Figure::OtherCoresBusy] {
                round.figures.remove(&spoilt);
            }
            round.figures.extend(told.get(index).copied().flatten().map(|seconds| (Figure::SecondsToTakeEffect, seconds)));
        }
    }
    record.cells.extend(cells);
    if let Some(fault) = cluster.fault() {
        session.remark(record, format!("{} in {name}: the cluster itself: {fault}", program.name));
    }
    led
}

/// Leads the load through the phases, and notes for each begun one how long its change took to be seen everywhere.
fn lead(
    session: &mut Session,
    cluster: &Cluster,
    load: &mut PhasedLoad,
    probe: &Probe,
    program: &Program,
    told: &mut Vec<Option<f64>>,
) -> Result<(), Error> {
    let time = session.options.phase_time();
    let interrupted = |Interrupted| Error::from("interrupted");
    load.begin("steady")?;
    told.push(None);
    session.pause(time).map_err(interrupted)?;
    for (title, step) in steps() {
        session.check().map_err(interrupted)?;
        session.progress.spend(time.as_secs_f64() + 3.0, &format!("{}: {title}", program.name));
        load.begin(&title)?;
        told.push(None);
        let began = Instant::now();
        match step {
            Step::Scaled(pods, count) => {
                cluster.scale(pods, count)?;
                if count == MORE {
                    cluster.await_pods(pods, count)?;
                }
                session.pause(time).map_err(interrupted)?;
                // Who leaves takes its time, and belongs to this phase.
                cluster.await_pods(pods, count)?;
            }
            Step::Cors(is_on) => {
                cluster.set_cors(is_on)?;
                let is_seen = || Ok(probe.head("/")?.contains("\r\naccess-control-allow-origin:") == is_on);
                *told.last_mut().expect("just pushed") = await_effect(session, began, is_seen)?;
                session.pause(time).map_err(interrupted)?;
            }
            Step::Redirect(is_on) => {
                cluster.set_redirect(is_on)?;
                let is_seen = || Ok(probe.head("/old/page")?.starts_with("http/1.1 3") == is_on);
                *told.last_mut().expect("just pushed") = await_effect(session, began, is_seen)?;
                session.pause(time).map_err(interrupted)?;
            }
        }
    }
    Ok(())
}

/// Until enough new connections in a row saw the change; it took effect when the first of them did. `None`: it did not.
fn await_effect(session: &Session, began: Instant, is_seen: impl Fn() -> Result<bool, Error>) -> Result<Option<f64>, Error> {
    let (mut first_seen, mut in_a_row) = (None, 0);
    while in_a_row < PROBES_IN_A_ROW {
        // A probe that fails is none that has seen it.
        if is_seen().unwrap_or(false) {
            first_seen.get_or_insert_with(|| began.elapsed().as_secs_f64());
            in_a_row += 1;
            continue;
        }
        (first_seen, in_a_row) = (None, 0);
        if began.elapsed() > EFFECT_TIME_MAX {
            return Ok(None);
        }
        session.pause(PROBE_PAUSE).map_err(|Interrupted| "interrupted")?;
    }
    Ok(first_seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_changes_is_changed_back() {
        let steps = steps();
        assert_eq!(steps.len(), 4 * TIMES + 4);
        let last = |pods: Pods| {
            steps.iter().rev().find_map(|(_, step)| match step {
                Step::Scaled(of, count) if *of == pods => Some(*count),
                _ => None,
            })
        };
        assert_eq!((last(Pods::Backends), last(Pods::Proxies)), (Some(FEWER), Some(FEWER)));
        assert_eq!(steps.last().map(|(name, _)| name.as_str()), Some("redirect removed"));
    }
}
