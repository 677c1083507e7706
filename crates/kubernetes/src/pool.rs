//! A port of a Service as a pool, and what is known of it.

use crate::annotations::template_of_service;
use crate::finding::{FindingCode, Severity};
use crate::pool_manner::{MannerBalance, MannerSticky, PoolManner};
use crate::reference::{ServiceAtPort, Spoken, origin};
use crate::secret::KnownPair;
use crate::settings::Settings;
use crate::trust::ServerTrust;
use std::net::IpAddr;
use std::sync::Arc;
use tidegate_cluster::{Cache, Key, Kind, PortReference};
use tidegate_model::discover::{KubernetesDiscover, ServicePort};
use tidegate_model::{
    Balance, Discover, KeepAlive, Placeholder, Pool, PoolName, Protocol, ProxyProtocol, Scheme, Secret, Server, Sticky,
    TcpAddress, Template, TemplatePart, UpstreamTls,
};

/// What the cluster says of a port of a Service, as far as a pool depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortStanding {
    /// Not all Services are known so far.
    Unknown,
    NoService,
    NoPort,
    /// The Service stands for a name outside of the cluster.
    External,
    Served(ServedPort),
}

/// A port that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedPort {
    spoken: Spoken,
    number: u16,
    /// Inside of the cluster; of a headless Service none.
    address: Option<IpAddr>,
    /// Of the Service: what every process of the cluster knows of it, and no client.
    uid: Box<str>,
}

/// What a pool is made with, beside what refers to it.
#[derive(Debug, Clone, Copy)]
pub struct PoolGround<'g> {
    pub settings: &'g Settings,
    pub standing: &'g PortStanding,
    /// What is known of the Secret that it names.
    pub secret: Option<&'g KnownPair>,
    pub keep_alive: &'g KeepAlive,
}

impl PortStanding {
    pub fn of(reference: &ServiceAtPort, cache: &Cache) -> PortStanding {
        let Some(service) = cache.service(&reference.service) else {
            return if cache.is_whole(&[Kind::Service]) { PortStanding::NoService } else { PortStanding::Unknown };
        };
        if service.external_name.is_some() {
            return PortStanding::External;
        }
        let port = service.ports.iter().find(|port| match &reference.port {
            PortReference::Number(_) if reference.port == ServiceAtPort::FIRST => true,
            PortReference::Number(number) => port.number == *number,
            PortReference::Name(name) => port.name == *name,
        });
        let Some(port) = port else { return PortStanding::NoPort };
        let of_service = || port.app_protocol.as_deref().map_or(Spoken::Plain, spoken_by);
        let spoken = reference.manner.as_ref().and_then(|manner| manner.spoken).unwrap_or_else(of_service);
        let (address, uid) = (service.cluster_ips.first().copied(), service.uid.clone());
        PortStanding::Served(ServedPort { spoken, number: port.number, address, uid })
    }

    /// What is to be said of whoever refers to it.
    pub fn finding(&self, reference: &ServiceAtPort, settings: &Settings) -> Option<(FindingCode, Severity, String)> {
        let service = &reference.service;
        match self {
            PortStanding::Unknown => None,
            PortStanding::NoService => {
                let message =
                    format!("there is no Service `{service}`, so requests are answered with 503: make it, or name another one");
                Some((FindingCode::ServiceMissing, Severity::Error, message))
            }
            PortStanding::NoPort => {
                let message = format!(
                    "the Service has no port over TCP that `{}` names, so requests are answered with 503: name one of its ports",
                    reference.place()
                );
                Some((FindingCode::PortMissing, Severity::Error, message))
            }
            PortStanding::External => {
                let message = format!(
                    "the Service `{service}` is an `ExternalName`, which is not served, so requests are answered with 503: name a Service with endpoints"
                );
                Some((FindingCode::ExternalNameRefused, Severity::Error, message))
            }
            PortStanding::Served(port) => match port.spoken {
                Spoken::Plain | Spoken::H2c | Spoken::Tcp | Spoken::TcpBehindHeader => None,
                Spoken::Tls | Spoken::H2 => {
                    let manner = reference.manner.as_deref();
                    let is_verified = manner.and_then(|manner| manner.tls.verify).unwrap_or(settings.verifies_servers);
                    let message = format!(
                        "TLS is spoken with `{}`, whose certificates are not verified: set `proxy-ssl-verify: \"on\"`, with a Secret by `proxy-ssl-secret` whose `ca.crt` has their authority, or give `--verify-upstreams`",
                        reference.place()
                    );
                    (!is_verified).then_some((FindingCode::ServersNotVerified, Severity::Warning, message))
                }
            },
        }
    }

    fn spoken(&self) -> Spoken {
        match self {
            PortStanding::Served(port) => port.spoken,
            PortStanding::Unknown | PortStanding::NoService | PortStanding::NoPort | PortStanding::External => Spoken::Plain,
        }
    }

    fn served(&self) -> Option<&ServedPort> {
        match self {
            PortStanding::Served(port) => Some(port),
            PortStanding::Unknown | PortStanding::NoService | PortStanding::NoPort | PortStanding::External => None,
        }
    }
}

/// `appProtocol`, by the names that Kubernetes has and those that are registered; of others HTTP is spoken.
fn spoken_by(app_protocol: &str) -> Spoken {
    match app_protocol.to_ascii_lowercase().as_str() {
        "kubernetes.io/h2c" | "h2c" => Spoken::H2c,
        "https" | "kubernetes.io/wss" | "wss" => Spoken::Tls,
        _ => Spoken::Plain,
    }
}

/// The pool of that name. Its servers are looked up where it is used, and are none where there is no such port.
pub fn pool(name: PoolName, reference: &ServiceAtPort, ground: PoolGround<'_>) -> Pool {
    let PoolGround { settings, standing, .. } = ground;
    let ServiceAtPort { service, port, manner } = reference;
    let (scheme, protocol) = match standing.spoken() {
        Spoken::Plain | Spoken::Tcp | Spoken::TcpBehindHeader => (Scheme::Http, Protocol::Auto),
        Spoken::H2c => (Scheme::Http, Protocol::H2c),
        Spoken::Tls => (Scheme::Https, Protocol::Auto),
        Spoken::H2 => (Scheme::Https, Protocol::H2),
    };
    let first = standing.served().map(|port| PortReference::Number(port.number));
    let port = first.as_ref().filter(|_| *port == ServiceAtPort::FIRST).unwrap_or(port);
    let (port, rule) = match port {
        // Of a Service that is not there.
        PortReference::Number(0) => (ServicePort::Number(80), "first".to_owned()),
        PortReference::Number(number) => (ServicePort::Number(*number), number.to_string()),
        PortReference::Name(name) => (ServicePort::Name(name.to_string()), name.to_string()),
    };
    let discover = KubernetesDiscover {
        cluster: settings.cluster.clone(),
        namespace: service.namespace.to_string(),
        service: service.name.to_string(),
        port,
        scheme,
        zone: settings.zone.clone(),
    };
    let usual = PoolManner::default();
    let manner = manner.as_deref().unwrap_or(&usual);
    let of_service = standing.served().filter(|_| manner.is_by_service).and_then(|port| server(port, scheme));
    Pool {
        origin: Some(Arc::new(origin("Service", service, Some(rule)))),
        discover: if of_service.is_some() { Vec::new() } else { vec![Discover::Kubernetes(discover)] },
        zone: settings.zone.clone(),
        balance: balance(&manner.balance, reference),
        sticky: manner.sticky.as_ref().map(|manner| sticky(manner, standing.served())),
        protocol,
        tls: tls(manner, reference, scheme, ground),
        keep_alive: *ground.keep_alive,
        send_proxy_protocol: (standing.spoken() == Spoken::TcpBehindHeader).then_some(ProxyProtocol::V1),
        ..Pool::new(name, of_service.into_iter().collect())
    }
}

/// The Service itself, behind which somebody else chooses.
fn server(port: &ServedPort, scheme: Scheme) -> Option<Server> {
    let address = TcpAddress { scheme, host: port.address?.to_string(), port: port.number };
    Some(Server::new(address.into()))
}

fn balance(manner: &MannerBalance, reference: &ServiceAtPort) -> Balance {
    match manner {
        MannerBalance::Usual => Balance::default(),
        MannerBalance::RoundRobin => Balance::RoundRobin,
        MannerBalance::Ewma => Balance::Ewma,
        MannerBalance::Hash(text) => {
            let by_client = || Template { parts: vec![TemplatePart::Placeholder(Placeholder::ClientIp)] };
            Balance::Hash { key: template_of_service(text, reference).unwrap_or_else(by_client), load_percent_max: None }
        }
    }
}

/// Signed with what every process of the cluster knows, so that clients stay with their server whichever they come to.
fn sticky(manner: &MannerSticky, port: Option<&ServedPort>) -> Sticky {
    /// What can be tried out.
    const SECRET_BYTES_MIN: usize = 16;
    let MannerSticky { cookie, path, domain, max_age_seconds, same_site, secure, change_on_failure } = manner;
    let secret = port.map(|port| &*port.uid).filter(|uid| uid.len() >= SECRET_BYTES_MIN);
    Sticky {
        cookie: cookie.to_string(),
        secret: secret.map(Secret::new),
        max_age_seconds: *max_age_seconds,
        path: path.as_deref().unwrap_or(Sticky::PATH).to_owned(),
        domain: domain.as_deref().map(str::to_owned),
        same_site: *same_site,
        secure: *secure,
        change_on_failure: *change_on_failure,
    }
}

/// Without the Secret that is asked for, nothing leads to the pool.
fn tls(manner: &PoolManner, reference: &ServiceAtPort, scheme: Scheme, ground: PoolGround<'_>) -> UpstreamTls {
    if scheme == Scheme::Http {
        return UpstreamTls::default();
    }
    let wanted = &manner.tls;
    let known = wanted.secret.as_ref().zip(ground.secret).and_then(|(key, known)| ServerTrust::of(known, key)?.ok());
    let ServerTrust { ca, client_certificate } = known.unwrap_or_default();
    let verify = wanted.verify.unwrap_or(ground.settings.verifies_servers);
    let Key { namespace, name } = &reference.service;
    let of_service = || format!("{name}.{namespace}.svc");
    let sni = wanted.name.as_deref().map(str::to_owned).or_else(|| verify.then(of_service));
    UpstreamTls { ca: ca.filter(|_| verify), sni, client_certificate, verify }
}
