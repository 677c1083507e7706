//! Many certificates: how long a proxy takes until it serves with all of them, what each takes of its memory, and
//! whether a handshake costs more beside thousands of others than alone. What a handshake costs in itself is `plain`.

use std::path::Path;
use std::time::Duration;

use crate::certificates;
use crate::client::tls::{self, SessionTickets};
use crate::content::Page;
use crate::experiments::grid::{self, Case};
use crate::experiments::plain::EQUALISED;
use crate::experiments::session::Session;
use crate::net::Error;
use crate::peers::{Certificates, PeerKind, Program, Setup, takes_certificates};
use crate::report::number;
use crate::results::figure::Figure;
use crate::results::judgement::Judgement;
use crate::results::{Cell, ExperimentRecord, Outcome, Placement, Round};
use crate::stage::interrupt::Interrupted;
use crate::stage::probe::Probe;
use crate::stage::running::{Participant, Running};

/// Some take long with thousands of certificates.
const START_TIME_MAX: Duration = Duration::from_secs(300);
/// Of the stage's folder.
const FOLDER: &str = "certificates";
const START: &str = "start";
const HANDSHAKES: &str = "full handshakes";

/// The targets are for so many.
const TARGET_COUNT: u32 = 50_000;
const START_MS_MAX: f64 = 3_000.0;
const KIB_PER_CERTIFICATE_MAX: f64 = 15.0;
/// A table that is searched from one end to the other would be tens of times slower.
const HANDSHAKE_RATIO_MAX: f64 = 1.1;

const FAIRNESS: [&str; 4] = [
    "Each certificate is an ECDSA P-256 one for one name, with its own key and the certificate of an intermediate authority behind it, in one file. One \
     authority has signed them all.",
    "Started once with a single such certificate and once with all, beside that of localhost. The start is that of the process until the last name is answered \
     for with its own certificate, verified; what a certificate takes is the difference in resident memory, divided by their number. It has with it what each \
     proxy needs for a name to be served: a block of the configuration, where there is one for each.",
    "The handshakes are those of localhost, in turns with one certificate and with all. So they show what finding one of many costs, and nothing of a \
     working set of thousands of names.",
    "Envoy and Traefik are not set up for it.",
];

pub fn run(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    let count = session.options.certificates();
    record.description.push(format!(
        "{}, each of a name of its own: the time until the last one is served, memory, and full handshakes beside them. {} starts each.",
        certificates_text(count),
        session.options.rounds()
    ));
    record.fairness.push(EQUALISED.to_owned());
    record.fairness.extend(FAIRNESS.map(str::to_owned));
    session.stage.place(Placement::OwnCores).ok();
    session.progress.spend(f64::from(count) * MAKING_SECONDS, "making certificates");
    let folder = session.stage.path().join(FOLDER);
    if let Err(error) = certificates::write_many(&folder, count) {
        session.remark(record, format!("the certificates could not be made: {error}"));
        return Ok(());
    }
    let programs = takers(session);
    for (index, program) in programs.iter().enumerate() {
        session.check()?;
        session.progress.step(&program.name, index + 1, programs.len());
        measure(session, record, program, &folder, count)?;
    }
    judge(record, count);
    session.check()
}

/// A driver has no part in reading certificates, so a build has one column here.
fn takers(session: &Session) -> Vec<Program> {
    session.builds().into_iter().filter(|program| takes_certificates(program.kind)).collect()
}

/// Making one takes so long: a key and a signature.
const MAKING_SECONDS: f64 = 0.0002;

pub fn seconds(session: &Session) -> f64 {
    let count = f64::from(session.options.certificates());
    let peers = takers(session).len() as f64;
    // Nobody needs more than this for one, and most need far less.
    count * MAKING_SECONDS
        + peers * session.options.rounds() as f64 * (1.0 + count * 0.0003)
        + grid::seconds(1, 2, session) * peers
}

fn certificates_text(count: u32) -> String {
    let digits = number::count(u64::from(count));
    format!("{digits} certificate{}", if count == 1 { "" } else { "s" })
}

fn case(count: u32, part: &str) -> String {
    format!("{} | {part}", certificates_text(count))
}

fn measure(
    session: &mut Session,
    record: &mut ExperimentRecord,
    program: &Program,
    folder: &Path,
    count: u32,
) -> Result<(), Interrupted> {
    let mut standing = Vec::new();
    let mut resident_with_one = None;
    for number in [1, count] {
        let setup = Setup::of_certificates(Certificates { count: number, folder: folder.to_owned() }, session.threads());
        let participant = Participant::Peer { program: program.clone(), setup };
        let (running, mut cell) = start(session, &participant, folder, number)?;
        match resident_with_one {
            None => resident_with_one = cell.median(Figure::ResidentAtStartMb),
            Some(one) => weigh(&mut cell, one, count),
        }
        if let Outcome::Failed { reason } = &cell.outcome {
            session.remark(record, format!("{} in {}: {reason}", cell.participant, cell.case));
        }
        record.cells.push(cell);
        standing.extend(running);
    }
    grid::verify(session, record, &mut standing, &[Page::Hello11B], None)?;
    if standing.len() == 2 {
        let load = Case::new(HANDSHAKES, "--path /11b --handshakes full --connections 16").tls_only();
        let first = record.cells.len();
        let outcome = grid::measure(session, record, &mut standing, &[load]);
        // The two have the same name, and are told apart by their rows.
        for (cell, number) in record.cells[first..].iter_mut().zip([1, count]) {
            cell.case = case(number, HANDSHAKES);
        }
        outcome?;
    }
    Ok(())
}

/// As often as there are rounds; the last one stays. None when it failed.
fn start(
    session: &mut Session,
    participant: &Participant,
    folder: &Path,
    count: u32,
) -> Result<(Option<Running>, Cell), Interrupted> {
    let mut cell = grid::cell(&case(count, START), participant, session.stage.placement(), &[]);
    let mut last = None;
    for _ in 0..session.options.rounds() {
        drop(last.take());
        session.check()?;
        session.progress.spend(1.0, &format!("{}: {}", cell.participant, cell.case));
        match start_once(session, participant, &certificates::authority_of(folder), count) {
            Ok((running, time)) => {
                let figures = [
                    (Figure::StartMs, time.as_secs_f64() * 1e3),
                    (Figure::ResidentAtStartMb, running.resident_bytes_at_start() as f64 / 1e6),
                ];
                cell.rounds.push(Round { figures: figures.into(), ..Round::default() });
                last = Some(running);
            }
            Err(error) => {
                cell.outcome = Outcome::Failed { reason: error.to_string() };
                return Ok((None, cell));
            }
        }
    }
    Ok((last, cell))
}

fn start_once(session: &Session, participant: &Participant, authority: &Path, count: u32) -> Result<(Running, Duration), Error> {
    let config = tls::client_config(Some(authority), "http/1.1", SessionTickets::Ignored)?;
    let host = certificates::name_of(count);
    let is_answered =
        |listen| Probe::with(config.clone(), listen, &host).head("/11b").is_ok_and(|head| head.starts_with("http/1.1 200"));
    Running::start_until(&session.stage, participant.clone(), is_answered, START_TIME_MAX)
}

/// What each of them has added.
fn weigh(cell: &mut Cell, resident_mb_with_one: f64, count: u32) {
    if count < 2 {
        return;
    }
    for round in &mut cell.rounds {
        if let Some(resident) = round.figures.get(&Figure::ResidentAtStartMb).copied() {
            let kib = (resident - resident_mb_with_one) * 1e6 / 1024.0 / f64::from(count - 1);
            round.figures.insert(Figure::KibPerCertificate, kib.max(0.0));
        }
    }
}

fn judge(record: &mut ExperimentRecord, count: u32) {
    let tidegate = PeerKind::Tidegate.name();
    if count != TARGET_COUNT || !record.cells.iter().any(|cell| cell.participant == tidegate) {
        return;
    }
    let find = |count: u32, part: &str, figure: Figure| {
        let case = case(count, part);
        record.cells.iter().find(|cell| cell.participant == tidegate && cell.case == case).and_then(|cell| cell.median(figure))
    };
    let start = case(count, START);
    let absolute = |figure: Figure, max: f64, target: &str| {
        Judgement::absolute(&start, figure.title(), find(count, START, figure), max, target)
    };
    let cpu = |count| find(count, HANDSHAKES, Figure::CpuUsPerRequest);
    let alone = cpu(1).map(|cpu| (certificates_text(1), cpu));
    let judgements = [
        absolute(Figure::StartMs, START_MS_MAX, "≤ 3,000 ms"),
        absolute(Figure::KibPerCertificate, KIB_PER_CERTIFICATE_MAX, "≤ 15 KiB"),
        Judgement::relative(&case(count, HANDSHAKES), Figure::CpuUsPerRequest.title(), cpu(count), alone, HANDSHAKE_RATIO_MAX),
    ];
    record.judgements.extend(judgements);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::results::judgement::Verdict;

    #[test]
    fn what_a_certificate_takes_is_the_difference() {
        let mut cell = fixture::small().experiments.remove(0).cells.remove(0);
        let round = |mb| Round { figures: [(Figure::ResidentAtStartMb, mb)].into(), ..Round::default() };
        cell.rounds = vec![round(30.0), round(20.0)];
        weigh(&mut cell, 25.0, 1001);
        let kib: Vec<f64> = cell.rounds.iter().map(|round| round.figures[&Figure::KibPerCertificate]).collect();
        assert_eq!(kib, [5.0 * 1e6 / 1024.0 / 1000.0, 0.0]);
    }

    #[test]
    fn targets_are_judged_where_they_were_measured() {
        let check = |count: u32, participant: &str, expected: &[Verdict]| {
            let mut record = fixture::small().experiments.remove(0);
            let like = record.cells[0].clone();
            record.cells = [
                (1, START, vec![(Figure::StartMs, 20.0)]),
                (count, START, vec![(Figure::StartMs, 3_100.0), (Figure::KibPerCertificate, 4.0)]),
                (1, HANDSHAKES, vec![(Figure::CpuUsPerRequest, 100.0)]),
                (count, HANDSHAKES, vec![(Figure::CpuUsPerRequest, 109.0)]),
            ]
            .map(|(count, part, figures)| Cell {
                case: case(count, part),
                participant: participant.to_owned(),
                rounds: vec![Round { figures: figures.into_iter().collect(), ..Round::default() }],
                outcome: Outcome::Measured,
                ..like.clone()
            })
            .into();
            record.judgements.clear();
            judge(&mut record, count);
            let verdicts: Vec<Verdict> = record.judgements.iter().map(|judgement| judgement.verdict).collect();
            assert_eq!(verdicts, expected);
        };
        check(50_000, "tidegate", &[Verdict::Missed, Verdict::Reached, Verdict::Reached]);
        check(5_000, "tidegate", &[]);
        check(50_000, "haproxy", &[]);
    }
}
