//! E1: the shortest configurations at a constant arrival rate, checked and judged as the study did, on a ladder of
//! rates up to where each peer breaks. Also the three tuned variants of nginx that were measured after readers had
//! complained.

use crate::content::Page;
use crate::experiments::grid::{self, WARMUP};
use crate::experiments::options::Preset;
use crate::experiments::round;
use crate::experiments::session::{Failed, Session, usual};
use crate::peers::{PeerKind, Setup, variants};
use crate::results::{Cell, ExperimentRecord, Flavour, Outcome, Placement, ladder};
use crate::stage::interrupt::Interrupted;
use crate::stage::running::{Participant, Running};

/// The study allocated 1,000 virtual users for 50,000 requests a second and allowed a hundred times as many.
const REQUESTS_PER_USER: u32 = 50;
const USERS_MIN: u32 = 20;
const USERS_GROWTH_MAX: u64 = 100;
const FAIRNESS: [&str; 5] = [
    "Out of the box means the shortest configuration that serves this task, every other setting at the peer's default: access logs, \
     upstream keep-alive and protocol versions are what each ships. That is the question of this experiment, and the reason for the next.",
    "Arrivals are constant whatever the answers do. An arrival that finds no free connection is dropped, and another connection joins in, as k6's \
     virtual users do. Latency counts from the intended start and includes connecting, which k6 leaves out.",
    "The proxy has its own processors here as it had its own machine there; generator, proxy and backend share one kernel and no network lies \
     between them, so latencies are smaller than the published ones.",
    "The generator offers TLS 1.3 with AES-128-GCM and X25519 only; k6 offers what Go offers.",
    "A rate counts as passed when the published checks hold and at least 95 % of it was answered. The study had only the checks.",
];

pub fn run(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    describe(session, record);
    let flavours: &[Flavour] = match session.options.preset {
        Preset::Quick => &[Flavour::OutOfTheBox],
        Preset::Full => &[Flavour::OutOfTheBox, Flavour::Equalised],
    };
    for &flavour in flavours {
        let threads = session.threads();
        let mut running = Vec::new();
        if flavour == Flavour::OutOfTheBox {
            running.extend(session.start(record, Participant::Backend));
        }
        running.extend(session.start_peers(record, |_| Ok(usual(flavour, threads)))?);
        climb_all(session, record, running)?;
    }
    Ok(())
}

pub fn run_nginx(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    describe(session, record);
    record.fairness.push(
        "The variants are those that readers of the study asked for: 4 kept upstream connections with `multi_accept` off and on, and none with \
         AES-128-GCM first. 4 connections are kept per worker, beyond them each request opens one."
            .to_owned(),
    );
    let Some(nginx) = session.programs.iter().find(|program| program.kind == PeerKind::Nginx).cloned() else {
        record.remarks.push("nginx is absent, so this experiment was left out.".to_owned());
        return Ok(());
    };
    let threads = session.threads();
    let untuned = usual(Flavour::OutOfTheBox, threads);
    let tuned = variants(PeerKind::Nginx, Flavour::Tuned)
        .iter()
        .map(|variant| Setup { variant: Some((*variant).to_owned()), ..usual(Flavour::Tuned, threads) });
    let mut running = Vec::new();
    for setup in [untuned].into_iter().chain(tuned) {
        running.extend(session.start(record, Participant::Peer { program: nginx.clone(), setup }));
    }
    climb_all(session, record, running)
}

pub fn seconds(session: &Session) -> f64 {
    ladder_seconds(session, session.peers() + 1)
}

pub fn seconds_nginx(session: &Session) -> f64 {
    ladder_seconds(session, 4)
}

fn ladder_seconds(session: &Session, participants: usize) -> f64 {
    let each = session.rate_time().as_secs_f64() + WARMUP.as_secs_f64() + 1.0;
    session.rates().len() as f64 * participants as f64 * each * rounds(session) as f64
}

fn rounds(session: &Session) -> usize {
    match session.options.preset {
        Preset::Quick => session.options.rounds.map_or(1, usize::from),
        Preset::Full => session.options.rounds.map_or(3, usize::from),
    }
}

fn describe(session: &Session, record: &mut ExperimentRecord) {
    let rates: Vec<_> = session.rates().iter().map(ToString::to_string).collect();
    record.description.push(format!(
        "`GET /` brings `hello world`; requests arrive at {} a second, each rate for {:?} and {} of it, over HTTP/1.1 and TLS. Passed: checks ≥ 95 %, failed < 1 %, \
         p95 < 500 ms, and 95 % of the rate answered. A peer that has broken is not asked for more.",
        rates.join(", "),
        session.rate_time(),
        match rounds(session) {
            1 => "one round".to_owned(),
            several => format!("{several} rounds"),
        }
    ));
    record.fairness.extend(FAIRNESS.map(str::to_owned));
}

/// Rate by rate, all peers that have not broken; within a rate, round by round.
fn climb_all(session: &mut Session, record: &mut ExperimentRecord, mut running: Vec<Running>) -> Result<(), Interrupted> {
    session.stage.place(Placement::OwnCores).ok();
    grid::verify(session, record, &mut running, &[Page::Root], None)?;
    for rate in session.rates() {
        let mut cells: Vec<Cell> = Vec::new();
        for _ in 0..rounds(session) {
            for participant in &mut running {
                let arguments = arguments(session, rate);
                let outcome = session.load(participant, &arguments, step_seconds(session), &format!("{rate}/s"));
                let cell = match cells.iter_mut().find(|cell| cell.participant == participant.name()) {
                    Some(cell) => cell,
                    None => {
                        let placement = session.stage.placement();
                        cells.push(grid::cell(&format!("{rate}/s"), participant.participant(), placement, &arguments));
                        cells.last_mut().expect("just pushed")
                    }
                };
                match outcome {
                    Ok(phase) => cell.rounds.push(round::round(&phase)),
                    Err(Failed::Because(reason)) => cell.outcome = Outcome::Failed { reason },
                    Err(Failed::Interrupted(stop)) => {
                        record.cells.extend(cells);
                        return Err(stop);
                    }
                }
            }
        }
        for cell in &mut cells {
            if cell.outcome == Outcome::Measured
                // Lateness of microseconds does not matter where the bound is half a second.
                && let Some(by) = round::saturated(cell, session.stage.cores())
            {
                cell.outcome = Outcome::Limited { by };
            }
        }
        running.retain(|participant| {
            let cell = cells.iter().find(|cell| cell.participant == participant.name());
            cell.is_some_and(|cell| cell.outcome == Outcome::Measured && ladder::misses(cell, f64::from(rate)).is_empty())
        });
        record.cells.extend(cells);
    }
    Ok(())
}

fn step_seconds(session: &Session) -> f64 {
    (session.rate_time() + WARMUP).as_secs_f64() + 0.3
}

fn arguments(session: &Session, rate: u32) -> Vec<String> {
    let users = (rate / REQUESTS_PER_USER).max(USERS_MIN);
    // Each takes a descriptor here and two in the proxy.
    let users_max = (u64::from(users) * USERS_GROWTH_MAX).min(session.open_files.saturating_sub(1000) / 2).max(u64::from(users));
    let words = format!("--path / --rate {rate} --connections {users} --connections-max {users_max} --timeout 60s");
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    grid::timed(session, &words, session.rate_time(), WARMUP)
}
