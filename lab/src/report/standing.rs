//! Who is the best at what, and where Tidegate is not: what the top of a report and the README say. Pure.
//! It covers what costs something (CPU time, memory, a start, a change), what breaks (E1, E3), and latency under a
//! given rate.

use crate::report::grid::{self, Grid, Row};
use crate::report::{ladder, number, under_change};
use crate::results::compare::Sample;
use crate::results::figure::{Better, Figure};
use crate::results::{Cell, ExperimentRecord, Flavour, Outcome, Report};

pub const OURS: &str = "tidegate";

/// Whether this is a column of Tidegate, whatever the driver and the build: none of them is another's rival.
pub fn is_ours(name: &str) -> bool {
    name.strip_prefix(OURS).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '-']))
}

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
    pub bound: Bound,
    /// The value as it is written, or why there is none.
    pub text: String,
    /// The floor is nobody's rival, and neither is a variant of Tidegate.
    pub competes: bool,
}

/// What a sample says of the true value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Exact,
    /// The proxy was not brought to its limit, or not everything was counted: the true value is this or more.
    AtLeast,
    /// There is no sample, since something else was the limit: it may be anything.
    Withheld,
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
            "e3" | "kubernetes" => all.extend(under_change::standings(report, experiment)),
            _ => {}
        }
        for (flavour, grid) in grid::by_flavour(report, experiment) {
            for figure in [
                Figure::CpuUsPerRequest,
                Figure::IdleKibPerConnection,
                Figure::ResidentAtStartMb,
                Figure::ResidentPeakMb,
                Figure::ResidentAfterRestMb,
                Figure::LatencyP99Us,
                Figure::StartMs,
                Figure::ChangeSeenMs,
                Figure::CpuMsPerChange,
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
    let contender = |name: &&str| contender(report, experiment, name, grid.find(row, name), figure);
    let contenders: Vec<_> = grid.participants.iter().map(contender).collect();
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

fn contender(
    report: &Report,
    experiment: &ExperimentRecord,
    name: &str,
    found: Result<&Cell, &'static str>,
    figure: Figure,
) -> Contender {
    let competes = competes(report, name, found.ok());
    let none = |text: &str, bound| Contender { name: name.to_owned(), sample: None, bound, text: text.to_owned(), competes };
    let cell = match found {
        Err(why) => return none(why, Bound::Exact),
        // What a request costs is compared at rates that were passed: beyond them others are answered than were asked.
        Ok(cell) if experiment.name == "e1" && matches!(cell.outcome, Outcome::Measured) && !ladder::is_passed(cell) => {
            return none("not passed", Bound::Exact);
        }
        Ok(cell) if experiment.name == "e1" && matches!(cell.outcome, Outcome::Limited { .. }) => {
            return none("limited", Bound::Exact);
        }
        Ok(cell) => cell,
    };
    match (Sample::of(cell, figure), &cell.outcome) {
        (Some(sample), _) => {
            let text = number::figure(figure, sample.summary.median);
            Contender { sample: Some(sample), ..none(&text, Bound::Exact) }
        }
        (None, Outcome::Limited { .. }) => none(grid::NOTHING, Bound::Withheld),
        (None, Outcome::Measured) => none(grid::NOTHING, Bound::Exact),
        (None, Outcome::Failed { .. }) => none("failed", Bound::Exact),
        (None, Outcome::Unavailable { .. }) => none("n/a", Bound::Exact),
    }
}

pub fn competes(report: &Report, name: &str, cell: Option<&Cell>) -> bool {
    cell.is_none_or(|cell| cell.flavour != Flavour::Floor) && report.peers.iter().any(|peer| peer.name == name)
}

impl Contender {
    /// `None` for whoever was not measured or not completely, and where the other is nothing at all.
    pub fn ratio_to(&self, other: &Contender) -> Option<f64> {
        let (ours, theirs) = (self.median()?, other.median()?);
        (theirs > 0.0 && self.bound == Bound::Exact && other.bound == Bound::Exact).then_some(ours / theirs)
    }

    fn is_at_least(&self) -> bool {
        self.bound == Bound::AtLeast
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
        self.best_of(|contender| !is_ours(&contender.name))
    }

    /// Of several that are equal, the first. Where less is better, what was not counted to its end may be more than it
    /// seems.
    fn best_of(&self, among: impl Fn(&Contender) -> bool) -> Option<&Contender> {
        let is_told = |contender: &&Contender| self.better == Better::Higher || !contender.is_at_least();
        let candidates = self.rivals().filter(|contender| among(contender)).filter(is_told);
        let measured = candidates.filter_map(|contender| Some((contender, contender.median()?)));
        let key = |value: f64| if self.better == Better::Higher { -value } else { value };
        measured.min_by(|(_, left), (_, right)| key(*left).total_cmp(&key(*right))).map(|(contender, _)| contender)
    }

    fn rivals(&self) -> impl Iterator<Item = &Contender> {
        self.contenders.iter().filter(|contender| contender.competes)
    }

    /// Whether it has the best value and nobody can have a better one, as far as the bounds tell.
    pub fn is_best(&self, contender: &Contender) -> bool {
        let Some((value, best)) = contender.median().zip(self.best().and_then(Contender::median)) else { return false };
        let is_told = self.better == Better::Higher || !contender.is_at_least();
        let is_among = contender.competes && is_told && value.total_cmp(&best).is_eq();
        is_among && !self.rivals().any(|other| other.name != contender.name && self.may_be_better(other, contender, value))
    }

    /// To the best of all, and of Tidegate's columns to the best that is none of them.
    pub fn ratio(&self, contender: &Contender) -> Option<f64> {
        let best = if is_ours(&contender.name) { self.best_rival() } else { self.best() };
        // None at all is no multiple of anything.
        contender.ratio_to(best?).filter(|ratio| *ratio > 0.0)
    }

    pub fn place(&self) -> Place {
        let ours = self.ours().and_then(|ours| Some((ours, ours.median()?, ours.sample?)));
        let rival = self.best_rival().and_then(|rival| Some((rival, rival.median()?, rival.sample?)));
        let (Some((us, ours, our_sample)), Some((rival, theirs, their_sample))) = (ours, rival) else { return Place::Unknown };
        let is_better = if self.better == Better::Higher { theirs > ours } else { theirs < ours };
        // More than we are known to have passed may be passed by us as well; more failures than were counted only make
        // it worse.
        let is_certain = !us.is_at_least() || self.better == Better::Lower;
        if is_better && is_certain && their_sample.differs_from(&our_sample) {
            return Place::Behind { best: rival.name.clone(), ratio: ours / theirs };
        }
        let mut others = self.rivals().filter(|contender| !is_ours(&contender.name));
        let may_be_worse = self.better == Better::Lower && us.is_at_least();
        if is_better && !is_certain || may_be_worse || others.any(|other| self.may_be_better(other, us, ours)) {
            Place::Unknown
        } else if is_better {
            Place::Level { with: rival.name.clone() }
        } else {
            Place::Best
        }
    }

    /// Whether a rival of which not all is known might be better than this value. At the top of the ladder nobody can
    /// go further.
    fn may_be_better(&self, other: &Contender, than: &Contender, value: f64) -> bool {
        match (other.bound, other.median()) {
            (Bound::Withheld, _) => true,
            (Bound::Exact, _) | (Bound::AtLeast, None) => false,
            (Bound::AtLeast, Some(theirs)) if self.better == Better::Higher => !than.is_at_least() || theirs < value,
            (Bound::AtLeast, Some(theirs)) => theirs < value,
        }
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
