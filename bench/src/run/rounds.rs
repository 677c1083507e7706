//! The measurements themselves: checks that a peer answers rightly, interleaved rounds, system calls, memory of idle connections.
//! A peer that fails in one of them is left out of that one and the report says why.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::content::Page;
use crate::load::meter::LoadReport;
use crate::net::Error;
use crate::procfs;
use crate::run::interrupt::Interrupt;
use crate::run::peers::PeerKind;
use crate::run::report::{IdleMemory, Measurement, Results, SystemCallCount};
use crate::run::scenario::{Placement, Scenario};
use crate::run::stage::{Running, Stage};
use crate::run::{IDLE, IDLE_CONNECTIONS, RunOptions, SYSTEM_CALLS, start_and_verify, syscalls};

/// Long enough for caches, buffers and upstream pools to be as they stay.
const WARMUP: &str = "400ms";
/// After the last idle connection is open: late tickets, timers and allocators come to rest.
const IDLE_SETTLE: Duration = Duration::from_secs(2);
/// The requests of the two loads that strace watches.
const TRACED_REQUESTS: [u64; 2] = [2_000, 12_000];

/// Every page over HTTP/1.1, and HTTP/2 where there is TLS. The generator compares each byte.
pub fn verify(stage: &Stage, running: &Running) -> Result<(), Error> {
    for page in [Page::Hello11B, Page::Html2K, Page::Html100K] {
        let arguments = ["--path", page.path(), "--connections", "4", "--requests", "100", "--duration", "10s"];
        check_clean(&stage.load(running, &arguments.map(str::to_owned))?, 100)?;
    }
    if running.kind().speaks_tls() {
        let arguments = ["--alpn", "h2", "--connections", "1", "--streams", "4", "--warmup", "0s", "--duration", "100ms"];
        check_clean(&stage.load(running, &arguments.map(str::to_owned))?, 1)?;
    }
    Ok(())
}

fn check_clean(report: &LoadReport, requests_min: u64) -> Result<(), Error> {
    match &report.first_error {
        Some(error) => Err(format!("answers wrongly: {error}").into()),
        None if report.requests < requests_min => Err(format!("answered {} of {requests_min} requests", report.requests).into()),
        None => Ok(()),
    }
}

/// A B C, A B C, …: whatever disturbs the machine for a while disturbs all alike.
pub fn measure(
    scenario: Scenario,
    options: &RunOptions,
    stage: &mut Stage,
    running: &mut [Running],
    results: &mut Results,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    for &placement in scenario.placements().iter().filter(|placement| stage.allows(**placement)).collect::<Vec<_>>() {
        eprintln!("{} {}", scenario.name(), placement.letter());
        stage.place(placement)?;
        let mut measurements: Vec<_> = running
            .iter_mut()
            .filter(|peer| takes_part(peer.kind(), scenario))
            .map(|peer| (Measurement::new(scenario, placement, peer.kind()), peer))
            .collect();
        for _ in 0..options.rounds() {
            for (measurement, peer) in &mut measurements {
                interrupt.check()?;
                if measurement.failure.is_some() {
                    continue;
                }
                let arguments = load_arguments(scenario, options, stage, peer)?;
                let outcome = stage.load(peer, &arguments).and_then(|report| peer.check_alive().map(|()| report));
                match outcome {
                    Ok(report) => measurement.rounds.push(report),
                    Err(error) => measurement.failure = Some(error.to_string()),
                }
                measurement.command.get_or_insert_with(|| arguments.join(" "));
            }
        }
        results.measurements.extend(measurements.into_iter().map(|(measurement, _)| measurement));
    }
    Ok(())
}

fn takes_part(kind: PeerKind, scenario: Scenario) -> bool {
    match kind {
        PeerKind::Tidegate => true,
        PeerKind::TidegateLogging => scenario == Scenario::AccessLog,
        PeerKind::Haproxy | PeerKind::Nginx => scenario != Scenario::AccessLog,
        PeerKind::Relay => scenario.has_floor(),
    }
}

fn load_arguments(scenario: Scenario, options: &RunOptions, stage: &Stage, peer: &Running) -> Result<Vec<String>, Error> {
    let mut arguments = scenario.load_arguments();
    let duration = format!("{}ms", options.round_time().as_millis());
    arguments.extend(["--warmup", WARMUP, "--duration", &duration].map(str::to_owned));
    arguments.extend(stage.observe(peer)?);
    Ok(arguments)
}

/// `h1-11b` under strace, for the TLS peers and the relay.
pub fn count_system_calls(
    stage: &mut Stage,
    running: &[Running],
    results: &mut Results,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    eprintln!("{SYSTEM_CALLS}");
    stage.place(Placement::OwnCore)?;
    for peer in running.iter().filter(|peer| takes_part(peer.kind(), Scenario::Http1Hello11B)) {
        interrupt.check()?;
        let count = |requests: u64| {
            let mut arguments = Scenario::Http1Hello11B.load_arguments();
            arguments.extend(["--requests".to_owned(), requests.to_string(), "--duration".to_owned(), "60s".to_owned()]);
            let load = || stage.load(peer, &arguments).map(|report| report.requests);
            syscalls::count(&peer.processes, stage.cores().generator, stage.path(), load)
        };
        let counted =
            count(TRACED_REQUESTS[0]).and_then(|shorter| Ok(syscalls::per_request(&shorter, &count(TRACED_REQUESTS[1])?)));
        let outcome = counted.map_err(|error| error.to_string());
        results.system_calls.push(SystemCallCount { peer: peer.kind(), outcome });
    }
    Ok(())
}

/// On freshly started proxies: one that has served heavy loads has memory to spare for idle connections, and would look too good.
pub fn weigh_idle_connections(stage: &Stage, results: &mut Results, interrupt: &Interrupt) -> Result<(), Error> {
    eprintln!("{IDLE}");
    let peers: Vec<_> = results.measured_peers().filter(|peer| takes_part(peer.kind, Scenario::Http2Html2K)).cloned().collect();
    for peer in peers {
        interrupt.check()?;
        let weighed = start_and_verify(stage, &peer).and_then(|running| weigh(stage, &running));
        results.idle.push(IdleMemory { peer: peer.kind, outcome: weighed.map_err(|error| error.to_string()) });
    }
    Ok(())
}

/// Resident bytes of one connection.
fn weigh(stage: &Stage, running: &Running) -> Result<f64, Error> {
    let before = procfs::resident_bytes(&running.processes)?;
    let arguments = ["--connections".to_owned(), IDLE_CONNECTIONS.to_string()];
    let mut command = stage.generator("idle", running, &arguments)?;
    let mut idle = command.stdin(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(idle.stdout.take().expect("piped")).read_line(&mut line)?;
    let held = line.trim().strip_prefix("ready ").and_then(|count| count.parse::<usize>().ok());
    sleep(IDLE_SETTLE);
    let after = procfs::resident_bytes(&running.processes);
    drop(idle.stdin.take());
    idle.wait()?;
    match held {
        Some(count) if count == IDLE_CONNECTIONS => Ok(after?.saturating_sub(before) as f64 / count as f64),
        _ => Err(format!("could not hold {IDLE_CONNECTIONS} connections").into()),
    }
}
