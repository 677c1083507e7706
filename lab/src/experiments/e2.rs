//! E2: the same work for everybody, 2 KB and 100 KB of HTML, compression off and on; in closed loop what a peer can do,
//! in open loop how long its answers take at 30, 60 and 90 % of what the weakest can do.

use crate::content::Page;
use crate::experiments::grid::{self, Case};
use crate::experiments::options::Preset;
use crate::experiments::plain::EQUALISED;
use crate::experiments::session::{Session, usual};
use crate::peers::{Compression, Setup, fastest_compression};
use crate::results::figure::Figure;
use crate::results::summary::Summary;
use crate::results::{Cell, ExperimentRecord, Flavour, Outcome};
use crate::stage::interrupt::Interrupted;
use crate::stage::running::{Participant, Running};

const PAGES: [(&str, Page); 2] = [("2k", Page::Html2K), ("100k", Page::Html100K)];
const SHARES_OF_PEAK: [u32; 3] = [30, 60, 90];

const FAIRNESS: [&str; 3] = [
    "Compressed is each peer's fastest: zstd where it has it, gzip for HAProxy, Debian's nginx and Traefik, as the study had it. Codecs differ, so \
     do bytes: read CPU and received bytes together.",
    "Compressed answers are decoded and compared. A peer may stop compressing under load, as HAProxy does when told; received bytes show it.",
    "The rates of the open loop are shares of what the weakest peer does in closed loop, the same for everybody.",
];

pub fn run(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    record.description.push(format!(
        "HTTP/1.1 over TLS, 64 kept connections. Closed loop: {} interleaved rounds of {:?}. Open loop: constant arrival rates on 64 connections, where \
         an arrival that finds none free waits and its latency runs.",
        session.options.rounds(),
        session.options.round_time()
    ));
    record.fairness.push(EQUALISED.to_owned());
    record.fairness.extend(FAIRNESS.map(str::to_owned));
    plain(session, record, Flavour::Equalised)?;
    compressed(session, record)?;
    match session.options.preset {
        Preset::Quick => Ok(()),
        Preset::Full => plain(session, record, Flavour::OutOfTheBox),
    }
}

pub fn seconds(session: &Session) -> f64 {
    let open = PAGES.len() * SHARES_OF_PEAK.len();
    let plain = grid::seconds(PAGES.len() + open, session.peers() + 1 + session.drivers().len(), session);
    let compressed = grid::seconds(PAGES.len(), session.peers(), session);
    match session.options.preset {
        Preset::Quick => plain + compressed,
        Preset::Full => plain * 2.0 + compressed,
    }
}

fn plain(session: &mut Session, record: &mut ExperimentRecord, flavour: Flavour) -> Result<(), Interrupted> {
    let threads = session.threads();
    let mut running = if flavour == Flavour::Equalised { grid::floors(session, record) } else { Vec::new() };
    running.extend(session.start_peers(record, |_| Ok(usual(flavour, threads)))?);
    grid::verify(session, record, &mut running, &PAGES.map(|(_, page)| page), None)?;
    let closed =
        |name: &str, page: Page| Case::new(&format!("{name} plain closed"), &format!("--path {} --connections 64", page.path()));
    let cases: Vec<_> = PAGES.map(|(name, page)| closed(name, page)).into();
    grid::measure(session, record, &mut running, &cases)?;
    let is_closed = |name: &str| {
        let case = format!("{name} plain closed");
        move |cell: &Cell| cell.case == case && cell.flavour == flavour
    };
    for (name, page) in PAGES {
        let Some((weakest, peak)) = weakest_peak(record, &is_closed(name)) else { continue };
        let rates = SHARES_OF_PEAK.map(|share| format!("{share} % is {:.0}/s", peak * f64::from(share) / 100.0)).join(", ");
        record
            .description
            .push(format!("{name}, {}: the weakest in closed loop was {weakest} with {peak:.0}/s, so {rates}.", flavour.title()));
        let open = |share: u32| {
            let rate = (peak * f64::from(share) / 100.0).max(1.0) as u32;
            let arguments = format!("--path {} --connections 64 --rate {rate}", page.path());
            Case::new(&format!("{name} plain open {share} %"), &arguments)
        };
        grid::measure(session, record, &mut running, &SHARES_OF_PEAK.map(open))?;
    }
    Ok(())
}

fn compressed(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    let threads = session.threads();
    // All codecs are offered; a peer was set up with one and can choose no other.
    let cases = PAGES.map(|(name, page)| {
        let arguments = format!("--path {} --connections 64 --accept-encoding zstd,br,gzip", page.path());
        Case::new(&format!("{name} compressed closed"), &arguments).tls_only()
    });
    let mut running = session.start_peers(record, |kind| {
        Ok(Setup { compression: Some(fastest_compression(kind)), ..usual(Flavour::Equalised, threads) })
    })?;
    let coding = |running: &Running| compression_of(running).map(|compression| compression.codec.coding().to_owned());
    grid::verify(session, record, &mut running, &PAGES.map(|(_, page)| page), Some(&coding))?;
    grid::measure(session, record, &mut running, &cases)
}

pub fn compression_of(running: &Running) -> Option<Compression> {
    match running.participant() {
        Participant::Peer { setup, .. } => setup.compression,
        Participant::Relay(_) | Participant::Backend => None,
    }
}

/// Name and rate of the slowest proxy. Only if none was measured to its own limit, as on too few processors, the
/// slowest of what was seen: a rate that all could serve.
pub fn weakest_peak(record: &ExperimentRecord, is_meant: &dyn Fn(&Cell) -> bool) -> Option<(String, f64)> {
    let cells = || record.cells.iter().filter(|cell| is_meant(cell));
    let seen =
        |cell: &Cell| Summary::of(cell.rounds.iter().filter_map(|round| round.figures.get(&Figure::RequestsPerSecond).copied()));
    let slowest = |limited: bool| {
        let of_kind = cells().filter(|cell| match cell.outcome {
            Outcome::Measured => true,
            Outcome::Limited { .. } => limited,
            Outcome::Failed { .. } | Outcome::Unavailable { .. } => false,
        });
        let rates = of_kind.filter_map(|cell| Some((cell.participant.clone(), seen(cell)?.median)));
        rates.min_by(|(_, left), (_, right)| left.total_cmp(right))
    };
    slowest(false).or_else(|| slowest(true))
}
