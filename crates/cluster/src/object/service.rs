//! A Service: its ports by number and name, and whether it stands for a name outside of the cluster.

use super::{Listed, Text, Watched, WrittenMeta};
use crate::kind::Kind;
use crate::texts::Texts;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// The name that it stands for, of a Service of the type `ExternalName`.
    pub external_name: Option<Arc<str>>,
    /// Ports over TCP.
    pub ports: Box<[ServicePort]>,
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

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct WrittenService<'w> {
    #[serde(borrow)]
    metadata: WrittenMeta<'w>,
    #[serde(borrow)]
    spec: Spec<'w>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'w> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'w>>,
    #[serde(borrow)]
    external_name: Option<Text<'w>>,
    #[serde(borrow)]
    ports: Listed<Port<'w>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Port<'w> {
    #[serde(borrow)]
    name: Text<'w>,
    #[serde(borrow)]
    protocol: Option<Text<'w>>,
    port: u16,
    #[serde(borrow)]
    app_protocol: Option<Text<'w>>,
}

impl Watched for Service {
    const KIND: Kind = Kind::Service;
    type Written<'w> = WrittenService<'w>;

    fn meta<'m>(written: &'m WrittenService<'_>) -> &'m WrittenMeta<'m> {
        &written.metadata
    }

    fn kept(written: &WrittenService<'_>, texts: &mut Texts) -> Service {
        let spec = &written.spec;
        let is_external = spec.kind.as_deref() == Some("ExternalName");
        let external_name = if is_external { spec.external_name.as_deref() } else { None };
        let mut kept = |port: &Port<'_>| ServicePort {
            number: port.port,
            name: texts.shared(&port.name),
            app_protocol: port.app_protocol.as_deref().map(|protocol| texts.shared(protocol)),
        };
        let is_tcp = |port: &&Port<'_>| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
        let ports = spec.ports.iter().filter(is_tcp).map(&mut kept).collect();
        Service { external_name: external_name.map(|name| texts.shared(name)), ports }
    }
}
