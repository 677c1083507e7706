//! The runner: starts upstream and proxies, puts the same loads on each in turn, and writes what it saw.
//! Reads from the top: `run` is the order of events. `stage` holds the processes, `rounds` measures, `verdict` judges, `report` writes.

pub mod child;
mod interrupt;
mod peers;
mod report;
mod rounds;
mod scenario;
mod stage;
mod syscalls;
mod verdict;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::load;
use crate::net::Error;
use crate::procfs;
use crate::run::interrupt::Interrupt;
use crate::run::peers::{Peer, PeerKind};
use crate::run::report::{PeerState, PeerSummary, Results};
use crate::run::scenario::Scenario;
use crate::run::stage::{Running, Stage};

/// Measures Tidegate, HAProxy and nginx in turn and reports CPU per request, ratios and verdicts.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// Three rounds of one second instead of five of two.
    #[arg(long)]
    pub quick: bool,
    /// `NAME=PATH` of a program: tidegate, haproxy or nginx. Otherwise Tidegate is looked for beside this program, the others on the PATH.
    #[arg(long, value_parser = parse_peer)]
    pub peer: Vec<(String, PathBuf)>,
    /// Only what begins with this name: a scenario, `idle-5000` or `system-calls`. Repeatable.
    #[arg(long)]
    pub only: Vec<String>,
    /// Rounds of each scenario, if not as `--quick` says.
    #[arg(long)]
    pub rounds: Option<usize>,
    /// Measured time of a round, if not as `--quick` says.
    #[arg(long, value_parser = load::parse_duration)]
    pub round_time: Option<Duration>,
    /// Where to keep the report; `bench/results/<date>-<machine>` otherwise.
    #[arg(long)]
    pub output: Option<PathBuf>,
}

pub const IDLE: &str = "idle-5000";
pub const IDLE_CONNECTIONS: usize = 5000;
pub const SYSTEM_CALLS: &str = "system-calls";

/// Three processes hold or serve the idle connections; each needs a descriptor or two for each.
const OPEN_FILES_MIN: u64 = 16_384;

impl RunOptions {
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 3 } else { 5 }).max(1)
    }

    pub fn round_time(&self) -> Duration {
        self.round_time.unwrap_or(Duration::from_secs(if self.quick { 1 } else { 2 }))
    }

    fn includes(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| name.starts_with(wanted.as_str()))
    }
}

pub fn run(options: &RunOptions) -> Result<(), Error> {
    let interrupt = Interrupt::watch()?;
    raise_open_files()?;
    let mut results = Results::new(options, procfs::machine());
    let mut stage = Stage::set_up()?;
    results.cores = stage.cores();

    let mut running = start_peers(options, &stage, &mut results, &interrupt)?;
    for scenario in Scenario::ALL.into_iter().filter(|scenario| options.includes(scenario.name())) {
        rounds::measure(scenario, options, &mut stage, &mut running, &mut results, &interrupt)?;
    }
    if options.includes(SYSTEM_CALLS) && syscalls::is_available() {
        rounds::count_system_calls(&mut stage, &running, &mut results, &interrupt)?;
    }
    drop(running);
    if options.includes(IDLE) {
        rounds::weigh_idle_connections(&stage, &mut results, &interrupt)?;
    }
    results.judge();

    let folder = options.output.clone().unwrap_or_else(|| results.default_folder());
    let text = report::markdown(&results);
    report::write(&folder, &results, &text)?;
    println!("{text}");
    eprintln!("kept in {}", folder.display());
    Ok(())
}

/// Finds, starts and checks every peer. One that is absent or answers wrongly is reported so, and the others go on.
fn start_peers(options: &RunOptions, stage: &Stage, results: &mut Results, interrupt: &Interrupt) -> Result<Vec<Running>, Error> {
    let mut running = Vec::new();
    for kind in PeerKind::ALL {
        interrupt.check()?;
        let Some(peer) = kind.find(&options.peer) else {
            results.peers.push(PeerSummary::absent(kind));
            continue;
        };
        match start_and_verify(stage, &peer) {
            Ok(started) => {
                results.peers.push(PeerSummary::measured(&peer, &started));
                running.push(started);
            }
            Err(error) => {
                eprintln!("{}: {error}", kind.name());
                results.peers.push(PeerSummary { state: PeerState::Failed(error.to_string()), ..PeerSummary::of(&peer) });
            }
        }
    }
    if running.iter().all(|peer| !peer.kind().speaks_tls()) {
        return Err("there is no proxy to measure; name one with --peer NAME=PATH".into());
    }
    Ok(running)
}

pub fn start_and_verify(stage: &Stage, peer: &Peer) -> Result<Running, Error> {
    let started = stage.start(peer)?;
    rounds::verify(stage, &started)?;
    Ok(started)
}

/// Many systems start programs with a low soft limit beneath a high hard one.
fn raise_open_files() -> Result<(), Error> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < OPEN_FILES_MIN) {
        eprintln!("the limit of open files is below {OPEN_FILES_MIN}; {IDLE} may fail");
    }
    // Left alone where it suffices: some programs size their tables by it.
    if limit.current.is_some_and(|current| current < OPEN_FILES_MIN) {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    Ok(())
}

fn parse_peer(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("write NAME=PATH")?;
    if !["tidegate", "haproxy", "nginx"].contains(&name) {
        return Err(format!("`{name}` is none of tidegate, haproxy, nginx"));
    }
    Ok((name.to_owned(), path.into()))
}
