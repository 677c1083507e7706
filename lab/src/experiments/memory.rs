//! Memory: resident when freshly started, for each idle TLS connection, after a load, and while connections come and
//! go.
//! On freshly started proxies: one that has served heavy loads has memory to spare for idle connections, and would look
//! too good.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::content::Page;
use crate::experiments::grid;
use crate::experiments::options::Preset;
use crate::experiments::plain::EQUALISED;
use crate::experiments::session::{Failed, Session, usual};
use crate::net::Error;
use crate::procfs;
use crate::results::figure::Figure;
use crate::results::{ExperimentRecord, Flavour, Outcome, Round};
use crate::stage::interrupt::Interrupted;
use crate::stage::running::{Participant, Running};

pub const IDLE_CONNECTIONS: usize = 5000;
/// New connections of a kind: a tenth of them with `quick`.
const HANDSHAKES: u64 = 200_000;
/// Clients that make them: few, as many as elsewhere, and a crowd.
const CLIENTS: [usize; 3] = [16, 64, 256];
/// Longer than allocators keep for later what was freed.
const REST: Duration = Duration::from_secs(15);
/// A peer that makes so few of them in a second is given up.
const HANDSHAKES_PER_SECOND_LEAST: u64 = 200;
/// What most make of them, to tell how long a run takes.
const HANDSHAKES_PER_SECOND_USUAL: f64 = 2_000.0;
/// Of handshakes, in their order.
const KINDS: [&str; 2] = ["full", "resumed"];
/// After the last idle connection is open: late tickets, timers and allocators come to rest.
const SETTLE: Duration = Duration::from_secs(2);

pub fn run(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    let connections = connections(session);
    record.description.push(format!(
        "Freshly started proxies, each time anew. Resident memory at start; growth for each of {connections} TLS connections that have made one request and rest; \
         resident memory at the end of a load of 100 KB answers, and the most there was until then. Of {} new connections, full and then resumed handshakes, from \
         {CLIENTS:?} clients: the most that was resident, and what is {} s after the last.",
        handshakes(session),
        REST.as_secs(),
    ));
    record.fairness.push(EQUALISED.to_owned());
    record.fairness.push(
        "Resident memory counts shared pages in each process: nginx, with a master and a worker, looks larger at start than it is. Growth does not have \
         this fault. Collected languages return memory late."
            .to_owned(),
    );
    weigh_all(session, record, connections)
}

pub fn seconds(session: &Session) -> f64 {
    let churn = 2.0 * handshakes(session) as f64 / HANDSHAKES_PER_SECOND_USUAL + 2.0 * REST.as_secs_f64() + 1.0;
    let still = SETTLE.as_secs_f64() + 6.0 + session.options.round_time().as_secs_f64();
    session.peers() as f64 * (still + churn * churned(session).len() as f64)
}

/// From how many clients handshakes are wanted. Full and resumed ones are made of one process, so both or none.
fn churned(session: &Session) -> Vec<usize> {
    let is_wanted = |clients: &usize| KINDS.iter().any(|kind| session.options.wants(&churn_case(kind, *clients)));
    CLIENTS.into_iter().filter(is_wanted).collect()
}

fn churn_case(kind: &str, clients: usize) -> String {
    format!("{kind} handshakes, {clients} clients")
}

fn handshakes(session: &Session) -> u64 {
    match session.options.preset {
        Preset::Quick => HANDSHAKES / 10,
        Preset::Full => HANDSHAKES,
    }
}

fn connections(session: &Session) -> usize {
    // A proxy needs one descriptor for each, and one for each upstream connection.
    IDLE_CONNECTIONS.min((session.open_files.saturating_sub(500) / 2) as usize)
}

fn weigh_all(session: &mut Session, record: &mut ExperimentRecord, connections: usize) -> Result<(), Interrupted> {
    let threads = session.threads();
    for (index, program) in session.programs.clone().into_iter().enumerate() {
        session.check()?;
        session.progress.step(&program.name, index + 1, session.peers());
        let participant = Participant::Peer { program, setup: usual(Flavour::Equalised, threads) };
        let Some(running) = session.start(record, participant) else { continue };
        let mut one = vec![running];
        grid::verify(session, record, &mut one, &[Page::Hello11B], None)?;
        let Some(running) = one.pop() else { continue };
        let placement = session.stage.placement();
        let start = Figure::ResidentAtStartMb;
        let at_start = Round { figures: [(start, running.resident_bytes_at_start() as f64 / 1e6)].into(), ..Round::default() };
        let mut cell = grid::cell("freshly started", running.participant(), placement, &[]);
        cell.rounds.push(at_start);
        record.cells.push(cell);

        session.progress.spend(SETTLE.as_secs_f64() + 4.0, &format!("{}: {connections} idle connections", running.name()));
        let mut cell = grid::cell(&format!("{connections} idle connections"), running.participant(), placement, &[]);
        match weigh_idle(session, &running, connections) {
            Ok(bytes) => {
                cell.rounds.push(Round { figures: [(Figure::IdleKibPerConnection, bytes / 1024.0)].into(), ..Round::default() });
            }
            Err(error) => cell.outcome = Outcome::Failed { reason: error.to_string() },
        }
        record.cells.push(cell);
        let participant = running.participant().clone();
        drop(running);
        if let Some(mut fresh) = session.start(record, participant.clone()) {
            after_load(session, record, &mut fresh)?;
        }
        for clients in churned(session) {
            if let Some(mut fresh) = session.start(record, participant.clone()) {
                churn(session, record, &mut fresh, clients)?;
            }
        }
    }
    Ok(())
}

fn after_load(session: &mut Session, record: &mut ExperimentRecord, running: &mut Running) -> Result<(), Interrupted> {
    let words = ["--path", "/100k", "--connections", "64"].map(str::to_owned);
    let time = session.options.round_time();
    let arguments = grid::timed(session, &words, time, grid::WARMUP);
    let mut cell = grid::cell("after 100k answers", running.participant(), session.stage.placement(), &arguments);
    match session.load(running, &arguments, time.as_secs_f64() + 0.5, "100k answers") {
        Ok(phase) => {
            let bytes = phase.resident_bytes.get("proxy").copied().unwrap_or(0);
            let mut figures = BTreeMap::from([(Figure::ResidentMb, bytes as f64 / 1e6)]);
            figures
                .extend(procfs::peak_resident_bytes(running.processes()).map(|peak| (Figure::ResidentPeakMb, peak as f64 / 1e6)));
            cell.rounds.push(Round { figures, ..Round::default() });
        }
        Err(Failed::Because(reason)) => cell.outcome = Outcome::Failed { reason },
        Err(Failed::Interrupted(stop)) => return Err(stop),
    }
    record.cells.push(cell);
    Ok(())
}

/// Full handshakes, then resumed ones, of one process; what it keeps of the first counts for the second.
fn churn(session: &mut Session, record: &mut ExperimentRecord, running: &mut Running, clients: usize) -> Result<(), Interrupted> {
    let count = handshakes(session);
    let at_start = running.resident_bytes_at_start() as f64 / 1e6;
    for kind in KINDS {
        let time = Duration::from_secs(count / HANDSHAKES_PER_SECOND_LEAST);
        let words =
            ["--path", "/11b", "--handshakes", kind, "--connections", &clients.to_string(), "--requests", &count.to_string()];
        let arguments = grid::timed(session, &words.map(str::to_owned), time, Duration::ZERO);
        let case = churn_case(kind, clients);
        let mut cell = grid::cell(&case, running.participant(), session.stage.placement(), &arguments);
        match session.load(running, &arguments, count as f64 / HANDSHAKES_PER_SECOND_USUAL, &case) {
            Ok(phase) => {
                session.progress.spend(REST.as_secs_f64(), &format!("{}: at rest", running.name()));
                sleep(REST);
                session.check()?;
                let mut figures = BTreeMap::from([(Figure::ResidentAtStartMb, at_start)]);
                let megabytes = |bytes: u64| bytes as f64 / 1e6;
                let known = [
                    (Figure::ResidentPeakMb, procfs::peak_resident_bytes(running.processes())),
                    (Figure::ResidentAfterRestMb, procfs::resident_bytes(running.processes())),
                ];
                figures.extend(known.into_iter().filter_map(|(figure, bytes)| Some((figure, megabytes(bytes.ok()?)))));
                figures.insert(Figure::Failed, phase.failed() as f64);
                cell.rounds.push(Round { figures, ..Round::default() });
            }
            Err(Failed::Because(reason)) => cell.outcome = Outcome::Failed { reason },
            Err(Failed::Interrupted(stop)) => return Err(stop),
        }
        record.cells.push(cell);
    }
    Ok(())
}

/// Resident bytes of one connection.
pub fn weigh_idle(session: &Session, running: &Running, connections: usize) -> Result<f64, Error> {
    let before = procfs::resident_bytes(running.processes())?;
    let arguments = ["--connections".to_owned(), connections.to_string()];
    let mut command = session.stage.generator("idle", running, &arguments)?;
    let mut idle = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut line = String::new();
    BufReader::new(idle.stdout.take().expect("piped")).read_line(&mut line)?;
    let held = line.trim().strip_prefix("ready ").and_then(|count| count.parse::<usize>().ok());
    sleep(SETTLE);
    let after = procfs::resident_bytes(running.processes());
    drop(idle.stdin.take());
    idle.wait()?;
    match held {
        Some(count) if count == connections => Ok(after?.saturating_sub(before) as f64 / count as f64),
        _ => Err(format!("could not hold {connections} connections").into()),
    }
}
