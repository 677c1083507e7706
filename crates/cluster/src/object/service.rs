//! A Service: its ports by number and name, its own addresses, and whether it stands for a name outside of the cluster.

use super::{Listed, LoadBalancerStatus, Text, Watched, WrittenMeta};
use crate::kind::Kind;
use crate::texts::Texts;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// When it was created, as the API writes it.
    pub created: Box<str>,
    /// What no other object has or had.
    pub uid: Box<str>,
    /// The name that it stands for, of a Service of the type `ExternalName`.
    pub external_name: Option<Arc<str>>,
    /// Ports over TCP.
    pub ports: Box<[ServicePort]>,
    /// Whether a load balancer stands in front of it, or will: its type is `LoadBalancer`.
    pub is_load_balanced: bool,
    /// Where it is reached inside of the cluster; of a headless Service nowhere.
    pub cluster_ips: Box<[IpAddr]>,
    /// `spec.externalIPs`, as they are written.
    pub external_ips: Box<[Box<str>]>,
    /// Addresses and names of its load balancer, by its status.
    pub addresses: Box<[Box<str>]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    pub number: u16,
    /// Empty where there is one port without a name.
    pub name: Arc<str>,
    /// What is spoken there, as `kubernetes.io/h2c`.
    pub app_protocol: Option<Arc<str>>,
}

/// How a port of a Service is named by who refers to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PortReference {
    Number(u16),
    Name(Arc<str>),
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub struct WrittenService<'w> {
    #[serde(borrow)]
    metadata: WrittenMeta<'w>,
    #[serde(borrow)]
    spec: Spec<'w>,
    #[serde(borrow)]
    status: LoadBalancerStatus<'w>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'w> {
    #[serde(borrow, rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<Text<'w>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    external_name: Option<Text<'w>>,
    #[serde(borrow, skip_serializing_if = "Listed::is_empty")]
    ports: Listed<Port<'w>>,
    #[serde(borrow, rename = "clusterIP", skip_serializing_if = "Option::is_none")]
    cluster_ip: Option<Text<'w>>,
    #[serde(borrow, rename = "clusterIPs", skip_serializing_if = "Listed::is_empty")]
    cluster_ips: Listed<Text<'w>>,
    #[serde(borrow, rename = "externalIPs", skip_serializing_if = "Listed::is_empty")]
    external_ips: Listed<Text<'w>>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Port<'w> {
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    name: Text<'w>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    protocol: Option<Text<'w>>,
    port: u16,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    app_protocol: Option<Text<'w>>,
}

impl Watched for Service {
    const KIND: Kind = Kind::Service;
    type Written<'w> = WrittenService<'w>;

    fn meta<'m>(written: &'m WrittenService<'_>) -> &'m WrittenMeta<'m> {
        &written.metadata
    }

    fn kept(written: &WrittenService<'_>, texts: &mut Texts) -> Service {
        let WrittenService { metadata, spec, status } = written;
        let is_load_balanced = spec.kind.as_deref() == Some("LoadBalancer");
        let is_external = spec.kind.as_deref() == Some("ExternalName");
        let external_name = if is_external { spec.external_name.as_deref() } else { None };
        let mut kept = |port: &Port<'_>| ServicePort {
            number: port.port,
            name: texts.shared(&port.name),
            app_protocol: port.app_protocol.as_deref().map(|protocol| texts.shared(protocol)),
        };
        let is_tcp = |port: &&Port<'_>| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
        let ports = spec.ports.iter().filter(is_tcp).map(&mut kept).collect();
        // Servers that are older than two families of addresses write one only.
        let single = spec.cluster_ip.iter().filter(|_| spec.cluster_ips.is_empty());
        let cluster_ips = spec.cluster_ips.iter().chain(single).filter_map(|ip| ip.parse().ok());
        Service {
            created: (&*metadata.creation_timestamp).into(),
            uid: (&*metadata.uid).into(),
            external_name: external_name.map(|name| texts.shared(name)),
            ports,
            is_load_balanced,
            cluster_ips: cluster_ips.collect(),
            external_ips: spec.external_ips.iter().map(|ip| Box::from(&**ip)).collect(),
            addresses: status.addresses(),
        }
    }

    fn written<'o>(&'o self, meta: WrittenMeta<'o>) -> WrittenService<'o> {
        let port = |port: &'o ServicePort| Port {
            name: (&*port.name).into(),
            protocol: None,
            port: port.number,
            app_protocol: port.app_protocol.as_deref().map(Into::into),
        };
        let kind = match (&self.external_name, self.is_load_balanced) {
            (Some(_), _) => Some("ExternalName".into()),
            (None, true) => Some("LoadBalancer".into()),
            (None, false) => None,
        };
        WrittenService {
            metadata: WrittenMeta { creation_timestamp: (&*self.created).into(), uid: (&*self.uid).into(), ..meta },
            spec: Spec {
                kind,
                external_name: self.external_name.as_deref().map(Into::into),
                ports: self.ports.iter().map(port).collect(),
                cluster_ip: None,
                cluster_ips: self.cluster_ips.iter().map(|ip| ip.to_string().into()).collect(),
                external_ips: self.external_ips.iter().map(|ip| Text::from(&**ip)).collect(),
            },
            status: LoadBalancerStatus::of(&self.addresses),
        }
    }
}
