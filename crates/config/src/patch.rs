//! A load that differs from the last in one site or pool: that one is read, and put in the place of what it was. Only
//! where nothing else can come out differently; in all other cases there is nothing here, and `load` lowers and checks
//! the whole.

use crate::diagnostics::{Diagnostic, Label};
use crate::lowering::WrittenPool;
use crate::pieces::{PieceMemory, TopNode};
use crate::remembered::Lowered;
use crate::spans::{Moved, Spans};
use crate::syntax::Literal;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_model::{Configuration, Site};

/// What the last load was, for the next one. Whatever it holds, a load gives the same with it as without it.
#[derive(Debug, Clone, Default)]
pub struct LoadMemory {
    pub(crate) pieces: PieceMemory,
    pub(crate) last: Option<Arc<LastLoad>>,
}

/// A load of one file, which nothing but its text decided. It had no error.
#[derive(Debug)]
pub struct LastLoad {
    pub directory: PathBuf,
    pub nodes: Arc<Vec<TopNode>>,
    pub configuration: Configuration,
    /// The places are those of the load that lowered everything.
    pub pools_written: Arc<BTreeMap<String, WrittenPool>>,
    pub diagnostics: Vec<Diagnostic>,
    pub spans: Arc<Spans>,
    /// Files that lowering adds.
    pub read_files: Vec<PathBuf>,
}

/// The one node that is not what it was.
#[derive(Debug, Clone, Copy)]
pub struct Changed<'l> {
    pub position: usize,
    was: &'l Lowered,
    moved: Moved,
}

/// `None` unless one site or pool stands in the place of another of the same name, and all others stand where they
/// stood, or so many bytes further on.
pub fn changed<'l>(last: &'l LastLoad, nodes: &[TopNode]) -> Option<Changed<'l>> {
    let is_other = |(was, now): &(&TopNode, &TopNode)| !Arc::ptr_eq(&was.remembered, &now.remembered);
    let mut others = last.nodes.iter().zip(nodes).enumerate().filter(|(_, both)| is_other(both));
    let ((position, (was, now)), None) = (others.next()?, others.next()) else { return None };
    let (before, behind) = (was.placement?, now.placement?);
    let literals = |top: &TopNode| -> Vec<Literal> {
        let head = &top.remembered.head;
        head.arguments.iter().chain(&head.protocols).map(|value| value.literal.clone()).collect()
    };
    let is_alike = nodes.len() == last.nodes.len()
        && matches!(now.name(), "site" | "pool")
        && was.name() == now.name()
        && !was.remembered.has_includes
        && !now.remembered.has_includes
        && before.offset == behind.offset
        && (now.name() == "site" || literals(was) == literals(now));
    let moved = Moved { before, behind };
    is_alike.then(|| Some(Changed { position, was: was.remembered.lowered.get()?, moved })).flatten()
}

impl LastLoad {
    /// The load with that node in its place; `None` where it may have to do with another one.
    pub fn with(&self, changed: &Changed<'_>, now: &Lowered, nodes: Arc<Vec<TopNode>>) -> Option<LastLoad> {
        let Changed { was, moved, .. } = changed;
        if !has_same_ties(was, now) || !self.spans.has_no_tcp_pools() {
            return None;
        }
        let mut configuration = self.configuration.clone();
        match (&was.sites[..], &now.sites[..], &was.pools[..], &now.pools[..]) {
            ([was], [now], [], []) if self.is_site_alone(was, now) => {
                *configuration.sites.iter_mut().find(|site| Arc::ptr_eq(site, was))? = Arc::clone(now);
            }
            ([], [], [was], [now]) if was.name == now.name => {
                *configuration.pools.iter_mut().find(|pool| Arc::ptr_eq(pool, was))? = Arc::clone(now);
            }
            _ => return None,
        }
        let place = |label: &Label| Some(Label { location: moved.place(&label.location)?, text: label.text.clone() });
        let diagnostic = |one: &Diagnostic| {
            let labels = one.labels.iter().map(place).collect::<Option<_>>()?;
            Some(Diagnostic { primary: place(&one.primary)?, labels, ..one.clone() })
        };
        Some(LastLoad {
            directory: self.directory.clone(),
            nodes,
            configuration,
            pools_written: Arc::clone(&self.pools_written),
            diagnostics: self.diagnostics.iter().map(diagnostic).collect::<Option<_>>()?,
            spans: Arc::new(self.spans.with_changed(moved, &now.addresses, &now.servers, &now.sources)?),
            read_files: self.read_files.clone(),
        })
    }

    /// Whether all that other parts of a configuration are held against is as it was.
    fn is_site_alone(&self, was: &Site, now: &Site) -> bool {
        let fields = |site: &Site| site.all_options().flat_map(|options| options.log.fields.clone()).collect::<Vec<_>>();
        was.addresses == now.addresses
            && was.tls == now.tls
            && self.spans.access_logs.iter().all(|(_, sites)| sites.is_none())
            && (self.spans.access_log_format.is_none() || fields(was) == fields(now))
    }
}

/// Whether both have the same to do with other parts, and nothing to say.
fn has_same_ties(was: &Lowered, now: &Lowered) -> bool {
    // Named one by one, so that a new part cannot be forgotten; `sites` and `pools` are compared by the caller.
    let Lowered {
        diagnostics,
        sites: _,
        pools: _,
        pools_used,
        pools_in_place,
        addresses,
        files,
        servers: _,
        sources: _,
        maps_used,
        geo_used,
        files_of_sites,
        read_files,
        filled,
        brought_in,
    } = now;
    let said = |lowered: &Lowered| lowered.addresses.iter().map(|(address, _)| address.clone()).collect::<Vec<_>>();
    (diagnostics.is_empty() && was.diagnostics.is_empty())
        && *pools_used == was.pools_used
        && (pools_in_place.is_empty() && was.pools_in_place.is_empty())
        && addresses.len() == was.addresses.len()
        && said(now) == said(was)
        && (maps_used.is_empty() && was.maps_used.is_empty())
        && (geo_used.is_empty() && was.geo_used.is_empty())
        && (files.is_empty() && was.files.is_empty())
        && (files_of_sites.is_empty() && was.files_of_sites.is_empty())
        && (read_files.is_empty() && was.read_files.is_empty())
        && *filled == was.filled
        && (brought_in.is_empty() && was.brought_in.is_empty())
}
