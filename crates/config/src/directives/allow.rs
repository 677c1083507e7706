//! `allow` and `deny`: which clients are answered.

use crate::diagnostics::Diagnostic;
use crate::directives::{geoip, matching};
use crate::forms::show_network;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::patterns::show_text;
use crate::presets::named_networks;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Repeat};
use crate::written_line::Writer;
use ipnet::IpNet;
use tidegate_model::parse_network;
use tidegate_model::{AccessRule, Field, GeoField, Step, TextPattern};

const ARGUMENTS: &[Argument] = &[Argument::one_or_more(
    "network",
    Kind::Text("a network, as in `\"10.0.0.0/8\"`, an address, or `all`"),
    "Networks and addresses; `all` is everybody; `preset:NAME` and `file:PATH` are lists, as in `trusted-proxies`; `country:DE`, `continent:EU` and `asn:64500` are places and networks by `geoip`; `map:NAME` and `map:NAME=pattern` are requests for which a `map` has a row, or a value that fits.",
)];

const DETAILS: &str = "The first `allow` or `deny` of a site and its route, in the order written, that has the client's address, or names a `map` that has something for the request, decides. Who is named by none is refused \
                       where there is an `allow`, and let through where there are only `deny` lines. The refusal is 403, `client_denied` in the log.\n\n\
                       The address is the client's own, or behind a trusted proxy (`listener … { trusted-proxies … }`) the one that the proxy names.";

pub static ALLOW: Directive = Directive {
    name: "allow",
    places: &[Place::Site, Place::Route, Place::AuthAny],
    repeat: Repeat::Many,
    arguments: ARGUMENTS,
    summary: "Clients that may, and nobody else.",
    details: DETAILS,
    default: "everybody",
    example: "allow \"10.0.0.0/8\" \"2001:db8::/32\"",
    lower: Lower::Step(lower_allow),
    ..Directive::PLAIN
};

pub static DENY: Directive = Directive {
    name: "deny",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: ARGUMENTS,
    summary: "Clients that may not.",
    details: DETAILS,
    default: "nobody",
    example: "deny \"192.0.2.0/24\"",
    lower: Lower::Step(lower_deny),
    ..Directive::PLAIN
};

/// In front of the name of a map.
const MAP: &str = "map:";

/// Of one line: the list is gone through for each request.
const NETWORKS_MAX: usize = 10_000;

fn lower_allow(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    rule(lowering, line).map(Step::Allow)
}

fn lower_deny(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    rule(lowering, line).map(Step::Deny)
}

fn rule(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<AccessRule> {
    let errors_before = lowering.diagnostics.len();
    let (mut maps, mut places) = (Vec::new(), Vec::new());
    let mut networks = Vec::new();
    for text in line.read_arguments(lowering).into_iter().map(Read::text) {
        if text.value == "all" {
            networks.extend([IpNet::default(), IpNet::V6(ipnet::Ipv6Net::default())]);
            continue;
        }
        if let Some(map) = text.value.strip_prefix(MAP) {
            maps.extend(matching::map(lowering, &text, map));
            continue;
        }
        if let Some((field, values)) = place(&text.value) {
            places.extend(geoip::test(lowering, &text, field, values));
            continue;
        }
        if let Some(named) = named_networks(lowering, &text) {
            networks.extend(named);
            continue;
        }
        match parse_network(&text.value) {
            Ok(network) => networks.push(network),
            Err(reason) => lowering
                .report(text.error("bad-value", reason).help("for example `\"10.0.0.0/8\"`, `\"192.0.2.7\"` or `\"all\"`")),
        }
    }
    if networks.len() > NETWORKS_MAX {
        let message = format!("there are more than {NETWORKS_MAX} networks on a line");
        lowering
            .report(Diagnostic::error("too-many-networks", line.location(), message).help("join those that lie side by side"));
    }
    let names_nobody = networks.is_empty() && maps.is_empty() && places.is_empty();
    let is_faulty = lowering.has_errors_since(errors_before) || names_nobody;
    (!is_faulty).then_some(AccessRule { networks, maps, places })
}

/// `country:DE`
fn place(text: &str) -> Option<(GeoField, &str)> {
    let (name, values) = text.split_once(':')?;
    Some((geoip::field_named(name)?, values))
}

pub fn write(line: &mut Writer, AccessRule { networks, maps, places }: &AccessRule) {
    for one in networks {
        line.argument(show_network(one));
    }
    for Field { name, value } in maps {
        match value {
            TextPattern::Present => line.argument(format_args!("{MAP}{name}")),
            pattern => line.argument(format_args!("{MAP}{name}={}", show_text(pattern))),
        };
    }
    for test in places {
        line.argument(format_args!("{}:{}", test.field.name(), geoip::show_values(test)));
    }
}
