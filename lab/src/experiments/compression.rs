//! Compression: CPU and bytes of each codec and level that a peer has, on 2 KB and 100 KB of HTML.
//! One peer in one compression is one participant of a case; peers are set up anew for each. A driver has no part in
//! what a codec costs, so a build has one column here.

use crate::content::Page;
use crate::experiments::grid;
use crate::experiments::plain::EQUALISED;
use crate::experiments::session::{Session, usual};
use crate::experiments::{e2, grid::Case};
use crate::peers::{Codec, Compression, PeerKind, Setup, codecs};
use crate::results::{ExperimentRecord, Flavour};
use crate::stage::interrupt::Interrupted;
use crate::stage::running::{Participant, Running};

const PAGES: [(&str, Page); 2] = [("2k", Page::Html2K), ("100k", Page::Html100K)];

pub fn run(session: &mut Session, record: &mut ExperimentRecord) -> Result<(), Interrupted> {
    record.description.push(
        "Closed loop over HTTP/1.1 and TLS, 64 connections, each codec and level that a peer can be set to. CPU time per request and bytes on the wire per \
         request belong together: a codec that saves CPU by sending more is not better."
            .to_owned(),
    );
    record.fairness.push(EQUALISED.to_owned());
    record.fairness.push(
        "A level means something else in each implementation; compare by bytes. Where the level cannot be set, the peer's own is measured.".to_owned(),
    );
    for codec in Codec::ALL {
        for compression in all_levels(session, codec) {
            measure(session, record, compression)?;
        }
    }
    Ok(())
}

pub fn seconds(session: &Session) -> f64 {
    let settings: usize = session.builds().iter().map(|program| compressions(program.kind).count()).sum();
    grid::seconds(PAGES.len(), settings, session) + settings as f64 * 0.6
}

/// Of a codec, every level that some peer here has.
fn all_levels(session: &Session, codec: Codec) -> Vec<Compression> {
    let mut all: Vec<Compression> = Vec::new();
    for program in session.builds() {
        all.extend(compressions(program.kind).filter(|compression| compression.codec == codec));
    }
    all.sort_by_key(|compression| compression.level);
    all.dedup();
    all
}

fn compressions(kind: PeerKind) -> impl Iterator<Item = Compression> {
    codecs(kind).iter().flat_map(|levels| levels.compressions())
}

fn measure(session: &mut Session, record: &mut ExperimentRecord, compression: Compression) -> Result<(), Interrupted> {
    let threads = session.threads();
    let mut running = Vec::new();
    for program in session.builds() {
        if compressions(program.kind).any(|own| own == compression) {
            let setup = Setup { compression: Some(compression), ..usual(Flavour::Equalised, threads) };
            running.extend(session.start(record, Participant::Peer { program, setup }));
        }
    }
    let coding = |running: &Running| e2::compression_of(running).map(|compression| compression.codec.coding().to_owned());
    grid::verify(session, record, &mut running, &PAGES.map(|(_, page)| page), Some(&coding))?;
    let level = compression.level.map_or("own level".to_owned(), |level| format!("level {level}"));
    let case = |(name, page): (&str, Page)| {
        let coding = compression.codec.coding();
        let arguments = format!("--path {} --connections 64 --accept-encoding {coding}", page.path());
        Case::new(&format!("{name} {} {level}", compression.codec.name()), &arguments).tls_only()
    };
    let cases = PAGES.map(case);
    grid::measure(session, record, &mut running, &cases)?;
    Ok(())
}
