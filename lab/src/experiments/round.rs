//! From what the generator reports to a round of a cell, and the judgement whether backend or generator were what was
//! slow. Pure.

use std::collections::BTreeMap;

use crate::load::PhaseReport;
use crate::results::figure::Figure;
use crate::results::summary::Summary;
use crate::results::{Cell, Cores, Outcome, Placement, Round};

/// From this share of its processors on, a part is taken for saturated: the kernel's share of interrupts is nobody's.
const SATURATED: f64 = 0.93;
/// Below this share of its processors a part is not at work all the time.
const WORKING: f64 = 0.8;
/// Of the 99th percentile of latency, what may be the generator's own lateness.
const LATE_SHARE_MAX: f64 = 0.5;
/// An open loop that leaves out more than this did not make its load.
const DROPPED_SHARE_MAX: f64 = 0.01;
/// Of all processors together, what others may have before a figure is doubtful. The kernel's own threads are among the
/// others.
const OTHER_CORES_BUSY_MAX: f64 = 0.2;
/// A cell with more failures than this is no measurement of its load.
pub const FAILED_SHARE_MAX: f64 = 0.01;

pub fn round(phase: &PhaseReport) -> Round {
    let requests = phase.requests as f64;
    let seconds = phase.seconds.max(f64::MIN_POSITIVE);
    let mut figures = BTreeMap::from([
        (Figure::RequestsPerSecond, requests / seconds),
        (Figure::Requests, requests),
        (Figure::Failed, phase.failed() as f64),
        (Figure::Dropped, phase.dropped as f64),
        (Figure::SentAgain, phase.sent_again as f64),
        (Figure::ReceivedBytes, phase.received_bytes as f64),
        (Figure::SentBytes, phase.sent_bytes as f64),
    ]);
    if let Some(latency) = phase.latency_us {
        figures.extend([
            (Figure::LatencyMeanUs, latency.mean),
            (Figure::LatencyP50Us, latency.p50),
            (Figure::LatencyP75Us, latency.p75),
            (Figure::LatencyP90Us, latency.p90),
            (Figure::LatencyP95Us, latency.p95),
            (Figure::LatencyP99Us, latency.p99),
            (Figure::LatencyP999Us, latency.p99_9),
            (Figure::LatencyMaxUs, latency.max),
        ]);
    }
    figures.extend(phase.sent_late_us.map(|lateness| (Figure::SentLateP99Us, lateness.p99)));
    if phase.requests > 0 {
        figures.insert(Figure::ReceivedBytesPerRequest, phase.received_bytes as f64 / requests);
        if let Some(us) = phase.cpu_us.get("proxy") {
            figures.insert(Figure::CpuUsPerRequest, us / requests);
        }
    }
    for (part, figure) in
        [("proxy", Figure::ProxyCoresBusy), ("generator", Figure::GeneratorCoresBusy), ("backend", Figure::BackendCoresBusy)]
    {
        if let Some(us) = phase.cpu_us.get(part) {
            figures.insert(figure, us / 1e6 / seconds);
        }
    }
    if phase.machine_cpu_us > 0.0 {
        let ours: f64 = phase.cpu_us.values().sum();
        figures.insert(Figure::OtherCoresBusy, ((phase.machine_cpu_us - ours) / 1e6 / seconds).max(0.0));
    }
    if let Some(bytes) = phase.resident_bytes.get("proxy").filter(|bytes| **bytes > 0) {
        figures.insert(Figure::ResidentMb, *bytes as f64 / 1e6);
    }
    if phase.handshakes > 0 {
        figures.insert(Figure::HandshakesPerSecond, phase.handshakes as f64 / seconds);
        figures.insert(Figure::ResumedShare, phase.resumed as f64 / phase.handshakes as f64);
    }
    // Numbers that are none would not survive JSON.
    figures.retain(|_, value| value.is_finite());
    Round {
        figures,
        statuses: phase.statuses.clone(),
        failures: phase.failures.clone(),
        first_failure: phase.first_failure.clone(),
    }
}

/// Whether the load waits for answers, or comes at its own rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    Closed,
    Open,
}

impl Loop {
    pub fn of(cell: &Cell) -> Loop {
        if cell.load.split(' ').any(|word| word == "--rate") { Loop::Open } else { Loop::Closed }
    }
}

/// Why rates and latencies of this cell are not the proxy's, if so.
pub fn limited_by(cell: &Cell, cores: &Cores) -> Option<String> {
    saturated(cell, cores).or_else(|| {
        let (late, p99) = (median(cell, Figure::SentLateP99Us)?, median(cell, Figure::LatencyP99Us)?);
        (late > LATE_SHARE_MAX * p99).then(|| "the generator, which sent late by more than half of the 99th percentile".into())
    })
}

/// What else than the proxy had no more to give, if so.
pub fn saturated(cell: &Cell, cores: &Cores) -> Option<String> {
    if cell.placement == Placement::Shared {
        return Some("one processor that proxy, generator and backend share".into());
    }
    let share = |figure, of: &[usize]| median(cell, figure).unwrap_or(0.0) / of.len().max(1) as f64;
    let shares = |left: &[usize], right: &[usize]| left.iter().any(|core| right.contains(core));
    if shares(&cores.proxy, &cores.generator) || shares(&cores.proxy, &cores.backend) {
        return Some("a processor that the proxy shares with the generator or the backend".into());
    }
    let proxy = share(Figure::ProxyCoresBusy, &cores.proxy);
    if proxy >= SATURATED {
        return None;
    }
    let generator = share(Figure::GeneratorCoresBusy, &cores.generator);
    let backend = share(Figure::BackendCoresBusy, &cores.backend);
    if shares(&cores.generator, &cores.backend) && generator + backend >= SATURATED {
        return Some("the processor that generator and backend share, which was busy all the time".into());
    }
    if generator >= SATURATED {
        return Some("the generator, whose processors were busy all the time".into());
    }
    if backend >= SATURATED {
        return Some("the backend, whose processors were busy all the time".into());
    }
    // Somebody is always at work in a closed loop. If it was none of us, the machine did something else.
    let somebody_worked = proxy >= WORKING || generator + backend >= WORKING;
    (Loop::of(cell) == Loop::Closed && !somebody_worked)
        .then(|| "something else on the machine: neither proxy nor generator nor backend was busy all the time".into())
}

/// The outcome that the rounds of a cell add up to.
pub fn outcome(cell: &Cell, cores: &Cores) -> Outcome {
    let total = |figure| cell.rounds.iter().filter_map(|round: &Round| round.figures.get(&figure)).sum::<f64>();
    let (requests, failed, dropped) = (total(Figure::Requests), total(Figure::Failed), total(Figure::Dropped));
    let due = requests + failed + dropped;
    if failed > FAILED_SHARE_MAX * (requests + failed) {
        let first = cell.rounds.iter().find_map(|round| round.first_failure.clone()).unwrap_or_default();
        return Outcome::Failed {
            reason: format!("{failed:.0} of {:.0} requests failed, the first with: {first}", requests + failed),
        };
    }
    let limited = limited_by(cell, cores);
    // What was never sent has no latency: percentiles of the rest would flatter.
    if dropped > DROPPED_SHARE_MAX * due && limited.is_none() {
        return Outcome::Failed { reason: format!("could not keep the rate: {dropped:.0} of {due:.0} requests were never sent") };
    }
    limited.map_or(Outcome::Measured, |by| Outcome::Limited { by })
}

/// What a reader should know of the machine while these cells were measured.
pub fn disturbance(cells: &[Cell]) -> Option<String> {
    let others: Vec<_> = cells.iter().filter_map(|cell| Some((median(cell, Figure::OtherCoresBusy)?, cell))).collect();
    let disturbed = others.iter().filter(|(other, _)| *other > OTHER_CORES_BUSY_MAX).count();
    let (most, cell) = others.iter().max_by(|(left, _), (right, _)| left.total_cmp(right))?;
    (disturbed > 0).then(|| {
        format!(
            "Other processes, or the hypervisor, had more than {OTHER_CORES_BUSY_MAX} processors in {disturbed} of {} cells, at most {most:.2} ({} in {}): \
             what was measured then is doubtful.",
            others.len(),
            cell.participant,
            cell.case
        )
    })
}

fn median(cell: &Cell, figure: Figure) -> Option<f64> {
    Summary::of(cell.rounds.iter().filter_map(|round| round.figures.get(&figure).copied())).map(|summary| summary.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Flavour;

    fn phase(requests: u64, proxy: f64, generator: f64, backend: f64) -> PhaseReport {
        let cpu = [("proxy", proxy), ("generator", generator), ("backend", backend)];
        PhaseReport {
            seconds: 2.0,
            requests,
            cpu_us: cpu.map(|(name, cores)| (name.to_owned(), cores * 2e6)).into(),
            ..PhaseReport::default()
        }
    }

    fn cell(placement: Placement, phase: &PhaseReport) -> Cell {
        Cell {
            case: "x".into(),
            participant: "nginx".into(),
            flavour: Flavour::Equalised,
            placement,
            threads: 1,
            load: String::new(),
            rounds: vec![round(phase)],
            outcome: Outcome::Measured,
        }
    }

    #[test]
    fn figures_are_per_request_and_second() {
        let figures = round(&phase(1000, 0.5, 0.2, 0.1)).figures;
        let near = |figure: Figure, expected: f64| assert!((figures[&figure] - expected).abs() < 1e-9, "{figure:?}");
        near(Figure::RequestsPerSecond, 500.0);
        near(Figure::CpuUsPerRequest, 1000.0);
        near(Figure::ProxyCoresBusy, 0.5);
        assert!(!round(&phase(0, 0.5, 0.2, 0.1)).figures.contains_key(&Figure::CpuUsPerRequest));
    }

    #[test]
    fn what_was_slow_is_named() {
        let shared = Cores { proxy: vec![1], generator: vec![0], backend: vec![0] };
        let apart = Cores { proxy: vec![2], generator: vec![1], backend: vec![0] };
        let check = |cores: &Cores, [proxy, generator, backend]: [f64; 3], expected: Option<&str>| {
            let limited = limited_by(&cell(Placement::OwnCores, &phase(1000, proxy, generator, backend)), cores);
            match (limited, expected) {
                (None, None) => {}
                (Some(by), Some(expected)) => assert!(by.contains(expected), "{by}"),
                other => panic!("{other:?}"),
            }
        };
        check(&shared, [0.99, 0.6, 0.38], None);
        check(&shared, [0.7, 0.6, 0.38], Some("share, which was busy"));
        check(&shared, [0.85, 0.5, 0.2], None);
        check(&shared, [0.4, 0.2, 0.1], Some("something else"));
        check(&Cores { backend: vec![1], ..shared.clone() }, [0.7, 0.5, 0.2], Some("shares with"));
        check(&apart, [0.7, 0.97, 0.2], Some("the generator, whose"));
        check(&apart, [0.7, 0.5, 0.99], Some("the backend, whose"));
        // An open loop leaves everybody time to rest; there it is lateness that tells.
        let open = |late: f64| {
            let mut open = cell(Placement::OwnCores, &phase(1000, 0.4, 0.2, 0.1));
            open.load = "--path /2k --rate 5000".into();
            open.rounds[0].figures.extend([(Figure::SentLateP99Us, late), (Figure::LatencyP99Us, 300.0)]);
            limited_by(&open, &shared)
        };
        assert_eq!(open(140.0), None);
        assert!(open(160.0).is_some_and(|by| by.contains("sent late")));
        let one = cell(Placement::Shared, &phase(1000, 0.4, 0.3, 0.2));
        assert!(limited_by(&one, &apart).is_some());
    }

    #[test]
    fn a_busy_machine_is_told() {
        let cell = |machine: f64| {
            cell(Placement::OwnCores, &PhaseReport { machine_cpu_us: machine * 2e6, ..phase(1000, 0.9, 0.3, 0.1) })
        };
        assert_eq!(disturbance(&[cell(1.4), cell(1.35)]), None);
        let told = disturbance(&[cell(1.4), cell(1.9)]).unwrap();
        assert!(told.contains("in 1 of 2 cells, at most 0.60 (nginx in x)"), "{told}");
    }

    #[test]
    fn a_cell_that_mostly_fails_is_no_measurement() {
        let cores = Cores { proxy: vec![2], generator: vec![1], backend: vec![0] };
        let with_failures = |failed: u64| {
            let mut phase = phase(1000, 0.9, 0.1, 0.1);
            phase.failures = [("reset".to_owned(), failed)].into();
            phase.first_failure = Some("connection reset".into());
            outcome(&cell(Placement::OwnCores, &phase), &cores)
        };
        assert_eq!(with_failures(10), Outcome::Measured);
        let with_drops =
            |dropped: u64| outcome(&cell(Placement::OwnCores, &PhaseReport { dropped, ..phase(1000, 0.9, 0.1, 0.1) }), &cores);
        assert_eq!(with_drops(10), Outcome::Measured);
        assert!(matches!(with_drops(11), Outcome::Failed { reason } if reason.contains("11 of 1011 requests were never sent")));
        assert!(
            matches!(with_failures(11), Outcome::Failed { reason } if reason.contains("11 of 1011") && reason.contains("reset"))
        );
    }
}
