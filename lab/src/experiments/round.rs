//! From what the generator reports to a round of a cell, and the judgement whether backend or generator were what was slow. Pure.

use std::collections::BTreeMap;

use crate::load::PhaseReport;
use crate::results::figure::Figure;
use crate::results::{Cell, Cores, Outcome, Placement, Round};

/// From this share of its processors on, a part is taken for saturated: the kernel's share of interrupts is nobody's.
const SATURATED: f64 = 0.93;
/// A cell with more failures than this is no measurement of its load.
pub const FAILED_SHARE_MAX: f64 = 0.01;

pub fn round(phase: &PhaseReport) -> Round {
    let requests = phase.requests as f64;
    let seconds = phase.seconds.max(f64::MIN_POSITIVE);
    let latency = phase.latency_us;
    let mut figures = BTreeMap::from([
        (Figure::RequestsPerSecond, requests / seconds),
        (Figure::Requests, requests),
        (Figure::Failed, phase.failed() as f64),
        (Figure::Dropped, phase.dropped as f64),
        (Figure::SentAgain, phase.sent_again as f64),
        (Figure::LatencyMeanUs, latency.mean),
        (Figure::LatencyP50Us, latency.p50),
        (Figure::LatencyP75Us, latency.p75),
        (Figure::LatencyP90Us, latency.p90),
        (Figure::LatencyP95Us, latency.p95),
        (Figure::LatencyP99Us, latency.p99),
        (Figure::LatencyP999Us, latency.p99_9),
        (Figure::LatencyMaxUs, latency.max),
        (Figure::SentLateP99Us, phase.sent_late_us.p99),
        (Figure::ReceivedBytes, phase.received_bytes as f64),
        (Figure::SentBytes, phase.sent_bytes as f64),
    ]);
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

/// Why rates and latencies of this cell are not the proxy's, if so.
pub fn limited_by(cell: &Cell, cores: &Cores) -> Option<String> {
    if cell.placement == Placement::Shared {
        return Some("proxy, generator and backend share one processor".into());
    }
    let busy =
        |figure| crate::results::summary::Summary::of(cell.rounds.iter().filter_map(|round| round.figures.get(&figure).copied()));
    let busy = |figure| busy(figure).map_or(0.0, |summary| summary.median);
    let share = |used: f64, of: &[usize]| used / of.len().max(1) as f64;
    if share(busy(Figure::ProxyCoresBusy), &cores.proxy) >= SATURATED {
        return None;
    }
    let (generator, backend) = (busy(Figure::GeneratorCoresBusy), busy(Figure::BackendCoresBusy));
    if cores.proxy.iter().any(|core| cores.generator.contains(core)) {
        return Some("the proxy shares its processor with the generator".into());
    }
    let together = cores.generator.iter().any(|core| cores.backend.contains(core));
    if together && share(generator + backend, &cores.generator) >= SATURATED {
        return Some("the processor that generator and backend share was busy all the time".into());
    }
    if share(generator, &cores.generator) >= SATURATED {
        return Some("the generator's processors were busy all the time".into());
    }
    (share(backend, &cores.backend) >= SATURATED).then(|| "the backend's processors were busy all the time".into())
}

/// The outcome that the rounds of a cell add up to.
pub fn outcome(cell: &Cell, cores: &Cores) -> Outcome {
    let total = |figure| cell.rounds.iter().filter_map(|round: &Round| round.figures.get(&figure)).sum::<f64>();
    let (requests, failed) = (total(Figure::Requests), total(Figure::Failed));
    if failed > FAILED_SHARE_MAX * (requests + failed) {
        let first = cell.rounds.iter().find_map(|round| round.first_failure.clone()).unwrap_or_default();
        return Outcome::Failed {
            reason: format!("{failed:.0} of {:.0} requests failed, the first with: {first}", requests + failed),
        };
    }
    match limited_by(cell, cores) {
        Some(by) => Outcome::Limited { by },
        None => Outcome::Measured,
    }
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
        check(&shared, [0.7, 0.6, 0.38], Some("share was busy"));
        check(&shared, [0.7, 0.5, 0.2], None);
        check(&apart, [0.7, 0.97, 0.2], Some("generator's"));
        check(&apart, [0.7, 0.5, 0.99], Some("backend's"));
        let one = cell(Placement::Shared, &phase(1000, 0.4, 0.3, 0.2));
        assert!(limited_by(&one, &apart).is_some());
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
        assert!(
            matches!(with_failures(11), Outcome::Failed { reason } if reason.contains("11 of 1011") && reason.contains("reset"))
        );
    }
}
