//! What a run found, as `report.json` keeps it: the shape only, written by the experiments and read by the report,
//! `compare` and `readme`. Nothing here measures or renders. Summaries over rounds are in `summary`, what figures there
//! are in `figure`.

pub mod change;
pub mod compare;
pub mod figure;
pub mod judgement;
pub mod ladder;
pub mod summary;
mod update;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::net::Error;
use crate::procfs::Machine;
use crate::results::figure::Figure;
use crate::results::judgement::Judgement;
use crate::results::summary::Summary;

/// Goes up when a reader of the old shape would misread the new one.
pub const FORMAT: u32 = 1;

/// A whole run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    pub format: u32,
    /// In UTC, as `2026-11-20 13:26 UTC`.
    pub began: String,
    pub seconds: f64,
    /// False when the run was interrupted: what stands here was measured, the rest was not.
    pub complete: bool,
    /// As one would type it.
    pub command: String,
    /// `quick` or `full`.
    pub preset: String,
    pub machine: Machine,
    pub cores: Cores,
    /// The limit of open files of every process of the run.
    pub open_files: u64,
    /// What a reader must know before believing a figure: too few cores, an interrupted run.
    pub warnings: Vec<String>,
    /// All that the lab knows, or those that were asked for, in the order of its tables, whether they were there or
    /// not.
    pub peers: Vec<PeerRecord>,
    pub experiments: Vec<ExperimentRecord>,
}

/// The processors of each part. They overlap where there are too few.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    pub proxy: Vec<usize>,
    pub generator: Vec<usize>,
    pub backend: Vec<usize>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PeerRecord {
    /// `tidegate`, `tidegate io-uring`, `haproxy`, `haproxy-3.4`, …
    pub name: String,
    pub state: PeerState,
    /// Empty where unknown.
    pub path: String,
    pub version: String,
    pub tls_library: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerState {
    Found,
    Absent {
        how_to_get: String,
    },
    /// There is a file, but it does not run.
    Broken {
        reason: String,
    },
    /// The program runs, but this machine forbids what its column is about.
    Forbidden {
        reason: String,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExperimentRecord {
    pub name: String,
    pub title: String,
    /// In UTC; empty in a report that had all its experiments in one run.
    #[serde(default)]
    pub began: String,
    /// As one would type it.
    #[serde(default)]
    pub command: String,
    /// The version of each peer that was found.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    pub seconds: f64,
    /// What is done, in a few sentences, with the real parameters of this run.
    pub description: Vec<String>,
    /// What is equal, and what cannot be.
    pub fairness: Vec<String>,
    pub configurations: Vec<Configuration>,
    pub cells: Vec<Cell>,
    /// What happened on the way: a peer that ended half-way, a case that was left out.
    pub remarks: Vec<String>,
    /// Bounds that the project has set itself; `targets` has them, `content` and `change`.
    pub judgements: Vec<Judgement>,
}

/// How one participant was set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    pub participant: String,
    pub flavour: Flavour,
    /// As one would type it.
    pub command: String,
    /// Name and text of each file.
    pub files: Vec<(String, String)>,
    /// What is equal in this configuration and what cannot be made equal.
    pub note: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flavour {
    /// The shortest sensible configuration; every default is the peer's own.
    OutOfTheBox,
    /// The same work for everybody, as far as it can be.
    Equalised,
    /// The tuned variants of nginx in E1.
    Tuned,
    /// Not a proxy under test: the relay, the backend alone.
    Floor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// "S": proxy, generator and backend share one core. Only CPU time per request means something then.
    Shared,
    /// "C": the proxy has cores of its own.
    OwnCores,
}

/// One participant under one load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cell {
    /// Names the load within its experiment: `2k`, `4000/s`, `1×250 instances 5→7 (1)`. Cells of one case stand in one
    /// row.
    pub case: String,
    /// A peer, `relay`, `relay io-uring` or `backend`, or a variant of a peer such as `nginx keepalive-4`.
    pub participant: String,
    pub flavour: Flavour,
    pub placement: Placement,
    /// Worker threads that the proxy was given; 0 where it chose itself.
    pub threads: usize,
    /// The generator's arguments, so that the load can be repeated by hand.
    pub load: String,
    pub rounds: Vec<Round>,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Measured,
    /// Backend or generator were what was slow: rates and latencies are not the proxy's and are withheld. CPU time per
    /// request stands.
    Limited {
        by: String,
    },
    /// The participant crashed, answered wrongly, or could not be set up.
    Failed {
        reason: String,
    },
    /// The participant does not have what this takes, and was not asked.
    Unavailable {
        reason: String,
    },
}

/// One measurement of one cell: the raw sample.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Round {
    pub figures: BTreeMap<Figure, f64>,
    /// Answers per status code, wrong ones included.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without a right answer, by kind: `refused`, `reset`, `status 502`, ….
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<String>,
}

impl Report {
    pub fn read(path: &Path) -> Result<Report, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let report: Report = serde_json::from_str(&text).map_err(|error| {
            format!("{}: not a report of tidegate-lab: {error}; name the report.json of a run", path.display())
        })?;
        if report.format != FORMAT {
            let format = report.format;
            return Err(format!("{}: format {format}, and this tidegate-lab reads format {FORMAT}", path.display()).into());
        }
        Ok(report)
    }
}

impl Flavour {
    pub fn title(self) -> &'static str {
        match self {
            Flavour::OutOfTheBox => "out of the box",
            Flavour::Equalised => "equalised",
            Flavour::Tuned => "tuned",
            Flavour::Floor => "floor",
        }
    }
}

impl Placement {
    pub fn letter(self) -> char {
        match self {
            Placement::Shared => 'S',
            Placement::OwnCores => 'C',
        }
    }
}

impl Cell {
    /// Over the rounds; `None` if it was not measured, or is withheld because something else limited it.
    pub fn summary(&self, figure: Figure) -> Option<Summary> {
        match &self.outcome {
            Outcome::Measured => {}
            Outcome::Limited { .. } if !figure.needs_an_unlimited_run() => {}
            Outcome::Limited { .. } | Outcome::Failed { .. } | Outcome::Unavailable { .. } => return None,
        }
        Summary::of(self.rounds.iter().filter_map(|round| round.figures.get(&figure).copied()))
    }

    pub fn median(&self, figure: Figure) -> Option<f64> {
        self.summary(figure).map(|summary| summary.median)
    }

    /// Answers per status over all rounds.
    pub fn statuses(&self) -> BTreeMap<u16, u64> {
        sum(self.rounds.iter().map(|round| &round.statuses))
    }

    /// Failures by kind over all rounds.
    pub fn failures(&self) -> BTreeMap<String, u64> {
        sum(self.rounds.iter().map(|round| &round.failures))
    }
}

fn sum<'a, K: Ord + Clone + 'a>(maps: impl Iterator<Item = &'a BTreeMap<K, u64>>) -> BTreeMap<K, u64> {
    let mut all = BTreeMap::new();
    for (key, count) in maps.flatten() {
        *all.entry(key.clone()).or_default() += count;
    }
    all
}
