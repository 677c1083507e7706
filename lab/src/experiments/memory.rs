//! Memory: resident when freshly started, for each idle TLS connection, and after a load.
//! On freshly started proxies: one that has served heavy loads has memory to spare for idle connections, and would look
//! too good.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::content::Page;
use crate::experiments::grid;
use crate::experiments::plain::EQUALISED;
use crate::experiments::session::{Failed, Session, usual};
use crate::net::Error;
use crate::procfs;
use crate::results::figure::Figure;
use crate::results::{ExperimentRecord, Flavour, Outcome, Round};
use crate::stage::interrupt::Interrupted;
use crate::stage::running::{Participant, Running};

pub const IDLE_CONNECTIONS: usize = 5000;
/// After the last idle connection is open: late tickets, timers and allocators come to rest.
const SETTLE: Duration = Duration::from_secs(2);

pub fn run(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    let connections = connections(session);
    record.description.push(format!(
        "Freshly started proxies, each time anew. Resident memory at start; growth for each of {connections} TLS connections that have made one request and rest; \
         resident memory at the end of a load of 100 KB answers, and the most there was until then."
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
    session.peers() as f64 * (SETTLE.as_secs_f64() + 6.0 + session.options.round_time().as_secs_f64())
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
        if let Some(mut fresh) = session.start(record, participant) {
            after_load(session, record, &mut fresh)?;
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
