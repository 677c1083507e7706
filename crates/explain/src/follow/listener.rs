//! The listening address that a request comes to, and what happens to its head there before anything is matched.

use super::Question;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tidegate_api::ExplainedListener;
use tidegate_config::writing::show_network;
use tidegate_model::listening::{Answering, ListenerProtocol, Listening, client_ip_header, proxy_protocol_from, trusted_proxies};
use tidegate_model::{Configuration, HostPattern, ListenAddress, Scheme, Site, TcpTarget};
use tidegate_routing::{Greeting, PassId, Router, SiteId, Taker};
use tidegate_wire::head::{HeaderId, RequestHead};

/// What an untrusted client says of itself; the proxy takes it off every request on arrival.
const CLAIMS: [(HeaderId, &str); 6] = [
    (HeaderId::XForwardedFor, "X-Forwarded-For"),
    (HeaderId::XForwardedProto, "X-Forwarded-Proto"),
    (HeaderId::XForwardedHost, "X-Forwarded-Host"),
    (HeaderId::XForwardedPort, "X-Forwarded-Port"),
    (HeaderId::Forwarded, "Forwarded"),
    (HeaderId::XRealIp, "X-Real-IP"),
];

pub struct Place<'a> {
    pub address: ListenAddress,
    pub listening: &'a Listening<'a>,
    pub router: Router,
    /// The address that the client connected to: sites that are named by one answer there only.
    pub local_ip: IpAddr,
    trusted_proxies: Vec<IpNet>,
    client_ip_header: &'a str,
    proxy_protocol_from: Vec<IpNet>,
    sites: &'a [Arc<Site>],
    /// The name leads to one of several addresses, and which is not known here.
    is_guess: bool,
}

impl<'a> Place<'a> {
    /// As the kernel finds the socket: that of the very address, else the one that listens everywhere. `None`: nobody
    /// listens there.
    pub fn find(
        configuration: &'a Configuration,
        listening: &'a BTreeMap<ListenAddress, Listening<'a>>,
        request: &Question,
    ) -> Option<Place<'a>> {
        // What is asked about is what clients ask for.
        let is_asked =
            |address: &ListenAddress, listening: &Listening<'_>| listening.public_port.or(address.port()) == Some(request.port);
        let places = listening.iter().filter(|(address, listening)| is_asked(address, listening)).map(|(address, listening)| {
            let sites = &configuration.sites[..];
            let hosts = listening.hosts.iter().map(|(answering, host)| (site_id(*answering, sites.len()), *host));
            Place {
                address: *address,
                listening,
                router: Router::new(hosts).passing(passthrough_names(listening), otherwise_of(listening)),
                local_ip: address.ip().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
                trusted_proxies: trusted_proxies(configuration, *address),
                client_ip_header: client_ip_header(configuration, *address).unwrap_or("X-Forwarded-For"),
                proxy_protocol_from: proxy_protocol_from(configuration, *address),
                sites,
                is_guess: false,
            }
        });
        let mut places: Vec<Place<'a>> = places.collect();
        let everywhere = places.iter().position(|place| place.local_ip.is_unspecified());
        if let Some(ip) = request.host_ip() {
            let exact = places.iter().position(|place| place.local_ip.to_canonical() == ip);
            let place = places.swap_remove(exact.or(everywhere)?);
            return Some(Place { local_ip: ip, ..place });
        }
        if let Some(everywhere) = everywhere {
            return Some(places.swap_remove(everywhere));
        }
        let names_it = |place: &Place<'_>| place.listening.hosts.iter().any(|(_, host)| !matches!(host, HostPattern::Ip(_)));
        let chosen = places.iter().position(names_it).unwrap_or(0);
        (chosen < places.len()).then(|| Place { is_guess: true, ..places.swap_remove(chosen) })
    }

    pub fn seen(&self) -> ExplainedListener {
        ExplainedListener {
            address: self.address.to_string(),
            scheme: self.listening.protocol.as_str().into(),
            implied: self.listening.implied,
            trusted_proxies: self.trusted_proxies.iter().map(show_network).collect(),
            proxy_protocol_from: self.proxy_protocol_from.iter().map(show_network).collect(),
        }
    }

    pub fn note(&self) -> Option<String> {
        self.is_guess.then(|| format!("the host is taken to lead to {}, since nothing listens on every address", self.local_ip))
    }

    pub fn shown(&self) -> String {
        self.address.shown()
    }

    pub fn site_id(&self, answering: Answering) -> SiteId {
        site_id(answering, self.sites.len())
    }

    /// What passes the connection on before anybody looks at a request, and where to.
    pub fn passthrough(&self, request: &Question) -> Option<(String, &'a TcpTarget)> {
        let greeting = match (request.scheme, request.host_ip()) {
            (Scheme::Http, _) => Greeting::NotTls,
            (Scheme::Https, Some(_)) => Greeting::NoName,
            (Scheme::Https, None) => Greeting::Name(request.host.as_bytes()),
        };
        let Some(Taker::Pass(PassId(position))) = self.router.find_taker(greeting, self.local_ip) else { return None };
        match self.listening.by_name.get(position as usize) {
            Some((name, target)) => Some((format!("sni \"{name}\""), target)),
            None => self.listening.otherwise.map(|target| ("tcp".to_owned(), target)),
        }
    }

    /// The site of the name in the handshake; without a name that of the address or the catch-all, else the first.
    pub fn tls_site(&self, request: &Question) -> Option<SiteId> {
        if self.listening.protocol != ListenerProtocol::Https {
            return None;
        }
        match request.host_ip() {
            None => self.router.find_site(request.host.as_bytes(), self.local_ip),
            Some(_) => {
                let first = self.listening.first_answering(self.sites).map(|answering| self.site_id(answering));
                self.router.find_site(b"", self.local_ip).or(first)
            }
        }
    }

    /// What the proxy takes off a head on arrival, and what is to be said about it.
    pub fn arrive(&self, head: &mut RequestHead, client_ip: IpAddr) -> Vec<String> {
        head.fields.remove_hop_by_hop();
        let mut notes = Vec::new();
        let client_ip = client_ip.to_canonical();
        if self.trusted_proxies.iter().any(|network| network.contains(&client_ip)) {
            if head.fields.all_named(self.client_ip_header.to_ascii_lowercase().as_bytes()).next().is_some() {
                notes.push(format!(
                    "{client_ip} is a trusted proxy here, but {} is not evaluated: the address given is taken as it is",
                    self.client_ip_header
                ));
            }
            return notes;
        }
        let removed: Vec<&str> = CLAIMS.iter().filter(|(id, _)| head.fields.remove_id(*id)).map(|(_, name)| *name).collect();
        if !removed.is_empty() {
            let names = removed.join(", ");
            notes.push(format!(
                "{names} is not believed and removed: {client_ip} is none of the trusted-proxies of {}",
                self.shown()
            ));
        }
        notes
    }
}

fn passthrough_names<'a>(listening: &Listening<'a>) -> impl Iterator<Item = (PassId, &'a HostPattern)> {
    listening.by_name.iter().enumerate().map(|(position, (name, _))| (PassId(position as u32), *name))
}

/// Behind all names, as it is in what runs.
fn otherwise_of(listening: &Listening<'_>) -> Option<PassId> {
    listening.otherwise.map(|_| PassId(listening.by_name.len() as u32))
}

/// The redirect stands behind all sites, as it does in what runs.
fn site_id(answering: Answering, sites: usize) -> SiteId {
    match answering {
        Answering::Site(position) => SiteId(position as u32),
        Answering::Redirect => SiteId(sites as u32),
    }
}
