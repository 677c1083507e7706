//! What concerns several sites, pools and listeners at once, after each has been read by itself.

use crate::diagnostics::{Diagnostic, FileId, Location};
use crate::lowering::Lowering;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use tidegate_model::{HostPattern, Scheme};

/// Everything that can only be seen with the whole configuration in view.
pub fn check(lowering: &mut Lowering<'_>, main_file: FileId) {
    duplicate_addresses(lowering);
    mixed_ports(lowering);
    if lowering.has_errors() {
        // What seems to be unused may be wanted by the part that was not understood.
        return;
    }
    unused_pools(lowering);
    unused_listeners(lowering);
    if lowering.configuration.sites.is_empty() {
        let diagnostic =
            Diagnostic::warning("no-site", Location { file: main_file, span: 0..0 }, "there is no site, so nothing is served")
                .help("for example `site \"http://:8080\" { respond 200 body=\"hello\" }`");
        lowering.report(diagnostic);
    }
}

fn duplicate_addresses(lowering: &mut Lowering<'_>) {
    let mut first_of: HashMap<(Scheme, &HostPattern, u16), &Location> = HashMap::new();
    let mut found = Vec::new();
    for (address, at) in &lowering.spans.addresses {
        let first = *first_of.entry((address.scheme, &address.host, address.port)).or_insert(at);
        if !std::ptr::eq(first, at) {
            let shown = lowering.shown(&address.to_string(), at);
            let diagnostic = Diagnostic::error("duplicate-site", at.clone(), format!("the address `{shown}` is taken"))
                .label(first.clone(), "taken here")
                .help("put the routes of both into one site, or give one another host or port");
            found.push(diagnostic);
        }
    }
    lowering.diagnostics.extend(found);
}

/// One way of listening on a port, and the first place that asks for it.
struct Listening<'a> {
    ip: Option<IpAddr>,
    scheme: Scheme,
    at: &'a Location,
    why: &'static str,
}

/// One socket speaks either TLS or plain HTTP.
fn mixed_ports(lowering: &mut Lowering<'_>) {
    let mut ports: BTreeMap<u16, Vec<Listening<'_>>> = BTreeMap::new();
    for (address, at) in &lowering.spans.addresses {
        let ip = ip_of(&address.host);
        let why = if address.scheme == Scheme::Https { "TLS" } else { "plain HTTP" };
        listen(&mut ports, address.port, Listening { ip, scheme: address.scheme, at, why });
        if address.redirect_from_http {
            let why = "plain HTTP on port 80, to redirect to HTTPS";
            listen(&mut ports, Scheme::Http.default_port(), Listening { ip, scheme: Scheme::Http, at, why });
        }
    }
    let found: Vec<Diagnostic> = ports.iter().filter_map(|(port, ways)| clash(*port, ways)).collect();
    lowering.diagnostics.extend(found);
}

fn listen<'a>(ports: &mut BTreeMap<u16, Vec<Listening<'a>>>, port: u16, one: Listening<'a>) {
    let ways = ports.entry(port).or_default();
    if !ways.iter().any(|known| known.ip == one.ip && known.scheme == one.scheme) {
        ways.push(one);
    }
}

fn clash(port: u16, ways: &[Listening<'_>]) -> Option<Diagnostic> {
    ways.iter().enumerate().find_map(|(index, one)| {
        let overlaps = |other: &&Listening<'_>| one.ip == other.ip || one.ip.is_none() || other.ip.is_none();
        let other = ways[..index].iter().filter(overlaps).find(|other| other.scheme != one.scheme)?;
        let message = format!("port {port} cannot speak both TLS and plain HTTP");
        let diagnostic = Diagnostic::error("mixed-port", one.at.clone(), message)
            .marked(one.why)
            .label(other.at.clone(), other.why)
            .help("give one of them another port");
        Some(diagnostic)
    })
}

fn ip_of(host: &HostPattern) -> Option<IpAddr> {
    match host {
        HostPattern::Ip(ip) => Some(*ip),
        HostPattern::Any | HostPattern::Exact(_) | HostPattern::Wildcard(_) => None,
    }
}

fn unused_pools(lowering: &mut Lowering<'_>) {
    let is_unused = |name: &String| !lowering.pools_used.contains(name);
    let unused: Vec<Location> =
        lowering.pools_written.iter().filter(|(name, _)| is_unused(name)).map(|(_, at)| at.clone()).collect();
    for at in unused {
        let diagnostic = Diagnostic::warning("unused-pool", at, "no `proxy` uses this pool");
        lowering.report(diagnostic.help("remove it, or switch it off with `/-`"));
    }
}

fn unused_listeners(lowering: &mut Lowering<'_>) {
    let mut found = Vec::new();
    for (options, at) in lowering.configuration.listeners.iter().zip(&lowering.spans.listeners) {
        let used = lowering.spans.addresses.iter().any(|(address, _)| {
            let same_port =
                address.port == options.port || (address.redirect_from_http && options.port == Scheme::Http.default_port());
            same_port && ip_of(&address.host) == options.ip
        });
        if !used {
            let diagnostic = Diagnostic::warning("unused-listener", at.clone(), "no site listens on this address")
                .help("the addresses come from the sites; a `listener` only sets options of one");
            found.push(diagnostic);
        }
    }
    lowering.diagnostics.extend(found);
}
