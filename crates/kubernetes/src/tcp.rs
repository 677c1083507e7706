//! Ports of TCP services beside a file: what listens there, and what is to be said of them.

use crate::finding::{Finding, FindingCode, Severity};
use crate::ingress_nginx::field;
use crate::pool::PortStanding;
use crate::settings::Settings;
use crate::translation::Translation;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use tidegate_model::listening::listening;
use tidegate_model::{
    Admin, AdminPlace, Configuration, ListenAddress, ListenerOptions, ListenerPlace, RouteRetry, SocketAccess, Tcp, TcpTarget,
};

/// What listens, and its options.
#[derive(Debug, Default)]
pub struct TcpListeners {
    pub tcp: Vec<Tcp>,
    pub listeners: Vec<ListenerOptions>,
    pub findings: Vec<Finding>,
}

impl Translation {
    /// Ports that nobody else has.
    pub(crate) fn tcp_beside(&self, file: &Configuration) -> TcpListeners {
        let mut found = TcpListeners::default();
        let taken = taken(file, &self.settings);
        let ip = ip_of(&self.settings);
        for (port, service) in &self.global.tcp {
            let mut find = |message: String| {
                let code = FindingCode::PortRefused;
                found.findings.push(Finding { field: field(&port.to_string()), code, severity: Severity::Error, message });
            };
            if taken.contains(port) {
                find("the proxy, or its configuration file, has this port already: it is not served".to_owned());
                continue;
            }
            if self.global.process.refuses_tcp {
                find("`stream-snippet` is not read, and may protect it: it is not served".to_owned());
                continue;
            }
            let Some(known) = self.ports.get(&service.to) else { continue };
            let place = service.to.place();
            match &known.standing {
                PortStanding::Unknown | PortStanding::Served(_) => {}
                PortStanding::NoService => find(format!("there is no Service `{}`: connections end", service.to.service)),
                PortStanding::NoPort => find(format!("the Service has no port that `{place}` names: connections end")),
                PortStanding::External => find(format!("the Service of `{place}` is an `ExternalName`: connections end")),
            }
            let otherwise = Some(TcpTarget::one(known.pool.name.clone(), RouteRetry::OfPool));
            found.tcp.push(Tcp { ip, port: *port, by_name: Vec::new(), otherwise });
            if service.is_behind_proxy {
                found.listeners.push(ListenerOptions {
                    place: ListenerPlace::Tcp { ip, port: *port },
                    access: SocketAccess::default(),
                    trusted_proxies: Vec::new(),
                    client_ip_header: None,
                    proxy_protocol_from: vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())],
                    websocket_over_http2: true,
                });
            }
        }
        found
    }
}

/// Where HTTP comes in, unless that is everywhere.
fn ip_of(settings: &Settings) -> Option<IpAddr> {
    let place = settings.http.or(settings.https)?;
    Some(place.ip()).filter(|ip| !ip.is_unspecified() || ip.is_ipv4())
}

fn taken(file: &Configuration, settings: &Settings) -> BTreeSet<u16> {
    let port = |address: &ListenAddress| match address {
        ListenAddress::Tcp(address) => Some(address.port()),
        ListenAddress::Unix(_) => None,
    };
    let of_file = listening(file).into_keys().filter_map(|address| port(&address));
    let endpoints = match &file.admin {
        Admin::At(endpoints) => &endpoints[..],
        Admin::Default | Admin::Off => &[],
    };
    let of_admin = endpoints.iter().filter_map(|endpoint| match &endpoint.place {
        AdminPlace::Tcp(address) => Some(address.port()),
        AdminPlace::Unix(_) => None,
    });
    let of_us = [settings.http, settings.https].into_iter().flatten().map(|place: SocketAddr| place.port());
    of_file.chain(of_admin).chain(of_us).collect()
}
