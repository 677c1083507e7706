//! A port of a Service as a pool, and what is known of it.

use crate::finding::{FindingCode, Severity};
use crate::reference::{ServiceAtPort, Spoken, origin};
use crate::settings::Settings;
use std::sync::Arc;
use tidegate_cluster::{Cache, Kind, PortReference};
use tidegate_model::discover::{KubernetesDiscover, ServicePort};
use tidegate_model::{Discover, Pool, PoolName, Protocol, Scheme, UpstreamTls};

/// What the cluster says of a port of a Service, as far as a pool depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortStanding {
    /// Not all Services are known so far.
    Unknown,
    NoService,
    NoPort,
    /// The Service stands for a name outside of the cluster.
    External,
    Spoken(Spoken),
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
            PortReference::Number(number) => port.number == *number,
            PortReference::Name(name) => port.name == *name,
        });
        let Some(port) = port else { return PortStanding::NoPort };
        let of_service = || port.app_protocol.as_deref().map_or(Spoken::Plain, spoken_by);
        PortStanding::Spoken(reference.spoken.unwrap_or_else(of_service))
    }

    /// What is to be said of whoever refers to it.
    pub fn finding(self, reference: &ServiceAtPort) -> Option<(FindingCode, Severity, String)> {
        let service = &reference.service;
        match self {
            PortStanding::Unknown | PortStanding::Spoken(Spoken::Plain | Spoken::H2c) => None,
            PortStanding::NoService => {
                let message =
                    format!("there is no Service `{service}`, so requests are answered with 503: make it, or name another one");
                Some((FindingCode::ServiceMissing, Severity::Error, message))
            }
            PortStanding::NoPort => {
                let message = format!(
                    "the Service has no port over TCP that `{reference}` names, so requests are answered with 503: name one of its ports"
                );
                Some((FindingCode::PortMissing, Severity::Error, message))
            }
            PortStanding::External => {
                let message = format!(
                    "the Service `{service}` is an `ExternalName`, which is not served, so requests are answered with 503: name a Service with endpoints"
                );
                Some((FindingCode::ExternalNameRefused, Severity::Error, message))
            }
            PortStanding::Spoken(Spoken::Tls | Spoken::H2) => {
                let message = format!(
                    "TLS is spoken with `{reference}`, whose certificates nothing says how to verify, so they are not verified"
                );
                Some((FindingCode::ServersNotVerified, Severity::Warning, message))
            }
        }
    }

    fn spoken(self) -> Spoken {
        match self {
            PortStanding::Spoken(spoken) => spoken,
            PortStanding::Unknown | PortStanding::NoService | PortStanding::NoPort | PortStanding::External => Spoken::Plain,
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
pub fn pool(name: PoolName, reference: &ServiceAtPort, standing: PortStanding, settings: &Settings) -> Pool {
    let ServiceAtPort { service, port, spoken: _ } = reference;
    let (scheme, protocol) = match standing.spoken() {
        Spoken::Plain => (Scheme::Http, Protocol::Auto),
        Spoken::H2c => (Scheme::Http, Protocol::H2c),
        Spoken::Tls => (Scheme::Https, Protocol::Auto),
        Spoken::H2 => (Scheme::Https, Protocol::H2),
    };
    let (port, rule) = match port {
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
    Pool {
        origin: Some(Arc::new(origin("Service", service, Some(rule)))),
        discover: vec![Discover::Kubernetes(discover)],
        zone: settings.zone.clone(),
        protocol,
        tls: UpstreamTls { verify: scheme == Scheme::Http, ..UpstreamTls::default() },
        ..Pool::new(name, Vec::new())
    }
}
