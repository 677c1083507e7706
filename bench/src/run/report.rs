//! The results of a run: their shape in `results.json`, their judgement, and the Markdown that people read.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use crate::load::meter::LoadReport;
use crate::net::Error;
use crate::procfs::Machine;
use crate::run::peers::{Peer, PeerKind};
use crate::run::scenario::{
    Figure, IDLE_MEMORY_RATIO_MAX, Placement, RESIDENT_MB_AT_START_MAX, SOCKET_CALLS_PER_REQUEST_MAX, Scenario,
};
use crate::run::stage::{Cores, Running};
use crate::run::syscalls::SystemCalls;
use crate::run::verdict::{Judgement, Summary, better};
use crate::run::{IDLE, RunOptions};

#[derive(Debug, Serialize)]
pub struct Results {
    /// In UTC.
    pub began: String,
    pub machine: Machine,
    pub cores: Cores,
    pub rounds: usize,
    pub round_seconds: f64,
    pub command: String,
    pub peers: Vec<PeerSummary>,
    pub measurements: Vec<Measurement>,
    pub idle: Vec<IdleMemory>,
    pub system_calls: Vec<SystemCallCount>,
    pub judgements: Vec<(String, Judgement)>,
}

#[derive(Debug, Clone, Serialize)]
pub struct PeerSummary {
    pub kind: PeerKind,
    /// `None` if the program was not found.
    pub peer: Option<Peer>,
    pub state: PeerState,
    pub command: String,
    pub configuration: Option<String>,
    pub resident_bytes_at_start: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerState {
    Measured,
    Absent,
    /// It did not start or answered wrongly.
    Failed(String),
}

/// One peer under one scenario in one placement, round by round.
#[derive(Debug, Serialize)]
pub struct Measurement {
    pub scenario: Scenario,
    pub placement: Placement,
    pub peer: PeerKind,
    pub command: Option<String>,
    pub rounds: Vec<LoadReport>,
    pub failure: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct IdleMemory {
    pub peer: PeerKind,
    /// Bytes for each connection.
    pub outcome: Result<f64, String>,
}

#[derive(Debug, Serialize)]
pub struct SystemCallCount {
    pub peer: PeerKind,
    pub outcome: Result<SystemCalls, String>,
}

impl PeerSummary {
    pub fn absent(kind: PeerKind) -> PeerSummary {
        PeerSummary {
            kind,
            peer: None,
            state: PeerState::Absent,
            command: String::new(),
            configuration: None,
            resident_bytes_at_start: None,
        }
    }

    pub fn of(peer: &Peer) -> PeerSummary {
        PeerSummary { peer: Some(peer.clone()), ..PeerSummary::absent(peer.kind) }
    }

    pub fn measured(peer: &Peer, running: &Running) -> PeerSummary {
        PeerSummary {
            state: PeerState::Measured,
            command: running.command_line(),
            configuration: running.configuration().map(|(_, text)| text),
            resident_bytes_at_start: Some(running.resident_bytes_at_start),
            ..PeerSummary::of(peer)
        }
    }
}

impl Measurement {
    pub fn new(scenario: Scenario, placement: Placement, peer: PeerKind) -> Measurement {
        Measurement { scenario, placement, peer, command: None, rounds: Vec::new(), failure: None }
    }

    pub fn summary(&self, of: impl Fn(&LoadReport) -> f64) -> Option<Summary> {
        if self.failure.is_some() { None } else { Summary::of(self.rounds.iter().map(of)) }
    }

    /// CPU µs per request of one of the observed processes: `proxy`, `backend` or `generator`.
    pub fn cpu(&self, process: &str) -> Option<Summary> {
        self.summary(|round| round.cpu_us_per_request.get(process).copied().unwrap_or(f64::NAN))
    }

    fn figure(&self, figure: Figure) -> Option<f64> {
        let summary = match figure {
            Figure::CpuPerRequest => self.cpu("proxy"),
            Figure::LatencyP99 => self.summary(|round| round.latency_us.p99),
        };
        Some(summary?.median)
    }
}

impl Results {
    pub fn new(options: &RunOptions, machine: Machine) -> Results {
        let command: Vec<_> = std::env::args().skip(1).collect();
        Results {
            began: Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
            machine,
            cores: Cores::default(),
            rounds: options.rounds(),
            round_seconds: options.round_time().as_secs_f64(),
            command: format!("tidegate-bench {}", command.join(" ")),
            peers: Vec::new(),
            measurements: Vec::new(),
            idle: Vec::new(),
            system_calls: Vec::new(),
            judgements: Vec::new(),
        }
    }

    pub fn measured_peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(|summary| summary.state == PeerState::Measured).filter_map(|summary| summary.peer.as_ref())
    }

    /// `bench/results/<date>-<machine>`, beneath the current folder.
    pub fn default_folder(&self) -> PathBuf {
        let date = self.began.split(' ').next().unwrap_or_default();
        PathBuf::from("bench/results").join(format!("{date}-{}", short_machine_name(&self.machine)))
    }

    /// Fills in `judgements` from what was measured.
    pub fn judge(&mut self) {
        let mut judgements = Vec::new();
        for scenario in Scenario::ALL {
            for &placement in scenario.placements().iter().filter(|placement| self.has(scenario, **placement)) {
                for goal in scenario.goals() {
                    let of = |peer| self.find(scenario, placement, peer).and_then(|found| found.figure(goal.figure));
                    let (ours, reference) = match scenario {
                        Scenario::AccessLog => (
                            of(PeerKind::TidegateLogging),
                            of(PeerKind::Tidegate).map(|cpu| ("tidegate, log off".to_owned(), cpu)),
                        ),
                        _ => (of(PeerKind::Tidegate), better(RIVALS.map(|rival| (rival.name(), of(rival))))),
                    };
                    let judgement = Judgement::relative(goal.figure.name(), ours, reference, goal.ratio_max);
                    judgements.push((format!("{} {}", scenario.name(), placement.letter()), judgement));
                }
            }
        }
        if !self.idle.is_empty() {
            let of = |peer| {
                self.idle
                    .iter()
                    .find(|idle| idle.peer == peer)
                    .and_then(|idle| idle.outcome.as_ref().ok().map(|bytes| bytes / 1024.0))
            };
            let reference = better(RIVALS.map(|rival| (rival.name(), of(rival))));
            let judgement = Judgement::relative("KiB/connection", of(PeerKind::Tidegate), reference, IDLE_MEMORY_RATIO_MAX);
            judgements.push((IDLE.to_owned(), judgement));
        }
        let resident =
            self.peers.iter().find(|peer| peer.kind == PeerKind::Tidegate).and_then(|peer| peer.resident_bytes_at_start);
        let resident = resident.map(|bytes| bytes as f64 / 1e6);
        judgements.push((
            "memory at start".to_owned(),
            Judgement::absolute("MB resident", resident, RESIDENT_MB_AT_START_MAX, "≤ 25 MB"),
        ));
        if !self.system_calls.is_empty() {
            let ours = self.system_calls.iter().find(|count| count.peer == PeerKind::Tidegate);
            let ours = ours.and_then(|count| count.outcome.as_ref().ok()).map(|calls| calls.socket);
            judgements.push((
                "h1-11b".to_owned(),
                Judgement::absolute("socket calls/request", ours, SOCKET_CALLS_PER_REQUEST_MAX, "4"),
            ));
        }
        self.judgements = judgements;
    }

    fn find(&self, scenario: Scenario, placement: Placement, peer: PeerKind) -> Option<&Measurement> {
        self.measurements.iter().find(|found| (found.scenario, found.placement, found.peer) == (scenario, placement, peer))
    }

    fn has(&self, scenario: Scenario, placement: Placement) -> bool {
        self.measurements.iter().any(|found| (found.scenario, found.placement) == (scenario, placement))
    }
}

/// The two that Tidegate is compared with.
const RIVALS: [PeerKind; 2] = [PeerKind::Haproxy, PeerKind::Nginx];

/// The columns of the table of CPU time.
const COLUMNS: [PeerKind; 5] =
    [PeerKind::Tidegate, PeerKind::TidegateLogging, PeerKind::Haproxy, PeerKind::Nginx, PeerKind::Relay];

/// Letters and digits of the processor's name, and the number of cores: short, and good for a folder's name.
fn short_machine_name(machine: &Machine) -> String {
    let name = machine.cpu.split(['(', '@']).next().unwrap_or_default().to_lowercase();
    let words: Vec<_> = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).take(4).collect();
    format!("{}-{}c", words.join("-"), machine.cores)
}

/// Writes `report.md` and `results.json`.
pub fn write(folder: &Path, results: &Results, text: &str) -> Result<(), Error> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("report.md"), text)?;
    std::fs::write(folder.join("results.json"), serde_json::to_string_pretty(results)? + "\n")?;
    Ok(())
}

pub fn markdown(results: &Results) -> String {
    let mut text = String::new();
    let sections = [head, verdicts, cpu_table, load_table, memory_table, system_call_table, peer_section];
    // Writing into a String cannot fail.
    let written: std::fmt::Result = sections.iter().try_for_each(|section| section(&mut text, results));
    written.expect("a String takes everything");
    text
}

fn head(text: &mut String, results: &Results) -> std::fmt::Result {
    let Results { machine, cores, .. } = results;
    writeln!(text, "# Benchmark of {}\n", results.began)?;
    writeln!(
        text,
        "{}, {} cores, {:.0} GiB; Linux {}; {}.",
        machine.cpu,
        machine.cores,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        machine.kernel,
        machine.system
    )?;
    writeln!(
        text,
        "{} interleaved rounds of {} s; figures are medians. S: everything on core {}. C: the proxy alone on core {}, \
         generator on core {}, upstream on core {}.",
        results.rounds, results.round_seconds, cores.proxy, cores.proxy, cores.generator, cores.backend
    )?;
    writeln!(text, "CPU time is user and system of all threads, from the kernel's scheduler. Command: `{}`.\n", results.command)?;
    for peer in &results.peers {
        match &peer.state {
            PeerState::Measured => {}
            PeerState::Absent => writeln!(text, "**{} is absent: its program was not found.**\n", peer.kind.name())?,
            PeerState::Failed(reason) => writeln!(text, "**{} was left out: {reason}**\n", peer.kind.name())?,
        }
    }
    Ok(())
}

fn verdicts(text: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(text, "## Targets\n\n| scenario | figure | tidegate | compared with | ratio | target | verdict |")?;
    writeln!(text, "|---|---|--:|--:|--:|--:|---|")?;
    for (scenario, judgement) in &results.judgements {
        let reference = judgement.reference.as_ref().map(|(name, value)| format!("{} ({name})", number(*value)));
        writeln!(
            text,
            "| {scenario} | {} | {} | {} | {} | {} | {} |",
            judgement.figure,
            optional(judgement.ours),
            reference.unwrap_or_else(|| "–".into()),
            judgement.ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}")),
            judgement.target,
            judgement.verdict.word(),
        )?;
    }
    writeln!(text)
}

fn cpu_table(text: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(text, "## CPU µs per request of the proxy\n")?;
    writeln!(text, "In parentheses the distance between the lowest and the highest round, as a share of the median.")?;
    writeln!(text, "The relay is plain TCP without TLS and HTTP: the floor.\n")?;
    writeln!(text, "| scenario | {} |", COLUMNS.map(PeerKind::name).join(" | "))?;
    writeln!(text, "|---|{}", "--:|".repeat(COLUMNS.len()))?;
    for (scenario, placement) in rows(results) {
        write!(text, "| {} {} |", scenario.name(), placement.letter())?;
        for peer in COLUMNS {
            match results.find(scenario, placement, peer).map(|found| found.cpu("proxy")) {
                None => write!(text, " |")?,
                Some(None) => write!(text, " failed |")?,
                Some(Some(cpu)) => write!(text, " {} ({:.0} %) |", number(cpu.median), cpu.spread() * 100.0)?,
            }
        }
        writeln!(text)?;
    }
    writeln!(text)
}

fn load_table(text: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(text, "## Rates and latencies\n")?;
    for scenario in Scenario::ALL.into_iter().filter(|scenario| rows(results).any(|(other, _)| other == *scenario)) {
        writeln!(text, "- `{}`: {}", scenario.name(), scenario.describe())?;
    }
    writeln!(
        text,
        "\nLatencies in µs: medians over the rounds of each round's percentile. In closed loop they follow from the rate.\n"
    )?;
    writeln!(
        text,
        "| scenario | proxy | requests/s | p50 | p90 | p99 | p99.9 | max | sent late, p99 | CPU µs upstream / generator | resumed | errors | dropped |"
    )?;
    writeln!(text, "|---|---|{}", "--:|".repeat(11))?;
    for (scenario, placement) in rows(results) {
        for found in results.measurements.iter().filter(|found| (found.scenario, found.placement) == (scenario, placement)) {
            let median = |of: fn(&LoadReport) -> f64| optional(found.summary(of).map(|summary| summary.median));
            let cpu = |process| optional(found.cpu(process).map(|summary| summary.median));
            let late = if scenario == Scenario::Open5000 { median(|round| round.sent_late_us.p99) } else { String::new() };
            let sum = |of: fn(&LoadReport) -> u64| found.rounds.iter().map(of).sum::<u64>();
            let (handshakes, resumed) = (sum(|round| round.handshakes), sum(|round| round.resumed));
            let resumed = if handshakes == 0 { String::new() } else { format!("{resumed} of {handshakes}") };
            writeln!(
                text,
                "| {} {} | {} | {} | {} | {} | {} | {} | {} | {late} | {} / {} | {resumed} | {}{} | {} |",
                scenario.name(),
                placement.letter(),
                found.peer.name(),
                median(|round| round.requests_per_second),
                median(|round| round.latency_us.p50),
                median(|round| round.latency_us.p90),
                median(|round| round.latency_us.p99),
                median(|round| round.latency_us.p99_9),
                median(|round| round.latency_us.max),
                cpu("backend"),
                cpu("generator"),
                sum(|round| round.errors),
                fault(found).map(|fault| format!(" ({fault})")).unwrap_or_default(),
                sum(|round| round.dropped),
            )?;
        }
    }
    writeln!(text)
}

fn fault(found: &Measurement) -> Option<&str> {
    found.failure.as_deref().or_else(|| found.rounds.iter().find_map(|round| round.first_error.as_deref()))
}

fn memory_table(text: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(text, "## Memory\n\n| proxy | resident at start, MB | KiB per idle TLS connection (5,000) |\n|---|--:|--:|")?;
    for peer in results.peers.iter().filter(|peer| peer.state == PeerState::Measured) {
        let idle = match results.idle.iter().find(|idle| idle.peer == peer.kind).map(|idle| &idle.outcome) {
            None => "–".to_owned(),
            Some(Ok(bytes)) => format!("{:.1}", bytes / 1024.0),
            Some(Err(reason)) => reason.clone(),
        };
        let start = peer.resident_bytes_at_start.map(|bytes| bytes as f64 / 1e6);
        writeln!(text, "| {} | {} | {idle} |", peer.kind.name(), optional(start))?;
    }
    writeln!(text)
}

fn system_call_table(text: &mut String, results: &Results) -> std::fmt::Result {
    if results.system_calls.is_empty() {
        return writeln!(text, "System calls were not counted: `strace` is absent, or they were not asked for.\n");
    }
    writeln!(text, "## System calls per keep-alive request (h1-11b, under strace)\n")?;
    writeln!(text, "| proxy | socket calls | all calls | which |\n|---|--:|--:|---|")?;
    for count in &results.system_calls {
        match &count.outcome {
            Err(reason) => writeln!(text, "| {} | – | – | {reason} |", count.peer.name())?,
            Ok(calls) => {
                let which: Vec<_> = calls.by_name.iter().map(|(name, calls)| format!("{name} {calls:.2}")).collect();
                writeln!(text, "| {} | {:.2} | {:.2} | {} |", count.peer.name(), calls.socket, calls.all, which.join(", "))?;
            }
        }
    }
    writeln!(text)
}

fn peer_section(text: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(text, "## Versions, commands, configurations\n")?;
    for summary in results.peers.iter().filter(|summary| summary.kind != PeerKind::Relay) {
        let Some(peer) = &summary.peer else { continue };
        writeln!(text, "### {}\n\n{}\n", summary.kind.name(), peer.version.join("  \n"))?;
        if let Some(configuration) = &summary.configuration {
            writeln!(text, "`{}`\n\n```\n{}```\n", summary.command, configuration)?;
        }
    }
    writeln!(text, "### Loads\n\n```")?;
    for (scenario, placement) in rows(results) {
        let found = results.measurements.iter().find(|found| (found.scenario, found.placement) == (scenario, placement));
        let arguments = found.and_then(|found| found.command.as_deref()).unwrap_or_default();
        // The process ids that were observed mean nothing to a reader.
        let words: Vec<_> = arguments.split(' ').filter(|word| !word.starts_with("--observe")).collect();
        writeln!(text, "{} {}: tidegate-bench load {}", scenario.name(), placement.letter(), words.join(" "))?;
    }
    writeln!(text, "```")
}

/// Scenarios and placements that were measured, in order.
fn rows(results: &Results) -> impl Iterator<Item = (Scenario, Placement)> {
    let all =
        Scenario::ALL.into_iter().flat_map(|scenario| scenario.placements().iter().map(move |placement| (scenario, *placement)));
    all.filter(|(scenario, placement)| results.has(*scenario, *placement))
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

/// Three significant digits are more than the measurement deserves, and enough.
fn number(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.0}", (value / 100.0).round() * 100.0),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::load::meter::Latency;
    use crate::run::verdict::Verdict;

    fn results() -> Results {
        let machine = Machine {
            cpu: "Some(R) CPU 9 @ 3 GHz".into(),
            cores: 2,
            memory_bytes: 1 << 30,
            kernel: "6.0".into(),
            system: "Debian".into(),
        };
        Results {
            began: "2026-02-03 04:05 UTC".into(),
            machine,
            cores: Cores::default(),
            rounds: 3,
            round_seconds: 1.0,
            command: "tidegate-bench run".into(),
            peers: Vec::new(),
            measurements: Vec::new(),
            idle: Vec::new(),
            system_calls: Vec::new(),
            judgements: Vec::new(),
        }
    }

    fn measurement(scenario: Scenario, placement: Placement, peer: PeerKind, rounds: &[(f64, f64)]) -> Measurement {
        let round = |&(cpu, p99): &(f64, f64)| LoadReport {
            requests: 1000,
            errors: 0,
            dropped: 0,
            seconds: 1.0,
            requests_per_second: 1000.0,
            bytes: 0,
            handshakes: 0,
            resumed: 0,
            latency_us: Latency { p99, ..Latency::default() },
            sent_late_us: Latency::default(),
            cpu_us_per_request: BTreeMap::from([("proxy".to_owned(), cpu)]),
            first_error: None,
        };
        Measurement { rounds: rounds.iter().map(round).collect(), ..Measurement::new(scenario, placement, peer) }
    }

    fn verdict_of(results: &Results, scenario: &str, figure: &str) -> (Option<f64>, Verdict) {
        let found = results.judgements.iter().find(|(name, judgement)| name == scenario && judgement.figure == figure);
        found.map(|(_, judgement)| (judgement.ratio, judgement.verdict)).expect("judged")
    }

    #[test]
    fn medians_are_judged_against_the_better_of_the_two() {
        let mut results = results();
        let open = |peer, rounds| measurement(Scenario::Open5000, Placement::OwnCore, peer, rounds);
        results.measurements = vec![
            open(PeerKind::Tidegate, &[(12.0, 300.0), (90.0, 100.0), (11.0, 200.0)]),
            open(PeerKind::Haproxy, &[(16.0, 150.0)]),
            open(PeerKind::Nginx, &[(20.0, 160.0)]),
            // The floor is nobody's rival.
            open(PeerKind::Relay, &[(1.0, 1.0)]),
        ];
        results.judge();
        assert_eq!(verdict_of(&results, "open-5000 C", "CPU µs/request"), (Some(0.75), Verdict::Reached));
        assert_eq!(verdict_of(&results, "open-5000 C", "p99 µs"), (Some(200.0 / 150.0), Verdict::Missed));
        assert_eq!(verdict_of(&results, "memory at start", "MB resident"), (None, Verdict::Unknown));
    }

    #[test]
    fn the_access_log_is_judged_against_tidegate_without() {
        let mut results = results();
        let log = |peer, cpu| measurement(Scenario::AccessLog, Placement::Shared, peer, &[(cpu, 1.0)]);
        results.measurements = vec![log(PeerKind::Tidegate, 10.0), log(PeerKind::TidegateLogging, 12.0)];
        results.judge();
        assert_eq!(verdict_of(&results, "access-log S", "CPU µs/request"), (Some(1.2), Verdict::Missed));
    }

    #[test]
    fn a_failed_measurement_is_no_figure() {
        let mut results = results();
        let ours = measurement(Scenario::Http1Html2K, Placement::Shared, PeerKind::Tidegate, &[(1.0, 1.0)]);
        let rival = measurement(Scenario::Http1Html2K, Placement::Shared, PeerKind::Nginx, &[(2.0, 1.0)]);
        results.measurements = vec![Measurement { failure: Some("died".into()), ..ours }, rival];
        results.peers = vec![PeerSummary::absent(PeerKind::Haproxy)];
        results.judge();
        assert_eq!(verdict_of(&results, "h1-2k S", "CPU µs/request"), (None, Verdict::Unknown));
        let text = markdown(&results);
        for wanted in ["(died)", "haproxy is absent", "| h1-2k S | failed |", "| h1-2k S | CPU µs/request | – | 2.00 (nginx) |"]
        {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
    }

    #[test]
    fn the_folder_is_named_after_day_and_machine() {
        assert_eq!(results().default_folder(), PathBuf::from("bench/results/2026-02-03-some-2c"));
        let mut epyc = results();
        epyc.machine.cpu = "AMD EPYC 9554 64-Core Processor (family 25 model 17)".into();
        assert_eq!(epyc.default_folder(), PathBuf::from("bench/results/2026-02-03-amd-epyc-9554-64-2c"));
    }
}
