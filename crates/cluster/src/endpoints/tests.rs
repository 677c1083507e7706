//! Which servers a Service has, by what its slices say.

use super::members;
use crate::object::endpoint_slice::{AddressFamily, Endpoint, EndpointSlice, EndpointState, SlicePort};

/// `ADDRESS [leaving|out] [zone=Z] [hint=A,B] [uid=U]`, separated by `;`.
fn slice(port: Option<u16>, text: &str) -> EndpointSlice {
    let endpoint = |text: &str| {
        let mut words = text.split_whitespace();
        let address = words.next().expect("an address").parse().expect("an address");
        let mut endpoint = Endpoint {
            address,
            state: EndpointState::Ready,
            is_terminating: false,
            zone: None,
            hinted_zones: Box::default(),
            target: None,
        };
        for word in words {
            match word.split_once('=') {
                None if word == "leaving" => endpoint.state = EndpointState::Leaving,
                None => endpoint.state = EndpointState::Out,
                Some(("zone", zone)) => endpoint.zone = Some(zone.into()),
                Some(("hint", zones)) => endpoint.hinted_zones = zones.split(',').map(Into::into).collect(),
                Some((_, uid)) => endpoint.target = Some(uid.into()),
            }
        }
        endpoint
    };
    let endpoints: Box<[Endpoint]> = text.split(';').filter(|text| !text.trim().is_empty()).map(endpoint).collect();
    let is_v4 = endpoints.first().is_none_or(|endpoint| endpoint.address.is_ipv4());
    EndpointSlice {
        service: Some("web".into()),
        family: Some(if is_v4 { AddressFamily::V4 } else { AddressFamily::V6 }),
        ports: Box::new([SlicePort { name: "http".into(), number: port }, SlicePort { name: "admin".into(), number: Some(9) }]),
        endpoints,
    }
}

fn check_in(zone: Option<&str>, slices: &[EndpointSlice], expected: &[&str]) {
    let shown: Vec<String> = members(slices.iter(), "http", zone)
        .iter()
        .map(|member| {
            let addresses: Vec<String> = member.addresses.iter().map(ToString::to_string).collect();
            let zone = member.zone.as_ref().map(|zone| format!(" in {zone}")).unwrap_or_default();
            format!("{}{zone}{}", addresses.join("+"), if member.is_leaving { " leaving" } else { "" })
        })
        .collect();
    assert_eq!(shown, expected);
}

fn check(slices: &[EndpointSlice], expected: &[&str]) {
    check_in(None, slices, expected);
}

#[test]
fn a_port_is_found_by_name_in_each_slice() {
    check(
        &[slice(Some(8080), "10.0.0.2;10.0.0.1"), slice(Some(8081), "10.0.0.3")],
        &["10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8081"],
    );
    check(&[slice(None, "10.0.0.1")], &[]);
    check(&[], &[]);
    let mut other = slice(Some(80), "10.0.0.1");
    other.ports = Box::default();
    check(&[other], &[]);
}

#[test]
fn who_leaves_is_named_and_who_is_out_is_not() {
    check(&[slice(Some(80), "10.0.0.1;10.0.0.2 leaving;10.0.0.3 out")], &["10.0.0.1:80", "10.0.0.2:80 leaving"]);
}

#[test]
fn an_object_with_two_addresses_is_one_server() {
    check(&[slice(Some(80), "fd00::1 uid=a"), slice(Some(80), "10.0.0.1 uid=a")], &["10.0.0.1:80+[fd00::1]:80"]);
    let mixed = EndpointSlice { family: Some(AddressFamily::V4), ..slice(Some(80), "fd00::1") };
    check(&[mixed], &[]);
    check(&[EndpointSlice { family: None, ..slice(Some(80), "10.0.0.1") }], &[]);
}

#[test]
fn what_moves_from_slice_to_slice_is_there_once_and_as_well_as_it_can_be() {
    check(&[slice(Some(80), "10.0.0.1 uid=a"), slice(Some(80), "10.0.0.1 leaving uid=a")], &["10.0.0.1:80"]);
    check(&[slice(Some(80), "10.0.0.1 leaving uid=a"), slice(Some(80), "10.0.0.1 uid=b")], &["10.0.0.1:80"]);
}

#[test]
fn hints_are_followed_where_all_have_some_and_some_have_ours() {
    let all = || slice(Some(80), "10.0.0.1 zone=a hint=a;10.0.0.2 zone=b hint=b;10.0.0.3 zone=b hint=a,b");
    check_in(Some("a"), &[all()], &["10.0.0.1:80 in a", "10.0.0.3:80 in b"]);
    check_in(Some("c"), &[all()], &["10.0.0.1:80 in a", "10.0.0.2:80 in b", "10.0.0.3:80 in b"]);
    check_in(None, &[all()], &["10.0.0.1:80 in a", "10.0.0.2:80 in b", "10.0.0.3:80 in b"]);
    check_in(Some("a"), &[slice(Some(80), "10.0.0.1 hint=a;10.0.0.2")], &["10.0.0.1:80", "10.0.0.2:80"]);
    // Who leaves has no say in it.
    check_in(Some("a"), &[slice(Some(80), "10.0.0.1 hint=a;10.0.0.2 leaving")], &["10.0.0.1:80"]);
}
