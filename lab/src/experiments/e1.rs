//! E1: the shortest configurations at a constant arrival rate, checked and judged as the study did, on a ladder of rates up to where
//! each peer breaks. Also the three tuned variants of nginx that were measured after readers had complained.

use crate::content::Page;
use crate::experiments::grid::{self, WARMUP};
use crate::experiments::round;
use crate::experiments::session::{Failed, Session, usual};
use crate::peers::{PeerKind, Setup, variants};
use crate::results::{Cell, ExperimentRecord, Flavour, Outcome, Placement};
use crate::stage::interrupt::Interrupted;
use crate::stage::running::{Participant, Running};

/// The study allocated 1,000 virtual users for 50,000 requests a second and allowed a hundred times as many.
const REQUESTS_PER_USER: u32 = 50;
const USERS_MIN: u32 = 20;
const USERS_GROWTH_MAX: u64 = 100;
/// As published: checks at least 95 %, failed below 1 %, 95th percentile below 500 ms.
const CHECKS_SHARE_MIN: f64 = 0.95;
const FAILED_SHARE_MAX: f64 = 0.01;
const P95_US_MAX: f64 = 500_000.0;
/// What the study's proxies could not do either and yet were called passing; here a rate that is not served counts as broken.
const SERVED_SHARE_MIN: f64 = 0.95;

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
        crate::experiments::options::Preset::Quick => &[Flavour::OutOfTheBox],
        crate::experiments::options::Preset::Full => &[Flavour::OutOfTheBox, Flavour::Equalised],
    };
    for &flavour in flavours {
        let cores = session.threads();
        let mut running = Vec::new();
        if flavour == Flavour::OutOfTheBox {
            running.extend(session.start(record, Participant::Backend));
        }
        running.extend(session.start_peers(record, |_| Ok(usual(flavour, cores)))?);
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
    let cores = session.threads();
    let untuned = usual(Flavour::OutOfTheBox, cores);
    let tuned = variants(PeerKind::Nginx, Flavour::Tuned)
        .iter()
        .map(|variant| Setup { variant: Some((*variant).to_owned()), ..usual(Flavour::Tuned, cores) });
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
        crate::experiments::options::Preset::Quick => session.options.rounds.unwrap_or(1),
        crate::experiments::options::Preset::Full => session.options.rounds.unwrap_or(3),
    }
}

fn describe(session: &Session, record: &mut ExperimentRecord) {
    let rates: Vec<_> = session.rates().iter().map(ToString::to_string).collect();
    record.description.push(format!(
        "`GET /` brings `hello world`; requests arrive at {} a second, each rate for {:?}, over HTTP/1.1 and TLS. Passed: checks ≥ 95 %, failed < 1 %, \
         p95 < 500 ms, and 95 % of the rate answered. A peer that has broken is not asked for more.",
        rates.join(", "),
        session.rate_time()
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
                if let Some(last) = cell.rounds.last() {
                    // Shown at once: the ladder is what takes long.
                    let passed = passes(last, rate);
                    session
                        .progress
                        .spend(0.0, &format!("{} at {rate}/s: {}", participant.name(), if passed { "passed" } else { "broken" }));
                }
            }
        }
        for cell in &mut cells {
            if cell.outcome == Outcome::Measured
                && let Some(by) = round::limited_by(cell, session.stage.cores())
            {
                cell.outcome = Outcome::Limited { by };
            }
        }
        running.retain(|participant| {
            let cell = cells.iter().find(|cell| cell.participant == participant.name());
            cell.is_some_and(|cell| {
                matches!(cell.outcome, Outcome::Measured) && cell.rounds.iter().any(|round| passes(round, rate))
            })
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

/// The published checks, and that the rate was served.
fn passes(round: &crate::results::Round, rate: u32) -> bool {
    use crate::results::figure::Figure;
    let figure = |figure| round.figures.get(&figure).copied().unwrap_or(0.0);
    let (requests, failed) = (figure(Figure::Requests), figure(Figure::Failed));
    let checked = requests / (requests + failed).max(1.0);
    checked >= CHECKS_SHARE_MIN
        && 1.0 - checked < FAILED_SHARE_MAX
        && figure(Figure::LatencyP95Us) < P95_US_MAX
        && figure(Figure::RequestsPerSecond) >= SERVED_SHARE_MIN * f64::from(rate)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::load::PhaseReport;
    use crate::load::tally::Latency;

    #[test]
    fn a_rate_passes_as_published_and_when_it_is_served() {
        let check = |requests: u64, failed: u64, p95: f64, expected: bool| {
            let phase = PhaseReport {
                seconds: 1.0,
                requests,
                failures: BTreeMap::from([("reset".to_owned(), failed)]),
                latency_us: Latency { p95, ..Latency::default() },
                ..PhaseReport::default()
            };
            assert_eq!(passes(&round::round(&phase), 1000), expected, "{requests} {failed} {p95}");
        };
        check(1000, 0, 1000.0, true);
        check(960, 5, 499_999.0, true);
        check(1000, 11, 1000.0, false);
        check(1000, 0, 500_000.0, false);
        check(940, 0, 1000.0, false);
        check(0, 0, 0.0, false);
    }
}
