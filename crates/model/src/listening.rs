//! Which addresses a configuration listens on, and which sites answer there. Derived in one place, so that what `proxy`
//! compiles, what `plan` compares and what `explain` says are the same. Nothing is bound or looked up here.

use crate::Configuration;
use crate::address::{HostPattern, ListenPlace, Scheme, SiteAddress};
use crate::listen_address::{ListenAddress, ListenerPlace, SocketAccess};
use crate::placeholder::{Placeholder, Template, TemplatePart};
use crate::process::ListenerOptions;
use crate::route_options::RouteOptions;
use crate::site::{Route, Site, Tls, TlsSource};
use crate::step::Terminal;
use crate::tcp::TcpTarget;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// What is spoken on a listening address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListenerProtocol {
    Http,
    /// TLS; besides sites there may be names that are passed on.
    Https,
    /// Whatever it is, it is passed on.
    Tcp,
}

impl ListenerProtocol {
    pub fn as_str(self) -> &'static str {
        match self {
            ListenerProtocol::Http => Scheme::Http.as_str(),
            ListenerProtocol::Https => Scheme::Https.as_str(),
            ListenerProtocol::Tcp => "tcp",
        }
    }

    /// The scheme of the requests that come there.
    pub fn scheme(self) -> Scheme {
        match self {
            ListenerProtocol::Http => Scheme::Http,
            ListenerProtocol::Https | ListenerProtocol::Tcp => Scheme::Https,
        }
    }

    /// Whether connections made under one can go on under the other: those in plain HTTP cannot become anything else,
    /// nor can others become them. What is passed on does not ask whether there are sites beside it.
    pub fn is_akin(self, other: ListenerProtocol) -> bool {
        (self == ListenerProtocol::Http) == (other == ListenerProtocol::Http)
    }
}

impl From<Scheme> for ListenerProtocol {
    fn from(scheme: Scheme) -> ListenerProtocol {
        match scheme {
            Scheme::Http => ListenerProtocol::Http,
            Scheme::Https => ListenerProtocol::Https,
        }
    }
}

/// One address and what answers there.
#[derive(Debug, Clone, PartialEq)]
pub struct Listening<'a> {
    pub protocol: ListenerProtocol,
    /// In the order in which a router prefers them where two are the same. Empty only where connections are passed on.
    pub hosts: Vec<(Answering, &'a HostPattern)>,
    /// Names whose connections are passed on.
    pub by_name: Vec<(&'a HostPattern, &'a TcpTarget)>,
    /// Where connections go that no site and no name takes.
    pub otherwise: Option<&'a TcpTarget>,
    /// The port that clients ask for, which is another one than that of the listening address where something in front
    /// maps ports. `None` without sites, and for a socket of this machine whose sites name no host.
    pub public_port: Option<u16>,
    /// Nobody wrote this address: it is there for the redirects of bare addresses, and that it cannot be bound is only
    /// a warning.
    pub implied: bool,
}

impl Listening<'_> {
    fn new(protocol: ListenerProtocol) -> Self {
        Listening { protocol, hosts: Vec::new(), by_name: Vec::new(), otherwise: None, public_port: None, implied: false }
    }

    /// Whether any connection is passed on as it is.
    pub fn passes_on(&self) -> bool {
        !self.by_name.is_empty() || self.otherwise.is_some()
    }

    /// Who answers clients that name nobody in their handshake, where no site is for the address or for every host: the
    /// first that does not refuse.
    pub fn first_answering(&self, sites: &[Arc<Site>]) -> Option<Answering> {
        let is_refusing = |answering: &Answering| match answering {
            Answering::Site(position) => sites[*position].tls.source == TlsSource::Reject,
            Answering::Redirect => false,
        };
        self.hosts.iter().map(|(answering, _)| *answering).find(|answering| !is_refusing(answering))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answering {
    /// By its position in `Configuration::sites`.
    Site(usize),
    /// The redirect to HTTPS that a bare `example.com` brings.
    Redirect,
}

impl SiteAddress {
    /// Where connections for it come in: where its site says it listens, else at the port that clients ask for.
    pub fn listen_addresses(&self) -> impl Iterator<Item = ListenAddress> {
        self.places_of(self.scheme, self.port)
    }

    /// Where plain HTTP is redirected to it, and whether that is written.
    pub fn redirect_addresses(&self) -> impl Iterator<Item = (ListenAddress, bool)> {
        let is_redirected = self.redirect_from_http && self.scheme == Scheme::Https;
        let is_written = self.listen.iter().any(|place| place.scheme == Scheme::Http);
        let places = is_redirected.then(|| self.places_of(Scheme::Http, Scheme::Http.default_port()));
        places.into_iter().flatten().map(move |address| (address, is_written))
    }

    fn places_of(&self, scheme: Scheme, port: u16) -> impl Iterator<Item = ListenAddress> {
        // An address of the machine that names itself as its place is alone there, and nowhere else.
        let is_itself = matches!(self.host, HostPattern::Ip(_));
        let written = move |place: &&ListenPlace| place.scheme == scheme && !is_itself;
        let itself = (!self.listen.iter().any(|place| written(&place))).then(|| listen_address(&self.host, port));
        self.listen.iter().filter(written).map(|place| place.address).chain(itself)
    }
}

/// Where a site's address listens of itself: on that IP only when the host is one, on the socket that it names, else
/// everywhere.
fn listen_address(host: &HostPattern, port: u16) -> ListenAddress {
    match host {
        HostPattern::Ip(ip) => SocketAddr::new(*ip, port).into(),
        HostPattern::Any | HostPattern::Exact(_) | HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_) => {
            SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port).into()
        }
        HostPattern::Socket(name) => ListenAddress::Unix(**name),
    }
}

/// By address, as they are bound. Linear in the addresses of all sites.
pub fn listening(configuration: &Configuration) -> BTreeMap<ListenAddress, Listening<'_>> {
    let mut found: BTreeMap<ListenAddress, Listening<'_>> = BTreeMap::new();
    for (position, site) in configuration.sites.iter().enumerate() {
        for address in &site.addresses {
            for listen in address.listen_addresses() {
                let listening = found.entry(listen).or_insert_with(|| Listening::new(address.scheme.into()));
                listening.hosts.push((Answering::Site(position), &address.host));
                listening.public_port = listening.public_port.or((address.port > 0).then_some(address.port));
            }
        }
    }
    for address in configuration.sites.iter().flat_map(|site| &site.addresses) {
        for (listen, is_written) in address.redirect_addresses() {
            let new = || Listening { implied: !is_written, ..Listening::new(ListenerProtocol::Http) };
            let listening = found.entry(listen).or_insert_with(new);
            listening.hosts.push((Answering::Redirect, &address.host));
            listening.public_port = listening.public_port.or(Some(Scheme::Http.default_port()));
        }
    }
    for tcp in &configuration.tcp {
        let listening = found.entry(tcp.listen_address()).or_insert_with(|| Listening::new(ListenerProtocol::Tcp));
        let names = tcp.by_name.iter().flat_map(|route| route.names.iter().map(|name| (name, &route.to)));
        listening.by_name.extend(names);
        listening.otherwise = tcp.otherwise.as_ref();
    }
    found
}

/// As [`listening`], with the sites of `:443` also on `192.0.2.1:443`: the kernel gives a connection to the socket of
/// its very address before one that listens everywhere. An address of the machine that names itself with `listen` is
/// alone there.
pub fn listening_shared(configuration: &Configuration) -> BTreeMap<ListenAddress, Listening<'_>> {
    let mut found = listening(configuration);
    let everywhere: Vec<_> = found
        .iter()
        .filter_map(|(address, listening)| Some((address.tcp()?, listening)))
        .filter(|(address, _)| address.ip().is_unspecified())
        .map(|(address, listening)| (address.port(), listening.clone()))
        .collect();
    let addresses = configuration.sites.iter().flat_map(|site| &site.addresses);
    let alone = addresses.filter(|address| matches!(address.host, HostPattern::Ip(_)) && !address.listen.is_empty());
    let apart: BTreeSet<ListenAddress> = alone.flat_map(SiteAddress::listen_addresses).collect();
    let shared = found.iter_mut().filter(|(address, _)| !apart.contains(address));
    let of_one = shared.filter_map(|(address, listening)| Some((address.tcp()?, listening)));
    for (address, listening) in of_one.filter(|(address, _)| !address.ip().is_unspecified()) {
        let spoken = listening.protocol;
        let of_port = everywhere.iter().filter(|(port, _)| *port == address.port());
        for (_, other) in of_port.filter(|(_, other)| other.protocol.is_akin(spoken)) {
            listening.hosts.extend(other.hosts.iter().copied());
            listening.public_port = listening.public_port.or(other.public_port);
            listening.by_name.extend(other.by_name.iter().copied());
            listening.otherwise = listening.otherwise.or(other.otherwise);
            if listening.protocol == ListenerProtocol::Tcp && !listening.hosts.is_empty() {
                listening.protocol = ListenerProtocol::Https;
            }
        }
    }
    found
}

/// What holds on an address, whatever of it is written.
pub fn listener_options(configuration: &Configuration, address: ListenAddress) -> ListenerOptions {
    ListenerOptions {
        place: match address {
            ListenAddress::Tcp(address) => ListenerPlace::Tcp { ip: Some(address.ip()), port: address.port() },
            ListenAddress::Unix(name) => ListenerPlace::Unix(name),
        },
        access: socket_access(configuration, address),
        trusted_proxies: trusted_proxies(configuration, address),
        client_ip_header: client_ip_header(configuration, address).map(str::to_owned),
        proxy_protocol_from: proxy_protocol_from(configuration, address),
        websocket_over_http2: websocket_over_http2(configuration, address),
    }
}

/// The peers whose `X-Forwarded-*` fields are believed on that address.
pub fn trusted_proxies(configuration: &Configuration, address: ListenAddress) -> Vec<IpNet> {
    options_of(configuration, address).flat_map(|options| options.trusted_proxies.iter().copied()).collect()
}

/// The header in which these peers name the client on that address, where it is another one than `X-Forwarded-For`. A
/// block for the very address goes before one for all addresses of its port.
pub fn client_ip_header(configuration: &Configuration, address: ListenAddress) -> Option<&str> {
    let named =
        options_of(configuration, address).filter_map(|options| Some((options.place, options.client_ip_header.as_deref()?)));
    named.max_by_key(|(place, _)| matches!(place, ListenerPlace::Tcp { ip: Some(_), .. })).map(|(_, name)| name)
}

/// The peers whose connections to that address begin with a header of the PROXY protocol.
pub fn proxy_protocol_from(configuration: &Configuration, address: ListenAddress) -> Vec<IpNet> {
    options_of(configuration, address).flat_map(|options| options.proxy_protocol_from.iter().copied()).collect()
}

/// Whether clients of that address are offered WebSockets over HTTP/2: unless a block for it says otherwise.
pub fn websocket_over_http2(configuration: &Configuration, address: ListenAddress) -> bool {
    options_of(configuration, address).all(|options| options.websocket_over_http2)
}

/// Who may connect to that socket of this machine.
pub fn socket_access(configuration: &Configuration, address: ListenAddress) -> SocketAccess {
    options_of(configuration, address).next().map(|options| options.access.clone()).unwrap_or_default()
}

fn options_of(configuration: &Configuration, address: ListenAddress) -> impl Iterator<Item = &ListenerOptions> {
    configuration.listeners.iter().filter(move |options| options.place.covers(address))
}

/// What is passed on by a name, or without one, as logs name it: `tcp://db.example.com:443`, `tcp://:5432`.
pub fn passthrough_name(name: Option<&HostPattern>, port: u16) -> String {
    format!("tcp://{}:{port}", name.map(ToString::to_string).unwrap_or_default())
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
    let terminal = Terminal::Redirect { to, status: 308, prefix: None };
    Site {
        origin: None,
        addresses: Vec::new(),
        tls: Tls { source: TlsSource::Off, ..Tls::default() },
        options: RouteOptions::default(),
        steps: Vec::new(),
        routes: vec![Route::of_all(terminal)],
    }
}
