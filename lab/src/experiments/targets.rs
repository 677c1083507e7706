//! What Tidegate has promised itself: CPU per request against the better of HAProxy and nginx, memory, system calls.
//! The figures that chose its design are measured the same way, so that a change of Tidegate can be held against them.

use crate::content::Page;
use crate::experiments::grid::{self, Case};
use crate::experiments::memory;
use crate::experiments::plain::EQUALISED;
use crate::experiments::session::{Failed, Session, usual};
use crate::peers::{PeerKind, Setup};
use crate::results::figure::Figure;
use crate::results::judgement::{Judgement, better};
use crate::results::{Cell, ExperimentRecord, Flavour, Outcome, Placement, Round};
use crate::stage::interrupt::Interrupted;
use crate::stage::running::{Participant, Running};
use crate::stage::syscalls;

const RIVALS: [PeerKind; 2] = [PeerKind::Haproxy, PeerKind::Nginx];
const LOGGING: &str = "tidegate, log on";
const SYSTEM_CALLS: &str = "system calls";
const ACCESS_LOG: &str = "h1-2k, access log";
const IDLE_MEMORY_RATIO_MAX: f64 = 1.0;
const ACCESS_LOG_RATIO_MAX: f64 = 1.1;
const RESIDENT_MB_AT_START_MAX: f64 = 25.0;
/// A hundredth of leeway for the calls that are not made for a request, such as those of a timer.
const SOCKET_CALLS_PER_REQUEST_MAX: f64 = 4.05;
/// The requests of the two loads that strace watches.
const TRACED_REQUESTS: [u64; 2] = [2_000, 12_000];

/// A case, where it is measured, and the bounds of Tidegate's figure as a multiple of the better rival's.
struct Promise {
    name: &'static str,
    arguments: &'static str,
    placements: &'static [Placement],
    plain: bool,
    bounds: &'static [(Figure, f64)],
}

const BOTH: &[Placement] = &[Placement::Shared, Placement::OwnCores];
/// A handshake costs the generator as much as the proxy; on one processor it would mostly measure itself.
const APART: &[Placement] = &[Placement::OwnCores];

const PROMISES: [Promise; 7] = [
    Promise {
        name: "h1-11b",
        arguments: "--path /11b --connections 64",
        placements: BOTH,
        plain: true,
        bounds: &[(Figure::CpuUsPerRequest, 0.75)],
    },
    Promise {
        name: "h1-2k",
        arguments: "--path /2k --connections 64",
        placements: BOTH,
        plain: true,
        bounds: &[(Figure::CpuUsPerRequest, 0.75)],
    },
    Promise {
        name: "h1-100k",
        arguments: "--path /100k --connections 64",
        placements: BOTH,
        plain: true,
        bounds: &[(Figure::CpuUsPerRequest, 0.5)],
    },
    Promise {
        name: "h2-2k",
        arguments: "--path /2k --alpn h2 --connections 8 --streams 16",
        placements: BOTH,
        plain: false,
        bounds: &[(Figure::CpuUsPerRequest, 0.9)],
    },
    Promise {
        name: "handshake-full",
        arguments: "--path /11b --handshakes full --connections 16",
        placements: APART,
        plain: false,
        bounds: &[(Figure::CpuUsPerRequest, 0.65)],
    },
    Promise {
        name: "handshake-resumed",
        arguments: "--path /11b --handshakes resumed --connections 16",
        placements: APART,
        plain: false,
        bounds: &[(Figure::CpuUsPerRequest, 0.65)],
    },
    Promise {
        name: "open-5000",
        arguments: "--path /2k --rate 5000 --connections 64",
        placements: APART,
        plain: true,
        bounds: &[(Figure::CpuUsPerRequest, 0.8), (Figure::LatencyP99Us, 1.0)],
    },
];

impl Promise {
    fn case(&self, placement: Placement) -> Case {
        let case = Case::new(self.name, self.arguments).placed(placement);
        if self.plain { case } else { case.tls_only() }
    }
}

pub fn run(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    record.description.push(
        "S: proxy, generator and backend share one processor, which always has work; nobody sleeps and wakes, and figures repeat best. C: the proxy has \
         processors of its own. The relay is plain TCP without TLS and HTTP: the kernel's share of the cost."
            .to_owned(),
    );
    record.fairness.push(EQUALISED.to_owned());
    record.fairness.push(
        "System calls are counted under strace, which slows a proxy down some ten times; calls that move bytes are right, waiting for events is \
         rarer than without it."
            .to_owned(),
    );
    let programs: Vec<_> =
        session.programs.iter().filter(|program| ours(program.kind) || RIVALS.contains(&program.kind)).cloned().collect();
    let mut running: Vec<Running> = session.start(record, Participant::Relay).into_iter().collect();
    for program in programs {
        running.extend(session.start(record, Participant::Peer { program, setup: usual(Flavour::Equalised, 1) }));
    }
    grid::verify(session, record, &mut running, &[Page::Hello11B, Page::Html2K, Page::Html100K], None)?;
    let cases: Vec<Case> = PROMISES
        .iter()
        .flat_map(|promise| promise.placements.iter().map(|placement| promise.case(*placement)))
        .filter(|case| session.stage.allows(case.placement))
        .collect();
    grid::measure(session, record, &mut running, &cases)?;
    measure_access_log(session, record, &mut running)?;
    count_system_calls(session, record, &mut running)?;
    drop(running);
    weigh(session, record)?;
    judge(record);
    Ok(())
}

pub fn seconds(session: &Session) -> f64 {
    grid::seconds(11, 4, session) + grid::seconds(1, 2, session) + 40.0
}

fn ours(kind: PeerKind) -> bool {
    kind == PeerKind::Tidegate
}

/// Tidegate with its log to a file beside Tidegate without.
fn measure_access_log(
    session: &mut Session,
    record: &mut ExperimentRecord,
    running: &mut Vec<Running>,
) -> Result<(), Interrupted> {
    let Some(program) = session.programs.iter().find(|program| ours(program.kind)).cloned() else { return Ok(()) };
    let setup = Setup { access_log: true, ..usual(Flavour::Equalised, 1) };
    let Some(logging) = session.start(record, Participant::Peer { program, setup }) else { return Ok(()) };
    let Some(silent) = running.iter().position(|running| running.name() == PeerKind::Tidegate.name()) else { return Ok(()) };
    let mut pair = vec![running.remove(silent), logging];
    let case = Case::new(ACCESS_LOG, "--path /2k --connections 64").placed(Placement::Shared);
    let first = record.cells.len();
    let outcome = grid::measure(session, record, &mut pair, &[case]);
    // The second of the two has the same name, and is told apart by it here.
    if let Some(cell) = record.cells[first..].iter_mut().filter(|cell| cell.case == ACCESS_LOG).nth(1) {
        LOGGING.clone_into(&mut cell.participant);
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
    for running in running {
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
fn weigh(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    let programs: Vec<_> =
        session.programs.iter().filter(|program| ours(program.kind) || RIVALS.contains(&program.kind)).cloned().collect();
    for program in programs {
        session.check()?;
        let Some(running) = session.start(record, Participant::Peer { program, setup: usual(Flavour::Equalised, 1) }) else {
            continue;
        };
        let mut cell = grid::cell("memory", running.participant(), session.stage.placement(), &[]);
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

fn judge(record: &mut ExperimentRecord) {
    let tidegate = PeerKind::Tidegate.name();
    let find = |case: &str, placement: Option<Placement>, participant: &str| {
        record.cells.iter().find(|cell| {
            cell.case == case && cell.participant == participant && placement.is_none_or(|placement| cell.placement == placement)
        })
    };
    let figure = |cell: Option<&Cell>, figure: Figure| cell.and_then(|cell| cell.median(figure));
    let mut judgements = Vec::new();
    for promise in &PROMISES {
        for &placement in promise.placements {
            let letter = placement.letter();
            for (what, bound) in promise.bounds {
                let of = |participant| figure(find(promise.name, Some(placement), participant), *what);
                let reference = better(RIVALS.map(|rival| (rival.name(), of(rival.name()))));
                let subject = format!("{} {letter}", promise.name);
                judgements.push(Judgement::relative(&subject, what.title(), of(tidegate), reference, *bound));
            }
        }
    }
    let cpu = |participant| figure(find(ACCESS_LOG, None, participant), Figure::CpuUsPerRequest);
    let silent = cpu(tidegate).map(|cpu| ("tidegate, log off".to_owned(), cpu));
    let title = Figure::CpuUsPerRequest.title();
    judgements.push(Judgement::relative("access log S", title, cpu(LOGGING), silent, ACCESS_LOG_RATIO_MAX));
    let idle = |participant| figure(find("memory", None, participant), Figure::IdleKibPerConnection);
    let reference = better(RIVALS.map(|rival| (rival.name(), idle(rival.name()))));
    let title = Figure::IdleKibPerConnection.title();
    judgements.push(Judgement::relative("5,000 idle connections", title, idle(tidegate), reference, IDLE_MEMORY_RATIO_MAX));
    let resident = figure(find("memory", None, tidegate), Figure::ResidentAtStartMb);
    let title = Figure::ResidentAtStartMb.title();
    judgements.push(Judgement::absolute("freshly started", title, resident, RESIDENT_MB_AT_START_MAX, "≤ 25 MB"));
    let calls = figure(find(SYSTEM_CALLS, None, tidegate), Figure::SocketCallsPerRequest);
    let title = Figure::SocketCallsPerRequest.title();
    judgements.push(Judgement::absolute("h1-11b", title, calls, SOCKET_CALLS_PER_REQUEST_MAX, "4"));
    record.judgements = judgements;
}
