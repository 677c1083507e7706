//! Sites: recognised by their first address. Their addresses, TLS and steps are compared here, their routes in
//! `routes`.

use super::settings::{change, different};
use super::{matched, routes, without_common_ends};
use std::fmt::Debug;
use std::sync::Arc;
use tidegate_api::{ChangeKind, Effect, LineChange, LineKind, SettingChange, SiteChange};
use tidegate_config::writing::{self, Form};
use tidegate_model::listening::site_name;
use tidegate_model::{Filled, HostPattern, Origin, RouteOptions, Scheme, Site, SiteAddress, Step};

/// Each list with where its texts came from.
pub fn changes((before, filled_before): (&[Arc<Site>], &Filled), (after, filled): (&[Arc<Site>], &Filled)) -> Vec<SiteChange> {
    let found = matched(before, after, |site| site.addresses.first().map(place));
    let removed = found.removed.iter().map(|site| entry(site, ChangeKind::Removed));
    let others = found.others.into_iter().filter_map(|(old, new)| match old {
        None => Some(entry(new, ChangeKind::Added)),
        Some(old) => {
            let change = difference((old, filled_before), (new, filled));
            (change != entry(new, ChangeKind::Changed)).then_some(change)
        }
    });
    removed.chain(others).collect()
}

/// What a site does to connections it does through its listening address, which has an entry of its own.
fn entry(site: &Site, change: ChangeKind) -> SiteChange {
    SiteChange {
        site: site_name(site),
        change,
        effect: Effect::Untouched,
        addresses_added: Vec::new(),
        addresses_removed: Vec::new(),
        settings: Vec::new(),
        steps: Vec::new(),
        routes: Vec::new(),
    }
}

/// What no two addresses have in common; whether port 80 redirects there is a setting.
fn place(address: &SiteAddress) -> (Scheme, &HostPattern, u16) {
    (address.scheme, &address.host, address.port)
}

fn difference((old, filled_before): (&Site, &Filled), (new, filled): (&Site, &Filled)) -> SiteChange {
    let Site { origin, addresses, tls, options, steps, routes } = old;
    let mut settings = Vec::new();
    let (addresses_added, addresses_removed) = address_changes(addresses, &new.addresses, &mut settings);
    if *tls != new.tls {
        settings.extend(different(&writing::of_tls(tls, filled_before), &writing::of_tls(&new.tls, filled)));
    }
    SiteChange {
        addresses_added,
        addresses_removed,
        settings,
        steps: line_changes(
            &with_origin(origin.as_deref(), block_lines(options, steps, filled_before), filled_before),
            &with_origin(new.origin.as_deref(), block_lines(&new.options, &new.steps, filled), filled),
        ),
        routes: routes::changes((routes, filled_before), (&new.routes, filled)),
        ..entry(new, ChangeKind::Changed)
    }
}

/// The addresses that came and those that went.
fn address_changes(
    before: &[SiteAddress],
    after: &[SiteAddress],
    settings: &mut Vec<SettingChange>,
) -> (Vec<String>, Vec<String>) {
    let found = matched(before, after, place);
    let mut added = Vec::new();
    for (old, new) in found.others {
        match old {
            None => added.push(new.to_string()),
            Some(old) => {
                let shown = |address: &SiteAddress| if address.redirect_from_http { "yes" } else { "no" };
                if old.redirect_from_http != new.redirect_from_http {
                    settings.push(change(&format!("{new} redirected to from port 80"), shown(old), shown(new)));
                }
                let places = |address: &SiteAddress| {
                    let places: Vec<String> = address.listen.iter().map(ToString::to_string).collect();
                    if places.is_empty() { "as its address says".to_owned() } else { places.join(" ") }
                };
                if old.listen != new.listen {
                    settings.push(change(&format!("{new} listens"), &places(old), &places(new)));
                }
            }
        }
    }
    (added, found.removed.iter().map(ToString::to_string).collect())
}

/// A line of a block: what it is, and how it reads. Two that read the same may differ in what is not shown.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct BlockLine {
    content: String,
    text: String,
}

impl BlockLine {
    pub fn new(content: &dyn Debug, text: String) -> BlockLine {
        BlockLine { content: format!("{content:?}"), text }
    }
}

pub fn block_lines(options: &RouteOptions, steps: &[Step], filled: &Filled) -> Vec<BlockLine> {
    writing::block(options, steps, Form::Shown(filled)).into_iter().map(|(content, text)| BlockLine::new(content, text)).collect()
}

/// Where it comes from, in front of its lines.
pub fn with_origin(origin: Option<&Origin>, lines: Vec<BlockLine>, filled: &Filled) -> Vec<BlockLine> {
    let first = writing::origin(origin, Form::Shown(filled)).map(|text| BlockLine::new(&origin, text));
    first.into_iter().chain(lines).collect()
}

/// The lines that went, then those that came; a line that changed places is both.
pub fn line_changes(before: &[BlockLine], after: &[BlockLine]) -> Vec<LineChange> {
    let (before, after) = without_common_ends(before, after);
    let mut went: Vec<Option<&BlockLine>> = before.iter().map(Some).collect();
    let mut came: Vec<Option<&BlockLine>> = after.iter().map(Some).collect();
    for (old, new) in routes::kept_in_order(before, after, |line| line) {
        went[old] = None;
        came[new] = None;
    }
    let mut hidden = Vec::new();
    for new in &mut came {
        let reads_the_same = |old: &BlockLine| new.is_some_and(|new| new.text == old.text && new.content != old.content);
        if let Some(old) = went.iter_mut().find(|old| old.is_some_and(reads_the_same)) {
            *old = None;
            hidden.extend(new.take().map(|line| said(LineKind::Hidden, line)));
        }
    }
    let went = went.into_iter().flatten().map(|line| said(LineKind::Removed, line));
    let came = came.into_iter().flatten().map(|line| said(LineKind::Added, line));
    went.chain(hidden).chain(came).collect()
}

fn said(change: LineKind, line: &BlockLine) -> LineChange {
    LineChange { change, text: line.text.clone() }
}
