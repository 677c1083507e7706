//! What is served without an upstream: hits of a cache beside fixed answers, files beside nginx's. And what long
//! compression does to memory. Which peer has what is in `peers`; the bounds are promises of Tidegate, as those in
//! `targets` are.

use crate::content::Page;
use crate::experiments::grid::{self, Case};
use crate::experiments::phased::PhasedLoad;
use crate::experiments::plain::EQUALISED;
use crate::experiments::round;
use crate::experiments::session::{Failed, Session, usual};
use crate::load::PhaseReport;
use crate::net::Error;
use crate::peers::{Codec, Compression, Content, PeerKind, Program, Setup, Source, codecs, lacks};
use crate::results::figure::Figure;
use crate::results::judgement::Judgement;
use crate::results::{Cell, Cores, ExperimentRecord, Flavour, Outcome, Placement, Round};
use crate::stage::interrupt::Interrupted;
use crate::stage::running::{Participant, Running};

/// Of the CPU time of a fixed answer, what a hit may take: then it is nine tenths as fast.
const HIT_RATIO_MAX: f64 = 1.0 / 0.9;
/// Of nginx's CPU time with `sendfile`.
const FILE_RATIO_MAX: f64 = 1.1;
/// Of the resident memory of the first third.
const GROWTH_MAX: f64 = 1.1;
/// A backend that nobody asks does nothing at all; one that is asked for each answer has a tenth of a processor and
/// more.
const BACKEND_CORES_BUSY_MAX: f64 = 0.01;
/// As in `targets`: on the one processor that all share, a second thread would only be in the way.
const THREADS: usize = 1;

/// The coding that a client takes decides what is measured: HAProxy and nginx have neither.
const LONG_CODECS: [Codec; 2] = [Codec::Zstd, Codec::Brotli];
const LONG_CONNECTIONS: usize = 500;
/// Of one load, in order.
const SAMPLES: usize = 10;
/// The first and the last of the samples; what lies between is the middle.
const SAMPLES_OF_A_THIRD: usize = 3;
const FIRST: &str = "first third";
const MIDDLE: &str = "middle";
const LAST: &str = "last third";

const PAGE: &str = "2k";
const LARGE_FILES: [&str; 2] = ["100k", "10m"];

/// What is set up together and measured in turns.
pub struct Part {
    sources: &'static [Source],
    tls: bool,
    pages: &'static [Page],
    /// Page and the generator's arguments.
    loads: &'static [(&'static str, &'static str)],
}

/// The two loads of it that Tidegate's targets are about, too.
pub const CACHE_HIT: Part =
    Part { sources: &[Source::Cache], tls: false, pages: &[Page::Html2K], loads: &[(PAGE, "--path /2k --connections 64")] };
pub const LARGE_FILE: Part =
    Part { sources: &[Source::Files], tls: false, pages: &[Page::Html100K], loads: &[("100k", "--path /100k --connections 64")] };

const PARTS: [Part; 3] = [
    Part {
        sources: &[Source::Cache, Source::Respond],
        tls: false,
        pages: &[Page::Html2K],
        loads: &[(PAGE, "--path /2k --connections 64")],
    },
    Part {
        sources: &[Source::Cache, Source::Respond],
        tls: true,
        pages: &[Page::Html2K],
        loads: &[(PAGE, "--path /2k --connections 64")],
    },
    Part {
        sources: &[Source::Files],
        tls: false,
        pages: &[Page::Html2K, Page::Html100K, Page::Html1M, Page::Html10M],
        loads: &[
            ("2k", "--path /2k --connections 64"),
            ("100k", "--path /100k --connections 64"),
            ("1m", "--path /1m --connections 16"),
            ("10m", "--path /10m --connections 16"),
        ],
    },
];

pub fn run(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    describe(session, record);
    for part in &PARTS {
        measure(session, record, part, &session.programs.clone())?;
    }
    let steps = LONG_CODECS.len() * session.peers();
    for (of_codec, codec) in LONG_CODECS.into_iter().enumerate() {
        for (index, program) in session.programs.clone().into_iter().enumerate() {
            session.check()?;
            let number = of_codec * session.peers() + index + 1;
            session.progress.step(&format!("long compression with {}, {}", codec.coding(), program.name), number, steps);
            compress_long(session, record, program, codec)?;
        }
    }
    judge(record);
    Ok(())
}

pub fn seconds(session: &Session) -> f64 {
    let kinds = session.programs.iter().map(|program| program.kind);
    let long = kinds.map(|kind| LONG_CODECS.into_iter().filter(|codec| has(kind, *codec)).count()).sum::<usize>();
    let parts = PARTS.iter().map(|part| part.seconds(session, &session.programs));
    parts.sum::<f64>() + long as f64 * (SAMPLES as f64 * session.options.sample_time().as_secs_f64() + 1.0)
}

impl Part {
    pub fn seconds(&self, session: &Session, programs: &[Program]) -> f64 {
        let cases = self.cases();
        if !grid::any_is_wanted(session, &cases) {
            return 0.0;
        }
        let has = |source: &&Source, kind| lacks(kind, **source).is_none();
        let of_kind = |kind| self.sources.iter().filter(|source| has(source, kind)).count();
        let participants: usize = programs.iter().map(|program| of_kind(program.kind)).sum();
        grid::seconds_of(&cases, participants, session) + participants as f64 * 0.6
    }

    fn cases(&self) -> Vec<Case> {
        let transport = if self.tls { "TLS" } else { "plain" };
        let case = |(page, arguments): &(&str, &str)| Case::new(&format!("{page} {transport}"), arguments);
        self.loads.iter().map(|load| case(load).placed(Placement::Shared).served_from(self.sources)).collect()
    }
}

fn describe(session: &Session, record: &mut ExperimentRecord) {
    let time = session.options.sample_time() * u32::try_from(SAMPLES).expect("a handful");
    record.description.extend([
        "The 2 KB page from a warm cache, and beside it the same bytes with the same type as a fixed answer of the configuration, over plain HTTP and TLS; \
         then files of a folder over plain HTTP. HTTP/1.1, closed loop, S: proxy, generator and backend share one processor. A hit is to be at least 0.9 \
         times as fast as the fixed answer, which is 1.11 times its CPU time at most; files of 100 KB and 10 MB are to cost no more than 1.1 times what \
         nginx takes for them with sendfile."
            .to_owned(),
        format!(
            "Long compression: {LONG_CONNECTIONS} connections over TLS ask for 100 KB of HTML in one coding for {time:?}, as fast as they are answered. Resident \
             memory is looked at {SAMPLES} times at equal distances; of the {SAMPLES_OF_A_THIRD} last looks it is to be at most {GROWTH_MAX} times that of the \
             {SAMPLES_OF_A_THIRD} first. Freshly started proxies, each peer's own level, `auto` with Tidegate; one pass."
        ),
    ]);
    record.fairness.push(EQUALISED.to_owned());
    record.fairness.extend([
        "Whoever asks the backend while it is measured has failed: what is compared is served without it. The head differs from peer to peer, as do \
         its fields for a hit; the body is the same."
            .to_owned(),
        "One thread for what is served without an upstream, whatever the number of processors. Caches are where each peer has them by its nature: in memory with \
         Tidegate and HAProxy, with nginx in files that the kernel has in memory."
            .to_owned(),
        "Under long compression answers may be sent as they are, when a peer bounds what its encoders take; the received bytes for each request show it."
            .to_owned(),
    ]);
}

pub fn measure(
    session: &mut Session,
    record: &mut ExperimentRecord,
    part: &Part,
    programs: &[Program],
) -> Result<(), Interrupted> {
    let cases = part.cases();
    if !grid::any_is_wanted(session, &cases) {
        return Ok(());
    }
    let (mut running, mut unasked) = (Vec::new(), Vec::new());
    for source in part.sources.iter().copied() {
        for program in programs.iter().cloned() {
            session.check()?;
            let kind = program.kind;
            let setup = Setup { content: Some(Content { source, tls: part.tls }), ..usual(Flavour::Equalised, THREADS) };
            let participant = Participant::Peer { program, setup };
            match lacks(kind, source) {
                None => running.extend(session.start(record, participant)),
                Some(reason) => unasked.extend(cases.iter().map(|case| {
                    let cell = grid::cell(&case.row(&participant), &participant, Placement::Shared, &[]);
                    Cell { outcome: Outcome::Unavailable { reason: format!("{kind}: {reason}") }, ..cell }
                })),
            }
        }
    }
    session.stage.place(Placement::Shared).ok();
    grid::verify(session, record, &mut running, part.pages, None)?;
    let first = record.cells.len();
    let outcome = grid::measure(session, record, &mut running, &cases);
    record.cells[first..].iter_mut().for_each(refuse_what_asked_the_backend);
    record.cells.extend(unasked);
    outcome
}

fn refuse_what_asked_the_backend(cell: &mut Cell) {
    if cell.median(Figure::BackendCoresBusy).is_some_and(|busy| busy > BACKEND_CORES_BUSY_MAX) {
        cell.outcome = Outcome::Failed { reason: "the backend was asked, so this is not served without it".to_owned() };
    }
}

fn has(kind: PeerKind, codec: Codec) -> bool {
    codecs(kind).iter().any(|levels| levels.codec == codec)
}

fn long_case(codec: Codec, part: &str) -> String {
    format!("100k {} | {part}", codec.coding())
}

fn compress_long(
    session: &mut Session,
    record: &mut ExperimentRecord,
    program: Program,
    codec: Codec,
) -> Result<(), Interrupted> {
    let placement = if session.stage.allows(Placement::OwnCores) { Placement::OwnCores } else { Placement::Shared };
    session.stage.place(placement).ok();
    let kind = program.kind;
    let compression = Some(Compression { codec, level: None });
    let setup = Setup { compression, ..usual(Flavour::Equalised, session.threads()) };
    let participant = Participant::Peer { program, setup };
    let coding = codec.coding();
    let arguments = format!(
        "--path /100k --connections {LONG_CONNECTIONS} --accept-encoding {coding} --threads {}",
        session.generator_threads().clamp(1, LONG_CONNECTIONS)
    );
    let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
    let cell = |part: &str| grid::cell(&long_case(codec, part), &participant, placement, &arguments);
    if !has(kind, codec) {
        let outcome = Outcome::Unavailable { reason: format!("{kind}: it has no {}", codec.name()) };
        record.cells.extend([FIRST, MIDDLE, LAST].map(|part| Cell {
            load: String::new(),
            outcome: outcome.clone(),
            ..cell(part)
        }));
        return Ok(());
    }
    let mut one: Vec<Running> = session.start(record, participant.clone()).into_iter().collect();
    grid::verify(session, record, &mut one, &[Page::Html100K], Some(&|_| Some(coding.to_owned())))?;
    let Some(mut running) = one.pop() else { return Ok(()) };
    match sample(session, &mut running, &arguments, coding) {
        Ok(phases) => record.cells.extend(in_thirds(&phases, cell, session.stage.cores())),
        Err(Failed::Because(reason)) => {
            session.remark(record, format!("{kind} under long compression with {coding}: {reason}"));
            let outcome = Outcome::Failed { reason };
            record.cells.extend([FIRST, MIDDLE, LAST].map(|part| Cell { outcome: outcome.clone(), ..cell(part) }));
        }
        Err(Failed::Interrupted(stop)) => return Err(stop),
    }
    Ok(())
}

/// One load, counted in as many phases as there are samples; each one's memory is that at its end.
fn sample(session: &mut Session, running: &mut Running, arguments: &[String], coding: &str) -> Result<Vec<PhaseReport>, Failed> {
    let because = |error: Error| Failed::Because(error.to_string());
    let time = session.options.sample_time();
    let mut command = session.stage.generator("load", running, arguments).map_err(because)?;
    command.args(session.stage.observe(running).map_err(because)?);
    let mut load = PhasedLoad::start(command).map_err(because)?;
    session.pause(grid::WARMUP)?;
    for number in 1..=SAMPLES {
        session.progress.spend(time.as_secs_f64(), &format!("{}: {coding} for long, {number} of {SAMPLES}", running.name()));
        load.begin(&number.to_string()).map_err(because)?;
        session.pause(time)?;
        running.check_alive().map_err(because)?;
    }
    let report = load.finish().map_err(because)?;
    Ok(report.phases)
}

fn in_thirds(phases: &[PhaseReport], cell: impl Fn(&str) -> Cell, cores: &Cores) -> Vec<Cell> {
    let rounds: Vec<Round> = phases.iter().map(round::round).collect();
    let last = rounds.len().saturating_sub(SAMPLES_OF_A_THIRD);
    let first = SAMPLES_OF_A_THIRD.min(last);
    let parts = [(FIRST, &rounds[..first]), (MIDDLE, &rounds[first..last]), (LAST, &rounds[last..])];
    let of_part = |(part, rounds): (&str, &[Round])| {
        let mut cell = Cell { rounds: rounds.to_vec(), ..cell(part) };
        cell.outcome = round::outcome(&cell, cores);
        cell
    };
    parts.into_iter().map(of_part).collect()
}

fn judge(record: &mut ExperimentRecord) {
    let tidegate = PeerKind::Tidegate.name();
    let nginx = PeerKind::Nginx.name();
    let figure = |case: &str, participant: &str, figure: Figure| {
        let mut cells = record.cells.iter();
        cells.find(|cell| cell.case == case && cell.participant == participant)?.median(figure)
    };
    let mut judgements = Vec::new();
    let title = Figure::CpuUsPerRequest.title();
    for transport in ["plain", "TLS"] {
        let cpu = |source: Source| figure(&grid::row(source, &format!("{PAGE} {transport}")), tidegate, Figure::CpuUsPerRequest);
        let reference = cpu(Source::Respond).map(|cpu| ("tidegate, respond".to_owned(), cpu));
        let subject = format!("cache hit, {PAGE} {transport} S");
        judgements.push(Judgement::relative(&subject, title, cpu(Source::Cache), reference, HIT_RATIO_MAX));
    }
    for page in LARGE_FILES {
        let cpu = |participant| figure(&grid::row(Source::Files, &format!("{page} plain")), participant, Figure::CpuUsPerRequest);
        let reference = cpu(nginx).map(|cpu| (nginx.to_owned(), cpu));
        let subject = format!("sendfile-class, {page} plain S");
        judgements.push(Judgement::relative(&subject, title, cpu(tidegate), reference, FILE_RATIO_MAX));
    }
    for codec in LONG_CODECS {
        let resident = |part| figure(&long_case(codec, part), tidegate, Figure::ResidentMb);
        let reference = resident(FIRST).map(|resident| (FIRST.to_owned(), resident));
        let subject = format!("long compression, 100k {}, {LAST}", codec.coding());
        let title = Figure::ResidentMb.title();
        judgements.push(Judgement::relative(&subject, title, resident(LAST), reference, GROWTH_MAX));
    }
    record.judgements = judgements;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{cell, experiment, rounds};
    use crate::results::judgement::Verdict;

    fn measured(case: &str, participant: &str, figure: Figure, value: f64) -> Cell {
        cell(case, participant, Flavour::Equalised, rounds(&[(figure, value)]))
    }

    #[test]
    fn every_promise_is_judged_by_its_own_rows() {
        use Verdict::{Missed, Reached, Unknown};
        let cpu = |case: &str, participant, value| measured(case, participant, Figure::CpuUsPerRequest, value);
        let resident = |case: &str, value| measured(case, "tidegate", Figure::ResidentMb, value);
        let cells = vec![
            cpu("cache hit, 2k plain", "tidegate", 11.0),
            cpu("respond, 2k plain", "tidegate", 10.0),
            cpu("cache hit, 2k plain", "nginx", 1.0),
            cpu("cache hit, 2k TLS", "tidegate", 11.2),
            cpu("respond, 2k TLS", "tidegate", 10.0),
            cpu("file, 100k plain", "tidegate", 22.0),
            cpu("file, 100k plain", "nginx", 20.0),
            cpu("file, 10m plain", "tidegate", 22.0),
            resident("100k zstd | first third", 40.0),
            resident("100k zstd | middle", 400.0),
            resident("100k zstd | last third", 43.9),
            resident("100k br | first third", 40.0),
            resident("100k br | last third", 44.1),
        ];
        let mut record = experiment("content", "", cells);
        judge(&mut record);
        let judged: Vec<_> = record.judgements.iter().map(|judgement| (judgement.subject.as_str(), judgement.verdict)).collect();
        let expected = [
            ("cache hit, 2k plain S", Reached),
            ("cache hit, 2k TLS S", Missed),
            ("sendfile-class, 100k plain S", Reached),
            ("sendfile-class, 10m plain S", Unknown),
            ("long compression, 100k zstd, last third", Reached),
            ("long compression, 100k br, last third", Missed),
        ];
        assert_eq!(judged, expected);
    }

    #[test]
    fn what_asked_the_backend_was_not_served_without_it() {
        let check = |busy: f64, expected: bool| {
            let mut cell = measured("cache hit, 2k plain", "nginx", Figure::BackendCoresBusy, busy);
            refuse_what_asked_the_backend(&mut cell);
            assert_eq!(matches!(cell.outcome, Outcome::Failed { .. }), expected, "{busy}");
        };
        check(0.0, false);
        check(0.005, false);
        check(0.02, true);
    }

    #[test]
    fn a_long_load_is_told_in_thirds() {
        let phase = |megabytes: u64| PhaseReport {
            seconds: 1.0,
            requests: 100,
            resident_bytes: [("proxy".to_owned(), megabytes * 1_000_000)].into(),
            ..PhaseReport::default()
        };
        let phases: Vec<PhaseReport> = (1..=10).map(phase).collect();
        let cells = in_thirds(&phases, |part| cell(part, "tidegate", Flavour::Equalised, Vec::new()), &Cores::default());
        let told: Vec<_> =
            cells.iter().map(|cell| (cell.case.as_str(), cell.rounds.len(), cell.median(Figure::ResidentMb))).collect();
        assert_eq!(told, [(FIRST, 3, Some(2.0)), (MIDDLE, 4, Some(5.5)), (LAST, 3, Some(9.0))]);
    }
}
