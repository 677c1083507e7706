//! `listener ":443" { … }`: options of one address that sites listen on.

use crate::diagnostics::{Diagnostic, Location};
use crate::lowering::{self, Line, Lowering, Read};
use crate::placeholders::Text;
use crate::table::{Argument, Block, Count, Directive, Kind, Lower, Place, Property, Repeat};
use ipnet::IpNet;
use std::net::IpAddr;
use tidegate_model::ListenerOptions;

pub static LISTENER: Directive = Directive {
    name: "listener",
    places: &[Place::Top],
    repeat: Repeat::Many,
    arguments: &[Argument {
        name: "address",
        kind: Kind::Text("an address, as in `\":443\"`"),
        count: Count::One,
        summary: "`:443`, or with an IP address `192.0.2.1:443`.",
    }],
    properties: &[],
    block: Block::Required(Place::Listener),
    summary: "Options of an address that sites listen on.",
    details: "It opens nothing by itself: the addresses come from the sites.",
    default: "",
    example: "listener \":443\" {\n    trusted-proxies \"10.0.0.0/8\"\n}",
    lower: Lower::Top(lower),
};

pub static TRUSTED_PROXIES: Directive = Directive {
    name: "trusted-proxies",
    places: &[Place::Listener],
    repeat: Repeat::Many,
    arguments: &[Argument {
        name: "networks",
        kind: NETWORK,
        count: Count::OneOrMore,
        summary: "Networks or addresses; `private` stands for all private and loopback ones.",
    }],
    properties: &[],
    block: Block::None,
    summary: "Peers whose `X-Forwarded-For`, `-Proto`, `-Host` and `-Port` are believed.",
    details: "From anyone else these fields are replaced. The client is the last address in `X-Forwarded-For` that is not trusted itself.",
    default: "none",
    example: "trusted-proxies \"10.0.0.0/8\" \"192.0.2.7\"",
    lower: Lower::Listener(lower_trusted_proxies),
};

pub static ACCEPT_PROXY_PROTOCOL: Directive = Directive {
    name: "accept-proxy-protocol",
    places: &[Place::Listener],
    repeat: Repeat::Many,
    arguments: &[Argument { name: "networks", kind: NETWORK, count: Count::Any, summary: "More networks or addresses." }],
    properties: &[Property {
        name: "from",
        kind: NETWORK,
        repeat: Repeat::Many,
        summary: "A network or an address; `private` stands for all private and loopback ones. At least one is needed.",
    }],
    block: Block::None,
    summary: "Peers that begin each connection with whose it is, by the PROXY protocol: load balancers.",
    details: "Versions 1 and 2, before TLS and before plain HTTP. The address in the header is the client's from then on: for limits, logs, `{client.ip}`, \
              `match client=`, `trusted-proxies` and `X-Forwarded-For`. Connections that the load balancer makes for itself (`LOCAL`, `UNKNOWN`) keep its own.\n\n\
              Who is in one of the networks **must** send the header, within `limits header-timeout`; without a good one the connection is closed. Who is in none of \
              them cannot send one: the bytes are then what any client sends, and are refused as a bad request or a bad handshake. Nothing is guessed, since \
              a listener that takes both from everybody believes everybody. `connections-per-ip` counts clients, and never the load balancer.",
    default: "none",
    example: "accept-proxy-protocol from=\"10.0.0.0/8\" \"192.0.2.7\"",
    lower: Lower::Listener(lower_accept_proxy_protocol),
};

const NETWORK: Kind = Kind::Text("a network, as in `\"10.0.0.0/8\"`");

/// RFC 1918, RFC 4193, loopback and link-local.
const PRIVATE: [&str; 8] =
    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "169.254.0.0/16", "fc00::/7", "::1/128", "fe80::/10"];

/// A listener while its lines are read.
#[derive(Debug, Default)]
pub struct ListenerDraft {
    trusted_proxies: Vec<IpNet>,
    proxy_protocol_from: Vec<IpNet>,
}

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let text = line.read_argument(lowering, 0).map(Read::text);
    let mut draft = ListenerDraft::default();
    for child in lowering::lines(lowering, line.children(), Place::Listener) {
        let Lower::Listener(lower) = child.directive.lower else { unreachable!("the table has only listener options here") };
        lower(lowering, &mut draft, &child);
    }
    let Some(text) = text else { return };
    let (ip, port) = match parse_listen_address(&text.value) {
        Ok(address) => address,
        Err(reason) => {
            lowering.report(text.error("bad-address", reason).help("for example `listener \":443\"`"));
            return;
        }
    };
    if let Some(first) = first_of_same_address(lowering, ip, port) {
        let message = format!("there are two `listener` blocks for `{}`", text.shown());
        let diagnostic = Diagnostic::error("duplicate-listener", text.location, message)
            .label(first, "the first one")
            .help("put both into one");
        lowering.report(diagnostic);
        return;
    }
    lowering.spans.listeners.push(text.location);
    lowering.configuration.listeners.push(ListenerOptions {
        ip,
        port,
        trusted_proxies: draft.trusted_proxies,
        proxy_protocol_from: draft.proxy_protocol_from,
    });
}

fn first_of_same_address(lowering: &Lowering<'_>, ip: Option<IpAddr>, port: u16) -> Option<Location> {
    let position = lowering.configuration.listeners.iter().position(|known| known.ip == ip && known.port == port)?;
    lowering.spans.listeners.get(position).cloned()
}

/// `:443`, `192.0.2.1:443`, `[2001:db8::1]:443`
pub fn parse_listen_address(text: &str) -> Result<(Option<IpAddr>, u16), String> {
    let port_of = |digits: &str| match digits.parse::<u16>() {
        Ok(0) | Err(_) => Err(format!("`{digits}` is not a port")),
        Ok(port) if digits.starts_with('+') => Err(format!("`+{port}` is not a port")),
        Ok(port) => Ok(port),
    };
    if let Some(digits) = text.strip_prefix(':') {
        return Ok((None, port_of(digits)?));
    }
    match text.parse::<std::net::SocketAddr>() {
        Ok(address) if address.port() == 0 => Err("port 0 cannot be listened on".into()),
        Ok(address) => Ok((Some(address.ip()), address.port())),
        Err(_) if text.bytes().all(|byte| byte.is_ascii_digit()) => Err(format!("`{text}` has no `:` in front of the port")),
        Err(_) => Err(format!("`{text}` is not an address to listen on")),
    }
}

fn lower_trusted_proxies(lowering: &mut Lowering<'_>, draft: &mut ListenerDraft, line: &Line<'_>) {
    for text in line.read_arguments(lowering) {
        read_networks(lowering, &text.text(), &mut draft.trusted_proxies);
    }
}

fn lower_accept_proxy_protocol(lowering: &mut Lowering<'_>, draft: &mut ListenerDraft, line: &Line<'_>) {
    let mut texts = Vec::new();
    for entry in line.properties("from") {
        texts.extend(lowering::read(lowering, &entry.value, NETWORK, "`from=`"));
    }
    texts.extend(line.read_arguments(lowering));
    if line.node.entries.is_empty() {
        let message = "`accept-proxy-protocol` does not say from whom";
        let diagnostic = Diagnostic::error("missing-argument", line.location(), message)
            .help("name the networks of your load balancers, as in `accept-proxy-protocol from=\"10.0.0.0/8\"`");
        lowering.report(diagnostic);
    }
    for text in texts {
        read_networks(lowering, &text.text(), &mut draft.proxy_protocol_from);
    }
}

/// What one text names.
fn read_networks(lowering: &mut Lowering<'_>, text: &Text, networks: &mut Vec<IpNet>) {
    if text.value.starts_with("preset:") {
        lowering.report(lowering::not_available(text.location.clone(), text.shown()));
        return;
    }
    if text.value == "private" {
        networks.extend(PRIVATE.iter().map(|network| network.parse::<IpNet>().expect("the constants are networks")));
        return;
    }
    match parse_network(&text.value) {
        Ok(network) => {
            if network.prefix_len() == 0 {
                let message = "this believes whatever any client says about itself";
                let diagnostic = Diagnostic::warning("trusts-everyone", text.location.clone(), message)
                    .help("name the networks of your load balancers");
                lowering.report(diagnostic);
            }
            networks.push(network);
        }
        Err(reason) => lowering.report(text.error("bad-network", reason)),
    }
}

/// `10.0.0.0/8`, or a single address.
pub fn parse_network(text: &str) -> Result<IpNet, String> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(ip));
    }
    let network: IpNet = text.parse().map_err(|_| format!("`{text}` is not a network, as `10.0.0.0/8` and `192.0.2.7` are"))?;
    if network.addr() != network.network() {
        return Err(format!(
            "`{text}` names an address inside a network: did you mean `{}` or `{}`?",
            network.trunc(),
            network.addr()
        ));
    }
    Ok(network)
}

/// A single address without its prefix length, as it may be written.
pub fn show_network(network: &IpNet) -> String {
    if network.prefix_len() == network.max_prefix_len() { network.addr().to_string() } else { network.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses() {
        let check = |text: &str, expected: Result<(Option<&str>, u16), &str>| {
            let expected = expected.map(|(ip, port)| (ip.map(|ip| ip.parse().expect("an IP")), port)).map_err(str::to_string);
            assert_eq!(parse_listen_address(text), expected, "for {text}");
        };
        check(":443", Ok((None, 443)));
        check("192.0.2.1:443", Ok((Some("192.0.2.1"), 443)));
        check("[2001:db8::1]:443", Ok((Some("2001:db8::1"), 443)));
        check("443", Err("`443` has no `:` in front of the port"));
        check(":0", Err("`0` is not a port"));
        check(":https", Err("`https` is not a port"));
        check("example.com:443", Err("`example.com:443` is not an address to listen on"));
    }

    #[test]
    fn networks() {
        let check = |text: &str, expected: &str| {
            let seen = parse_network(text).map_or_else(|message| message, |network| network.to_string());
            assert_eq!(seen, expected, "for {text}");
        };
        check("10.0.0.0/8", "10.0.0.0/8");
        check("192.0.2.7", "192.0.2.7/32");
        check("2001:db8::/32", "2001:db8::/32");
        check("10.0.0.1/8", "`10.0.0.1/8` names an address inside a network: did you mean `10.0.0.0/8` or `10.0.0.1`?");
        check("10.0.0.0/33", "`10.0.0.0/33` is not a network, as `10.0.0.0/8` and `192.0.2.7` are");
    }
}
