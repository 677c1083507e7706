//! Which addresses a configuration listens on, and which sites answer there. Derived in one place, so that what `proxy` compiles, what `plan`
//! compares and what `explain` says are the same. Nothing is bound or looked up here.

use crate::Configuration;
use crate::address::{HostPattern, Scheme};
use crate::placeholder::{Placeholder, Template, TemplatePart};
use crate::site::{Route, Site, Tls, TlsSource};
use crate::step::Terminal;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// One address and what answers there.
#[derive(Debug, Clone, PartialEq)]
pub struct Listening<'a> {
    pub scheme: Scheme,
    /// In the order in which a router prefers them where two are the same; never empty.
    pub hosts: Vec<(Answering, &'a HostPattern)>,
    /// Nobody wrote this address: it is there for the redirects of bare addresses, and that it cannot be bound is only a warning.
    pub implied: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answering {
    /// By its position in `Configuration::sites`.
    Site(usize),
    /// The redirect to HTTPS that a bare `example.com` brings.
    Redirect,
}

/// Where a site's address listens: on that IP only when the host is one, else everywhere.
pub fn listen_address(host: &HostPattern, port: u16) -> SocketAddr {
    match host {
        HostPattern::Ip(ip) => SocketAddr::new(*ip, port),
        HostPattern::Any | HostPattern::Exact(_) | HostPattern::Wildcard(_) => {
            SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
        }
    }
}

/// By address, as they are bound. Linear in the addresses of all sites.
pub fn listening(configuration: &Configuration) -> BTreeMap<SocketAddr, Listening<'_>> {
    let mut found: BTreeMap<SocketAddr, Listening<'_>> = BTreeMap::new();
    for (position, site) in configuration.sites.iter().enumerate() {
        for address in &site.addresses {
            let listening = found.entry(listen_address(&address.host, address.port)).or_insert_with(|| Listening {
                scheme: address.scheme,
                hosts: Vec::new(),
                implied: false,
            });
            listening.hosts.push((Answering::Site(position), &address.host));
        }
    }
    for address in configuration.sites.iter().flat_map(|site| &site.addresses) {
        if address.redirect_from_http && address.scheme == Scheme::Https {
            let listen = listen_address(&address.host, Scheme::Http.default_port());
            let listening =
                found.entry(listen).or_insert_with(|| Listening { scheme: Scheme::Http, hosts: Vec::new(), implied: true });
            listening.hosts.push((Answering::Redirect, &address.host));
        }
    }
    found
}

/// As [`listening`], with the sites of `:443` also on `192.0.2.1:443`: the kernel gives a connection to the socket of its very address
/// before one that listens everywhere.
pub fn listening_shared(configuration: &Configuration) -> BTreeMap<SocketAddr, Listening<'_>> {
    let mut found = listening(configuration);
    let everywhere: Vec<_> = found
        .iter()
        .filter(|(address, _)| address.ip().is_unspecified())
        .map(|(address, listening)| (address.port(), listening.clone()))
        .collect();
    for (address, listening) in found.iter_mut().filter(|(address, _)| !address.ip().is_unspecified()) {
        let same = everywhere.iter().filter(|(port, other)| *port == address.port() && other.scheme == listening.scheme);
        listening.hosts.extend(same.flat_map(|(_, other)| other.hosts.iter().copied()));
    }
    found
}

/// The peers whose `X-Forwarded-*` fields are believed on that address.
pub fn trusted_proxies(configuration: &Configuration, address: SocketAddr) -> Vec<IpNet> {
    configuration
        .listeners
        .iter()
        .filter(|options| options.port == address.port() && options.ip.is_none_or(|ip| ip == address.ip()))
        .flat_map(|options| options.trusted_proxies.iter().copied())
        .collect()
}

/// `:443` for every address of the machine, as `listener` has it; else `192.0.2.1:443`.
pub fn shown_address(address: SocketAddr) -> String {
    if address.ip().is_unspecified() { format!(":{}", address.port()) } else { address.to_string() }
}

/// A site as logs and metrics name it.
pub fn site_name(site: &Site) -> String {
    site.addresses.first().map_or_else(|| REDIRECT_NAME.to_owned(), ToString::to_string)
}

/// The site that nobody wrote.
const REDIRECT_NAME: &str = "redirect-to-https";

/// What answers on port 80 for a bare `example.com`.
pub fn redirect_site() -> Site {
    let to = Template {
        parts: vec![
            TemplatePart::Literal("https://".into()),
            TemplatePart::Placeholder(Placeholder::Host),
            TemplatePart::Placeholder(Placeholder::Uri),
        ],
    };
    let terminal = Terminal::Redirect { to, status: 308 };
    Site {
        addresses: Vec::new(),
        tls: Tls { source: TlsSource::Off, ..Tls::default() },
        steps: Vec::new(),
        routes: vec![Route { paths: Vec::new(), matches: Vec::new(), steps: Vec::new(), terminal }],
    }
}
