//! Bounds that the project has set itself, and how they were kept. Pure.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Reached,
    Missed,
    /// Something that it takes was not measured.
    Unknown,
}

/// One bound and how it was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The case and placement that it is about.
    pub subject: String,
    pub figure: String,
    pub target: String,
    pub ours: Option<f64>,
    /// What ours is compared with, and whose it is; `None` for an absolute bound.
    pub reference: Option<(String, f64)>,
    pub ratio: Option<f64>,
    pub verdict: Verdict,
}

/// The smallest of what was measured, and whose it is.
pub fn better<'a>(candidates: impl IntoIterator<Item = (&'a str, Option<f64>)>) -> Option<(String, f64)> {
    let measured = candidates.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    measured.min_by(|(_, left), (_, right)| left.total_cmp(right))
}

impl Judgement {
    /// `ours` against `ratio_max` times the reference.
    pub fn relative(
        subject: &str,
        figure: &str,
        ours: Option<f64>,
        reference: Option<(String, f64)>,
        ratio_max: f64,
    ) -> Judgement {
        let ratio = match (ours, &reference) {
            (Some(ours), Some((_, reference))) if *reference > 0.0 => Some(ours / reference),
            _ => None,
        };
        let target = format!("≤ {ratio_max:.2} ×");
        Judgement {
            subject: subject.to_owned(),
            figure: figure.to_owned(),
            target,
            ours,
            reference,
            ratio,
            verdict: Verdict::of(ratio, ratio_max),
        }
    }

    /// `ours` against a fixed bound.
    pub fn absolute(subject: &str, figure: &str, ours: Option<f64>, max: f64, target: &str) -> Judgement {
        let verdict = Verdict::of(ours, max);
        Judgement {
            subject: subject.to_owned(),
            figure: figure.to_owned(),
            target: target.to_owned(),
            ours,
            reference: None,
            ratio: None,
            verdict,
        }
    }
}

impl Verdict {
    fn of(value: Option<f64>, max: f64) -> Verdict {
        match value {
            None => Verdict::Unknown,
            Some(value) if value <= max => Verdict::Reached,
            Some(_) => Verdict::Missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_peer_is_the_cheapest_that_was_measured() {
        assert_eq!(better([("a", Some(3.0)), ("b", None), ("c", Some(2.0))]), Some(("c".into(), 2.0)));
        assert_eq!(better([("a", None)]), None);
    }

    #[test]
    fn bounds_are_kept_missed_or_not_known() {
        let reference = Some(("nginx".to_owned(), 20.0));
        for (ours, reference, expected_ratio, expected) in [
            (Some(15.0), reference.clone(), Some(0.75), Verdict::Reached),
            (Some(15.1), reference.clone(), Some(0.755), Verdict::Missed),
            (None, reference, None, Verdict::Unknown),
            (Some(15.0), None, None, Verdict::Unknown),
            (Some(15.0), Some(("nginx".to_owned(), 0.0)), None, Verdict::Unknown),
        ] {
            let judgement = Judgement::relative("h1", "x", ours, reference, 0.75);
            assert_eq!((judgement.ratio, judgement.verdict), (expected_ratio, expected));
        }
        assert_eq!(Judgement::absolute("h1", "x", Some(25.0), 25.0, "").verdict, Verdict::Reached);
        assert_eq!(Judgement::absolute("h1", "x", Some(25.1), 25.0, "").verdict, Verdict::Missed);
    }
}
