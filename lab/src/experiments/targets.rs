//! What Tidegate has promised itself: CPU per request against the better of HAProxy and nginx, memory, system calls.
//! The figures that chose its design are measured the same way, so that a change of Tidegate can be held against them.

use std::time::{Duration, Instant};

use tidegate_transport::Driver;

use crate::content::Page;
use crate::experiments::grid::{self, Case};
use crate::experiments::options::Preset;
use crate::experiments::plain::EQUALISED;
use crate::experiments::session::{Failed, Session, usual};
use crate::experiments::{content, e2, memory};
use crate::peers::{PeerKind, Program, Setup, Source, name_with};
use crate::results::figure::Figure;
use crate::results::judgement::{Judgement, better};
use crate::results::{Cell, ExperimentRecord, Flavour, Outcome, Placement, Round};
use crate::stage::interrupt::Interrupted;
use crate::stage::running::{Participant, Running};
use crate::stage::syscalls;

const RIVALS: [PeerKind; 2] = [PeerKind::Haproxy, PeerKind::Nginx];
/// Behind the name of Tidegate's column.
const LOGGING: &str = ", log on";
const SYSTEM_CALLS: &str = "system calls";
const ACCESS_LOG: &str = "access log, 2k";
const MEMORY: &str = "memory";
const IDLE_MEMORY_RATIO_MAX: f64 = 1.0;
const ACCESS_LOG_RATIO_MAX: f64 = 1.1;
const RESIDENT_MB_AT_START_MAX: f64 = 25.0;
/// A hundredth of leeway for the calls that are not made for a request, such as those of a timer.
const SOCKET_CALLS_PER_REQUEST_MAX: f64 = 4.05;
/// A short run is for between two changes: it has few rounds, fewer where the machine is slow, and an end.
const QUICK_TIME_MAX: Duration = Duration::from_secs(570);
/// The requests of the two loads that strace watches.
const TRACED_REQUESTS: [u64; 2] = [2_000, 12_000];

/// What Tidegate's figure may be of the cheapest rival's, with each driver.
struct Limit {
    figure: Figure,
    epoll: f64,
    ring: f64,
}

/// A case and its bounds in each placement; without bounds it is not measured there.
struct Promise {
    name: &'static str,
    load: Arguments,
    plain: bool,
    shared: &'static [Limit],
    apart: &'static [Limit],
}

enum Arguments {
    Fixed(&'static str),
    /// An open loop at this share, in percent, of what the weakest peer does in [`PEAK`] with processors of its own.
    OfWeakest(&'static str, f64),
}

/// The closed loop whose slowest peer sets the rate of the open one.
const PEAK: &str = "h1-2k";
/// With a ring nothing may be dearer than with epoll by more than this.
const RING_TO_EPOLL_MAX: f64 = 1.05;

const fn cpu(epoll: f64, ring: f64) -> Limit {
    Limit { figure: Figure::CpuUsPerRequest, epoll, ring }
}

const fn latency(figure: Figure) -> Limit {
    Limit { figure, epoll: 0.9, ring: 0.9 }
}

const OPEN: &[Limit] = &[cpu(0.85, 0.75), latency(Figure::LatencyP99Us), latency(Figure::LatencyP999Us)];

/// A handshake costs the generator as much as the proxy, and an open loop has nothing to do most of the time: neither
/// is measured on one processor.
const PROMISES: [Promise; 10] = [
    Promise {
        name: "h1-11b",
        load: Arguments::Fixed("--path /11b --connections 64"),
        plain: true,
        shared: &[cpu(0.73, 0.40)],
        apart: &[cpu(0.85, 0.72)],
    },
    Promise {
        name: PEAK,
        load: Arguments::Fixed("--path /2k --connections 64"),
        plain: true,
        shared: &[cpu(0.73, 0.40)],
        apart: &[cpu(0.85, 0.72)],
    },
    Promise {
        name: "h1-100k",
        load: Arguments::Fixed("--path /100k --connections 64"),
        plain: true,
        shared: &[cpu(0.42, 0.32)],
        apart: &[cpu(0.45, 0.40)],
    },
    Promise {
        name: "h2-2k",
        load: Arguments::Fixed("--path /2k --alpn h2 --connections 8 --streams 16"),
        plain: false,
        shared: &[cpu(0.90, 0.55)],
        apart: &[cpu(0.85, 0.75)],
    },
    Promise {
        name: "h2-2k, 64 × 1",
        load: Arguments::Fixed("--path /2k --alpn h2 --connections 64 --streams 1"),
        plain: false,
        shared: &[cpu(0.90, 0.55)],
        apart: &[cpu(0.85, 0.75)],
    },
    Promise {
        name: "h2-100k",
        load: Arguments::Fixed("--path /100k --alpn h2 --connections 8 --streams 4"),
        plain: false,
        shared: &[cpu(0.50, 0.45)],
        apart: &[cpu(0.50, 0.45)],
    },
    Promise {
        name: "handshake-full",
        load: Arguments::Fixed("--path /11b --handshakes full --connections 16"),
        plain: false,
        shared: &[],
        apart: &[cpu(0.55, 0.55)],
    },
    Promise {
        name: "handshake-resumed",
        load: Arguments::Fixed("--path /11b --handshakes resumed --connections 16"),
        plain: false,
        shared: &[],
        apart: &[cpu(0.40, 0.40)],
    },
    Promise {
        name: "open-5000",
        load: Arguments::Fixed("--path /2k --rate 5000 --connections 64"),
        plain: true,
        shared: &[],
        apart: OPEN,
    },
    Promise {
        name: "open-70 %",
        load: Arguments::OfWeakest("--path /2k --connections 64", 70.0),
        plain: true,
        shared: &[],
        apart: OPEN,
    },
];

/// What is served without an upstream, and the bounds on its CPU time.
const CONTENTS: [(&content::Part, Source, &str, Limit); 2] = [
    (&content::CACHE_HIT, Source::Cache, "2k plain", cpu(0.6, 0.4)),
    (&content::LARGE_FILE, Source::Files, "100k plain", cpu(0.8, 0.7)),
];

impl Promise {
    fn placed(&self) -> impl Iterator<Item = (Placement, &'static [Limit])> {
        let all = [(Placement::Shared, self.shared), (Placement::OwnCores, self.apart)];
        all.into_iter().filter(|(_, bounds)| !bounds.is_empty())
    }

    fn cases(&self, arguments: &str) -> Vec<Case> {
        let case = |(placement, _)| {
            let case = Case::new(self.name, arguments).placed(placement);
            if self.plain { case } else { case.tls_only() }
        };
        self.placed().map(case).collect()
    }

    /// The cases whose load is known beforehand.
    fn fixed_cases(&self) -> Vec<Case> {
        match self.load {
            Arguments::Fixed(arguments) => self.cases(arguments),
            Arguments::OfWeakest(..) => Vec::new(),
        }
    }
}

impl Limit {
    fn with(&self, driver: Option<Driver>) -> f64 {
        match driver {
            None | Some(Driver::Epoll) => self.epoll,
            Some(Driver::IoUring) => self.ring,
        }
    }
}

pub fn run(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    describe(record);
    session.rounds_end_by = rounds_end_by(session);
    let outcome = measure(session, record);
    session.rounds_end_by = None;
    let options = session.options;
    record.judgements = judge(&record.cells, &of_the_two_sides(session), &|case| options.wants(case));
    outcome
}

fn measure(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    let programs = of_the_two_sides(session);
    let cases: Vec<Case> = PROMISES.iter().flat_map(Promise::fixed_cases).collect();
    let cases: Vec<Case> = cases.into_iter().filter(|case| session.stage.allows(case.placement)).collect();
    let wants = |case: &str| session.options.wants(case);
    let (wants_calls, wants_log) = (wants(SYSTEM_CALLS), wants(ACCESS_LOG));
    let wants_open = PROMISES.iter().any(|promise| is_open(promise) && grid::any_is_wanted(session, &promise.cases("")));
    if grid::any_is_wanted(session, &cases) || wants_calls || wants_log || wants_open {
        let mut running: Vec<Running> = grid::relays(session, record);
        for program in programs.iter().cloned() {
            running.extend(session.start(record, Participant::Peer { program, setup: usual(Flavour::Equalised, 1) }));
        }
        grid::verify(session, record, &mut running, &[Page::Hello11B, Page::Html2K, Page::Html100K], None)?;
        grid::measure(session, record, &mut running, &cases)?;
        measure_shares_of_weakest(session, record, &mut running)?;
        if wants_log {
            measure_access_log(session, record, &mut running)?;
        }
        if wants_calls {
            count_system_calls(session, record, &mut running)?;
        }
    }
    for (part, ..) in &CONTENTS {
        content::measure(session, record, part, &programs)?;
    }
    if session.options.wants(MEMORY) {
        weigh(session, record, &programs)?;
    }
    Ok(())
}

/// What comes behind the grids takes its time as well.
fn rounds_end_by(session: &Session) -> Option<Instant> {
    match session.options.preset {
        Preset::Quick => {
            let after = Duration::from_secs_f64(seconds_without_rounds(session));
            Some(Instant::now() + QUICK_TIME_MAX.saturating_sub(after))
        }
        Preset::Full => None,
    }
}

pub fn seconds(session: &Session) -> f64 {
    let programs = of_the_two_sides(session);
    let of_promise = |promise: &Promise| {
        let relays = if promise.plain { session.drivers().len() } else { 0 };
        grid::seconds_of(&promise.cases(""), programs.len() + relays, session)
    };
    let grids = PROMISES.iter().map(of_promise).sum::<f64>()
        + CONTENTS.iter().map(|(part, ..)| part.seconds(session, &programs)).sum::<f64>();
    let all = grids + seconds_without_rounds(session);
    match session.options.preset {
        Preset::Quick => all.min(QUICK_TIME_MAX.as_secs_f64()),
        Preset::Full => all,
    }
}

fn seconds_without_rounds(session: &Session) -> f64 {
    let wants = |case: &str| f64::from(u8::from(session.options.wants(case)));
    let programs = of_the_two_sides(session);
    let traced = programs.iter().filter(|program| is_traced(session, program)).count() + session.drivers().len();
    wants(ACCESS_LOG) * grid::seconds(1, 2, session)
        + wants(SYSTEM_CALLS) * traced as f64 * 10.0
        + wants(MEMORY) * programs.len() as f64 * 8.0
}

/// Under strace a rival takes longest, and its calls do not change from day to day: a short run leaves them out.
fn is_traced(session: &Session, program: &Program) -> bool {
    match session.options.preset {
        Preset::Quick => program.is_ours(),
        Preset::Full => true,
    }
}

fn describe(record: &mut ExperimentRecord) {
    record.description.push(
        "S: proxy, generator and backend share one processor, which always has work; nobody sleeps and wakes, and figures repeat best. C: the proxy has \
         processors of its own. The relay is plain TCP without TLS and HTTP on the same driver: the kernel's share of the cost. A ratio is to the \
         cheapest of all builds of HAProxy and nginx that are measured, whichever that is for a figure."
            .to_owned(),
    );
    record.fairness.push(EQUALISED.to_owned());
    record.fairness.push(
        "System calls are counted under strace, which slows a proxy down some ten times; calls that move bytes are right, waiting for events is \
         rarer than without it."
            .to_owned(),
    );
}

/// Tidegate's columns and its rivals'.
fn of_the_two_sides(session: &Session) -> Vec<Program> {
    let is_of_them = |program: &&Program| program.is_ours() || RIVALS.contains(&program.kind);
    session.programs.iter().filter(is_of_them).cloned().collect()
}

fn is_open(promise: &Promise) -> bool {
    match promise.load {
        Arguments::Fixed(_) => false,
        Arguments::OfWeakest(..) => true,
    }
}

/// Open loops whose rate the closed ones have just told.
fn measure_shares_of_weakest(
    session: &mut Session,
    record: &mut ExperimentRecord,
    running: &mut [Running],
) -> Result<(), Interrupted> {
    for promise in &PROMISES {
        let Arguments::OfWeakest(arguments, percent) = promise.load else { continue };
        if !grid::any_is_wanted(session, &promise.cases("")) {
            continue;
        }
        let is_peak = |cell: &Cell| cell.case == PEAK && cell.placement == Placement::OwnCores && cell.flavour != Flavour::Floor;
        let Some((weakest, peak)) = e2::weakest_peak(record, &is_peak) else {
            let name = promise.name;
            session.remark(
                record,
                format!("{name} was not measured: its rate is a share of what {PEAK} C brings, which was not measured."),
            );
            continue;
        };
        let rate = (peak * percent / 100.0).max(1.0) as u32;
        record
            .description
            .push(format!("{}: the weakest in {PEAK} C was {weakest} with {peak:.0}/s, so {rate}/s.", promise.name));
        grid::measure(session, record, running, &promise.cases(&format!("{arguments} --rate {rate}")))?;
    }
    Ok(())
}

/// Tidegate with its log to a file beside Tidegate without.
fn measure_access_log(
    session: &mut Session,
    record: &mut ExperimentRecord,
    running: &mut Vec<Running>,
) -> Result<(), Interrupted> {
    let Some(program) = session.programs.iter().find(|program| program.is_ours()).cloned() else { return Ok(()) };
    let name = program.name.clone();
    let setup = Setup { access_log: true, ..usual(Flavour::Equalised, 1) };
    let Some(logging) = session.start(record, Participant::Peer { program, setup }) else { return Ok(()) };
    let Some(silent) = running.iter().position(|running| running.name() == name) else { return Ok(()) };
    let mut pair = vec![running.remove(silent), logging];
    let case = Case::new(ACCESS_LOG, "--path /2k --connections 64").placed(Placement::Shared);
    let first = record.cells.len();
    let outcome = grid::measure(session, record, &mut pair, &[case]);
    // The second of the two has the same name, and is told apart by it here.
    if let Some(cell) = record.cells[first..].iter_mut().filter(|cell| cell.case == ACCESS_LOG).nth(1) {
        cell.participant.push_str(LOGGING);
    }
    running.push(pair.swap_remove(0));
    outcome
}

fn count_system_calls(session: &mut Session, record: &mut ExperimentRecord, running: &mut [Running]) -> Result<(), Interrupted> {
    if !syscalls::is_available() {
        record.remarks.push("System calls were not counted: strace is not installed.".to_owned());
        return Ok(());
    }
    session.stage.place(Placement::OwnCores).ok();
    let is_traced = |running: &Running| match running.participant() {
        Participant::Peer { program, .. } => is_traced(session, program),
        Participant::Relay(_) | Participant::Backend => true,
    };
    let mut traced: Vec<&mut Running> = running.iter_mut().filter(|running| is_traced(running)).collect();
    let count_all = traced.len();
    for (index, running) in traced.iter_mut().enumerate() {
        session.progress.step(&format!("{SYSTEM_CALLS}, {}", running.name()), index + 1, count_all);
        let mut cell = grid::cell(SYSTEM_CALLS, running.participant(), session.stage.placement(), &[]);
        match count(session, running) {
            Ok(calls) => cell.rounds.push(Round {
                figures: [(Figure::SocketCallsPerRequest, calls.socket), (Figure::SystemCallsPerRequest, calls.all)].into(),
                ..Round::default()
            }),
            Err(Failed::Because(reason)) => cell.outcome = Outcome::Failed { reason },
            Err(Failed::Interrupted(stop)) => return Err(stop),
        }
        record.cells.push(cell);
    }
    Ok(())
}

fn count(session: &mut Session, running: &mut Running) -> Result<syscalls::SystemCalls, Failed> {
    let mut counted = Vec::new();
    let (processes, cores) = (running.processes().to_vec(), session.stage.cores_of_generator().to_vec());
    let folder = session.stage.path().to_owned();
    for requests in TRACED_REQUESTS {
        let words = format!("--path /11b --connections 64 --requests {requests} --duration 60s");
        let arguments: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let mut interrupted = None;
        let outcome =
            syscalls::count(&processes, &cores, &folder, || match session.load(running, &arguments, 3.0, SYSTEM_CALLS) {
                Ok(phase) => Ok(phase.requests),
                Err(Failed::Because(reason)) => Err(reason.into()),
                Err(Failed::Interrupted(stop)) => {
                    interrupted = Some(stop);
                    Err("interrupted".into())
                }
            });
        if let Some(stop) = interrupted {
            return Err(stop.into());
        }
        counted.push(outcome.map_err(|error| Failed::Because(error.to_string()))?);
    }
    Ok(syscalls::per_request(&counted[0], &counted[1]))
}

/// Freshly started ones.
fn weigh(session: &mut Session, record: &mut ExperimentRecord, programs: &[Program]) -> Result<(), Interrupted> {
    for (index, program) in programs.iter().cloned().enumerate() {
        session.check()?;
        session.progress.step(&format!("{MEMORY}, {}", program.name), index + 1, programs.len());
        let Some(running) = session.start(record, Participant::Peer { program, setup: usual(Flavour::Equalised, 1) }) else {
            continue;
        };
        let mut cell = grid::cell(MEMORY, running.participant(), session.stage.placement(), &[]);
        session.progress.spend(6.0, &format!("{}: idle connections", running.name()));
        match memory::weigh_idle(session, &running, memory::IDLE_CONNECTIONS) {
            Ok(bytes) => cell.rounds.push(Round {
                figures: [
                    (Figure::IdleKibPerConnection, bytes / 1024.0),
                    (Figure::ResidentAtStartMb, running.resident_bytes_at_start() as f64 / 1e6),
                ]
                .into(),
                ..Round::default()
            }),
            Err(error) => cell.outcome = Outcome::Failed { reason: error.to_string() },
        }
        record.cells.push(cell);
    }
    Ok(())
}

/// Each of Tidegate's columns against the best of all rivals' for that figure; none of its own is among those.
fn judge(cells: &[Cell], programs: &[Program], wants: &dyn Fn(&str) -> bool) -> Vec<Judgement> {
    let rivals = || programs.iter().filter(|program| !program.is_ours()).map(|program| program.name.as_str());
    let of = |case: &str, placement: Option<Placement>, participant: &str, figure: Figure| {
        let is_meant = |cell: &&Cell| {
            cell.case == case && cell.participant == participant && placement.is_none_or(|placement| cell.placement == placement)
        };
        cells.iter().find(is_meant)?.median(figure)
    };
    let best = |case: &str, placement: Option<Placement>, figure: Figure| {
        better(rivals().map(|rival| (rival, of(case, placement, rival, figure))))
    };
    let mut judgements = Vec::new();
    for program in programs.iter().filter(|program| program.is_ours()) {
        let column = if program.name == PeerKind::Tidegate.name() { String::new() } else { format!(", {}", program.name) };
        let mut relative = |case: &str, placement: Placement, bound: &Limit| {
            let title = format!("{case} {}", placement.letter());
            if !wants(&title) {
                return;
            }
            let figure = bound.figure;
            let ours = of(case, Some(placement), &program.name, figure);
            let reference = best(case, Some(placement), figure);
            let subject = format!("{title}{column}");
            judgements.push(Judgement::relative(&subject, figure.title(), ours, reference, bound.with(program.driver)));
            if let (Figure::CpuUsPerRequest, Some(epoll)) = (figure, beside_epoll(program)) {
                let reference = of(case, Some(placement), epoll, figure).map(|value| (epoll.to_owned(), value));
                let subject = format!("{subject} to epoll");
                judgements.push(Judgement::relative(&subject, figure.title(), ours, reference, RING_TO_EPOLL_MAX));
            }
        };
        for promise in &PROMISES {
            for (placement, bounds) in promise.placed() {
                for bound in bounds {
                    relative(promise.name, placement, bound);
                }
            }
        }
        for (_, source, case, bound) in &CONTENTS {
            relative(&grid::row(*source, case), Placement::Shared, bound);
        }
        if wants(MEMORY) {
            let title = Figure::IdleKibPerConnection.title();
            let idle = of(MEMORY, None, &program.name, Figure::IdleKibPerConnection);
            let reference = best(MEMORY, None, Figure::IdleKibPerConnection);
            let subject = format!("5,000 idle connections{column}");
            judgements.push(Judgement::relative(&subject, title, idle, reference, IDLE_MEMORY_RATIO_MAX));
            let title = Figure::ResidentAtStartMb.title();
            let resident = of(MEMORY, None, &program.name, Figure::ResidentAtStartMb);
            let subject = format!("freshly started{column}");
            judgements.push(Judgement::absolute(&subject, title, resident, RESIDENT_MB_AT_START_MAX, "≤ 25 MB"));
        }
    }
    // The calls of a ring are none of sockets, and the log is the same with each driver.
    let Some(first) = programs.iter().find(|program| program.is_ours()) else { return judgements };
    if wants(ACCESS_LOG) {
        let cpu = |participant: &str| of(ACCESS_LOG, None, participant, Figure::CpuUsPerRequest);
        let silent = cpu(&first.name).map(|cpu| (format!("{}, log off", first.name), cpu));
        let logging = cpu(&format!("{}{LOGGING}", first.name));
        let title = Figure::CpuUsPerRequest.title();
        judgements.push(Judgement::relative("access log S", title, logging, silent, ACCESS_LOG_RATIO_MAX));
    }
    if wants(SYSTEM_CALLS) && first.driver != Some(Driver::IoUring) {
        let calls = of(SYSTEM_CALLS, None, &first.name, Figure::SocketCallsPerRequest);
        let title = Figure::SocketCallsPerRequest.title();
        judgements.push(Judgement::absolute("h1-11b", title, calls, SOCKET_CALLS_PER_REQUEST_MAX, "4"));
    }
    judgements
}

/// The column of the same build with epoll, for one with a ring.
fn beside_epoll(program: &Program) -> Option<&str> {
    match program.driver {
        Some(driver @ Driver::IoUring) => program.name.strip_suffix(&name_with(driver, "")),
        Some(Driver::Epoll) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{cell, rounds};
    use crate::results::judgement::Verdict;

    fn program(kind: PeerKind, name: &str, driver: Option<Driver>) -> Program {
        let (version, tls_library) = (String::new(), String::new());
        Program { kind, name: name.to_owned(), driver, path: name.into(), version, tls_library }
    }

    #[test]
    fn each_column_is_held_against_the_cheapest_rival_and_the_ring_against_epoll() {
        let programs = [
            program(PeerKind::Tidegate, "tidegate", Some(Driver::Epoll)),
            program(PeerKind::Tidegate, "tidegate io-uring", Some(Driver::IoUring)),
            program(PeerKind::Haproxy, "haproxy", None),
            program(PeerKind::Haproxy, "haproxy-3.4", None),
            program(PeerKind::Nginx, "nginx", None),
        ];
        let measured = |case: &str, placement, participant: &str, cpu: f64| Cell {
            placement,
            ..cell(case, participant, Flavour::Equalised, rounds(&[(Figure::CpuUsPerRequest, cpu)]))
        };
        let (shared, apart) = (Placement::Shared, Placement::OwnCores);
        let cells = [
            measured("h1-2k", shared, "tidegate", 14.0),
            measured("h1-2k", shared, "tidegate io-uring", 9.0),
            measured("h1-2k", shared, "haproxy", 30.0),
            measured("h1-2k", shared, "haproxy-3.4", 20.0),
            measured("h1-2k", shared, "nginx", 22.0),
            measured("h1-2k", apart, "haproxy-3.4", 25.0),
            measured("h1-2k", apart, "tidegate", 20.0),
            measured("h1-2k", apart, "tidegate io-uring", 22.0),
            measured("file, 100k plain", shared, "tidegate io-uring", 13.9),
            measured("file, 100k plain", shared, "nginx", 20.0),
        ];
        let judgements = judge(&cells, &programs, &|case| case.contains("h1-2k") || case.contains("file"));
        let told: Vec<_> = judgements
            .iter()
            .map(|one| {
                (one.subject.as_str(), one.target.as_str(), one.reference.as_ref().map(|(name, _)| name.as_str()), one.verdict)
            })
            .collect();
        use Verdict::{Missed, Reached, Unknown};
        let expected = [
            ("h1-2k S", "≤ 0.73 ×", Some("haproxy-3.4"), Reached),
            ("h1-2k C", "≤ 0.85 ×", Some("haproxy-3.4"), Reached),
            ("file, 100k plain S", "≤ 0.80 ×", Some("nginx"), Unknown),
            ("h1-2k S, tidegate io-uring", "≤ 0.40 ×", Some("haproxy-3.4"), Missed),
            ("h1-2k S, tidegate io-uring to epoll", "≤ 1.05 ×", Some("tidegate"), Reached),
            ("h1-2k C, tidegate io-uring", "≤ 0.72 ×", Some("haproxy-3.4"), Missed),
            ("h1-2k C, tidegate io-uring to epoll", "≤ 1.05 ×", Some("tidegate"), Missed),
            ("file, 100k plain S, tidegate io-uring", "≤ 0.70 ×", Some("nginx"), Reached),
            ("file, 100k plain S, tidegate io-uring to epoll", "≤ 1.05 ×", None, Unknown),
        ];
        assert_eq!(told, expected);
    }
}
