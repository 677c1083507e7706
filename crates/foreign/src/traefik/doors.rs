//! Where routers of Traefik listen.

use super::{has_key, words};
use crate::accounts::Origin;
use crate::outline::{self, Door, is_plain};
use crate::tree::Tree;

/// Behind what names entry points.
pub const ELSEWHERE: &str =
    "the address of the entry point is in another file: assumed is the usual port, on all addresses of the machine";
const ALL_ELSEWHERE: &str = "it names no entry point, so it is on all of them, which are in another file: assumed are the usual \
                             ports, on all addresses of the machine";
/// Of a router that Traefik does not take.
pub const NO_SUCH_POINT: &str =
    "there is no entry point of this name among those of the file, so Traefik does not have it either";

/// A place where a router listens.
pub struct RouterPlace<'t> {
    pub point: &'t Tree,
    pub door: Door,
    /// Where the file says it; in none where it is assumed.
    pub at: usize,
}

/// The entry points of a router: those that it names, else all that are so by default.
pub fn entry_points(tree: &Tree, router: &Tree) -> Vec<String> {
    let written = router.get("entryPoints");
    if !written.is_nothing() {
        return written.texts();
    }
    let all = tree.get("entryPoints").entries();
    let has_defaults = all.iter().any(|(_, point)| point.get("asDefault").is_true());
    let is_named = |kind: &str, name: &str| {
        let mut routers = tree.at(&[kind, "routers"]).entries().iter();
        routers.any(|(_, router)| router.get("entryPoints").texts().iter().any(|own| own.eq_ignore_ascii_case(name)))
    };
    let is_default = |(name, point): &&(String, Tree)| {
        if has_defaults {
            return point.get("asDefault").is_true();
        }
        // One of the names is that of the dashboard, and connections that are handed on come before requests.
        name != "traefik" && (!is_named("tcp", name) || is_named("http", name))
    };
    all.iter().filter(is_default).map(|(name, _)| name.clone()).collect()
}

/// `:443/tcp` without what is behind the port; of another protocol nothing.
pub fn resolved(address: &str) -> &str {
    match address.split_once('/') {
        Some((address, "tcp")) => address,
        Some(_) => "",
        None => address,
    }
}

/// Whether all entry points are there, and none is the port of plain HTTP.
pub fn opens_no_http(trees: &[Tree]) -> bool {
    let points = trees.iter().flat_map(|tree| tree.get("entryPoints").entries());
    let doors = points.filter_map(|(_, point)| Door::parse(resolved(point.get("address").text()?), false));
    outline::opens_no_http(&doors.collect::<Vec<_>>())
}

fn is_secure(name: &str) -> bool {
    ["websecure", "https", "web-secure", "secure"].iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Whether entry points are said, so that those that are not there are nowhere.
pub fn has_points(tree: &Tree) -> bool {
    tree.get("entryPoints").entries().iter().any(|(_, point)| point.has("address"))
}

/// Whether the address of an entry point may be anything, as one that the environment says.
fn is_open(address: &str) -> bool {
    !is_plain(address)
}

/// Where a router listens: by its entry points where the file has them, else by what they are called. `is_sent` is
/// whether it sends plain HTTP to HTTPS.
pub fn of<'t>(tree: &'t Tree, router: &Tree, is_sent: bool) -> Vec<RouterPlace<'t>> {
    let names = entry_points(tree, router);
    let has_tls = has_key(router, "tls");
    let mut places = Vec::new();
    let mut assumed: Vec<&String> = Vec::new();
    for name in &names {
        let point = tree.at(&["entryPoints", name]);
        let address = point.get("address");
        let Some(text) = address.text() else {
            // Of those that are said at all, it is none.
            assumed.extend((!has_points(tree)).then_some(name));
            continue;
        };
        match Door::parse(resolved(text), false) {
            Some(door) => {
                let is_tls = has_tls || is_secure(name) || door.port == 443 || point.get("http").has("tls");
                places.push(RouterPlace { point, door: Door { is_tls, ..door }, at: address.start() });
            }
            None => assumed.extend(is_open(text).then_some(name)),
        }
    }
    if !places.is_empty() || (assumed.is_empty() && !names.is_empty()) {
        return places;
    }
    let is_all = names.is_empty();
    let is_tls = |name: &str| has_tls || is_secure(name);
    let mut add = |name: Option<&str>, door: Door| {
        let point = tree.at(&["entryPoints", name.unwrap_or_default()]);
        places.push(RouterPlace { point, door, at: usize::MAX });
    };
    let secure = assumed.iter().find(|name| is_tls(name)).map(|name| name.as_str());
    let plain = assumed.iter().find(|name| !is_tls(name)).map(|name| name.as_str());
    if (is_all && (has_tls || !is_sent)) || secure.is_some() {
        add(secure, Door::HTTPS);
    }
    if (is_all && !has_tls && is_sent) || plain.is_some() {
        add(plain, Door::HTTP);
    }
    places
}

/// Says of what names entry points what is known of them.
pub fn assumed(tree: &Tree, router: &Tree, origin: &mut Origin) {
    let written = router.get("entryPoints");
    let names = entry_points(tree, router);
    let is_known = |name: &String| tree.at(&["entryPoints", name]).has("address");
    if !names.is_empty() && names.iter().all(is_known) {
        origin.carry_all(written.statements());
    } else if names.is_empty() {
        origin.differ_too(router.get("rule").start(), ALL_ELSEWHERE);
    } else if has_points(tree) {
        origin.carry_all(written.statements());
        origin.differ(written.start(), NO_SUCH_POINT);
    } else if !words::is_inner(&names) && !written.is_nothing() {
        origin.differ(written.start(), ELSEWHERE);
    }
}
