//! What concerns several sites, pools and listeners at once, after each has been read by itself.

use crate::diagnostics::{Diagnostic, FileId, Location};
use crate::lowering::Lowering;
use std::collections::{BTreeMap, HashMap, HashSet};
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

/// The first place that asks for one way of listening on a port.
#[derive(Clone, Copy)]
struct Listening<'a> {
    at: &'a Location,
    why: &'static str,
    order: usize,
}

/// What is asked of one port.
#[derive(Default)]
struct Port<'a> {
    /// In general, and for each address alone.
    first_of_scheme: HashMap<Scheme, Listening<'a>>,
    first_of_ip: HashMap<(Option<IpAddr>, Scheme), Listening<'a>>,
    /// The first that cannot stand beside another before it, and that one.
    clash: Option<(Listening<'a>, Listening<'a>)>,
}

impl<'a> Port<'a> {
    fn listen(&mut self, ip: Option<IpAddr>, scheme: Scheme, one: Listening<'a>) {
        let other_scheme = if scheme == Scheme::Https { Scheme::Http } else { Scheme::Https };
        if self.clash.is_none() && !self.first_of_ip.contains_key(&(ip, scheme)) {
            // A port of all addresses is a port of each.
            let other = match ip {
                None => self.first_of_scheme.get(&other_scheme),
                Some(_) => {
                    let of_ip = self.first_of_ip.get(&(ip, other_scheme));
                    let of_all = self.first_of_ip.get(&(None, other_scheme));
                    of_ip.into_iter().chain(of_all).min_by_key(|other| other.order)
                }
            };
            self.clash = other.map(|other| (one, *other));
        }
        self.first_of_scheme.entry(scheme).or_insert(one);
        self.first_of_ip.entry((ip, scheme)).or_insert(one);
    }
}

/// One socket speaks either TLS or plain HTTP.
fn mixed_ports(lowering: &mut Lowering<'_>) {
    let mut ports: BTreeMap<u16, Port<'_>> = BTreeMap::new();
    for (order, (address, at)) in lowering.spans.addresses.iter().enumerate() {
        let ip = ip_of(&address.host);
        let why = if address.scheme == Scheme::Https { "TLS" } else { "plain HTTP" };
        ports.entry(address.port).or_default().listen(ip, address.scheme, Listening { at, why, order });
        if address.redirect_from_http {
            let why = "plain HTTP on port 80, to redirect to HTTPS";
            let port = ports.entry(Scheme::Http.default_port()).or_default();
            port.listen(ip, Scheme::Http, Listening { at, why, order });
        }
    }
    let clashes = ports.into_iter().filter_map(|(port, asked)| asked.clash.map(|(one, other)| clash(port, one, other)));
    let found: Vec<Diagnostic> = clashes.collect();
    lowering.diagnostics.extend(found);
}

fn clash(port: u16, one: Listening<'_>, other: Listening<'_>) -> Diagnostic {
    let message = format!("port {port} cannot speak both TLS and plain HTTP");
    Diagnostic::error("mixed-port", one.at.clone(), message)
        .marked(one.why)
        .label(other.at.clone(), other.why)
        .help("give one of them another port")
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
    let mut listening: HashSet<(Option<IpAddr>, u16)> = HashSet::new();
    for (address, _) in &lowering.spans.addresses {
        let ip = ip_of(&address.host);
        listening.insert((ip, address.port));
        if address.redirect_from_http {
            listening.insert((ip, Scheme::Http.default_port()));
        }
    }
    let mut found = Vec::new();
    for (options, at) in lowering.configuration.listeners.iter().zip(&lowering.spans.listeners) {
        let used = listening.contains(&(options.ip, options.port));
        if !used {
            let diagnostic = Diagnostic::warning("unused-listener", at.clone(), "no site listens on this address")
                .help("the addresses come from the sites; a `listener` only sets options of one");
            found.push(diagnostic);
        }
    }
    lowering.diagnostics.extend(found);
}
