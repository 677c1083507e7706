//! `tcp ":443" { sni "db.example.com" { proxy "10.0.0.9:443" } }`: connections that are handed on as they are. What
//! cannot stand beside it is in `checks`.

use crate::diagnostics::{Diagnostic, Location};
use crate::directives::{proxy, split};
use crate::forms::parse_listen_address;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat};
use crate::written_line::Writer;
use std::net::IpAddr;
use tidegate_model::address::parse_host_pattern;
use tidegate_model::{HostPattern, SniRoute, SplitArm, Tcp, TcpArm, TcpTarget};

pub static TCP: Directive = Directive {
    name: "tcp",
    places: &[Place::Top],
    repeat: Repeat::Many,
    arguments: &[Argument::one(
        "address",
        Kind::Text("an address, as in `\":5432\"`"),
        "`:5432`, or with an IP address `192.0.2.1:5432`.",
    )],
    block: Block::Required(Place::Tcp),
    summary: "Hands connections on as they are: databases, mail, TLS that is not ended here.",
    details: "On a port of its own, with a `proxy` alone, every connection is handed on at once, whatever is spoken on it and whoever speaks first. With `sni`, and \
              beside sites with TLS on the same port, the name in the ClientHello decides: the most specific one wins, whoever has it. Nothing is decrypted, so \
              clients see the server's own certificate, and no step of a site can be taken.\n\n\
              A `proxy` beside them takes what neither a site nor an `sni` takes, connections without a name and those that are not TLS among them; a site \
              without a host takes all TLS before it. Without it such connections are refused. Ports of plain HTTP sites cannot be shared.\n\n\
              The pool is one like any other; see [tcp.md](tcp.md) for what its settings mean here.",
    example: "tcp \":5432\" {\n    proxy \"10.0.0.7:5432\" \"10.0.0.8:5432\"\n}",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

pub static SNI: Directive = Directive {
    name: "sni",
    places: &[Place::Tcp],
    repeat: Repeat::Many,
    arguments: &[Argument::one_or_more(
        "names",
        Kind::Text("a name, as in `\"db.example.com\"`"),
        "`db.example.com`; `*.example.com` is every name with one more label, `**.example.com` with any number of them.",
    )],
    block: Block::Required(Place::Sni),
    summary: "TLS connections for these names, by the server name that clients ask for.",
    details: "Where a client encrypts the name (ECH), the outer name counts, which is all that anybody on the way can see.",
    example: "sni \"db.example.com\" \"*.b.example.com\" {\n    proxy \"10.0.0.9:443\"\n}",
    ..Directive::PLAIN
};

pub static TCP_PROXY: Directive = Directive {
    name: "proxy",
    places: &[Place::Tcp, Place::Sni],
    arguments: proxy::ARGUMENTS,
    block: Block::Optional(Place::Pool),
    summary: "Where the connections go.",
    details: "It takes what `proxy` takes in a site: the name of a pool, or addresses with a block. A server with `https://` is spoken to over TLS, which then begins \
              here: for clients that speak plain text. `retry` is about servers that cannot be reached; once a connection stands, it is that one.",
    example: "proxy \"10.0.0.9:443\" {\n    send-proxy-protocol \"v2\"\n}",
    ..Directive::PLAIN
};

pub static TCP_SPLIT: Directive = Directive {
    name: "split",
    places: &[Place::Tcp, Place::Sni],
    properties: &[Property::once(
        "by",
        Kind::Choice(&[CLIENT_IP]),
        "`client-ip`: connections of one address go to the same pool; by chance when left out.",
    )],
    block: Block::Required(Place::TcpSplit),
    summary: "Hands each connection to one of several pools, by their shares.",
    details: "In the place of a `proxy`. Shares are as those of a `split` in a site: with `by=`, an address has its place in one row of them, over restarts and over all \
              instances. A connection stays where it is, and one that cannot be made goes to no other pool.",
    example: "split by=\"client-ip\" {\n    proxy \"10.0.0.7:5432\" weight=95\n    proxy \"10.0.0.9:5432\" weight=5\n}",
    ..Directive::PLAIN
};

pub static TCP_SPLIT_PROXY: Directive = Directive {
    name: "proxy",
    places: &[Place::TcpSplit],
    repeat: Repeat::Many,
    arguments: proxy::ARGUMENTS,
    properties: &[Property::once(
        "weight",
        Kind::Integer { min: 0, max: SplitArm::WEIGHT_MAX as u64 },
        "Its part of the connections, beside the others'; `1` when left out. `0` is nobody.",
    )],
    block: Block::Optional(Place::Pool),
    summary: "A pool that gets a share of the connections.",
    details: "It takes what `proxy` takes elsewhere in a `tcp`.",
    example: "proxy \"10.0.0.7:5432\" weight=95",
    ..Directive::PLAIN
};

const CLIENT_IP: &str = "client-ip";
/// As many as a `split` in a site may have.
const ARMS_MAX: usize = tidegate_model::Split::ARMS_MAX;

/// One `sni` block per name: a list that nobody writes by hand is still a list.
const NAMES_MAX: usize = 1000;

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let errors_before = lowering.diagnostics.len();
    let text = line.read_argument(lowering, 0).map(Read::text);
    let mut by_name: Vec<SniRoute> = Vec::new();
    let (mut otherwise, mut target_at) = (None, None);
    let mut names: Vec<(HostPattern, Location)> = Vec::new();
    for child in line.lines(lowering) {
        if child.directive.name == SNI.name {
            by_name.extend(sni(lowering, &child, &mut names));
        } else {
            check_single(lowering, &mut target_at, &child);
            otherwise = target(lowering, &child, Place::Tcp);
        }
    }
    let is_faulty = lowering.has_errors_since(errors_before);
    if line.node.children.is_some() && by_name.is_empty() && otherwise.is_none() && !is_faulty {
        let diagnostic = Diagnostic::error("missing-argument", line.location(), "this `tcp` hands nothing on");
        lowering.report(diagnostic.help("for example `proxy \"10.0.0.7:5432\"` in its block"));
    }
    let Some(text) = text else { return };
    let (ip, port) = match parse_listen_address(&text.value) {
        Ok(address) => address,
        Err(reason) => {
            lowering.report(text.error("bad-address", reason).help("for example `tcp \":5432\"`"));
            return;
        }
    };
    if let Some(first) = first_of_same_address(lowering, ip, port) {
        let message = format!("there are two `tcp` blocks for `{}`", text.shown());
        let diagnostic =
            Diagnostic::error("duplicate-tcp", text.location, message).label(first, "the first one").help("put both into one");
        lowering.report(diagnostic);
        return;
    }
    lowering.spans.tcp.push(text.location);
    lowering.spans.passthrough.extend(names.into_iter().map(|(name, at)| (port, name, at)));
    lowering.configuration.tcp.push(Tcp { ip, port, by_name, otherwise });
}

fn sni(lowering: &mut Lowering<'_>, line: &Line<'_>, known: &mut Vec<(HostPattern, Location)>) -> Option<SniRoute> {
    let mut names = Vec::new();
    for text in line.read_arguments(lowering) {
        let text = text.text();
        match parse_name(&text) {
            Ok(name) => {
                if let Some((_, first)) = known.iter().find(|(other, _)| *other == name) {
                    let diagnostic = text
                        .error("duplicate-name", format!("the name `{}` is taken", text.shown()))
                        .label(first.clone(), "taken here")
                        .help("a connection can go to one pool only");
                    lowering.report(diagnostic);
                    continue;
                }
                known.push((name.clone(), text.location.clone()));
                names.push(name);
            }
            Err(diagnostic) => lowering.report(*diagnostic),
        }
    }
    if known.len() > NAMES_MAX {
        let message = format!("there are more than {NAMES_MAX} names in this `tcp`");
        lowering.report(Diagnostic::error("too-many-names", line.location(), message));
    }
    let (mut to, mut target_at) = (None, None);
    for child in line.lines(lowering) {
        check_single(lowering, &mut target_at, &child);
        to = target(lowering, &child, Place::Sni);
    }
    if to.is_none() && line.node.children.as_ref().is_some_and(Vec::is_empty) {
        let diagnostic = Diagnostic::error("missing-argument", line.location(), "this `sni` hands nothing on");
        lowering.report(diagnostic.help("for example `proxy \"10.0.0.9:443\"` in its block"));
    }
    to.filter(|_| !names.is_empty()).map(|to| SniRoute { names, to })
}

fn parse_name(text: &Text) -> Result<HostPattern, Box<Diagnostic>> {
    let bad = |reason: String| text.error("bad-name", reason);
    match parse_host_pattern(&text.value) {
        Ok(name @ (HostPattern::Exact(_) | HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_))) => Ok(name),
        Ok(HostPattern::Any | HostPattern::Socket(_)) => Err(Box::new(
            bad("a name is needed".to_owned()).help("connections without one are taken by a `proxy` beside the `sni`"),
        )),
        Ok(HostPattern::Ip(_)) => Err(Box::new(
            bad("clients send no IP address as a name".to_owned())
                .help("connections without a name are taken by a `proxy` beside the `sni`"),
        )),
        Err(reason) => Err(Box::new(bad(reason))),
    }
}

/// In an `sni` it is known that clients speak TLS.
fn target(lowering: &mut Lowering<'_>, line: &Line<'_>, place: Place) -> Option<TcpTarget> {
    let is_tls = place == Place::Sni;
    if line.directive.name == TCP_SPLIT.name {
        return split_target(lowering, line, is_tls);
    }
    let (pool, retry) = proxy::read_pool(lowering, line, proxy::Sends::Connections)?;
    lowering.spans.tcp_pools.push((pool.clone(), line.location(), is_tls));
    Some(TcpTarget::one(pool, retry))
}

/// A `proxy` and a `split` beside each other: only one of them could be meant.
fn check_single(lowering: &mut Lowering<'_>, known: &mut Option<Location>, line: &Line<'_>) {
    match known {
        None => *known = Some(line.location()),
        Some(first) => {
            let diagnostic = Diagnostic::error("second-target", line.location(), "connections have gone elsewhere before");
            lowering.report(diagnostic.label(first.clone(), "this takes them all").help("put both into one `split`"));
        }
    }
}

fn split_target(lowering: &mut Lowering<'_>, line: &Line<'_>, is_tls: bool) -> Option<TcpTarget> {
    let errors_before = lowering.diagnostics.len();
    let by_client = line.property("by").is_some();
    let mut arms: Vec<TcpArm> = Vec::new();
    for child in line.lines(lowering) {
        let weight = split::weight(lowering, &child);
        if let Some((pool, retry)) = proxy::read_pool(lowering, &child, proxy::Sends::Connections) {
            lowering.spans.tcp_pools.push((pool.clone(), child.location(), is_tls));
            arms.push(TcpArm { pool, retry, weight });
        }
    }
    let fault = if arms.len() > ARMS_MAX {
        let message = format!("there are more than {ARMS_MAX} pools in this `split`");
        Diagnostic::error("too-many-arms", line.location(), message)
    } else if lowering.has_errors_since(errors_before) || line.node.children.is_none() {
        return None;
    } else if arms.is_empty() {
        Diagnostic::error("missing-argument", line.location(), "`split` has no pool to hand connections to")
            .help("for example `proxy \"10.0.0.7:5432\" weight=95` and `proxy \"10.0.0.9:5432\" weight=5` in its block")
    } else if arms.iter().all(|arm| arm.weight == 0) {
        Diagnostic::error("no-weight", line.location(), "no pool of this `split` gets any connections")
            .help("give one of them a `weight=` above 0")
    } else {
        return Some(match &mut arms[..] {
            // One pool gets everything, as by a `proxy`.
            [_] => TcpTarget { arms: vec![TcpArm { weight: 1, ..arms.remove(0) }], by_client: false },
            _ => TcpTarget { arms, by_client },
        });
    };
    lowering.refuse(fault)
}

/// `proxy "db"`, or `split { proxy "db" weight=95; proxy "next" weight=5 }`
pub fn write_target(line: &mut Writer, target: &TcpTarget) {
    if let Some(only) = target.only() {
        return proxy::write(line, &only.pool, &only.retry, false);
    }
    let by = target.by_client.then_some(CLIENT_IP);
    line.name(TCP_SPLIT.name).optional("by", by).block(&target.arms, |line, TcpArm { pool, retry, weight }| {
        line.name("proxy").argument(&pool.0).number("weight", weight);
        proxy::write_retry(line, retry);
    });
}

fn first_of_same_address(lowering: &Lowering<'_>, ip: Option<IpAddr>, port: u16) -> Option<Location> {
    let position = lowering.configuration.tcp.iter().position(|known| known.ip == ip && known.port == port)?;
    lowering.spans.tcp.get(position).cloned()
}
