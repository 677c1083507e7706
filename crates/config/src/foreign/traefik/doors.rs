//! Where routers of Traefik listen, and who is only sent to HTTPS there.

use super::{has_key, words};
use crate::foreign::accounts::Origin;
use crate::foreign::outline::{self, Door, OutlinedAnswer, is_plain};
use crate::foreign::tree::Tree;

/// Behind what names entry points.
pub const ELSEWHERE: &str =
    "the address of the entry point is in another file: assumed is the usual port, on all addresses of the machine";
const ALL_ELSEWHERE: &str = "it names no entry point, so it is on all of them, which are in another file: assumed are the usual \
                             ports, on all addresses of the machine";

/// Who is answered with nothing but a redirect to HTTPS.
#[derive(Debug, Clone)]
pub enum SentOn {
    Nobody,
    /// Whoever comes without TLS.
    Plain,
    All(OutlinedAnswer),
}

impl SentOn {
    pub fn is_somebody(&self) -> bool {
        match self {
            SentOn::Nobody => false,
            SentOn::Plain | SentOn::All(_) => true,
        }
    }
}

pub struct RouterDoors {
    /// Each with the place that says it, which is in no file where it is assumed.
    pub doors: Vec<(Door, usize)>,
    pub is_sent_on: SentOn,
}

/// The entry points of a router: those that it names, else all that are so by default.
pub fn entry_points(tree: &Tree, router: &Tree) -> Vec<String> {
    let written = router.get("entryPoints");
    if !written.is_nothing() {
        return written.texts();
    }
    let all = tree.get("entryPoints").entries();
    let has_defaults = all.iter().any(|(_, point)| point.get("asDefault").is_true());
    // One of the names is that of the dashboard.
    let is_default = |(name, point): &&(String, Tree)| {
        if has_defaults { point.get("asDefault").is_true() } else { name != "traefik" }
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

/// Where a router listens: by its entry points where the file has them, else by what they are called.
pub fn of(tree: &Tree, router: &Tree, middlewares: &[(&Tree, usize)], origin: &mut Origin) -> RouterDoors {
    let names = entry_points(tree, router);
    let has_tls = has_key(router, "tls");
    let mut redirects = middlewares.iter().map(|(middleware, _)| middleware.get("redirectScheme"));
    let redirect = redirects.rfind(|redirect| redirect.get("scheme").text() == Some("https"));
    let of_router = redirect.map(|redirect| answer(redirect, redirect.get("port").text()));
    let mut serving: Vec<(Door, usize)> = Vec::new();
    let mut sending: Vec<(Door, usize, OutlinedAnswer)> = Vec::new();
    let mut add = |door: Door, at: usize, of_point: Option<OutlinedAnswer>| match of_point.or_else(|| of_router.clone()) {
        Some(answer) if !door.is_tls => sending.push((door, at, answer)),
        Some(_) | None => serving.push((door, at)),
    };
    let mut is_told = false;
    for name in &names {
        let point = tree.at(&["entryPoints", name]);
        let address = point.get("address");
        let Some(door) = address.text().and_then(|address| Door::parse(resolved(address), false)) else { continue };
        let is_tls = has_tls || is_secure(name) || door.port == 443 || point.get("http").has("tls");
        origin.within.extend(point.statements());
        origin.carry_all(point.at(&["http", "tls"]).statements());
        let redirections = point.at(&["http", "redirections", "entryPoint"]);
        let is_to_https = !redirections.is_nothing() && redirections.get("scheme").text().is_none_or(|scheme| scheme == "https");
        add(Door { is_tls, ..door }, address.start(), is_to_https.then(|| answer_of_point(tree, redirections)));
        is_told = true;
    }
    if has_tls {
        let tls = router.get("tls");
        origin.carry_all(tls.statements().into_iter().filter(|at| tls.text().is_some() || *at == tls.start()));
    }
    if !is_told {
        let is_all = names.is_empty();
        let is_tls = |name: &str| has_tls || is_secure(name);
        if (is_all && (has_tls || of_router.is_none())) || names.iter().any(|name| is_tls(name)) {
            add(Door::HTTPS, usize::MAX, None);
        }
        if (is_all && !has_tls && of_router.is_some()) || names.iter().any(|name| !is_tls(name)) {
            add(Door::HTTP, usize::MAX, None);
        }
    }
    let has_https = serving.iter().any(|(door, _)| *door == Door::HTTPS);
    // A router with TLS answers nobody without, also at the port of plain HTTP.
    let is_mixed = |door: &Door| has_https && door.is_tls && door.port == Door::HTTP.port;
    let is_sent_anyway = serving.iter().any(|(door, _)| is_mixed(door));
    serving.iter_mut().filter(|(door, _)| is_mixed(door)).for_each(|(door, _)| door.is_tls = false);
    let is_sent_on = match sending.first() {
        None if is_sent_anyway => SentOn::Plain,
        None => SentOn::Nobody,
        Some((_, _, answer)) if serving.is_empty() => SentOn::All(answer.clone()),
        Some(_) => SentOn::Plain,
    };
    // A door that only sends to another one is not opened for more.
    let is_kept = |door: Door| door == Door::HTTP && has_https;
    let is_all_sent = serving.is_empty();
    serving.extend(sending.into_iter().filter(|(door, _, _)| is_all_sent || is_kept(*door)).map(|(door, at, _)| (door, at)));
    RouterDoors { doors: serving, is_sent_on }
}

/// Says of what names entry points what is known of them.
pub fn assumed(tree: &Tree, router: &Tree, origin: &mut Origin) {
    let written = router.get("entryPoints");
    let names = entry_points(tree, router);
    let is_known = |name: &String| tree.at(&["entryPoints", name]).has("address");
    if !names.is_empty() && names.iter().all(is_known) {
        origin.carry_all(written.statements());
    } else if names.is_empty() {
        origin.differ(router.get("rule").start(), ALL_ELSEWHERE);
    } else if !words::is_inner(&names) && !written.is_nothing() {
        origin.differ(written.start(), ELSEWHERE);
    }
}

fn answer(said: &Tree, port: Option<&str>) -> OutlinedAnswer {
    let port = port.filter(|port| *port != "443" && port.parse::<u16>().is_ok());
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    // The method stays, as it does there.
    let status = if said.get("permanent").is_true() { 308 } else { 307 };
    OutlinedAnswer::Redirect { to: format!("https://{{host}}{port}{{uri}}"), status }
}

/// To another host with all of the path, by an expression.
pub fn elsewhere(redirect: &Tree) -> Option<OutlinedAnswer> {
    let regex = redirect.get("regex").text()?.trim_end_matches('$');
    let to = redirect.get("replacement").text()?;
    let host = ["/${1}", "/$1", "/$${1}"].iter().find_map(|end| to.strip_suffix(end))?;
    let name = host.split_once("://")?.1;
    let before = regex.strip_suffix("/(.*)")?;
    let is_whole = before.starts_with("^http") && !before.contains('(') && !name.is_empty() && is_plain(name);
    let status = if redirect.get("permanent").is_true() { 308 } else { 307 };
    is_whole.then(|| OutlinedAnswer::Redirect { to: format!("{host}{{uri}}"), status })
}

/// `to` is another entry point or a port, and it is for good unless that is said otherwise.
fn answer_of_point(tree: &Tree, redirections: &Tree) -> OutlinedAnswer {
    let to = redirections.get("to").text().unwrap_or_default();
    let address = tree.at(&["entryPoints", to, "address"]).text().unwrap_or(to);
    let port = resolved(address).rsplit_once(':').map(|(_, port)| port);
    match answer(redirections, port) {
        OutlinedAnswer::Redirect { to, .. } if redirections.get("permanent").text() != Some("false") => {
            OutlinedAnswer::Redirect { to, status: 308 }
        }
        answer => answer,
    }
}
