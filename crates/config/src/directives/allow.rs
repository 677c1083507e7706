//! `allow` and `deny`: which clients are answered.

use crate::diagnostics::Diagnostic;
use crate::forms::parse_network;
use crate::forms::show_network;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Repeat};
use crate::written_line::Writer;
use ipnet::IpNet;
use tidegate_model::Step;

const ARGUMENTS: &[Argument] = &[Argument::one_or_more(
    "network",
    Kind::Text("a network, as in `\"10.0.0.0/8\"`, an address, or `all`"),
    "Networks and addresses; `all` is everybody.",
)];

const DETAILS: &str = "The first `allow` or `deny` of a site and its route, in the order written, that has the client's address decides. Who is named by none is refused \
                       where there is an `allow`, and let through where there are only `deny` lines. The refusal is 403, `client_denied` in the log.\n\n\
                       The address is the client's own, or behind a trusted proxy (`listener … { trusted-proxies … }`) the one that the proxy names.";

pub static ALLOW: Directive = Directive {
    name: "allow",
    places: &[Place::Site, Place::Route],
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

/// Of one line: the list is gone through for each request.
const NETWORKS_MAX: usize = 10_000;

fn lower_allow(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    networks(lowering, line).map(Step::Allow)
}

fn lower_deny(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    networks(lowering, line).map(Step::Deny)
}

fn networks(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Vec<IpNet>> {
    let errors_before = lowering.diagnostics.len();
    let mut networks = Vec::new();
    for text in line.read_arguments(lowering).into_iter().map(Read::text) {
        if text.value == "all" {
            networks.extend([IpNet::default(), IpNet::V6(ipnet::Ipv6Net::default())]);
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
    (lowering.diagnostics.len() == errors_before && !networks.is_empty()).then_some(networks)
}

pub fn write(line: &mut Writer, networks: &[IpNet]) {
    for one in networks {
        line.argument(show_network(one));
    }
}
