//! What one site or pool adds to a configuration, apart from all others: it is lowered by itself, and merged into the
//! whole. Where that follows from its text and the names of pools alone, it is kept for the next load; `pieces` holds
//! it.

use crate::diagnostics::{Diagnostic, Label, Location};
use crate::directives::map::MapUse;
use crate::kept_back::BroughtIn;
use crate::lowering::{Lowering, WrittenPool};
use crate::spans::Placement;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_model::{Discover, Filled, Pool, PoolName, Site, SiteAddress, UpstreamAddress};

#[derive(Debug, Clone)]
pub struct Lowered {
    pub diagnostics: Vec<Diagnostic>,
    pub sites: Vec<Arc<Site>>,
    pub pools: Vec<Arc<Pool>>,
    /// With whether they speak FastCGI.
    pub pools_used: Vec<(String, bool)>,
    pub pools_in_place: Vec<(PoolName, Arc<Pool>)>,
    pub addresses: Vec<(SiteAddress, Location)>,
    pub files: Vec<(PathBuf, Location)>,
    pub servers: Arc<[(UpstreamAddress, Location)]>,
    pub sources: Vec<(Discover, Location)>,
    pub maps_used: Vec<(MapUse, Location)>,
    pub geo_used: Vec<Location>,
    pub files_of_sites: Vec<(Vec<SiteAddress>, Range<usize>)>,
    pub read_files: Vec<PathBuf>,
    pub filled: Filled,
    /// Of a piece that is not kept: what came from elsewhere may be another the next time.
    pub brought_in: Vec<BroughtIn>,
}

impl Lowered {
    /// What was lowered with nothing in view but the names of pools, so that the rest of the configuration could have
    /// no say in what came out.
    pub fn of(alone: Lowering<'_>) -> Lowered {
        let is_fastcgi = |name: &String| alone.pools_written.get(name).is_some_and(|pool| pool.is_fastcgi);
        Lowered {
            diagnostics: alone.diagnostics,
            sites: alone.configuration.sites,
            pools: alone.configuration.pools,
            pools_used: alone.pools_used.iter().map(|name| (name.clone(), is_fastcgi(name))).collect(),
            pools_in_place: alone.pools_in_place.into_iter().collect(),
            addresses: alone.spans.addresses,
            files: alone.spans.files,
            servers: alone.servers.into(),
            sources: alone.spans.sources,
            maps_used: alone.spans.maps_used,
            geo_used: alone.spans.geo_used,
            files_of_sites: alone.spans.files_of_sites,
            read_files: alone.read_files,
            filled: alone.filled,
            brought_in: alone.brought_in,
        }
    }

    /// Whether it would come out the same again, as far as other pools decide that.
    pub fn holds(&self, pools_written: &BTreeMap<String, WrittenPool>) -> bool {
        let is_as_before =
            |(name, is_fastcgi): &(String, bool)| pools_written.get(name).is_some_and(|pool| pool.is_fastcgi == *is_fastcgi);
        self.pools_used.iter().all(is_as_before)
    }

    /// `placement`: where the piece stands from whose start its places count, if they do.
    pub fn merge(&self, lowering: &mut Lowering<'_>, placement: Option<Placement>) {
        let place = &|at: &Location| placement.map_or_else(|| at.clone(), |placement| placement.location(at));
        lowering.diagnostics.extend(self.diagnostics.iter().map(|diagnostic| relocated(diagnostic, place)));
        lowering.configuration.sites.extend(self.sites.iter().cloned());
        lowering.configuration.pools.extend(self.pools.iter().cloned());
        for (name, _) in &self.pools_used {
            if !lowering.pools_used.contains(name) {
                lowering.pools_used.insert(name.clone());
            }
        }
        for (name, pool) in &self.pools_in_place {
            if !lowering.pools_in_place.contains_key(name) {
                lowering.pools_in_place.insert(name.clone(), pool.clone());
            }
        }
        let spans = &mut lowering.spans;
        let first_file = spans.files.len();
        let files_of_sites = |(addresses, files): &(Vec<SiteAddress>, Range<usize>)| {
            (addresses.clone(), files.start + first_file..files.end + first_file)
        };
        spans.files_of_sites.extend(self.files_of_sites.iter().map(files_of_sites));
        spans.addresses.extend(self.addresses.iter().map(|(address, at)| (address.clone(), place(at))));
        spans.files.extend(self.files.iter().map(|(path, at)| (path.clone(), place(at))));
        spans.servers.push(self.servers.clone(), placement);
        spans.sources.extend(self.sources.iter().map(|(source, at)| (source.clone(), place(at))));
        spans.maps_used.extend(self.maps_used.iter().map(|(used, at)| (used.clone(), place(at))));
        spans.geo_used.extend(self.geo_used.iter().map(place));
        lowering.read_files.extend(self.read_files.iter().cloned());
        lowering.filled.extend(&self.filled);
        lowering.brought_in.extend(self.brought_in.iter().cloned());
    }

    /// What was lowered, with places that count from the start of the piece; `None` when one lies outside of it.
    pub fn relative(&self, placement: Placement) -> Option<Lowered> {
        let mut lowered = self.clone();
        let at_start = |(address, at): &(UpstreamAddress, Location)| Some((address.clone(), placement.relative(at)?));
        lowered.servers = self.servers.iter().map(at_start).collect::<Option<_>>()?;
        let diagnostics = &mut lowered.diagnostics;
        let labels = diagnostics.iter_mut().flat_map(|one| std::iter::once(&mut one.primary).chain(&mut one.labels));
        let locations = labels
            .map(|label| &mut label.location)
            .chain(lowered.addresses.iter_mut().map(|(_, at)| at))
            .chain(lowered.files.iter_mut().map(|(_, at)| at))
            .chain(lowered.sources.iter_mut().map(|(_, at)| at))
            .chain(lowered.maps_used.iter_mut().map(|(_, at)| at))
            .chain(&mut lowered.geo_used);
        for at in locations {
            *at = placement.relative(at)?;
        }
        for at in lowered.diagnostics.iter_mut().flat_map(|one| &mut one.hidden) {
            *at = placement.relative(at)?;
        }
        Some(lowered)
    }
}

fn relocated(diagnostic: &Diagnostic, place: &dyn Fn(&Location) -> Location) -> Diagnostic {
    let label = |label: &Label| Label { location: place(&label.location), text: label.text.clone() };
    Diagnostic {
        primary: label(&diagnostic.primary),
        labels: diagnostic.labels.iter().map(label).collect(),
        hidden: diagnostic.hidden.iter().map(place).collect(),
        ..diagnostic.clone()
    }
}
