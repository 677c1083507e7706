//! What a change costs, with one site and with thousands: starting, the time until a changed route is seen and the CPU
//! that it takes, and what a moderate load feels while one change follows the other. Instances that come and go are
//! E3's.

use std::collections::BTreeMap;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use crate::content::Page;
use crate::experiments::grid;
use crate::experiments::phased::PhasedLoad;
use crate::experiments::round;
use crate::experiments::session::Session;
use crate::load::PhaseReport;
use crate::net::Error;
use crate::peers::{PeerKind, Program, Rendered, Setup, Sites};
use crate::procfs::{self, ProcessId};
use crate::report::number;
use crate::results::change::{CALM, CHANGE, CHANGING, START};
use crate::results::figure::Figure;
use crate::results::judgement::Judgement;
use crate::results::summary::Summary;
use crate::results::{Cell, Configuration, ExperimentRecord, Outcome, Placement, Round};
use crate::stage::cores::OnCores;
use crate::stage::interrupt::Interrupted;
use crate::stage::probe::Probe;
use crate::stage::running::{Participant, Running};

/// Some take long with thousands of sites.
const START_TIME_MAX: Duration = Duration::from_secs(120);
/// A change that is not seen by then counts as not done.
const SEEN_TIME_MAX: Duration = Duration::from_secs(30);
/// After a start, before the first change: watchers and workers come to rest.
const SETTLE: Duration = Duration::from_millis(500);
/// Between two looks whether a change is seen.
const LOOK: Duration = Duration::from_millis(1);
/// The same under load, whose latency the looks must not make.
const LOOK_UNDER_LOAD: Duration = Duration::from_millis(5);
/// From one change to the next, unless it takes longer.
const PACE: Duration = Duration::from_millis(100);
/// A round of CPU time has so many changes: that of threads and processes that have ended is told in hundredths of a
/// second.
const CHANGES_OF_A_ROUND: u32 = 20;
/// Whoever takes longer than this for one has one.
const SLOW: Duration = Duration::from_millis(500);
/// Of the time for the changes under load, what whoever is slow may take.
const CHANGES_TIME_MAX: u32 = 3;
/// Every machine bears it, and every proxy does.
const RATE: u32 = 500;
const CONNECTIONS: usize = 16;
/// An open loop that leaves out more than this did not make its load.
const DROPPED_SHARE_MAX: f64 = 0.01;
/// A report is read by people; the rest looks like this.
const SHOWN_LINES_MAX: usize = 60;

/// The targets are for so many sites.
const TARGET_SITES: u32 = 10_000;
const START_MS_MAX: f64 = 2_000.0;
const RESIDENT_MB_AT_START_MAX: f64 = 150.0;
const CHANGE_SEEN_MS_MAX: f64 = 50.0;
const LATENCY_P99_RATIO_MAX: f64 = 1.5;

const FAIRNESS: [&str; 8] = [
    "What a change is differs. Tidegate replaces the routes of the running process on SIGHUP and keeps its connections. haproxy (master-worker, \
     SIGUSR2) and nginx (SIGHUP) read everything and start new workers; the old ones end, with the kept connections of clients. Envoy replaces its \
     routes when the watched file is. Caddy is given a whole configuration by its reload command, and closes kept connections. Traefik reads its watched folder, at most every two seconds.",
    "Everybody has the shortest configuration in which each site has a route of its own and all share one upstream, where the language has a \
     name for it: a block for each site, with haproxy a line of a map, with Envoy a virtual host. The site that changes has a file of its own, but \
     with Envoy, which has all virtual hosts in one. All peers but Envoy read all of it again.",
    "Sites speak plain HTTP: with TLS, the time to start and the memory would mostly be those of the certificates. Logs are off; as many threads as in the \
     equalised experiments.",
    "The start is that of the process, pinned by a small step of the lab that takes some milliseconds of everybody, until localhost has the right answer; \
     it is asked every millisecond. Writing the files is not in it. Resident memory is the sum over all processes, which counts what they share in each; \
     with shared pages counted once it stands beside.",
    "The time until a change is seen begins with the writing of the file, is looked for with a new connection every millisecond (five under load), and \
     ends with the first answer that shows it: a worker with the old configuration may answer others still. The CPU time is that of changes that \
     nobody looks for until they are over. Of threads and processes that ended, the kernel tells it in hundredths of a second.",
    "Under load, each change is ordered when the one before has been seen, at most ten a second. Who is slower makes fewer changes in the time, and the table \
     says how many: the latency beside it is that of as many.",
    "The ratio is to the same proxy's own calm phase; the latencies themselves stand beside it. Requests sent again met a kept connection that was \
     closed under them before a byte of the answer, and are no failure. Wrong answers are.",
    "Peer by peer, since thousands of sites are much memory; the phases under load are one pass. What orders changes and looks for them runs on the \
     generator's processors.",
];

pub fn run(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    let counts = session.options.sites();
    let time = session.options.change_time();
    record.description.push(format!(
        "{}, each with one route to the same backend, beside localhost. Rounds: {}, each with a start, a change of one route that is looked for \
         every millisecond, and the CPU time of such changes. Then {RATE} requests per second to localhost over {CONNECTIONS} kept connections, for \
         {time:?} in calm and as long while changes of that route follow each other, {} of them if they are done in time.",
        counts.iter().map(|count| sites_text(*count)).collect::<Vec<_>>().join(" and "),
        session.options.rounds(),
        changes_wanted(time),
    ));
    record.fairness.extend(FAIRNESS.map(str::to_owned));
    session.stage.place(Placement::OwnCores).ok();
    let steps = counts.len() * session.programs.len();
    for (of_count, &count) in counts.iter().enumerate() {
        for (index, program) in session.programs.clone().into_iter().enumerate() {
            session.check()?;
            let name = &program.name;
            let number = of_count * session.programs.len() + index + 1;
            session.progress.step(&format!("{name} with {}", sites_text(count)), number, steps);
            // Of the lab itself, what works here must not take from the proxy.
            let on_generator = OnCores::pin(session.stage.cores_of_generator());
            let outcome = on_generator.and_then(|_pinned| measure(session, record, &program, count));
            session.check()?;
            if let Err(error) = outcome {
                session.remark(record, format!("{name} with {}: {error}", sites_text(count)));
            }
        }
    }
    judge(record, &counts);
    session.check()
}

pub fn seconds(session: &Session) -> f64 {
    let rounds = session.options.rounds() as f64;
    let each = rounds * (1.0 + 0.2 + 1.0) + 2.5 * session.options.change_time().as_secs_f64() + 1.5;
    (session.options.sites().len() * session.peers()) as f64 * each
}

fn changes_wanted(time: Duration) -> u32 {
    u32::try_from(time.as_millis() / PACE.as_millis()).unwrap_or(u32::MAX).max(1)
}

fn sites_text(count: u32) -> String {
    let digits = number::count(u64::from(count));
    format!("{digits} site{}", if count == 1 { "" } else { "s" })
}

fn case(count: u32, part: &str) -> String {
    format!("{} | {part}", sites_text(count))
}

/// A peer that stands, and its two configurations, which take turns.
struct Subject {
    running: Running,
    /// The one that does not run.
    other: Rendered,
    /// The revision of the one that does.
    revision: u32,
    probe: Probe,
}

const REVISIONS: [u32; 2] = [1, 2];

fn measure(session: &mut Session, record: &mut ExperimentRecord, program: &Program, count: u32) -> Result<(), Error> {
    let [first, second] = REVISIONS.map(|revision| Setup::of_sites(Sites { count, revision }, session.threads()));
    let participant = Participant::Peer { program: program.clone(), setup: first };
    let cell = |session: &Session, part: &str, load: &[String]| {
        grid::cell(&case(count, part), &participant, session.stage.placement(), load)
    };
    let running = match start(session, &participant, cell(session, START, &[])) {
        (Some(running), cell) => {
            record.cells.push(cell);
            running
        }
        (None, cell) => {
            let failed = cell.outcome.clone();
            record.cells.push(cell);
            return if let Outcome::Failed { reason } = failed { Err(reason.into()) } else { Ok(()) };
        }
    };
    record.configurations.extend(running.configuration().map(|configuration| shown(configuration, count)));
    let other = running.prepare(session.stage.templates(), &second)?;
    let probe = Probe::plain(running.address(), Sites::CHANGING);
    let mut subject = Subject { running, other, revision: REVISIONS[0], probe };
    session.pause(SETTLE).map_err(|Interrupted| "interrupted")?;

    let mut changed = cell(session, CHANGE, &[]);
    let outcome = change_rounds(session, &mut subject, &mut changed);
    if let Err(error) = &outcome {
        changed.outcome = Outcome::Failed { reason: error.to_string() };
    }
    record.cells.push(changed);
    outcome?;

    let arguments = format!("--path / --rate {RATE} --connections {CONNECTIONS} --threads 1");
    let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
    let cells = [CALM, CHANGING].map(|part| cell(session, part, &arguments));
    let (cells, outcome) = under_load(session, record, &mut subject, cells, &arguments)?;
    record.cells.extend(cells);
    outcome
}

/// As often as there are rounds; the last one stays. None when it failed, or when the user wants the run to end.
fn start(session: &mut Session, participant: &Participant, mut cell: Cell) -> (Option<Running>, Cell) {
    let mut last = None;
    for _ in 0..session.options.rounds() {
        drop(last.take());
        if session.check().is_err() {
            return (None, cell);
        }
        session.progress.spend(1.0, &format!("{}: {}", cell.participant, cell.case));
        let body = Page::Hello11B.body();
        let is_answered = |listen| Probe::plain(listen, Sites::UNCHANGING).is_answered_with("/", &body);
        let (running, time) = match Running::start_until(&session.stage, participant.clone(), is_answered, START_TIME_MAX) {
            Ok(started) => started,
            Err(error) => {
                cell.outcome = Outcome::Failed { reason: error.to_string() };
                return (None, cell);
            }
        };
        let mut figures = BTreeMap::from([
            (Figure::StartMs, milliseconds(time)),
            (Figure::ResidentAtStartMb, running.resident_bytes_at_start() as f64 / 1e6),
        ]);
        let shared_once = procfs::proportional_bytes(running.processes());
        figures.extend(shared_once.map(|bytes| (Figure::SharedOnceAtStartMb, bytes as f64 / 1e6)));
        cell.rounds.push(Round { figures, ..Round::default() });
        last = Some(running);
    }
    (last, cell)
}

/// First the time of changes that are looked for, then the CPU time of some that nobody looks for.
fn change_rounds(session: &mut Session, subject: &mut Subject, cell: &mut Cell) -> Result<(), Error> {
    let name = cell.participant.clone();
    let mut slowest = Duration::ZERO;
    for _ in 0..session.options.rounds() {
        session.progress.spend(0.2, &format!("{name}: {}", cell.case));
        let seen = subject.change(session, LOOK)?;
        slowest = slowest.max(seen);
        cell.rounds.push(Round { figures: [(Figure::ChangeSeenMs, milliseconds(seen))].into(), ..Round::default() });
        session.pause(PACE).map_err(|Interrupted| "interrupted")?;
    }
    let changes = if slowest > SLOW { 1 } else { CHANGES_OF_A_ROUND };
    for round in &mut cell.rounds {
        session.progress.spend(1.0, &format!("{name}: CPU time of a change"));
        let before = subject.cpu_ns()?;
        for _ in 0..changes {
            // Long enough that the first look mostly sees it.
            subject.change(session, slowest * 2 + PACE)?;
        }
        let used = subject.cpu_ns()?.saturating_sub(before);
        round.figures.insert(Figure::CpuMsPerChange, used as f64 / 1e6 / f64::from(changes));
    }
    Ok(())
}

/// Cells of the calm phase and of the one with changes, and what went wrong within the latter.
fn under_load(
    session: &mut Session,
    record: &mut ExperimentRecord,
    subject: &mut Subject,
    [mut calm, mut changing]: [Cell; 2],
    arguments: &[String],
) -> Result<(Vec<Cell>, Result<(), Error>), Error> {
    let time = session.options.change_time();
    session.progress.spend(2.5 * time.as_secs_f64(), &format!("{}: {}", calm.participant, changing.case));
    let mut command = session.stage.generator("load", &subject.running, arguments)?;
    // Those that serve now; the changes before have replaced what was started.
    command.args(session.stage.observe_processes(&subject.processes())?);
    let mut load = PhasedLoad::start(command)?;
    session.pause(grid::WARMUP).map_err(|Interrupted| "interrupted")?;
    load.begin(CALM)?;
    session.pause(time).map_err(|Interrupted| "interrupted")?;
    load.begin(CHANGING)?;
    let mut seen = Vec::new();
    let outcome = change_again_and_again(session, subject, time, &mut seen);
    let resident = subject.resident_bytes();
    // Whatever happened, what was counted until then is recorded before it is told.
    let report = load.finish()?;
    let [first, second] = report.phases.as_slice() else { return Err("the generator did not report two phases".into()) };
    calm.rounds.push(round::round(first));
    let mut round = round_of_changes(first, second);
    round.figures.insert(Figure::ChangesMade, seen.len() as f64);
    round.figures.insert(Figure::ResidentMb, resident as f64 / 1e6);
    if let Some(summary) = Summary::of(seen.iter().copied()) {
        round.figures.insert(Figure::ChangeSeenMs, summary.median);
    }
    changing.rounds.push(round);
    settle_outcomes(session, &mut calm, &mut changing, &outcome);
    if second.latency_us.is_some() && changing.rounds.iter().all(|round| !round.figures.contains_key(&Figure::LatencyP99Us)) {
        let (name, case, dropped) = (&changing.participant, &changing.case, second.dropped);
        session.remark(
            record,
            format!("{name} in {case}: {dropped} requests were never sent, so what was sent has no percentiles."),
        );
    }
    Ok((vec![calm, changing], outcome))
}

fn settle_outcomes(session: &Session, calm: &mut Cell, changing: &mut Cell, outcome: &Result<(), Error>) {
    calm.outcome = round::outcome(calm, session.stage.cores());
    // Failures are what is looked for here, and no reason to withhold the rest.
    let limited = [&*calm, &*changing].into_iter().find_map(|cell| round::limited_by(cell, session.stage.cores()));
    if let Some(by) = limited {
        changing.outcome = Outcome::Limited { by };
    }
    if let Err(error) = outcome {
        changing.outcome = Outcome::Failed { reason: error.to_string() };
    }
}

/// The round of the phase with changes, without what processes that come and go have spoilt.
fn round_of_changes(calm: &PhaseReport, changing: &PhaseReport) -> Round {
    let mut round = round::round(changing);
    for spoilt in [Figure::CpuUsPerRequest, Figure::ProxyCoresBusy, Figure::ResidentMb, Figure::OtherCoresBusy] {
        round.figures.remove(&spoilt);
    }
    let due = (changing.requests + changing.failed() + changing.dropped) as f64;
    if changing.dropped as f64 > DROPPED_SHARE_MAX * due {
        // What was never sent has no latency: percentiles of the rest would flatter.
        round.figures.retain(|figure, _| !is_latency(*figure));
        return round;
    }
    if let (Some(before), Some(after)) = (calm.latency_us, changing.latency_us) {
        let ratios = [(Figure::LatencyP50Ratio, after.p50 / before.p50), (Figure::LatencyP99Ratio, after.p99 / before.p99)];
        round.figures.extend(ratios.into_iter().filter(|(_, ratio)| ratio.is_finite()));
    }
    round
}

fn is_latency(figure: Figure) -> bool {
    matches!(
        figure,
        Figure::LatencyMeanUs
            | Figure::LatencyP50Us
            | Figure::LatencyP75Us
            | Figure::LatencyP90Us
            | Figure::LatencyP95Us
            | Figure::LatencyP99Us
            | Figure::LatencyP999Us
            | Figure::LatencyMaxUs
    )
}

fn change_again_and_again(session: &Session, subject: &mut Subject, time: Duration, seen: &mut Vec<f64>) -> Result<(), Error> {
    let began = Instant::now();
    for _ in 0..changes_wanted(time) {
        if began.elapsed() > time * CHANGES_TIME_MAX {
            break;
        }
        let took = subject.change(session, LOOK_UNDER_LOAD)?;
        seen.push(milliseconds(took));
        session.pause(PACE.saturating_sub(took)).map_err(|Interrupted| "interrupted")?;
    }
    // A phase that ends with its last change would have no time for what comes after it.
    session.pause(time.saturating_sub(began.elapsed())).map_err(|Interrupted| "interrupted".into())
}

impl Subject {
    /// Writes the other configuration, has the peer take it up, and looks every so often with a new connection. Returns
    /// the time to the first answer that shows it.
    fn change(&mut self, session: &Session, look: Duration) -> Result<Duration, Error> {
        let wanted = REVISIONS.into_iter().find(|revision| *revision != self.revision).unwrap_or(self.revision);
        let field = format!("\r\nx-revision: {wanted}\r\n");
        let (running, prepared, probe) = (&self.running, &self.other, &self.probe);
        let began = Instant::now();
        // Ordering may take as long as the change, so somebody else does it.
        let seen = std::thread::scope(|scope| {
            let mut order = Some(scope.spawn(move || running.order(prepared)));
            let mut seen = None;
            while seen.is_none() {
                session.pause(look).map_err(|Interrupted| "interrupted")?;
                if probe.head("/").is_ok_and(|head| head.contains(&field)) {
                    seen = Some(began.elapsed());
                }
                if seen.is_some() || order.as_ref().is_some_and(ScopedJoinHandle::is_finished) {
                    let outcome = order.take().map(ScopedJoinHandle::join);
                    outcome.unwrap_or(Ok(Ok(()))).unwrap_or_else(|_| Err("could not be told to change".into()))?;
                }
                if began.elapsed() > SEEN_TIME_MAX + look {
                    return Err(Error::from(format!("a change was not seen within {SEEN_TIME_MAX:?}")));
                }
            }
            Ok(seen.unwrap_or_default())
        })?;
        self.running.replaced(&mut self.other);
        self.revision = wanted;
        self.running.check_alive()?;
        Ok(seen)
    }

    /// With that of the commands that have ordered changes, which are children of this process.
    fn cpu_ns(&self) -> Result<u64, Error> {
        let root = self.running.process_id().ok_or("it is not running")?;
        Ok(procfs::family_cpu_ns(root)? + procfs::ended_children_cpu_ns(std::process::id())?)
    }

    /// The processes that are there just now.
    fn processes(&self) -> Vec<ProcessId> {
        let root = self.running.process_id();
        root.and_then(|root| procfs::with_descendants(root).ok()).unwrap_or_default()
    }

    fn resident_bytes(&self) -> u64 {
        self.processes().iter().filter_map(|process| procfs::resident_bytes(&[*process]).ok()).sum()
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Thousands of sites that look alike are shown by the first ones.
fn shown(mut configuration: Configuration, count: u32) -> Configuration {
    for (_, text) in &mut configuration.files {
        let lines = text.lines().count();
        if lines > SHOWN_LINES_MAX {
            let first: Vec<&str> = text.lines().take(SHOWN_LINES_MAX).collect();
            *text = format!("{}\n… and so on, {lines} lines\n", first.join("\n"));
        }
    }
    configuration.note = format!("{} With {}.", configuration.note, sites_text(count));
    configuration
}

fn judge(record: &mut ExperimentRecord, counts: &[u32]) {
    let tidegate = PeerKind::Tidegate.name();
    if !counts.contains(&TARGET_SITES) || !record.cells.iter().any(|cell| cell.participant == tidegate) {
        return;
    }
    let find = |part: &str, figure: Figure| {
        let case = case(TARGET_SITES, part);
        record.cells.iter().find(|cell| cell.participant == tidegate && cell.case == case).and_then(|cell| cell.median(figure))
    };
    let judgements = [
        (START, Figure::StartMs, START_MS_MAX, "≤ 2,000 ms"),
        (START, Figure::ResidentAtStartMb, RESIDENT_MB_AT_START_MAX, "≤ 150 MB"),
        (CHANGE, Figure::ChangeSeenMs, CHANGE_SEEN_MS_MAX, "≤ 50 ms"),
        (CHANGING, Figure::LatencyP99Ratio, LATENCY_P99_RATIO_MAX, "≤ 1.5 ×"),
    ]
    .map(|(part, figure, max, target)| {
        Judgement::absolute(&case(TARGET_SITES, part), figure.title(), find(part, figure), max, target)
    });
    record.judgements.extend(judgements);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tally::Latency;
    use crate::report::fixture;
    use crate::results::judgement::Verdict;

    fn phase(requests: u64, dropped: u64, p99: f64) -> PhaseReport {
        let latency = Latency { p50: p99 / 2.0, p99, ..fixture_latency() };
        PhaseReport { seconds: 1.0, requests, dropped, latency_us: Some(latency), ..PhaseReport::default() }
    }

    fn fixture_latency() -> Latency {
        Latency { mean: 1.0, p50: 1.0, p75: 1.0, p90: 1.0, p95: 1.0, p99: 1.0, p99_9: 1.0, max: 1.0 }
    }

    #[test]
    fn a_phase_has_ten_changes_a_second() {
        for (time, expected) in [(10_000, 100), (2_000, 20), (300, 3), (50, 1)] {
            assert_eq!(changes_wanted(Duration::from_millis(time)), expected, "{time}");
        }
    }

    #[test]
    fn latency_is_compared_with_the_calm_before_unless_too_little_was_sent() {
        let check = |changing: &PhaseReport, expected: Option<f64>| {
            let figures = round_of_changes(&phase(500, 0, 200.0), changing).figures;
            assert_eq!(figures.get(&Figure::LatencyP99Ratio).copied(), expected);
            assert_eq!(figures.contains_key(&Figure::LatencyP99Us), expected.is_some());
            assert!(figures.contains_key(&Figure::Dropped));
        };
        check(&phase(500, 0, 300.0), Some(1.5));
        check(&phase(500, 5, 300.0), Some(1.5));
        check(&phase(500, 6, 300.0), None);
    }

    #[test]
    fn targets_are_judged_where_they_were_measured() {
        let check = |counts: &[u32], participant: &str, expected: &[Verdict]| {
            let mut record = fixture::small().experiments.remove(0);
            record.cells.truncate(1);
            for (part, figure, value) in [
                (START, Figure::StartMs, 1_900.0),
                (CHANGE, Figure::ChangeSeenMs, 51.0),
                (CHANGING, Figure::LatencyP99Ratio, 1.5),
            ] {
                record.cells.push(Cell {
                    case: case(10_000, part),
                    participant: participant.to_owned(),
                    rounds: vec![Round { figures: [(figure, value)].into(), ..Round::default() }],
                    outcome: Outcome::Measured,
                    ..record.cells[0].clone()
                });
            }
            record.cells.remove(0);
            judge(&mut record, counts);
            let verdicts: Vec<Verdict> = record.judgements.iter().map(|judgement| judgement.verdict).collect();
            assert_eq!(verdicts, expected);
        };
        check(&[1, 10_000], "tidegate", &[Verdict::Reached, Verdict::Unknown, Verdict::Missed, Verdict::Reached]);
        check(&[1, 1_000], "tidegate", &[]);
        check(&[1, 10_000], "nginx", &[]);
    }

    #[test]
    fn thousands_of_sites_are_shown_by_the_first() {
        let mut configuration =
            fixture::report().experiments.into_iter().find_map(|record| record.configurations.into_iter().next()).unwrap();
        configuration.files = vec![("short".into(), "a\n".repeat(60)), ("long".into(), "b\n".repeat(30_000))];
        let shown = shown(configuration, 10_000);
        assert_eq!(shown.files[0].1, "a\n".repeat(60));
        assert_eq!(shown.files[1].1, format!("{}… and so on, 30000 lines\n", "b\n".repeat(60)));
        assert!(shown.note.ends_with(" With 10,000 sites."), "{}", shown.note);
    }
}
