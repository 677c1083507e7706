//! Who is the best at what, and where Tidegate is not: what the top of a report and the README say. Pure.
//! It covers what costs something (CPU time, memory), what breaks (E1, E3), and latency under a given rate.

use crate::report::grid::{self, Grid, Row};
use crate::report::{ladder, number, under_change};
use crate::results::compare::Sample;
use crate::results::figure::{Better, Figure};
use crate::results::{Cell, ExperimentRecord, Flavour, Outcome, Report};

pub const OURS: &str = "tidegate";

/// One comparison.
pub struct Standing {
    pub experiment: String,
    pub label: String,
    pub unit: String,
    pub better: Better,
    /// Belongs to the few lines that stand at the top.
    pub main: bool,
    /// In the order of the tables.
    pub contenders: Vec<Contender>,
}

pub struct Contender {
    pub name: String,
    /// `None` if it was not measured.
    pub sample: Option<Sample>,
    /// It was not brought to its limit: the sample is what it did at least.
    pub is_at_least: bool,
    /// The value as it is written, or why there is none.
    pub text: String,
    /// The floor is nobody's rival, and neither is a variant of Tidegate.
    pub competes: bool,
}

/// Tidegate's place.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    Best,
    /// Somebody's median is better, but not beyond the noise.
    Level {
        with: String,
    },
    Behind {
        best: String,
        /// Ours to the best.
        ratio: f64,
    },
    /// Tidegate, or everybody else, was not measured, or not brought to its limit.
    Unknown,
}

/// All comparisons of a run, in the order of its experiments.
pub fn standings(report: &Report) -> Vec<Standing> {
    let mut all = Vec::new();
    for experiment in &report.experiments {
        match experiment.name.as_str() {
            "e1" => all.extend(ladder::standings(report, experiment)),
            "e3" => all.extend(under_change::standings(report, experiment)),
            _ => {}
        }
        for (flavour, grid) in grid::by_flavour(report, experiment) {
            for figure in [
                Figure::CpuUsPerRequest,
                Figure::IdleKibPerConnection,
                Figure::ResidentAtStartMb,
                Figure::ResidentPeakMb,
                Figure::LatencyP99Us,
            ] {
                let rows = grid.rows.iter().filter(|row| belongs(experiment, row, figure));
                all.extend(rows.filter_map(|row| of_row(report, experiment, flavour, &grid, row, figure)));
            }
        }
    }
    all
}

/// Memory is compared where it is the subject, latency only where everybody was offered the same rate.
fn belongs(experiment: &ExperimentRecord, row: &Row, figure: Figure) -> bool {
    match figure {
        Figure::ResidentPeakMb => experiment.name == "memory",
        Figure::LatencyP99Us => row.case.contains("open"),
        // The variants of nginx compete with each other.
        _ => experiment.name != "e1-nginx",
    }
}

fn of_row(
    report: &Report,
    experiment: &ExperimentRecord,
    flavour: Option<Flavour>,
    grid: &Grid,
    row: &Row,
    figure: Figure,
) -> Option<Standing> {
    let contenders: Vec<_> = grid.participants.iter().map(|name| contender(report, name, grid.cell(row, name), figure)).collect();
    contenders.iter().any(|contender| contender.competes && contender.sample.is_some()).then_some(())?;
    let flavour_of_main = flavour.is_none_or(|flavour| flavour == Flavour::Equalised);
    let main = match figure {
        Figure::CpuUsPerRequest => {
            let is_main = matches!(experiment.name.as_str(), "e2" | "handshake" | "http2");
            is_main && flavour_of_main && !row.case.contains("open")
        }
        Figure::LatencyP99Us => false,
        _ => experiment.name == "memory",
    };
    let label = match flavour {
        Some(flavour) if !main => format!("{}, {}", row.label, flavour.title()),
        Some(_) | None => row.label.clone(),
    };
    Some(Standing {
        experiment: experiment.name.clone(),
        label,
        unit: figure.title().to_owned(),
        better: figure.better(),
        main,
        contenders,
    })
}

fn contender(report: &Report, name: &str, cell: Option<&Cell>, figure: Figure) -> Contender {
    let sample = cell.and_then(|cell| Sample::of(cell, figure));
    let text = match (cell, sample) {
        (None, _) => "absent".to_owned(),
        (Some(_), Some(sample)) => number::figure(figure, sample.summary.median),
        (Some(cell), None) => match &cell.outcome {
            Outcome::Measured | Outcome::Limited { .. } => "–".to_owned(),
            Outcome::Failed { .. } => "failed".to_owned(),
            Outcome::Unavailable { .. } => "n/a".to_owned(),
        },
    };
    Contender { name: name.to_owned(), sample, is_at_least: false, text, competes: competes(report, name, cell) }
}

pub fn competes(report: &Report, name: &str, cell: Option<&Cell>) -> bool {
    cell.is_none_or(|cell| cell.flavour != Flavour::Floor) && report.peers.iter().any(|peer| peer.name == name)
}

impl Contender {
    /// `None` for whoever was not measured or not brought to its limit, and where the other is nothing at all.
    pub fn ratio_to(&self, other: &Contender) -> Option<f64> {
        let (ours, theirs) = (self.median()?, other.median()?);
        (theirs > 0.0 && !self.is_at_least && !other.is_at_least).then_some(ours / theirs)
    }

    fn median(&self) -> Option<f64> {
        self.sample.map(|sample| sample.summary.median)
    }
}

impl Standing {
    pub fn ours(&self) -> Option<&Contender> {
        self.contenders.iter().find(|contender| contender.name == OURS)
    }

    pub fn best(&self) -> Option<&Contender> {
        self.best_of(|_| true)
    }

    pub fn best_rival(&self) -> Option<&Contender> {
        self.best_of(|contender| contender.name != OURS)
    }

    /// Of several that are equal, the first.
    fn best_of(&self, among: impl Fn(&Contender) -> bool) -> Option<&Contender> {
        let candidates = self.contenders.iter().filter(|contender| contender.competes && among(contender));
        let measured = candidates.filter_map(|contender| Some((contender, contender.median()?)));
        let key = |value: f64| if self.better == Better::Higher { -value } else { value };
        measured.min_by(|(_, left), (_, right)| key(*left).total_cmp(&key(*right))).map(|(contender, _)| contender)
    }

    /// To the best of all.
    pub fn ratio(&self, contender: &Contender) -> Option<f64> {
        contender.ratio_to(self.best()?)
    }

    pub fn place(&self) -> Place {
        let ours = self.ours().and_then(|ours| Some((ours, ours.median()?, ours.sample?)));
        let rival = self.best_rival().and_then(|rival| Some((rival, rival.median()?, rival.sample?)));
        let (Some((us, ours, our_sample)), Some((rival, theirs, their_sample))) = (ours, rival) else { return Place::Unknown };
        let is_better = if self.better == Better::Higher { theirs > ours } else { theirs < ours };
        if is_better && us.is_at_least || !is_better && self.may_be_passed(us, ours) {
            Place::Unknown
        } else if !is_better {
            Place::Best
        } else if !their_sample.differs_from(&our_sample) {
            Place::Level { with: rival.name.clone() }
        } else {
            Place::Behind { best: rival.name.clone(), ratio: ours / theirs }
        }
    }

    /// Whether a rival that was not brought to its limit might go further. At the top of the ladder nobody can.
    fn may_be_passed(&self, us: &Contender, ours: f64) -> bool {
        let rivals = self.contenders.iter().filter(|contender| contender.competes && contender.name != OURS);
        let mut unlimited = rivals.filter(|rival| rival.is_at_least).filter_map(Contender::median);
        unlimited.any(|theirs| !us.is_at_least || theirs < ours)
    }

    /// `e2, 100k plain closed, CPU µs/request`.
    pub fn subject(&self) -> String {
        format!("{}, {}, {}", self.experiment, self.label, self.unit)
    }

    /// How far Tidegate is behind, as a sentence.
    pub fn shortfall(&self) -> Option<String> {
        let Place::Behind { best, ratio } = self.place() else { return None };
        let (ours, rival) = (&self.ours()?.text, &self.best_rival()?.text);
        let ratio = if ratio.is_finite() { format!(" (× {ratio:.2})") } else { String::new() };
        Some(format!("{}: {ours} against {rival} of {best}{ratio}", self.subject()))
    }
}
