//! Two runs side by side: what became better or worse beyond the noise, what appeared, vanished or broke.
//! The same rule of noise says in a report who is level with whom.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use crate::net::Error;
use crate::results::figure::{Better, Figure};
use crate::results::summary::Summary;
use crate::results::{Cell, Flavour, Outcome, PeerState, Placement, Report};

/// Medians closer than this, as a share of the old one, are the same.
const CHANGE_MIN: f64 = 0.03;
/// Where one side has a single round, nobody knows its spread.
const CHANGE_MIN_OF_ONE_ROUND: f64 = 0.10;

/// How often rounds of the same do not reach into each other: 2 × 3! × 3! / 6!, and 2 × 5! × 5! / 10!.
const BY_CHANCE: &str = "With three rounds on each side about one in ten unchanged figures differs by chance, with five about one in a hundred: \
                         repeat before you believe a small change.\n";

/// Shows what changed between two runs, beyond the noise.
#[derive(Debug, Args)]
pub struct CompareOptions {
    /// The `report.json` of the earlier run.
    pub old: PathBuf,
    /// The `report.json` of the later run.
    pub new: PathBuf,
    /// Lists what did not change as well.
    #[arg(long)]
    pub all: bool,
}

/// A figure of one cell, and of how many rounds it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    pub summary: Summary,
    pub rounds: usize,
}

pub fn run(options: &CompareOptions) -> Result<(), Error> {
    let (old, new) = (Report::read(&options.old)?, Report::read(&options.new)?);
    print!("{}", compare(&old, &new, options.all));
    Ok(())
}

impl Sample {
    /// `None` if it was not measured or is withheld.
    pub fn of(cell: &Cell, figure: Figure) -> Option<Sample> {
        let rounds = cell.rounds.iter().filter(|round| round.figures.contains_key(&figure)).count();
        Some(Sample { summary: cell.summary(figure)?, rounds })
    }

    /// What was counted and not sampled.
    pub fn exact(value: f64) -> Sample {
        Sample { summary: Summary { median: value, min: value, max: value }, rounds: usize::MAX }
    }

    /// Beyond the noise: the rounds of one do not reach into those of the other, and the medians are not close.
    pub fn differs_from(&self, old: &Sample) -> bool {
        let (new, old_summary) = (self.summary, old.summary);
        let apart = new.min > old_summary.max || new.max < old_summary.min;
        let change_min = if self.rounds.min(old.rounds) < 2 { CHANGE_MIN_OF_ONE_ROUND } else { CHANGE_MIN };
        apart && (new.median - old_summary.median).abs() > old_summary.median.abs() * change_min
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    /// Experiments stand in the order of the reports.
    order: usize,
    experiment: &'a str,
    case: &'a str,
    placement: Placement,
    flavour: Flavour,
    participant: &'a str,
    threads: usize,
}

/// What there is to tell, by kind.
#[derive(Default)]
struct Findings {
    worse: Vec<String>,
    better: Vec<String>,
    unchanged: Vec<String>,
    outcomes: Vec<String>,
    appeared: Vec<String>,
    vanished: Vec<String>,
    /// Cells of which neither run has a figure to compare.
    silent: usize,
}

fn compare(old: &Report, new: &Report, all: bool) -> String {
    let mut text = String::new();
    for warning in warnings(old, new) {
        text += &format!("warning: {warning}\n");
    }
    let names = experiment_names(old, new);
    let (old_cells, new_cells) = (cells(old, &names), cells(new, &names));
    let mut findings = Findings::default();
    for (key, cell) in &old_cells {
        match new_cells.get(key) {
            Some(other) => findings.pair(key, cell, other),
            None => findings.vanished.push(key.text()),
        }
    }
    findings.appeared.extend(new_cells.keys().filter(|key| !old_cells.contains_key(key)).map(Key::text));
    text += &findings.text(all);
    text
}

/// What makes the two runs hard to compare.
fn warnings(old: &Report, new: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut check = |what: &str, old: String, new: String| {
        if old != new {
            warnings.push(format!("{what} differs: {old} → {new}"));
        }
    };
    let machine = |report: &Report| format!("{}, {} cores", report.machine.cpu, report.machine.cores);
    check("machine", machine(old), machine(new));
    check("kernel", old.machine.kernel.clone(), new.machine.kernel.clone());
    check("system", old.machine.system.clone(), new.machine.system.clone());
    check("preset", old.preset.clone(), new.preset.clone());
    let cores = |report: &Report| format!("{:?}", report.cores);
    check("pinning", cores(old), cores(new));
    for peer in &old.peers {
        let Some(other) = new.peers.iter().find(|other| other.name == peer.name) else { continue };
        let is_there = |state: &PeerState| matches!(state, PeerState::Found);
        if is_there(&peer.state) && is_there(&other.state) {
            check(&format!("version of {}", peer.name), peer.version.clone(), other.version.clone());
            check(&format!("TLS library of {}", peer.name), peer.tls_library.clone(), other.tls_library.clone());
        }
    }
    for (name, report) in [("old", old), ("new", new)] {
        if !report.complete {
            warnings.push(format!("the {name} run was interrupted"));
        }
    }
    warnings
}

fn experiment_names<'a>(old: &'a Report, new: &'a Report) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for experiment in old.experiments.iter().chain(&new.experiments) {
        if !names.contains(&experiment.name.as_str()) {
            names.push(&experiment.name);
        }
    }
    names
}

fn cells<'a>(report: &'a Report, names: &[&'a str]) -> BTreeMap<Key<'a>, &'a Cell> {
    let mut cells = BTreeMap::new();
    for experiment in &report.experiments {
        let order = names.iter().position(|name| *name == experiment.name).unwrap_or(names.len());
        for cell in &experiment.cells {
            let key = Key {
                order,
                experiment: &experiment.name,
                case: &cell.case,
                participant: &cell.participant,
                flavour: cell.flavour,
                placement: cell.placement,
                threads: cell.threads,
            };
            cells.insert(key, cell);
        }
    }
    cells
}

impl Key<'_> {
    fn text(&self) -> String {
        let threads = if self.threads == 0 { String::new() } else { format!(", threads {}", self.threads) };
        format!(
            "{}, {} {}, {}, {}{threads}",
            self.experiment,
            self.case,
            self.placement.letter(),
            self.participant,
            self.flavour.title()
        )
    }
}

impl Findings {
    fn pair(&mut self, key: &Key, old: &Cell, new: &Cell) {
        let (before, after) = (outcome(&old.outcome), outcome(&new.outcome));
        if before != after {
            self.outcomes.push(format!("{}: {before} → {after}", key.text()));
        }
        let mut figures: Vec<Figure> =
            old.rounds.iter().chain(&new.rounds).flat_map(|round| round.figures.keys().copied()).collect();
        figures.sort_unstable();
        figures.dedup();
        // In an open loop the rate follows from what was measured before, so two runs may differ by it.
        let mark = if old.load == new.load { "" } else { " (other load)" };
        let mut is_silent = before == after;
        for figure in figures.into_iter().filter(|figure| figure.better() != Better::Neither) {
            let (Some(old), Some(new)) = (Sample::of(old, figure), Sample::of(new, figure)) else { continue };
            is_silent = false;
            let line = format!("{}, {}: {}{mark}", key.text(), figure.title(), difference(&old, &new));
            let rose = new.summary.median > old.summary.median;
            if !new.differs_from(&old) {
                self.unchanged.push(line);
            } else if rose == (figure.better() == Better::Higher) {
                self.better.push(line);
            } else {
                self.worse.push(line);
            }
        }
        self.silent += usize::from(is_silent);
    }

    fn text(&self, all: bool) -> String {
        let mut text = String::new();
        let mut list = |title: &str, lines: &[String]| {
            if !lines.is_empty() {
                text += &format!("{title} ({}):\n", lines.len());
                for line in lines {
                    text += &format!("  {line}\n");
                }
            }
        };
        list("outcome changed", &self.outcomes);
        list("worse", &self.worse);
        list("better", &self.better);
        list("appeared", &self.appeared);
        list("vanished", &self.vanished);
        if all {
            list("unchanged within the noise", &self.unchanged);
        }
        text += &format!(
            "{} figures worse, {} better, {} unchanged within the noise; {} cells without a figure in common\n",
            self.worse.len(),
            self.better.len(),
            self.unchanged.len(),
            self.silent
        );
        text += BY_CHANCE;
        text
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Measured => "measured".to_owned(),
        Outcome::Limited { by } => format!("limited by {by}"),
        Outcome::Failed { reason } => format!("failed ({reason})"),
        Outcome::Unavailable { reason } => format!("not available ({reason})"),
    }
}

/// `12.7 [12.3–13.1] → 13.9 [13.8–14.0], × 1.09`.
fn difference(old: &Sample, new: &Sample) -> String {
    let side = |sample: &Sample| {
        let Summary { median, min, max } = sample.summary;
        if sample.rounds < 2 {
            format!("{} [one round]", digits(median))
        } else {
            format!("{} [{}–{}]", digits(median), digits(min), digits(max))
        }
    };
    let ratio = new.summary.median / old.summary.median;
    let ratio = if ratio.is_finite() { format!(", × {ratio:.2}") } else { String::new() };
    format!("{} → {}{ratio}", side(old), side(new))
}

/// Small figures with more digits than large ones.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn sample(values: &[f64]) -> Sample {
        Sample { summary: Summary::of(values.iter().copied()).unwrap(), rounds: values.len() }
    }

    #[test]
    fn noise_is_told_from_change() {
        for (old, new, expected) in [
            // Apart, and by more than 3 %.
            (&[10.0, 10.1, 10.2][..], &[10.6, 10.7, 10.8][..], true),
            (&[10.0, 10.1, 10.2], &[9.5, 9.6, 9.7], true),
            // Apart, but close.
            (&[10.0, 10.1, 10.2], &[10.3, 10.35, 10.4], false),
            // Far, but they overlap.
            (&[10.0, 10.1, 12.0], &[11.9, 12.5, 13.0], false),
            // A single round takes 10 %.
            (&[10.0], &[10.9], false),
            (&[10.0, 10.0, 10.0], &[10.9], false),
            (&[10.0], &[11.1], true),
            // From nothing to something.
            (&[0.0], &[1.0], true),
            (&[0.0], &[0.0], false),
        ] {
            assert_eq!(sample(new).differs_from(&sample(old)), expected, "{old:?} → {new:?}");
        }
    }

    #[test]
    fn a_run_is_like_itself() {
        let text = compare(&fixture::small(), &fixture::small(), false);
        let counts = "0 figures worse, 0 better, 34 unchanged within the noise; 1 cells without a figure in common\n";
        assert_eq!(text, format!("{counts}{BY_CHANCE}"));
    }

    #[test]
    fn what_changed_is_told() {
        let old = fixture::small();
        let mut new = fixture::small();
        new.machine.kernel = "6.18.0".into();
        new.peers[3].version = "nginx/1.28.0".into();
        new.complete = false;
        let cells = &mut new.experiments[0].cells;
        let scale = |cell: &mut Cell, factor: f64| {
            for round in &mut cell.rounds {
                round.figures.entry(Figure::CpuUsPerRequest).and_modify(|value| *value *= factor);
                round.figures.entry(Figure::HandshakesPerSecond).and_modify(|value| *value *= factor);
            }
        };
        scale(&mut cells[0], 1.2);
        scale(&mut cells[1], 1.001);
        cells[0].load = "--connections 64 --rate 5000".into();
        cells[2].outcome = Outcome::Failed { reason: "died".into() };
        cells[3].participant = "traefik".into();
        insta::assert_snapshot!(compare(&old, &new, false));
        let all = compare(&old, &new, true);
        assert!(
            all.contains(
                "unchanged within the noise (28):\n  handshake, full S, haproxy, equalised, threads 1, CPU µs/request: 167 ["
            ),
            "{all}"
        );
    }

    #[test]
    fn files_that_are_no_reports_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let message = |path: &std::path::Path| {
            run(&CompareOptions { old: path.into(), new: path.into(), all: false }).unwrap_err().to_string()
        };
        assert!(message(&path).contains("No such file"));
        std::fs::write(&path, "{\"format\": 1}").unwrap();
        assert!(message(&path).contains("not a report of tidegate-lab"));
        let other = Report { format: 99, ..fixture::small() };
        std::fs::write(&path, serde_json::to_string(&other).unwrap()).unwrap();
        assert!(message(&path).contains("format 99"));
    }
}
