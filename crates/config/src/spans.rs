//! Where things were written that are looked at again once the whole is there, or is put to work. Lines of directives
//! fill it in while they are read (`lowering` holds it); who asks is `checks`, and the process.

use crate::diagnostics::{FileId, Location};
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tidegate_model::{Discover, HostPattern, PoolName, SiteAddress, UpstreamAddress};

/// Where things were written that are checked again when the configuration is put to work.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    /// Every address of every site, in file order.
    pub addresses: Vec<(SiteAddress, Location)>,
    /// Certificate and key files, by their full path, as often as they are named.
    pub files: Vec<(PathBuf, Location)>,
    pub admin: Option<Location>,
    /// The path of the access log, when it is a file.
    pub access_log: Option<Location>,
    /// The place that `storage` names.
    pub storage: Option<Location>,
    /// Of a template only.
    pub(crate) access_log_format: Option<Location>,
    /// Of `ticket-keys`, where it shares them.
    pub(crate) shared_ticket_keys: Option<Location>,
    /// In the order of `Configuration::listeners`.
    pub listeners: Vec<Location>,
    /// In the order of `Configuration::tcp`.
    pub tcp: Vec<Location>,
    /// Every name of every `sni`, with its port.
    pub(crate) passthrough: Vec<(u16, HostPattern, Location)>,
    /// Every pool that a `tcp` hands connections to, as often as it does, and whether those are TLS for sure.
    pub(crate) tcp_pools: Vec<(PoolName, Location, bool)>,
    /// Every server of every pool, named or written in place, as often as it is named.
    pub servers: ServerSpans,
    /// Every `discover` of every pool.
    pub sources: Vec<(Discover, Location)>,
    /// The addresses of each site that names files, and which of `files` those are.
    pub(crate) files_of_sites: Vec<(Vec<SiteAddress>, Range<usize>)>,
    /// Made when something is looked up first. What is looked up is looked up for thousands of sites.
    index: OnceLock<SpanIndex>,
}

/// The first positions in the lists of the same names.
#[derive(Debug, Clone, Default)]
struct SpanIndex {
    addresses: HashMap<SiteAddress, usize>,
    files: HashMap<PathBuf, usize>,
    servers: HashMap<UpstreamAddress, Location>,
    files_of_sites: HashMap<SiteAddress, usize>,
}

impl Spans {
    fn index(&self) -> &SpanIndex {
        fn first<'l, T: Clone + Eq + Hash + 'l, P>(list: impl Iterator<Item = (P, &'l T)>) -> HashMap<T, P> {
            let mut places = HashMap::new();
            for (place, one) in list {
                places.entry(one.clone()).or_insert(place);
            }
            places
        }
        fn keys<T, U>(list: &[(T, U)]) -> impl Iterator<Item = (usize, &T)> {
            list.iter().map(|(key, _)| key).enumerate()
        }
        self.index.get_or_init(|| SpanIndex {
            addresses: first(keys(&self.addresses)),
            files: first(keys(&self.files)),
            servers: first(self.servers.iter().map(|(address, at)| (at, address))),
            files_of_sites: first(
                keys(&self.files_of_sites).flat_map(|(at, addresses)| addresses.iter().map(move |one| (at, one))),
            ),
        })
    }

    pub fn of_address(&self, address: &SiteAddress) -> Option<&Location> {
        let position = self.index().addresses.get(address)?;
        self.addresses.get(*position).map(|(_, at)| at)
    }

    /// The first place that names the certificate or key file.
    pub fn of_file(&self, path: &Path) -> Option<&Location> {
        let position = self.index().files.get(path)?;
        self.files.get(*position).map(|(_, at)| at)
    }

    /// Where the site of that address names the certificate or key file; the first place of all when it does not.
    pub fn of_file_in_site(&self, path: &Path, address: &SiteAddress) -> Option<&Location> {
        let site = self.index().files_of_sites.get(address).and_then(|position| self.files_of_sites.get(*position));
        let in_site = site.and_then(|(_, files)| self.files.get(files.clone())?.iter().find(|(known, _)| known == path));
        in_site.map(|(_, at)| at).or_else(|| self.of_file(path))
    }

    /// The first place that names the source.
    pub fn of_source(&self, source: &Discover) -> Option<&Location> {
        self.sources.iter().find(|(known, _)| known == source).map(|(_, at)| at)
    }

    /// The first place that names the server.
    pub fn of_server(&self, address: &UpstreamAddress) -> Option<&Location> {
        self.index().servers.get(address)
    }
}

/// Servers as they were written. Those of a piece that is remembered are shared with it: there may be a hundred
/// thousand, and a load that reads none of them anew has none to copy.
#[derive(Clone, Default)]
pub struct ServerSpans(Vec<ServersOfPiece>);

#[derive(Clone)]
struct ServersOfPiece {
    servers: Arc<[(UpstreamAddress, Location)]>,
    /// `None`: the places are those of the files.
    placement: Option<Placement>,
}

impl ServerSpans {
    pub(crate) fn push(&mut self, servers: Arc<[(UpstreamAddress, Location)]>, placement: Option<Placement>) {
        if !servers.is_empty() {
            self.0.push(ServersOfPiece { servers, placement });
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&UpstreamAddress, Location)> {
        self.of(|_| true)
    }

    /// Addresses of servers whose meaning something besides their text may have decided.
    pub(crate) fn not_by_text(&self) -> impl Iterator<Item = (&UpstreamAddress, Location)> {
        self.of(|piece| piece.placement.is_none())
    }

    fn of(&self, is_wanted: fn(&ServersOfPiece) -> bool) -> impl Iterator<Item = (&UpstreamAddress, Location)> {
        self.0.iter().filter(move |piece| is_wanted(piece)).flat_map(|ServersOfPiece { servers, placement }| {
            let place = |at: &Location| placement.map_or_else(|| at.clone(), |placement| placement.location(at));
            servers.iter().map(move |(address, at)| (address, place(at)))
        })
    }
}

#[cfg(test)]
impl ServerSpans {
    /// How many pieces there are, and how many of them are not shared with the other list.
    pub fn count_beside(&self, other: &ServerSpans) -> (usize, usize) {
        let is_shared = |piece: &&ServersOfPiece| other.0.iter().any(|known| Arc::ptr_eq(&known.servers, &piece.servers));
        (self.0.len(), self.0.len() - self.0.iter().filter(is_shared).count())
    }
}

impl fmt::Debug for ServerSpans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// An address of a site as it was written.
#[derive(Debug)]
pub struct WrittenAddress {
    pub address: SiteAddress,
    pub at: Location,
    /// `https://` was written, rather than meant by leaving the scheme out.
    pub says_https: bool,
}

/// Where a piece stands in this load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    pub file: FileId,
    pub offset: usize,
    pub length: usize,
}

impl Placement {
    pub fn location(&self, relative: &Location) -> Location {
        Location { file: self.file, span: relative.span.start + self.offset..relative.span.end + self.offset }
    }

    /// The other way round; `None` for a place outside of the piece.
    pub fn relative(&self, location: &Location) -> Option<Location> {
        let is_inside = location.file == self.file
            && location.span.start >= self.offset
            && location.span.end <= self.offset + self.length
            && location.span.start <= location.span.end;
        is_inside
            .then(|| Location { file: location.file, span: location.span.start - self.offset..location.span.end - self.offset })
    }
}
