//! The servers behind one port of a Service, out of its slices. Pure.

use crate::object::{AddressFamily, EndpointSlice, EndpointState, PortReference, Service, SlicePort};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// One server of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Sorted, at least one: a pod of a cluster with two families has two.
    pub addresses: Vec<SocketAddr>,
    pub zone: Option<Arc<str>>,
    /// Whether it gets no new requests as long as there are others.
    pub is_leaving: bool,
}

/// Why nobody can say which servers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// Not all Services and slices are known so far.
    NotListed,
    NoService,
    NoPort,
    /// The Service stands for a name outside of the cluster.
    External,
}

/// The name of a port, by which slices know it.
pub fn port_name(service: &Service, port: &PortReference) -> Option<Arc<str>> {
    let found = service.ports.iter().find(|found| match port {
        PortReference::Number(number) => found.number == *number,
        PortReference::Name(name) => found.name == *name,
    });
    found.map(|found| found.name.clone())
}

/// One endpoint on its way to be a member.
struct Candidate<'s> {
    address: SocketAddr,
    state: EndpointState,
    zone: Option<&'s Arc<str>>,
    hinted_zones: &'s [Arc<str>],
    target: Option<&'s str>,
    family: AddressFamily,
}

/// The members of a port by its name, sorted by address; for a proxy that stands in `zone`.
pub fn members<'s>(slices: impl Iterator<Item = &'s EndpointSlice>, port: &str, zone: Option<&str>) -> Vec<Member> {
    let mut candidates = candidates(slices, port);
    candidates.retain(|candidate| candidate.state != EndpointState::Out);
    keep_zone(&mut candidates, zone);
    let mut by_target: BTreeMap<Target<'_>, Member> = BTreeMap::new();
    for candidate in candidates {
        let target = candidate.target.map_or(Target::Address(candidate.address), Target::Object);
        let is_leaving = candidate.state == EndpointState::Leaving;
        let member = by_target.entry(target).or_insert_with(|| Member {
            addresses: Vec::new(),
            zone: candidate.zone.cloned(),
            is_leaving,
        });
        // While an endpoint moves from one slice to another it may stand in both, and the older says less.
        member.is_leaving &= is_leaving;
        if !member.addresses.contains(&candidate.address) {
            member.addresses.push(candidate.address);
        }
    }
    let mut members: Vec<Member> = by_target.into_values().collect();
    for member in &mut members {
        member.addresses.sort_unstable();
    }
    members.sort_unstable_by(|a, b| a.addresses.cmp(&b.addresses));
    // Two objects at one address: the older of them is gone, and nobody has said so yet.
    members.dedup_by(|later, earlier| {
        let is_same = later.addresses == earlier.addresses;
        if is_same {
            earlier.is_leaving &= later.is_leaving;
        }
        is_same
    });
    members
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Target<'s> {
    Object(&'s str),
    Address(SocketAddr),
}

fn candidates<'s>(slices: impl Iterator<Item = &'s EndpointSlice>, port: &str) -> Vec<Candidate<'s>> {
    let mut candidates = Vec::new();
    for slice in slices {
        let Some(family) = slice.family else { continue };
        let of_name = |of_slice: &&SlicePort| *of_slice.name == *port;
        let Some(number) = slice.ports.iter().find(of_name).and_then(|of_slice| of_slice.number) else { continue };
        let fits = |address: IpAddr| (family == AddressFamily::V4) == address.is_ipv4();
        candidates.extend(slice.endpoints.iter().filter(|endpoint| fits(endpoint.address)).map(|endpoint| Candidate {
            address: SocketAddr::new(endpoint.address, number),
            state: endpoint.state,
            zone: endpoint.zone.as_ref(),
            hinted_zones: &endpoint.hinted_zones,
            target: endpoint.target.as_deref(),
            family,
        }));
    }
    candidates
}

/// As kube-proxy does it: hints are followed where all endpoints that are ready have some, and some have our zone.
/// Each family is looked at by itself, as its slices are.
fn keep_zone(candidates: &mut Vec<Candidate<'_>>, zone: Option<&str>) {
    let Some(zone) = zone else { return };
    for family in [AddressFamily::V4, AddressFamily::V6] {
        let is_meant = |candidate: &Candidate<'_>| candidate.hinted_zones.iter().any(|hinted| **hinted == *zone);
        let mut ready =
            candidates.iter().filter(|candidate| candidate.family == family && candidate.state == EndpointState::Ready);
        let is_hinted = ready.clone().all(|candidate| !candidate.hinted_zones.is_empty()) && ready.any(is_meant);
        if is_hinted {
            candidates.retain(|candidate| candidate.family != family || is_meant(candidate));
        }
    }
}

#[cfg(test)]
mod tests;
