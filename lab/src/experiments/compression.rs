//! Compression: CPU and bytes of each codec and level that a peer has, on 2 KB and 100 KB of HTML, and of all peers
//! side by side at the lowest level that each has.
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
         request belong together: a codec that saves CPU by sending more is not better. Levels are not the same thing in two implementations, and some peers have \
         one only: `lowest level` has all of them side by side, each at the cheapest that it can be set to."
            .to_owned(),
    );
    record.fairness.push(EQUALISED.to_owned());
    record.fairness.push(
        "A level means something else in each implementation; compare by bytes. Where the level cannot be set, the peer's own is measured.".to_owned(),
    );
    for codec in Codec::ALL {
        measure(session, record, codec, "lowest level", |kind| lowest(kind, codec))?;
        for compression in all_levels(session, codec) {
            let level = compression.level.map_or("own level".to_owned(), |level| format!("level {level}"));
            let own = |kind| compressions(kind).find(|own| *own == compression);
            measure(session, record, codec, &level, own)?;
        }
    }
    Ok(())
}

pub fn seconds(session: &Session) -> f64 {
    let of = |kind: PeerKind| compressions(kind).count() + codecs(kind).len();
    let settings: usize = session.builds().iter().map(|program| of(program.kind)).sum();
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

/// The cheapest that a peer can be set to: its lowest level, or its own where it has no other.
fn lowest(kind: PeerKind, codec: Codec) -> Option<Compression> {
    compressions(kind).filter(|compression| compression.codec == codec).min_by_key(|compression| compression.level)
}

/// `of` says in which compression a peer takes part, if it does.
fn measure(
    session: &mut Session,
    record: &mut ExperimentRecord,
    codec: Codec,
    level: &str,
    of: impl Fn(PeerKind) -> Option<Compression>,
) -> Result<(), Interrupted> {
    let case = |(name, page): (&str, Page)| {
        let arguments = format!("--path {} --connections 64 --accept-encoding {}", page.path(), codec.coding());
        Case::new(&format!("{name} {} {level}", codec.name()), &arguments).tls_only()
    };
    let cases = PAGES.map(case);
    if !grid::any_is_wanted(session, &cases) {
        return Ok(());
    }
    let threads = session.threads();
    let mut running = Vec::new();
    for program in session.builds() {
        if let Some(compression) = of(program.kind) {
            let setup = Setup { compression: Some(compression), ..usual(Flavour::Equalised, threads) };
            running.extend(session.start(record, Participant::Peer { program, setup }));
        }
    }
    let coding = |running: &Running| e2::compression_of(running).map(|compression| compression.codec.coding().to_owned());
    grid::verify(session, record, &mut running, &PAGES.map(|(_, page)| page), Some(&coding))?;
    grid::measure(session, record, &mut running, &cases)?;
    Ok(())
}
