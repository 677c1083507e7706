//! What concerns several sites, pools and listeners at once, after each has been read by itself.

use crate::diagnostics::{Diagnostic, FileId, Location, nearest};
use crate::directives::{geoip, map};
use crate::forms::is_port_of_tls;
use crate::lowering::Lowering;
use crate::passthrough;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use tidegate_model::listening::site_name;
use tidegate_model::{
    AccessLogFormat, Acme, AcmeChallenge, Discover, HostPattern, ListenAddress, ListenerPlace, Placeholder, Pool, Protocol,
    Scheme, Site, SiteAddress, SocketName, Step, Storage, TemplatePart, TlsSource, UpstreamAddress,
};

/// Everything that can only be seen with the whole configuration in view.
pub fn check(lowering: &mut Lowering<'_>, main_file: FileId) {
    duplicate_addresses(lowering);
    mixed_ports(lowering);
    mixed_public_ports(lowering);
    passthrough::names_of_sites(lowering);
    passthrough::pools(lowering);
    containers_of_nobody(lowering);
    geoip::check_uses(lowering);
    map::check_uses(lowering);
    if lowering.has_errors() {
        // What seems to be unused may be wanted by the part that was not understood.
        return;
    }
    obtained_certificates(lowering);
    name_sites_of_logs(lowering);
    unset_log_fields(lowering);
    cookies_of_other_domains(lowering);
    plain_text_to_tls(lowering);
    unused_pools(lowering);
    unused_listeners(lowering);
    ticket_keys_for_nobody(lowering);
    let configuration = &lowering.configuration;
    if configuration.sites.is_empty() && configuration.tcp.is_empty() && configuration.containers.is_none() {
        let diagnostic =
            Diagnostic::warning("no-site", Location { file: main_file, span: 0..0 }, "there is no site, so nothing is served")
                .help("for example `site \"http://:8080\" { respond 200 body=\"hello\" }`");
        lowering.report(diagnostic);
    }
}

/// Only `docker` hears of containers.
fn containers_of_nobody(lowering: &mut Lowering<'_>) {
    if lowering.configuration.containers.is_some() {
        return;
    }
    let of_containers = lowering.spans.sources.iter().find(|(source, _)| matches!(source, Discover::Containers(_)));
    if let Some((_, at)) = of_containers {
        let message = "nobody asks which containers there are";
        let diagnostic = Diagnostic::error("no-docker", at.clone(), message);
        let help = "write `docker` at the top level, or find them by the label `tidegate.pool` with `discover docker=\"…\"`";
        lowering.diagnostics.push(diagnostic.help(help));
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
        let why = if address.scheme == Scheme::Https { "TLS" } else { "plain HTTP" };
        for (ip, port) in address.listen_addresses().filter_map(place_of) {
            ports.entry(port).or_default().listen(ip, address.scheme, Listening { at, why, order });
        }
        for (ip, port) in address.redirect_addresses().filter_map(|(listen, _)| place_of(listen)) {
            let why = if address.listen.is_empty() {
                "plain HTTP on port 80, to redirect to HTTPS"
            } else {
                "plain HTTP, to redirect to HTTPS"
            };
            ports.entry(port).or_default().listen(ip, Scheme::Http, Listening { at, why, order });
        }
    }
    let sites = lowering.spans.addresses.len();
    for (order, (tcp, at)) in lowering.configuration.tcp.iter().zip(&lowering.spans.tcp).enumerate() {
        let one = Listening { at, why: PASSED_ON, order: sites + order };
        ports.entry(tcp.port).or_default().listen(tcp.ip, Scheme::Https, one);
    }
    let clashes = ports.into_iter().filter_map(|(port, asked)| asked.clash.map(|(one, other)| clash(port, one, other)));
    let found: Vec<Diagnostic> = clashes.collect();
    lowering.diagnostics.extend(found);
}

const PASSED_ON: &str = "connections that are handed on";

fn clash(port: u16, one: Listening<'_>, other: Listening<'_>) -> Diagnostic {
    let message = if one.why == PASSED_ON || other.why == PASSED_ON {
        format!("port {port} cannot speak plain HTTP and hand connections on")
    } else {
        format!("port {port} cannot speak both TLS and plain HTTP")
    };
    Diagnostic::error("mixed-port", one.at.clone(), message)
        .marked(one.why)
        .label(other.at.clone(), other.why)
        .help("give one of them another port")
}

/// The one address of the machine that it is for, if it is for one, and the port.
fn place_of(listen: ListenAddress) -> Option<(Option<IpAddr>, u16)> {
    listen.tcp().map(|address| (Some(address.ip()).filter(|ip| !ip.is_unspecified()), address.port()))
}

/// What is told of a connection is the port that clients ask for, and that is one for all that listens on a port.
fn mixed_public_ports(lowering: &mut Lowering<'_>) {
    // Nearly no configuration says where its sites listen.
    if lowering.spans.addresses.iter().all(|(address, _)| address.listen.is_empty()) {
        return;
    }
    let mut first_of: BTreeMap<(u16, Option<SocketName>), (u16, &Location)> = BTreeMap::new();
    let mut found = Vec::new();
    for (address, at) in lowering.spans.addresses.iter().filter(|(address, _)| address.socket().is_none()) {
        let redirects = address.redirect_addresses().map(|(listen, _)| (listen, Scheme::Http.default_port()));
        for (listen, public) in address.listen_addresses().map(|listen| (listen, address.port)).chain(redirects) {
            let place = (listen.port().unwrap_or_default(), listen.socket().copied());
            let (first, first_at) = *first_of.entry(place).or_insert((public, at));
            if first != public {
                let message = format!(
                    "clients of `{}` ask for port {public} by this address, and for port {first} by another",
                    listen.shown()
                );
                let diagnostic = Diagnostic::error("mixed-public-port", at.clone(), message).label(first_at.clone(), "the other");
                found.push(diagnostic.help(
                    "give the addresses of sites that listen at one port the same port, or let one of them `listen` elsewhere",
                ));
            }
        }
    }
    lowering.diagnostics.extend(found);
}

/// Names whose certificates cannot be obtained as the configuration stands: what is said here, nobody has to find out
/// from a browser.
fn obtained_certificates(lowering: &mut Lowering<'_>) {
    let configuration = &lowering.configuration;
    if configuration.sites.iter().all(|site| site.tls.source != TlsSource::Automatic) {
        return;
    }
    let listens = ports_listened_on(lowering);
    let mut found = Vec::new();
    // Both are in file order, and nothing was wrong with any address.
    let mut places = lowering.spans.addresses.iter();
    for site in &configuration.sites {
        let acme = configuration.acme_of(site);
        for address in &site.addresses {
            let Some((_, at)) = places.next() else { break };
            let is_wanted = address.host.is_public() || site.tls.acme.is_some() && address.host != HostPattern::Any;
            if site.tls.source != TlsSource::Automatic
                || address.scheme != Scheme::Https
                || !(is_wanted || site.tls.on_demand.is_some())
            {
                continue;
            }
            let host = lowering.shown(&address.host.to_string(), at);
            match &acme {
                None if site.tls.on_demand.is_some() => {
                    let message = "`on-demand` obtains certificates, and `acme \"off\"` says that none are";
                    let diagnostic = Diagnostic::error("conflicting-tls", at.clone(), message);
                    found.push(diagnostic.help("remove `acme \"off\"`, or add `acme` to the `tls` of this site"));
                }
                None if is_wanted && configuration.certificates.is_empty() => {
                    let message = format!("the internal CA signs for `{host}`, which browsers do not trust");
                    let diagnostic = Diagnostic::warning("internal-certificate", at.clone(), message);
                    found.push(diagnostic.help(
                        "remove `acme \"off\"`, give the certificate with `tls cert=\"…\" key=\"…\"`, or say `tls \"internal\"`",
                    ));
                }
                // Which sites have a certificate that is given once, its file says.
                Some(_) if !configuration.certificates.is_empty() && site.tls.acme.is_none() => {}
                Some(acme) if site.tls.acme.is_none() && acme.wildcard_of(&address.host).is_some() => {}
                Some(acme) if is_wanted && site.tls.on_demand.is_none() => {
                    found.extend(cannot_be_shown(acme, &address.host, &host, at, &listens));
                }
                None | Some(_) => {}
            }
        }
    }
    lowering.diagnostics.extend(found);
}

fn ports_listened_on(lowering: &Lowering<'_>) -> HashSet<(Scheme, u16)> {
    let addresses = lowering.configuration.sites.iter().flat_map(|site| &site.addresses);
    let ports = addresses.flat_map(|address| {
        // CAs come by the port that clients ask for.
        let redirect = address.redirect_from_http.then(|| (Scheme::Http, Scheme::Http.default_port()));
        let redirects = address.redirect_addresses().map(|(listen, _)| (listen, Scheme::Http));
        let places = address.listen_addresses().map(|listen| (listen, address.scheme)).chain(redirects);
        let places = places.filter_map(|(listen, scheme)| Some((scheme, listen.port()?)));
        std::iter::once((address.scheme, address.port)).chain(redirect).chain(places)
    });
    ports.collect()
}

/// Why no challenge of the CA can be answered for the host.
fn cannot_be_shown(
    acme: &Acme,
    host: &HostPattern,
    shown: &str,
    at: &Location,
    listens: &HashSet<(Scheme, u16)>,
) -> Option<Diagnostic> {
    let may = |challenge: AcmeChallenge| acme.challenges.is_empty() || acme.challenges.contains(&challenge);
    let by_dns = may(AcmeChallenge::Dns01) && acme.dns.is_some();
    if by_dns && let HostPattern::DeepWildcard(parent) = host {
        let message = format!("the certificate of `{shown}` is for `*.{parent}`, and names with more labels in front have none");
        let diagnostic = Diagnostic::warning("deep-wildcard-certificate", at.clone(), message);
        let help = "no CA has certificates for any depth: obtain those of such names with `on-demand`, give them with `tls cert=`, or write sites for them";
        return Some(diagnostic.help(help));
    }
    if by_dns && !matches!(host, HostPattern::Ip(_)) {
        return None;
    }
    if matches!(host, HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_)) {
        let message = format!("no certificate can be obtained for `{shown}`: wildcards need `dns-01`");
        let diagnostic = Diagnostic::warning("no-challenge", at.clone(), message);
        return Some(diagnostic.help("add `dns` to `acme`, as in `acme { dns \"cloudflare\" token=\"…\"; }`, name the hosts one by one, or obtain them with `on-demand`"));
    }
    let by_tls = may(AcmeChallenge::TlsAlpn01) && listens.contains(&(Scheme::Https, acme.https_port));
    let by_http = may(AcmeChallenge::Http01) && listens.contains(&(Scheme::Http, acme.http_port));
    if by_tls || by_http {
        return None;
    }
    let message = format!("no certificate can be obtained for `{shown}`: no site listens on a port that the CA connects to");
    let diagnostic = Diagnostic::warning("no-challenge", at.clone(), message);
    let ports = format!("for `tls-alpn-01` a site on :{}, for `http-01` one on `http://:{}`", acme.https_port, acme.http_port);
    Some(diagnostic.help(format!("{ports}, or a `dns` line in `acme`; or say `tls \"internal\"`")))
}

/// Logs name sites by any of their addresses; lines have the first.
fn name_sites_of_logs(lowering: &mut Lowering<'_>) {
    let logs = &lowering.configuration.access_logs;
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut named = Vec::new();
    for (log, (_, at)) in logs.iter().zip(lowering.spans.access_logs.clone()) {
        let mut names = Vec::new();
        for text in &log.when.sites {
            let is_meant = |site: &&Arc<Site>| {
                SiteAddress::parse(text).is_ok_and(|address| {
                    site.addresses
                        .iter()
                        .any(|own| (&own.host, own.port, own.scheme) == (&address.host, address.port, address.scheme))
                })
            };
            match (lowering.configuration.sites.iter().find(is_meant), &at) {
                (Some(site), _) => names.push(site_name(site)),
                (None, Some(at)) => {
                    let message = format!("no site has the address `{}`", crate::diagnostics::shortened(text));
                    let help = "name one as `site` does, as in `site=\"https://example.com\"`";
                    found.push(Diagnostic::error("unknown-site", at.clone(), message).help(help));
                }
                (None, None) => {}
            }
        }
        named.push(names);
    }
    for (log, names) in lowering.configuration.access_logs.iter_mut().zip(named) {
        log.when.sites = names;
    }
    lowering.diagnostics.extend(found);
}

/// `{log.NAME}` is what the `log` of a site or route calls so.
fn unset_log_fields(lowering: &mut Lowering<'_>) {
    let Some(at) = lowering.spans.access_log_format.clone() else { return };
    let options = lowering.configuration.sites.iter().flat_map(|site| site.all_options());
    let set: BTreeSet<&str> = options.flat_map(|options| &options.log.fields).map(|field| field.name.as_str()).collect();
    let parts = lowering.configuration.access_logs.iter().filter_map(|log| match &log.format {
        AccessLogFormat::Template(format) => Some(&format.parts),
        AccessLogFormat::Json | AccessLogFormat::Common => None,
    });
    let wanted = parts.flatten().filter_map(|part| match part {
        TemplatePart::Placeholder(Placeholder::LogOwn(name)) => Some(name.as_str()),
        TemplatePart::Placeholder(_) | TemplatePart::Literal(_) | TemplatePart::Capture(_) => None,
    });
    let unset: BTreeSet<&str> = wanted.filter(|name| !set.contains(name)).collect();
    let found: Vec<Diagnostic> = unset
        .into_iter()
        .map(|name| {
            let diagnostic =
                Diagnostic::warning("unset-log-field", at.clone(), format!("`{{log.{name}}}` is always empty: no `log` sets it"));
            diagnostic.help(match nearest(name, set.iter().copied()) {
                Some(known) => format!("did you mean `{{log.{known}}}`?"),
                None => {
                    format!("set it in a site or a route, as in `log {{ field \"{name}\" \"{{request.header.X-Tenant}}\"; }}`")
                }
            })
        })
        .collect();
    lowering.diagnostics.extend(found);
}

/// Browsers drop cookies for a domain that the host which sets them is not in.
fn cookies_of_other_domains(lowering: &mut Lowering<'_>) {
    let mut found = Vec::new();
    for site in &lowering.configuration.sites {
        let domains: BTreeSet<&str> = site
            .all_steps()
            .flat_map(Step::parts)
            .filter_map(|step| if let Step::Oidc(Some(oidc)) = step { oidc.domain.as_deref() } else { None })
            .collect();
        for (domain, address) in domains.iter().flat_map(|domain| site.addresses.iter().map(move |address| (*domain, address))) {
            let is_in = |host: &str| host == domain || host.strip_suffix(domain).is_some_and(|before| before.ends_with('.'));
            let fits = match &address.host {
                HostPattern::Exact(host) | HostPattern::Wildcard(host) | HostPattern::DeepWildcard(host) => is_in(host),
                HostPattern::Any | HostPattern::Socket(_) => true,
                HostPattern::Ip(_) => false,
            };
            let at = lowering.spans.addresses.iter().find(|(known, _)| known == address).map(|(_, at)| at.clone());
            if let (false, Some(at)) = (fits, at) {
                let shown = lowering.shown(&address.to_string(), &at);
                let message = format!("nobody can log in at `{shown}`: its browsers keep no cookies of `{domain}`");
                let diagnostic = Diagnostic::warning("other-domain", at, message);
                found.push(diagnostic.help("give that address a site of its own, or another `domain=` to its `oidc`"));
            }
        }
    }
    lowering.diagnostics.extend(found);
}

/// The state folder is of one host, and its processes hand their keys on in other ways.
fn ticket_keys_for_nobody(lowering: &mut Lowering<'_>) {
    let Some(at) = lowering.spans.shared_ticket_keys.clone() else { return };
    if lowering.configuration.storage == Storage::State {
        let diagnostic =
            Diagnostic::warning("shared-with-nobody", at, "no other host reads the state folder, where these keys are");
        let help = "name a `storage` that hosts share, as in `storage \"rediss://redis.internal\"`, or remove `ticket-keys`";
        lowering.report(diagnostic.help(help));
    }
}

/// Plain HTTP to a port of TLS is answered with an error at best. Connections that `tcp` hands on are what they are.
fn plain_text_to_tls(lowering: &mut Lowering<'_>) {
    let is_meant = |address: &UpstreamAddress| match address {
        UpstreamAddress::Tcp(address) => address.scheme == Scheme::Http && is_port_of_tls(address.port),
        UpstreamAddress::Unix(_) => false,
    };
    let pools = lowering.configuration.pools.iter().chain(lowering.pools_in_place.values());
    let of_requests = passthrough::pools_of_sites(lowering);
    let speaks_http = |pool: &Pool| pool.protocol != Protocol::FastCgi;
    let is_asked = |pool: &Pool| lowering.spans.tcp_pools.is_empty() || of_requests.contains(&pool.name);
    let pools = pools.filter(|pool| speaks_http(pool) && is_asked(pool));
    let wrong: BTreeSet<&UpstreamAddress> =
        pools.flat_map(|pool| &pool.servers).map(|server| &server.address).filter(|address| is_meant(address)).collect();
    if wrong.is_empty() {
        return;
    }
    let places = lowering.spans.servers.iter().filter(|(address, _)| wrong.contains(address));
    let found: Vec<Diagnostic> = places
        .map(|(address, at)| {
            let shown = lowering.shown(&address.authority(), &at);
            let message = format!("`{shown}` is spoken to in plain text, and this is a port of TLS");
            Diagnostic::warning("plain-text-to-tls", at, message).help(format!("write `https://{shown}`"))
        })
        .collect();
    lowering.diagnostics.extend(found);
}

fn unused_pools(lowering: &mut Lowering<'_>) {
    let is_unused = |name: &String| !lowering.pools_used.contains(name);
    let unused: Vec<Location> =
        lowering.pools_written.iter().filter(|(name, _)| is_unused(name)).map(|(_, pool)| pool.at.clone()).collect();
    for at in unused {
        let diagnostic = Diagnostic::warning("unused-pool", at, "nothing uses this pool");
        lowering.report(diagnostic.help("remove it, or switch it off with `/-`"));
    }
}

fn unused_listeners(lowering: &mut Lowering<'_>) {
    if lowering.spans.listeners.is_empty() {
        return;
    }
    let mut listening: HashSet<ListenerPlace> = HashSet::new();
    for (address, _) in &lowering.spans.addresses {
        let places = address.listen_addresses().chain(address.redirect_addresses().map(|(listen, _)| listen));
        listening.extend(places.map(|listen| match (place_of(listen), listen) {
            (Some((ip, port)), _) => ListenerPlace::Tcp { ip, port },
            (None, ListenAddress::Unix(name)) => ListenerPlace::Unix(name),
            (None, ListenAddress::Tcp(address)) => ListenerPlace::Tcp { ip: Some(address.ip()), port: address.port() },
        }));
    }
    listening.extend(lowering.configuration.tcp.iter().map(|tcp| ListenerPlace::Tcp { ip: tcp.ip, port: tcp.port }));
    let mut found = Vec::new();
    for (options, at) in lowering.configuration.listeners.iter().zip(&lowering.spans.listeners) {
        let used = listening.contains(&options.place);
        if !used {
            let diagnostic = Diagnostic::warning("unused-listener", at.clone(), "no site listens on this address")
                .help("the addresses come from `site` and `tcp`; a `listener` only sets options of one");
            found.push(diagnostic);
        }
    }
    lowering.diagnostics.extend(found);
}
