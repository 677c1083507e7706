//! When a rate of E1 counts as passed: the published checks, and that the rate was served. One rule for the run and for
//! the report. Pure.

use crate::results::Cell;
use crate::results::figure::Figure;
use crate::results::summary::Summary;

/// As published: checks at least 95 %, failed below 1 %, 95th percentile below 500 ms.
pub const CHECKS_SHARE_MIN: f64 = 0.95;
pub const FAILED_SHARE_MAX: f64 = 0.01;
pub const P95_US_MAX: f64 = 500_000.0;
/// What the study's proxies could not do either and yet were called passing; here a rate that is not served counts as
/// broken.
pub const SERVED_SHARE_MIN: f64 = 0.95;

/// Why a rate was not passed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Miss {
    /// Share of right answers.
    Checks(f64),
    FailedShare(f64),
    P95Us(f64),
    /// Answered per second.
    Served(f64),
}

/// All reasons, over all rounds of the cell; empty when it was passed. Whether the figures are the proxy's is for the
/// caller.
pub fn misses(cell: &Cell, per_second: f64) -> Vec<Miss> {
    let values = |figure| cell.rounds.iter().filter_map(move |round| round.figures.get(&figure).copied());
    let sum = |figure| values(figure).sum::<f64>();
    let median = |figure| Summary::of(values(figure)).map(|summary| summary.median);
    let (requests, failed) = (sum(Figure::Requests), sum(Figure::Failed));
    let failed_share = if requests + failed > 0.0 { failed / (requests + failed) } else { 1.0 };
    let mut misses = Vec::new();
    if 1.0 - failed_share < CHECKS_SHARE_MIN {
        misses.push(Miss::Checks(1.0 - failed_share));
    }
    if failed_share >= FAILED_SHARE_MAX {
        misses.push(Miss::FailedShare(failed_share));
    }
    misses.extend(median(Figure::LatencyP95Us).filter(|p95| *p95 >= P95_US_MAX).map(Miss::P95Us));
    let served = median(Figure::RequestsPerSecond).unwrap_or(0.0);
    if served < SERVED_SHARE_MIN * per_second {
        misses.push(Miss::Served(served));
    }
    misses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Flavour, Outcome, Placement, Round};

    #[test]
    fn a_rate_passes_as_published_and_when_it_is_served() {
        let check = |requests: f64, failed: f64, p95: f64, expected: &[Miss]| {
            let figures = [
                (Figure::Requests, requests),
                (Figure::RequestsPerSecond, requests),
                (Figure::Failed, failed),
                (Figure::LatencyP95Us, p95),
            ];
            let cell = Cell {
                case: "1000/s".into(),
                participant: "nginx".into(),
                flavour: Flavour::OutOfTheBox,
                placement: Placement::OwnCores,
                threads: 0,
                load: String::new(),
                rounds: vec![Round { figures: figures.into(), ..Round::default() }],
                outcome: Outcome::Measured,
            };
            assert_eq!(misses(&cell, 1000.0), expected, "{requests} {failed} {p95}");
        };
        check(1000.0, 0.0, 1000.0, &[]);
        check(960.0, 5.0, 499_999.0, &[]);
        check(990.0, 10.0, 1000.0, &[Miss::FailedShare(0.01)]);
        check(1000.0, 0.0, 500_000.0, &[Miss::P95Us(500_000.0)]);
        check(940.0, 0.0, 1000.0, &[Miss::Served(940.0)]);
        check(0.0, 0.0, 0.0, &[Miss::Checks(0.0), Miss::FailedShare(1.0), Miss::Served(0.0)]);
    }
}
