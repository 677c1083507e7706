//! The conditions of `match` lines, compiled. Each looks at one fact of the request and changes nothing.

use crate::cookie::cookie_fits;
use crate::hosts::host_fits;
use crate::map_test::MapTest;
use crate::path_test::{PathTest, TestedPath};
use crate::query::parameter_fits;
use crate::text_test::TextTest;
use ipnet::IpNet;
use std::net::IpAddr;
use tidegate_access::{Claims, is_met};
use tidegate_geo::Whereabouts;
use tidegate_model::{
    ClaimRequirement, ClientCertificatePart, Condition, ConditionKind, Field, GeoTest, HostPattern, MatchLine, PathPolicy, Scheme,
};
use tidegate_tables::Maps;
use tidegate_wire::ClientCertificate;
use tidegate_wire::head::RequestHead;

/// What a route is chosen by.
#[derive(Debug, Clone, Copy)]
pub struct RequestFacts<'a> {
    pub head: &'a RequestHead,
    /// As the client asked for it, normalised: steps may have changed the head's own since.
    pub path: &'a [u8],
    /// The query, without the question mark.
    pub query: Option<&'a [u8]>,
    /// Without port; in any case.
    pub host: &'a [u8],
    pub scheme: Scheme,
    /// The address that is believed to be the client's, after `trusted-proxies`.
    pub client_ip: IpAddr,
    /// What the client has shown in its handshake.
    pub client_certificate: Option<&'a ClientCertificate>,
    /// What its handshake tells of it. `None` in plain text.
    pub ja4: Option<&'a str>,
    /// The protocol that the client asks to switch to; its field is no longer in the head.
    pub upgrade: Option<&'a [u8]>,
    /// What is known of the client's address.
    pub geo: Whereabouts<'a>,
    pub maps: &'a Maps,
    /// What the token says that was verified, where anybody asks.
    pub claims: Option<&'a Claims>,
}

/// `match` lines, compiled: any of them, each with all its conditions. Without a line they hold.
#[derive(Debug)]
pub struct Conditions(pub(crate) Box<[Box<[ConditionTest]>]>);

impl Conditions {
    /// Of requests whose paths are spelled by that policy. Fails only on a regular expression that does not compile,
    /// which `config` refuses before.
    pub fn new(lines: &[MatchLine], policy: PathPolicy) -> Result<Conditions, regex::Error> {
        lines.iter().map(|line| line_of(&line.conditions, policy)).collect::<Result<_, _>>().map(Conditions)
    }

    #[inline]
    pub fn hold(&self, facts: &RequestFacts<'_>) -> bool {
        self.0.is_empty() || self.0.iter().any(|line| all_hold(line, facts))
    }
}

impl<'a> RequestFacts<'a> {
    /// Of a request whose path no step has changed yet, from a client without a certificate, in plain text, where
    /// there is no map.
    pub fn of(head: &'a RequestHead, scheme: Scheme, client_ip: IpAddr) -> RequestFacts<'a> {
        RequestFacts {
            head,
            path: head.path(),
            query: head.query(),
            host: head.host(),
            scheme,
            client_ip,
            client_certificate: None,
            ja4: None,
            upgrade: None,
            geo: Whereabouts::none(),
            maps: Maps::none(),
            claims: None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ConditionTest {
    negated: bool,
    kind: KindTest,
}

#[derive(Debug)]
enum KindTest {
    Method(Box<[Box<[u8]>]>),
    Path(Box<[PathTest]>),
    Header {
        name: Box<[u8]>,
        value: TextTest,
    },
    /// `header="Upgrade: websocket"`, on a connection of HTTP/1.1 or on a stream of HTTP/2. Names of protocols have no
    /// case (RFC 9110 section 7.8).
    Upgrade(TextTest),
    Query {
        name: Box<[u8]>,
        value: TextTest,
    },
    WholeQuery(TextTest),
    Cookie {
        name: Box<[u8]>,
        value: TextTest,
    },
    Client(Box<[IpNet]>),
    Host(Box<[HostPattern]>),
    Scheme(Scheme),
    ClientCertificate {
        part: ClientCertificatePart,
        value: TextTest,
    },
    Ja4(Box<[TextTest]>),
    Map(MapTest),
    Claim(Box<ClaimRequirement>),
    Geo(GeoTest),
    /// Any of the lines, each with all its conditions.
    Any(Box<[Line]>),
}

/// Conditions of which all have to hold.
type Line = Box<[ConditionTest]>;

impl ConditionTest {
    pub(crate) fn new(condition: &Condition, policy: PathPolicy) -> Result<ConditionTest, regex::Error> {
        let named = |field: &Field| Ok((field.name.as_bytes().into(), TextTest::new(&field.value)?));
        let kind = match &condition.kind {
            ConditionKind::Method(names) => KindTest::Method(names.iter().map(|name| name.as_bytes().into()).collect()),
            ConditionKind::Path(patterns) => {
                KindTest::Path(patterns.iter().map(|path| PathTest::new(path, policy)).collect::<Result<_, _>>()?)
            }
            ConditionKind::Header(field) if field.name == "upgrade" => KindTest::Upgrade(TextTest::without_case(&field.value)?),
            ConditionKind::Header(field) => named(field).map(|(name, value)| KindTest::Header { name, value })?,
            ConditionKind::Query(field) => named(field).map(|(name, value)| KindTest::Query { name, value })?,
            ConditionKind::WholeQuery(value) => KindTest::WholeQuery(TextTest::new(value)?),
            ConditionKind::Cookie(field) => named(field).map(|(name, value)| KindTest::Cookie { name, value })?,
            ConditionKind::Client(networks) => KindTest::Client(networks.iter().map(|net| canonical_network(*net)).collect()),
            ConditionKind::Host(patterns) => KindTest::Host(patterns.clone().into()),
            ConditionKind::Scheme(scheme) => KindTest::Scheme(*scheme),
            ConditionKind::ClientCertificate { part, value } => {
                KindTest::ClientCertificate { part: *part, value: TextTest::new(value)? }
            }
            ConditionKind::Ja4(patterns) => KindTest::Ja4(patterns.iter().map(TextTest::new).collect::<Result<_, _>>()?),
            ConditionKind::Geo(test) => KindTest::Geo(test.clone()),
            ConditionKind::Map(field) => KindTest::Map(MapTest::new(field)?),
            ConditionKind::Claim(requirement) => KindTest::Claim(Box::new(requirement.clone())),
            ConditionKind::Any(lines) => {
                KindTest::Any(lines.iter().map(|line| line_of(&line.conditions, policy)).collect::<Result<_, _>>()?)
            }
        };
        Ok(ConditionTest { negated: condition.negated, kind })
    }

    pub(crate) fn holds(&self, facts: &RequestFacts<'_>) -> bool {
        self.truth(facts) == Some(true)
    }

    /// `None`: of a certificate that cannot be read nothing is true, and the opposite is not either, however deep in a
    /// `not` that stands.
    fn truth(&self, facts: &RequestFacts<'_>) -> Option<bool> {
        let head = facts.head;
        let fits = match &self.kind {
            KindTest::Method(names) => names.iter().any(|name| **name == *head.method_name()),
            KindTest::Path(patterns) => {
                let path = TestedPath::new(facts.path);
                patterns.iter().any(|pattern| pattern.fits(&path))
            }
            KindTest::Header { name, value } => head.fields.all_named(name).any(|field| value.fits(field)),
            KindTest::Upgrade(value) => facts.upgrade.is_some_and(|protocol| value.fits(&protocol.to_ascii_lowercase())),
            KindTest::WholeQuery(value) => value.fits(facts.query.unwrap_or_default()),
            KindTest::Query { name, value } => facts.query.is_some_and(|query| parameter_fits(query, name, value)),
            KindTest::Cookie { name, value } => cookie_fits(&head.fields, name, value),
            KindTest::Client(networks) => {
                let client_ip = facts.client_ip.to_canonical();
                networks.iter().any(|network| network.contains(&client_ip))
            }
            KindTest::Host(patterns) => patterns.iter().any(|pattern| host_fits(pattern, facts.host)),
            KindTest::Scheme(scheme) => *scheme == facts.scheme,
            KindTest::ClientCertificate { part, value } => match facts.client_certificate {
                None => false,
                Some(certificate) => certificate_fits(certificate, *part, value)?,
            },
            KindTest::Ja4(patterns) => facts.ja4.is_some_and(|ja4| patterns.iter().any(|pattern| pattern.fits(ja4.as_bytes()))),
            KindTest::Geo(test) => is_at(test, facts),
            KindTest::Map(test) => test.holds(facts),
            KindTest::Claim(requirement) => facts.claims.is_some_and(|claims| is_met(requirement, claims)),
            KindTest::Any(lines) => any_truth(lines, facts)?,
        };
        Some(fits != self.negated)
    }
}

/// Whether the client's address is in one of the places. What is not known is the empty one.
pub fn is_at(GeoTest { field, values }: &GeoTest, facts: &RequestFacts<'_>) -> bool {
    facts.geo.see(facts.client_ip, *field, |known| values.iter().any(|value| value == known))
}

/// The conditions that all have to hold.
fn line_of(conditions: &[Condition], policy: PathPolicy) -> Result<Line, regex::Error> {
    conditions.iter().map(|condition| ConditionTest::new(condition, policy)).collect()
}

#[inline]
fn all_hold(line: &[ConditionTest], facts: &RequestFacts<'_>) -> bool {
    line.iter().all(|condition| condition.holds(facts))
}

/// Whether a line holds; `None` where that hangs on what is not known.
fn any_truth(lines: &[Line], facts: &RequestFacts<'_>) -> Option<bool> {
    let mut found = Some(false);
    for line in lines {
        let mut all = Some(true);
        for condition in line {
            match condition.truth(facts) {
                Some(true) => {}
                Some(false) => {
                    all = Some(false);
                    break;
                }
                None => all = None,
            }
        }
        match all {
            Some(true) => return Some(true),
            Some(false) => {}
            None => found = None,
        }
    }
    found
}

fn certificate_fits(certificate: &ClientCertificate, part: ClientCertificatePart, value: &TextTest) -> Option<bool> {
    Some(match part {
        ClientCertificatePart::Fingerprint => value.fits(certificate.fingerprint().as_bytes()),
        ClientCertificatePart::Subject => value.fits(certificate.facts()?.subject.as_bytes()),
        ClientCertificatePart::San => certificate.facts()?.names.iter().any(|name| value.fits(name.text.as_bytes())),
    })
}

/// A client on a dual-stack socket appears as `::ffff:a.b.c.d`, and is compared as IPv4; so must be a network written
/// that way.
fn canonical_network(network: IpNet) -> IpNet {
    const MAPPED_PREFIX_BITS: u8 = 96;
    match (network.addr().to_canonical(), network.prefix_len().checked_sub(MAPPED_PREFIX_BITS)) {
        (IpAddr::V4(ip), Some(prefix_len)) if network.addr().is_ipv6() => {
            IpNet::new(IpAddr::V4(ip), prefix_len).unwrap_or(network)
        }
        _ => network,
    }
}
