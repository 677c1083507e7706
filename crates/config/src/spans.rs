//! Where things were written that are looked at again once the whole is there, or is put to work. Lines of directives
//! fill it in while they are read (`lowering` holds it); who asks is `checks`, and the process.

use crate::diagnostics::{FileId, Location};
use crate::directives::map::MapUse;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tidegate_model::{AdminServes, Discover, HostPattern, PoolName, SiteAddress, UpstreamAddress};

/// Where things were written that are checked again when the configuration is put to work.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    /// Every address of every site, in file order.
    pub addresses: Vec<(SiteAddress, Location)>,
    /// Certificate and key files, by their full path, as often as they are named.
    pub files: Vec<(PathBuf, Location)>,
    /// The place of each `admin`, with what is served there, whether it can be read or not.
    pub admin: Vec<(AdminServes, Location)>,
    /// The path of an access log, when one is a file.
    pub access_log: Option<Location>,
    /// Every `access-log`, and where its conditions name sites.
    pub(crate) access_logs: Vec<(Location, Option<Location>)>,
    /// `access-log "off"`
    pub(crate) access_log_off: Option<Location>,
    /// The word of `driver`.
    pub driver: Option<Location>,
    /// The place that `storage` names.
    pub storage: Option<Location>,
    /// The line of `docker`.
    pub docker: Option<Location>,
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
    /// The name of each `map`, whether the rest can be read or not.
    pub maps: Vec<(String, Location)>,
    /// Where a map is named, as often as one is.
    pub(crate) maps_used: Vec<(MapUse, Location)>,
    /// Where something is asked of an address that a `geoip` has to know.
    pub(crate) geo_used: Vec<Location>,
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

/// A piece that stands where another one stood. All behind it have moved by the difference.
#[derive(Debug, Clone, Copy)]
pub struct Moved {
    pub before: Placement,
    pub behind: Placement,
}

impl Moved {
    /// Where a place is now; `None` for one that touches the piece that is gone.
    pub fn place(&self, location: &Location) -> Option<Location> {
        let Moved { before, behind } = self;
        let (gone, now) = (before.offset + before.length, behind.offset + behind.length);
        if location.file != before.file || location.span.end <= before.offset {
            return Some(location.clone());
        }
        let place = |offset: usize| offset - gone + now;
        (location.span.start >= gone)
            .then(|| Location { file: location.file, span: place(location.span.start)..place(location.span.end) })
    }

    fn places(&self, locations: &[Location]) -> Option<Vec<Location>> {
        locations.iter().map(|location| self.place(location)).collect()
    }

    /// The list with what is now in the piece instead of what was in it. `None` when nothing says where that belongs.
    fn list<T: Clone>(&self, list: &[(T, Location)], now: &[(T, Location)]) -> Option<Vec<(T, Location)>> {
        let is_gone = |(_, at): &(T, Location)| self.before.relative(at).is_some();
        let first = list.iter().position(is_gone).or_else(|| now.is_empty().then_some(0))?;
        let count = list[first..].iter().take_while(|one| is_gone(one)).count();
        let place = |(one, at): &(T, Location)| Some((one.clone(), self.place(at)?));
        let mut places = list[..first].iter().map(place).collect::<Option<Vec<_>>>()?;
        places.extend(now.iter().map(|(one, at)| (one.clone(), self.behind.location(at))));
        for one in &list[first + count..] {
            places.push(place(one)?);
        }
        Some(places)
    }
}

impl Spans {
    pub(crate) fn has_no_tcp_pools(&self) -> bool {
        self.tcp_pools.is_empty()
    }

    /// With what a changed piece has, whose places count from its start; it names no files.
    pub(crate) fn with_changed(
        &self,
        moved: &Moved,
        addresses: &[(SiteAddress, Location)],
        servers: &Arc<[(UpstreamAddress, Location)]>,
        sources: &[(Discover, Location)],
    ) -> Option<Spans> {
        let one = |location: &Option<Location>| match location {
            None => Some(None),
            Some(location) => moved.place(location).map(Some),
        };
        let name = |(port, host, at): &(u16, HostPattern, Location)| Some((*port, host.clone(), moved.place(at)?));
        Some(Spans {
            addresses: moved.list(&self.addresses, addresses)?,
            files: moved.list(&self.files, &[])?,
            admin: self.admin.iter().map(|(serves, at)| Some((*serves, moved.place(at)?))).collect::<Option<_>>()?,
            access_log: one(&self.access_log)?,
            access_logs: self
                .access_logs
                .iter()
                .map(|(line, sites)| Some((moved.place(line)?, one(sites)?)))
                .collect::<Option<_>>()?,
            driver: one(&self.driver)?,
            storage: one(&self.storage)?,
            docker: one(&self.docker)?,
            access_log_off: one(&self.access_log_off)?,
            access_log_format: one(&self.access_log_format)?,
            shared_ticket_keys: one(&self.shared_ticket_keys)?,
            listeners: moved.places(&self.listeners)?,
            tcp: moved.places(&self.tcp)?,
            passthrough: self.passthrough.iter().map(name).collect::<Option<_>>()?,
            tcp_pools: self.tcp_pools.clone(),
            servers: self.servers.with_changed(moved, servers)?,
            sources: moved.list(&self.sources, sources)?,
            maps: self.maps.iter().map(|(name, at)| Some((name.clone(), moved.place(at)?))).collect::<Option<_>>()?,
            // Looked at once, when the whole is loaded.
            maps_used: Vec::new(),
            geo_used: Vec::new(),
            files_of_sites: self.files_of_sites.clone(),
            index: OnceLock::new(),
        })
    }

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

    fn with_changed(&self, moved: &Moved, now: &Arc<[(UpstreamAddress, Location)]>) -> Option<ServerSpans> {
        let mut is_there = now.is_empty();
        let mut pieces = Vec::with_capacity(self.0.len());
        for ServersOfPiece { servers, placement } in &self.0 {
            match placement {
                Some(placement) if *placement == moved.before => {
                    is_there = true;
                    let placement = Some(moved.behind);
                    pieces.extend((!now.is_empty()).then(|| ServersOfPiece { servers: Arc::clone(now), placement }));
                }
                Some(placement) => {
                    let start = Location { file: placement.file, span: placement.offset..placement.offset + placement.length };
                    let offset = moved.place(&start)?.span.start;
                    let placement = Some(Placement { offset, ..*placement });
                    pieces.push(ServersOfPiece { servers: Arc::clone(servers), placement });
                }
                None => pieces.push(ServersOfPiece { servers: moved.list(servers, &[])?.into(), placement: None }),
            }
        }
        is_there.then_some(ServerSpans(pieces))
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
