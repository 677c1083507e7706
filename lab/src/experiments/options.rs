//! What a user may say of a run, and what the presets make of it.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::experiments::Experiment;
use crate::load::parse_duration;
use crate::peers::{PeerName, Whereabouts};
use crate::stage::BackendKind;
use crate::stage::cores::CoreWish;

/// Runs experiments and writes a report.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// Which; by default e1, e2 and e3 with the preset `quick`, all of them with `full`.
    pub experiments: Vec<Experiment>,
    /// `quick` fits into ten minutes on two processors; `full` is for a real machine.
    #[arg(long, default_value = "quick")]
    pub preset: Preset,
    /// Only these peers, separated by commas; by default all that are found. `haproxy` stands for all builds of it.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = PeerName::parse)]
    pub peers: Vec<PeerName>,
    /// Only the cases of the experiments whose name has one of these in it, separated by commas, as in `h1-2k S,h2`.
    #[arg(long, value_name = "TEXT,…", value_delimiter = ',')]
    pub cases: Vec<String>,
    #[command(flatten)]
    pub whereabouts: Whereabouts,
    /// Rounds of each case, if not as the preset has it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: Option<u16>,
    /// Measured time of a round, if not as the preset has it.
    #[arg(long, value_parser = parse_round_time)]
    pub round_time: Option<Duration>,
    /// The rates of E1, in requests per second, if not as the preset has it.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub rates: Vec<u32>,
    /// How many sites a proxy has whose changes are measured, if not as the preset has it.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub sites: Vec<u32>,
    /// How many certificates a proxy is started with, if not as the preset has it.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub certificates: Option<u32>,
    /// Worker threads of equalised proxies; by default one for each processor of the proxy.
    #[arg(long)]
    pub threads: Option<NonZeroUsize>,
    /// Processors of each part, as `proxy=2-3,generator=1,backend=0`.
    #[arg(long)]
    pub cores: Option<CoreWish>,
    /// What answers behind the proxies.
    #[arg(long, default_value = "own")]
    pub backend: BackendKind,
    /// A folder of cgroup v2 beneath which the proxies are put.
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<PathBuf>,
    /// Configurations of your own, laid out as `lab/peers` is.
    #[arg(long, value_name = "DIR")]
    pub templates: Option<PathBuf>,
    /// Keeps the other experiments of the report that is in the output folder, and replaces or adds only those of this
    /// run.
    #[arg(long, requires = "output")]
    pub update: bool,
    /// Where to keep the report; otherwise a folder `<date>-<machine>` beneath `lab/reports`, or `tidegate-lab-reports`
    /// where there is none.
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Whether the machine could carry the published load at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Small,
    Large,
}

/// A shorter step would be over before a proxy that cannot keep up shows it.
const RATE_TIME_MIN: Duration = Duration::from_millis(1500);
/// Below this a round is mostly its own beginning and end, and CPU time is counted too coarsely.
const ROUND_TIME_MIN: Duration = Duration::from_millis(50);

fn parse_round_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    if time < ROUND_TIME_MIN { Err(format!("a round takes at least {ROUND_TIME_MIN:?}")) } else { Ok(time) }
}

/// What the study offered, in requests per second.
const PUBLISHED_RATE: u32 = 50_000;
/// From so many processors for the proxy on; the study had 32, of which the thriftiest peer used nine.
const LARGE_CORES_MIN: usize = 8;

impl Size {
    pub fn of(proxy_cores: usize) -> Size {
        if proxy_cores >= LARGE_CORES_MIN { Size::Large } else { Size::Small }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    Quick,
    Full,
}

impl Preset {
    pub fn name(self) -> &'static str {
        match self {
            Preset::Quick => "quick",
            Preset::Full => "full",
        }
    }
}

impl RunOptions {
    pub fn experiments(&self) -> Vec<Experiment> {
        if self.experiments.is_empty() {
            return match self.preset {
                Preset::Quick => vec![Experiment::E1, Experiment::E2, Experiment::E3],
                Preset::Full => Experiment::ALL.to_vec(),
            };
        }
        Experiment::ALL.into_iter().filter(|experiment| self.experiments.contains(experiment)).collect()
    }

    /// Whether the user wants to see a case, by its name and the letter of its placement.
    pub fn wants(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|text| case.contains(text.as_str()))
    }

    pub fn rounds(&self) -> usize {
        let preset = match self.preset {
            Preset::Quick => 3,
            Preset::Full => 5,
        };
        self.rounds.map_or(preset, usize::from)
    }

    pub fn round_time(&self) -> Duration {
        let preset = match self.preset {
            Preset::Quick => Duration::from_millis(500),
            Preset::Full => Duration::from_secs(5),
        };
        self.round_time.unwrap_or(preset)
    }

    /// E1 asks for 50,000 a second; what a small machine does below that shows where each peer breaks.
    pub fn rates(&self, machine: Size) -> Vec<u32> {
        if !self.rates.is_empty() {
            return self.rates.clone();
        }
        match (self.preset, machine) {
            (Preset::Full, Size::Large) => vec![PUBLISHED_RATE],
            (Preset::Quick, _) => vec![2_000, 5_000, 10_000, 20_000, 30_000, 50_000],
            (Preset::Full, Size::Small) => vec![1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 40_000, 50_000],
        }
    }

    /// How long each rate is kept.
    pub fn rate_time(&self, machine: Size) -> Duration {
        let preset = match (self.preset, machine) {
            (Preset::Quick, _) => Duration::from_millis(1500),
            (Preset::Full, Size::Small) => Duration::from_secs(10),
            // As published.
            (Preset::Full, Size::Large) => Duration::from_secs(60),
        };
        self.round_time.map_or(preset, |time| time.max(RATE_TIME_MIN))
    }

    /// The counts of sites with which changes are measured.
    pub fn sites(&self) -> Vec<u32> {
        if !self.sites.is_empty() {
            return self.sites.clone();
        }
        match self.preset {
            Preset::Quick => vec![1, 1_000],
            Preset::Full => vec![1, 10_000],
        }
    }

    /// How many certificates a proxy is started with.
    pub fn certificates(&self) -> u32 {
        let preset = match self.preset {
            Preset::Quick => 5_000,
            Preset::Full => 50_000,
        };
        self.certificates.unwrap_or(preset)
    }

    /// How long a proxy is changed again and again under load, and left alone before: a hundred changes with `full`.
    pub fn change_time(&self) -> Duration {
        let preset = match self.preset {
            Preset::Quick => Duration::from_secs(2),
            Preset::Full => Duration::from_secs(10),
        };
        self.round_time.unwrap_or(preset)
    }

    /// How far apart the looks at a proxy's memory are under long compression: ten of them are ten minutes with `full`.
    pub fn sample_time(&self) -> Duration {
        let preset = match self.preset {
            Preset::Quick => Duration::from_secs(4),
            Preset::Full => Duration::from_secs(60),
        };
        self.round_time.unwrap_or(preset)
    }

    /// How long each phase of E3 is measured; the study measured 30 s.
    pub fn phase_time(&self) -> Duration {
        let preset = match self.preset {
            Preset::Quick => Duration::from_millis(500),
            Preset::Full => Duration::from_secs(10),
        };
        self.round_time.unwrap_or(preset)
    }
}
