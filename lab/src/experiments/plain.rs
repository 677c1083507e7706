//! The experiments that are nothing but a grid on equalised proxies: handshakes, HTTP/2, sizes, worker threads.

use crate::content::Page;
use crate::experiments::grid::{self, Case};
use crate::experiments::session::{Session, usual};
use crate::results::{ExperimentRecord, Flavour, Outcome, Placement};
use crate::stage::interrupt::Interrupted;
use crate::stage::running::Running;

/// What all equalised experiments have in common.
pub const EQUALISED: &str = "Equalised: TLS 1.3 with AES-128-GCM and X25519 only (the generator offers nothing else), one ECDSA P-256 certificate, \
     kept connections to the backend, access logs off, one worker thread for each processor of the proxy unless `--threads` says otherwise. \
     Every answer is compared byte by byte.";
const SESSION_TICKETS: &str = "Session tickets are at each proxy's default. The generator spends each ticket once.";

pub fn handshake(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    record.description.push(
        "A new connection for each request: TCP, TLS handshake, one request for 11 bytes, close; 16 at a time. Full handshakes, then \
         handshakes that resume a session with a ticket of an earlier connection."
            .to_owned(),
    );
    record.fairness.extend([EQUALISED.to_owned(), SESSION_TICKETS.to_owned()]);
    run(session, record, &handshake_cases(), &[Page::Hello11B], false)
}

pub fn http2(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    record
        .description
        .push("HTTP/2 from the client, HTTP/1.1 to the backend; closed loop, several streams on each connection.".to_owned());
    record.fairness.push(EQUALISED.to_owned());
    run(session, record, &http2_cases(), &[Page::Html2K, Page::Html100K], false)
}

pub fn sizes(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    record
        .description
        .push("HTTP/1.1, closed loop, kept connections: 64 of them, 8 for answers of a megabyte and more.".to_owned());
    record.fairness.push(EQUALISED.to_owned());
    run(session, record, &sizes_cases(), &[Page::Html1K, Page::Html100K], true)
}

/// With two processors, the second thread has to share: its figures are withheld, but what a request costs is told.
pub fn scale(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    let cores = session.stage.cores().proxy.len();
    record.description.push(format!(
        "HTTP/1.1, closed loop, 64 connections, 2 KB, with 1, 2, … worker threads on the {cores} processor{} of the proxy.",
        if cores == 1 { "" } else { "s" }
    ));
    record.fairness.push(EQUALISED.to_owned());
    for threads in thread_counts(cores) {
        if threads > cores {
            record.remarks.push(format!(
                "{threads} threads share {cores} processor{}: what they cost is seen, how they scale is not. A larger machine tells.",
                if cores == 1 { "" } else { "s" }
            ));
        }
        let mut running = session.start_peers(record, |_| Ok(usual(Flavour::Equalised, threads)))?;
        grid::verify(session, record, &mut running, &[Page::Html2K], None)?;
        let case = Case::new(&format!("{threads} thread{}", if threads == 1 { "" } else { "s" }), "--path /2k --connections 64");
        let first = record.cells.len();
        grid::measure(session, record, &mut running, &[case])?;
        if threads > cores {
            for cell in record.cells[first..].iter_mut().filter(|cell| matches!(cell.outcome, Outcome::Measured)) {
                cell.outcome = Outcome::Limited { by: "there are fewer processors than threads".into() };
            }
        }
    }
    Ok(())
}

pub fn seconds(cases: &[Case], session: &Session) -> f64 {
    grid::seconds_of(cases, session.peers() + 1 + session.drivers().len(), session)
}

pub fn scale_seconds(session: &Session) -> f64 {
    grid::seconds(thread_counts(session.stage.cores().proxy.len()).len(), session.peers(), session)
}

/// Powers of two up to what there is, and at least two.
fn thread_counts(cores: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = (0..usize::BITS).map(|power| 1 << power).take_while(|count| *count < cores.max(2)).collect();
    counts.push(cores.max(2));
    counts
}

pub fn handshake_cases() -> [Case; 2] {
    [
        Case::new("full", "--path /11b --handshakes full --connections 16").tls_only(),
        Case::new("resumed", "--path /11b --handshakes resumed --connections 16").tls_only(),
    ]
}

pub fn http2_cases() -> [Case; 3] {
    [
        Case::new("2k, 8 × 16 streams", "--path /2k --alpn h2 --connections 8 --streams 16").tls_only(),
        Case::new("2k, 64 × 1 stream", "--path /2k --alpn h2 --connections 64 --streams 1").tls_only(),
        Case::new("100k, 8 × 4 streams", "--path /100k --alpn h2 --connections 8 --streams 4").tls_only(),
    ]
}

pub fn sizes_cases() -> [Case; 5] {
    [
        Case::new("1k", "--path /1k --connections 64"),
        Case::new("10k", "--path /10k --connections 64"),
        Case::new("100k", "--path /100k --connections 64"),
        Case::new("1m", "--path /1m --connections 8"),
        Case::new("10m", "--path /10m --connections 8"),
    ]
}

fn run(
    session: &mut Session,
    record: &mut ExperimentRecord,
    cases: &[Case],
    pages: &[Page],
    with_floors: bool,
) -> Result<(), Interrupted> {
    let threads = session.threads();
    let mut running: Vec<Running> = if with_floors { grid::floors(session, record) } else { Vec::new() };
    running.extend(session.start_peers(record, |_| Ok(usual(Flavour::Equalised, threads)))?);
    session.stage.place(Placement::OwnCores).ok();
    grid::verify(session, record, &mut running, pages, None)?;
    grid::measure(session, record, &mut running, cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_are_powers_of_two_and_the_whole_machine() {
        assert_eq!(thread_counts(1), [1, 2]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(6), [1, 2, 4, 6]);
        assert_eq!(thread_counts(8), [1, 2, 4, 8]);
    }
}
