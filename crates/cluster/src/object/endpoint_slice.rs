//! A slice of the endpoints of a Service: the addresses of pods, the ports that they listen on, and how they are.

use super::{Listed, Text, Watched, WrittenMeta};
use crate::kind::Kind;
use crate::texts::Texts;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;

/// The label that names the Service of a slice.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSlice {
    /// The name of its Service; of none, nobody asks for it.
    pub service: Option<Arc<str>>,
    /// `None`: names of hosts, which are not followed.
    pub family: Option<AddressFamily>,
    /// Ports over TCP.
    pub ports: Box<[SlicePort]>,
    /// Endpoints with an address; of several addresses of one the first, as the API says that they are to be read.
    pub endpoints: Box<[Endpoint]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFamily {
    V4,
    V6,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlicePort {
    /// Name of the Service's port; empty where that has none.
    pub name: Arc<str>,
    /// Where its pods listen. `None`: any port, which the API has and nobody can be sent to.
    pub number: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub address: IpAddr,
    pub state: EndpointState,
    /// Whether it ends, however it is until then.
    pub is_terminating: bool,
    pub zone: Option<Arc<str>>,
    /// Zones whose requests are meant for it; empty is all of them.
    pub hinted_zones: Box<[Arc<str>]>,
    /// What it is, by the identifier that no other object has or had: one pod with two addresses has two endpoints.
    pub target: Option<Box<str>>,
}

/// Whether an endpoint gets requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointState {
    Ready,
    /// Ends, and still serves what it has: no new requests, as long as there are others.
    Leaving,
    /// Neither.
    Out,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WrittenSlice<'w> {
    #[serde(borrow)]
    metadata: WrittenMeta<'w>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    address_type: Text<'w>,
    #[serde(borrow, skip_serializing_if = "Listed::is_empty")]
    ports: Listed<WrittenPort<'w>>,
    #[serde(borrow, skip_serializing_if = "Listed::is_empty")]
    endpoints: Listed<WrittenEndpoint<'w>>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct WrittenPort<'w> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    name: Option<Text<'w>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    protocol: Option<Text<'w>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenEndpoint<'w> {
    #[serde(borrow, skip_serializing_if = "Listed::is_empty")]
    addresses: Listed<Text<'w>>,
    conditions: Conditions,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    zone: Option<Text<'w>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    hints: Option<Hints<'w>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    target_ref: Option<WrittenTarget<'w>>,
}

#[derive(Default, Deserialize, Serialize, Clone, Copy)]
#[serde(default)]
struct Conditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    serving: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    terminating: Option<bool>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Hints<'w> {
    #[serde(borrow, skip_serializing_if = "Listed::is_empty")]
    for_zones: Listed<Zone<'w>>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Zone<'w> {
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    name: Text<'w>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct WrittenTarget<'w> {
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    uid: Text<'w>,
}

impl Conditions {
    /// As the API defines them: `ready` that is not said is true, and `serving` is as `ready` where it is not said.
    fn state(self) -> EndpointState {
        let ready = self.ready.unwrap_or(true);
        let is_leaving = self.terminating == Some(true) && self.serving.unwrap_or(ready);
        match (ready, is_leaving) {
            // What ends and is called ready belongs to a Service that wants it so (`publishNotReadyAddresses`).
            (true, _) => EndpointState::Ready,
            (false, true) => EndpointState::Leaving,
            (false, false) => EndpointState::Out,
        }
    }
}

impl Endpoint {
    fn written(&self) -> WrittenEndpoint<'_> {
        let (ready, serving) = match self.state {
            EndpointState::Ready => (true, true),
            EndpointState::Leaving => (false, true),
            EndpointState::Out => (false, false),
        };
        let zones = self.hinted_zones.iter().map(|zone| Zone { name: (&**zone).into() });
        WrittenEndpoint {
            addresses: [self.address.to_string().into()].into_iter().collect(),
            conditions: Conditions {
                ready: Some(ready),
                serving: Some(serving),
                terminating: self.is_terminating.then_some(true),
            },
            zone: self.zone.as_deref().map(Into::into),
            hints: (!self.hinted_zones.is_empty()).then(|| Hints { for_zones: zones.collect() }),
            target_ref: self.target.as_deref().map(|uid| WrittenTarget { uid: uid.into() }),
        }
    }
}

impl Watched for EndpointSlice {
    const KIND: Kind = Kind::EndpointSlice;
    type Written<'w> = WrittenSlice<'w>;

    fn meta<'m>(written: &'m WrittenSlice<'_>) -> &'m WrittenMeta<'m> {
        &written.metadata
    }

    fn kept(written: &WrittenSlice<'_>, texts: &mut Texts) -> EndpointSlice {
        let family = match &*written.address_type {
            "IPv4" => Some(AddressFamily::V4),
            "IPv6" => Some(AddressFamily::V6),
            _ => None,
        };
        let is_tcp = |port: &&WrittenPort<'_>| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
        let mut port = |port: &WrittenPort<'_>| SlicePort {
            name: texts.shared(port.name.as_deref().unwrap_or_default()),
            number: port.port,
        };
        let ports = written.ports.iter().filter(is_tcp).map(&mut port).collect();
        let mut endpoint = |written: &WrittenEndpoint<'_>| {
            let zones = written.hints.iter().flat_map(|hints| hints.for_zones.iter());
            Some(Endpoint {
                address: written.addresses.first()?.parse().ok()?,
                state: written.conditions.state(),
                is_terminating: written.conditions.terminating == Some(true),
                hinted_zones: zones.map(|zone| texts.shared(&zone.name)).collect(),
                zone: written.zone.as_deref().map(|zone| texts.shared(zone)),
                target: written.target_ref.as_ref().map(|target| &*target.uid).filter(|uid| !uid.is_empty()).map(Into::into),
            })
        };
        let endpoints = match family {
            Some(_) => written.endpoints.iter().filter_map(&mut endpoint).collect(),
            None => Box::default(),
        };
        let service = written.metadata.label(SERVICE_NAME).map(|name| texts.shared(name));
        EndpointSlice { service, family, ports, endpoints }
    }

    fn written<'o>(&'o self, meta: WrittenMeta<'o>) -> WrittenSlice<'o> {
        let address_type = match self.family {
            Some(AddressFamily::V4) => "IPv4",
            Some(AddressFamily::V6) => "IPv6",
            None => "FQDN",
        };
        let port = |port: &'o SlicePort| WrittenPort { name: Some((&*port.name).into()), protocol: None, port: port.number };
        WrittenSlice {
            metadata: meta.with_label(SERVICE_NAME, self.service.as_deref()),
            address_type: address_type.into(),
            ports: self.ports.iter().map(port).collect(),
            endpoints: self.endpoints.iter().map(Endpoint::written).collect(),
        }
    }
}
