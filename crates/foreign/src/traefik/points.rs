//! Entry points of Traefik on which no router is: those that send to HTTPS do so for all, and the others have nothing.

use super::doors::{entry_points, resolved};
use super::redirects;
use crate::accounts::Origin;
use crate::outline::{Door, Outline, OutlinedSite, Service};
use crate::tree::Tree;
use std::collections::BTreeSet;

const NOBODY: &str = "no router of these files is at this entry point, so nothing is opened for it";

const UNUSED: &str = "no router of these files uses it, so nothing comes of it there, and nothing here";

pub fn settle(tree: &Tree, outline: &mut Outline) {
    let mut named: BTreeSet<String> = BTreeSet::new();
    for kind in ["http", "tcp"] {
        for (_, router) in tree.at(&[kind, "routers"]).entries() {
            named.extend(entry_points(tree, router).into_iter().map(|name| name.to_ascii_lowercase()));
        }
    }
    if named.is_empty() {
        return;
    }
    for (name, point) in tree.get("entryPoints").entries() {
        let address = point.get("address");
        let Some(text) = address.text().filter(|_| !named.contains(&name.to_ascii_lowercase())) else { continue };
        let redirections = point.at(&["http", "redirections", "entryPoint"]);
        match Door::parse(resolved(text), false).filter(|_| !redirections.is_nothing()) {
            Some(door) => send(tree, point, door, outline),
            None => address.statements().into_iter().for_each(|at| outline.told.differ(at, NOBODY)),
        }
    }
}

/// All plain HTTP at this door, to HTTPS or to another port.
fn send(tree: &Tree, point: &Tree, door: Door, outline: &mut Outline) {
    let (address, middlewares) = (point.get("address"), point.at(&["http", "middlewares"]));
    let redirections = point.at(&["http", "redirections", "entryPoint"]);
    let mut origin = Origin::default();
    origin.carry_all(address.statements());
    origin.carry_all(redirections.statements());
    let Some(own) = door.address(None) else { return };
    if door == Door::HTTP && redirects::is_to_https(redirections) {
        outline.done_without.extend(&origin.within);
        // Whoever is only sent on comes to nothing that these keep him from.
        outline.done_without.extend(middlewares.statements());
        outline.redirects.push((vec![own], origin));
        return;
    }
    let answer = Some(redirects::of_point(tree, redirections));
    outline.services.push(Service::Site(OutlinedSite { addresses: vec![own], answer, origin, ..OutlinedSite::default() }));
}

/// Says of middlewares and transports that nothing names that nothing comes of them.
pub fn unused(tree: &Tree, used: &BTreeSet<usize>, outline: &mut Outline) {
    for path in [["http", "middlewares"], ["tcp", "middlewares"], ["http", "services"], ["http", "serversTransports"]] {
        for (_, said) in tree.at(&path).entries() {
            let own = said.statements();
            if own.is_disjoint(used) {
                for at in own {
                    outline.reasons.entry(at).or_insert_with(|| UNUSED.to_owned());
                }
            }
        }
    }
}
