//! Cases times participants, measured in interleaved rounds: A B C, A B C, …, so that whatever disturbs the machine for
//! a while disturbs all alike. Most experiments are such a grid; they differ in cases and setups only.

use std::time::{Duration, Instant};

use crate::content::Page;
use crate::experiments::round;
use crate::experiments::session::{Failed, Session};
use crate::peers::{Setup, Source};
use crate::results::{Cell, ExperimentRecord, Outcome, Placement};
use crate::stage::interrupt::Interrupted;
use crate::stage::running::{Participant, Running};

/// Long enough for caches, buffers and upstream pools to be as they stay.
pub const WARMUP: Duration = Duration::from_millis(400);

/// One load.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    /// Of the generator, but for time and place.
    pub arguments: Vec<String>,
    pub placement: Placement,
    /// Whether relay and backend, which speak plain HTTP/1.1 only, can take it.
    pub plain: bool,
    /// Where what is asked for comes from, if that is a case of its own; empty otherwise.
    origin: String,
}

impl Case {
    pub fn new(name: &str, arguments: &str) -> Case {
        let arguments = arguments.split_ascii_whitespace().map(str::to_owned).collect();
        Case { name: name.to_owned(), arguments, placement: Placement::OwnCores, plain: true, origin: String::new() }
    }

    /// What peers have themselves, from one of these.
    pub fn served_from(self, sources: &[Source]) -> Case {
        let titles: Vec<&str> = sources.iter().map(|source| source.title()).collect();
        Case { origin: format!("{}, ", titles.join(" and ")), ..self }
    }

    /// Without relay and backend: there is no such thing as this load on plain HTTP/1.1.
    pub fn tls_only(self) -> Case {
        Case { plain: false, ..self }
    }

    pub fn placed(self, placement: Placement) -> Case {
        Case { placement, ..self }
    }

    /// The name of the row in which a participant stands. What a peer has itself and from where tells rows apart that
    /// are measured in turns.
    pub fn row(&self, participant: &Participant) -> String {
        match participant {
            Participant::Peer { setup: Setup { content: Some(content), .. }, .. } => row(content.source, &self.name),
            Participant::Peer { .. } | Participant::Relay(_) | Participant::Backend => self.name.clone(),
        }
    }

    /// As `--cases` and a reader know it.
    pub fn title(&self) -> String {
        format!("{}{} {}", self.origin, self.name, self.placement.letter())
    }

    fn takes(&self, participant: &Participant) -> bool {
        match participant {
            Participant::Peer { .. } => true,
            // On one processor with everything else, the backend alone is no floor of anything.
            Participant::Backend => self.plain && self.placement == Placement::OwnCores,
            Participant::Relay(_) => self.plain,
        }
    }
}

/// The row of what is served from there.
pub fn row(source: Source, case: &str) -> String {
    format!("{}, {case}", source.title())
}

/// Whether the user wants to see any of these.
pub fn any_is_wanted(session: &Session, cases: &[Case]) -> bool {
    cases.iter().any(|case| session.options.wants(&case.title()))
}

/// Seconds that those of the cases take that the user wants to see.
pub fn seconds_of(cases: &[Case], participants: usize, session: &Session) -> f64 {
    seconds(cases.iter().filter(|case| session.options.wants(&case.title())).count(), participants, session)
}

/// Seconds that a grid takes, with starting loads.
pub fn seconds(cases: usize, participants: usize, session: &Session) -> f64 {
    let each = (session.options.round_time() + WARMUP).as_secs_f64() + 0.1;
    cases as f64 * participants as f64 * session.options.rounds() as f64 * each
}

/// Backend and relay, which come before the peers.
pub fn floors(session: &mut Session, record: &mut ExperimentRecord) -> Vec<Running> {
    let backend = session.start(record, Participant::Backend);
    backend.into_iter().chain(relays(session, record)).collect()
}

/// A relay for each driver that is measured: a figure is held against the floor of its own driver.
pub fn relays(session: &mut Session, record: &mut ExperimentRecord) -> Vec<Running> {
    let drivers = session.drivers();
    drivers.into_iter().filter_map(|driver| session.start(record, Participant::Relay(driver))).collect()
}

/// Measures all cases and adds their cells. A participant that fails in a case is left out of the rest of that case.
pub fn measure(
    session: &mut Session,
    record: &mut ExperimentRecord,
    running: &mut [Running],
    cases: &[Case],
) -> Result<(), Interrupted> {
    let time = session.options.round_time();
    let wanted: Vec<&Case> = cases.iter().filter(|case| session.options.wants(&case.title())).collect();
    for (index, case) in wanted.iter().enumerate() {
        session.progress.step(&case.title(), index + 1, wanted.len());
        let first = record.cells.len();
        // Each case has its share of the time that is left, so that the last ones have as many rounds as the first.
        let share = |by: Instant| by.saturating_duration_since(Instant::now()) / (wanted.len() - index) as u32;
        let enough_at = session.rounds_end_by.map(|by| Instant::now() + share(by));
        let outcome = measure_case(session, record, running, case, time, enough_at);
        for cell in &mut record.cells[first..] {
            if cell.outcome == Outcome::Measured {
                cell.outcome = round::outcome(cell, session.stage.cores());
            }
        }
        outcome?;
    }
    Ok(())
}

fn measure_case(
    session: &mut Session,
    record: &mut ExperimentRecord,
    running: &mut [Running],
    case: &Case,
    time: Duration,
    enough_at: Option<Instant>,
) -> Result<(), Interrupted> {
    if !session.stage.allows(case.placement) {
        // What is measured then says so in each cell.
        session.stage.place(Placement::Shared).ok();
    } else if let Err(error) = session.stage.place(case.placement) {
        session.remark(record, format!("{}: {error}", case.name));
        return Ok(());
    }
    let arguments = timed(session, &case.arguments, time, WARMUP);
    let mut taking: Vec<(&mut Running, Cell)> = running
        .iter_mut()
        .filter(|running| case.takes(running.participant()))
        .map(|running| {
            let cell = cell(&case.row(running.participant()), running.participant(), session.stage.placement(), &arguments);
            (running, cell)
        })
        .collect();
    let mut interrupted = Ok(());
    let rounds = session.options.rounds();
    let began = Instant::now();
    'rounds: for round in 0..rounds {
        let one_more_ends = Instant::now() + began.elapsed() / round.max(1) as u32;
        if round > 0 && enough_at.is_some_and(|enough_at| one_more_ends > enough_at) {
            break;
        }
        for (running, cell) in &mut taking {
            if cell.outcome != Outcome::Measured {
                continue;
            }
            let what = format!("round {} of {rounds}", round + 1);
            match session.load(running, &arguments, (time + WARMUP).as_secs_f64() + 0.1, &what) {
                Ok(phase) => cell.rounds.push(round::round(&phase)),
                Err(Failed::Because(reason)) => cell.outcome = Outcome::Failed { reason },
                Err(Failed::Interrupted(stop)) => {
                    interrupted = Err(stop);
                    break 'rounds;
                }
            }
        }
    }
    let cells: Vec<Cell> = taking
        .into_iter()
        .map(|(_, cell)| cell)
        .filter(|cell| !cell.rounds.is_empty() || cell.outcome != Outcome::Measured)
        .collect();
    for cell in &cells {
        if let Outcome::Failed { reason } = &cell.outcome {
            session.remark(record, format!("{} in {}: {reason}", cell.participant, cell.case));
        }
    }
    record.cells.extend(cells);
    interrupted
}

pub fn cell(case: &str, participant: &Participant, placement: Placement, arguments: &[String]) -> Cell {
    Cell {
        case: case.to_owned(),
        participant: participant.name(),
        flavour: participant.flavour(),
        placement,
        threads: participant.threads(),
        load: arguments.join(" "),
        rounds: Vec::new(),
        outcome: Outcome::Measured,
    }
}

/// Arguments with time and the generator's threads.
pub fn timed(session: &Session, arguments: &[String], time: Duration, warmup: Duration) -> Vec<String> {
    let mut all = arguments.to_vec();
    let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
    all.extend(["--warmup".to_owned(), milliseconds(warmup), "--duration".to_owned(), milliseconds(time)]);
    let threads = session.generator_threads();
    let connections = all.iter().position(|word| word == "--connections").and_then(|at| all[at + 1].parse::<usize>().ok());
    all.extend(["--threads".to_owned(), threads.min(connections.unwrap_or(64)).max(1).to_string()]);
    all
}

/// What a participant is to be asked for as `Accept-Encoding`.
pub type CodingOf<'a> = &'a dyn Fn(&Running) -> Option<String>;

/// Every page asked, over HTTP/1.1 and HTTP/2; the generator compares each byte. Who answers wrongly is out, and the
/// report says so.
pub fn verify(
    session: &mut Session,
    record: &mut ExperimentRecord,
    running: &mut Vec<Running>,
    pages: &[Page],
    coding: Option<CodingOf>,
) -> Result<(), Interrupted> {
    let mut index = 0;
    while index < running.len() {
        let accept = coding.and_then(|coding| coding(&running[index]));
        match verify_one(session, &mut running[index], pages, accept.as_deref()) {
            Ok(()) => index += 1,
            Err(Failed::Interrupted(stop)) => return Err(stop),
            Err(Failed::Because(reason)) => {
                let failed = running.remove(index);
                session.remark(record, format!("{} is left out, since it did not stand a first check: {reason}", failed.name()));
            }
        }
    }
    Ok(())
}

fn verify_one(session: &mut Session, running: &mut Running, pages: &[Page], accept: Option<&str>) -> Result<(), Failed> {
    let protocols: &[&str] = if running.speaks_tls() { &["http/1.1", "h2"] } else { &["http/1.1"] };
    for page in pages {
        for protocol in protocols {
            let mut words = vec!["--path", page.path(), "--alpn", protocol, "--connections", "2", "--streams", "2"];
            words.extend(["--requests", "20", "--duration", "10s"]);
            if let Some(coding) = accept {
                words.extend(["--accept-encoding", coding, "--compressed-only"]);
            }
            let arguments: Vec<String> = words.into_iter().map(str::to_owned).collect();
            let phase = session.load(running, &arguments, 0.05, "checking")?;
            if let Some(failure) = phase.first_failure {
                return Err(Failed::Because(format!("{} over {protocol}: {failure}", page.path())));
            }
        }
    }
    Ok(())
}
