//! `listener ":443" { … }`: options of one address that sites listen on.

use crate::diagnostics::{Diagnostic, Location};
use crate::forms::{is_token, parse_listener_place, show_network};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::presets::named_networks;
use crate::reading::Read;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat};
use crate::written_line::Lines;
use ipnet::IpNet;
use tidegate_model::parse_network;
use tidegate_model::{ListenerOptions, ListenerPlace, SocketAccess};

pub static LISTENER: Directive = Directive {
    name: "listener",
    places: &[Place::Top],
    repeat: Repeat::Many,
    arguments: &[Argument::one(
        "address",
        Kind::Text("an address, as in `\":443\"`"),
        "`:443`, with an IP address `192.0.2.1:443`, or a socket of this machine `unix:/run/tidegate.sock`.",
    )],
    block: Block::Required(Place::Listener),
    summary: "Options of an address that sites listen on.",
    details: "It opens nothing by itself: the addresses come from the sites. Who comes by a socket of this machine counts as `127.0.0.1`.",
    example: "listener \":443\" {\n    trusted-proxies \"10.0.0.0/8\"\n}",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

pub static TRUSTED_PROXIES: Directive = Directive {
    name: "trusted-proxies",
    places: &[Place::Listener],
    repeat: Repeat::Many,
    arguments: &[Argument::one_or_more(
        "networks",
        NETWORK,
        "Networks or addresses; `private` stands for all private and loopback ones, `preset:cloudflare` for those of a provider, `file:PATH` for those in a file.",
    )],
    summary: "Peers whose `X-Forwarded-For`, `-Proto`, `-Host` and `-Port` are believed.",
    details: "From anyone else these fields are replaced. The client is the last address in `X-Forwarded-For` that is not trusted itself.\n\n\
              Lists that ship are those of `akamai` (Origin IP ACL), `cloudflare`, `cloudfront`, `fastly` and `google` (load balancers), each with the date and the address it is from; `tidegate check` says how old they are. \
              A newer list, or one of anybody else, is a file with a network a line: `trusted-proxies \"file:cloudflare.txt\"`, read with the configuration. Both kinds stand in `allow`, `deny`, `match client=` and \
              `accept-proxy-protocol` as well.",
    default: "none",
    example: "trusted-proxies \"10.0.0.0/8\" \"192.0.2.7\"",
    ..Directive::PLAIN
};

pub static CLIENT_IP_HEADER: Directive = Directive {
    name: "client-ip-header",
    places: &[Place::Listener],
    arguments: &[Argument::one("name", Kind::Text("a header name"), "The field; its name is read in any case.")],
    summary: "The field in which trusted proxies name the client, where it is not `X-Forwarded-For`.",
    details: "As `CF-Connecting-IP` of Cloudflare, `True-Client-IP` of Akamai or the `X-Real-IP` of nginx are. It is read of `trusted-proxies` alone, from the right, as \
              `X-Forwarded-For` would be; who does not send it is the client. Servers then get an `X-Forwarded-For` that begins with the client named there, since such a proxy \
              may hand on what its client has written into that field.",
    default: "`X-Forwarded-For`",
    example: "trusted-proxies \"preset:cloudflare\"\nclient-ip-header \"CF-Connecting-IP\"",
    ..Directive::PLAIN
};

pub static ACCEPT_PROXY_PROTOCOL: Directive = Directive {
    name: "accept-proxy-protocol",
    places: &[Place::Listener],
    repeat: Repeat::Many,
    arguments: &[Argument::any("networks", NETWORK, "More networks or addresses.")],
    properties: &[Property::many(
        "from",
        NETWORK,
        "A network or an address; `private` stands for all private and loopback ones, `preset:NAME` and `file:PATH` for lists. At least one is needed.",
    )],
    summary: "Peers that begin each connection with whose it is, by the PROXY protocol: load balancers.",
    details: "Versions 1 and 2, before TLS and before plain HTTP. The address in the header is the client's from then on: for limits, logs, `{client.ip}`, \
              `match client=`, `trusted-proxies` and `X-Forwarded-For`. Connections that the load balancer makes for itself (`LOCAL`, `UNKNOWN`) keep its own.\n\n\
              Who is in one of the networks **must** send the header, within `limits header-timeout`; without a good one the connection is closed. Who is in none of \
              them cannot send one: the bytes are then what any client sends, and are refused as a bad request or a bad handshake. Nothing is guessed, since \
              a listener that takes both from everybody believes everybody. `connections-per-ip` counts clients, and never the load balancer.",
    default: "none",
    example: "accept-proxy-protocol from=\"10.0.0.0/8\" \"192.0.2.7\"",
    ..Directive::PLAIN
};

pub static WEBSOCKET_OVER_HTTP2: Directive = Directive {
    name: "websocket-over-http2",
    places: &[Place::Listener],
    arguments: &[Argument::one("offered", Kind::Switch, "Whether it is.")],
    summary: "Whether clients of HTTP/2 are offered WebSockets on streams of their connection.",
    details: "Extended CONNECT with `:protocol` `websocket` (RFC 8441), as browsers use it where it is offered; without it they open a connection of HTTP/1.1 for \
              each WebSocket. Every rule is that of a WebSocket over HTTP/1.1: for routes, conditions and the access log the request is a `GET`, and an upstream of \
              HTTP/1.1 is asked to upgrade, with a key that is made here and whose `Sec-WebSocket-Accept` is verified. Switched off, nothing is offered, and who asks \
              all the same is refused with 400. A change is for connections that are opened from then on.",
    default: "`#true`",
    example: "websocket-over-http2 #false",
    ..Directive::PLAIN
};

pub static MODE: Directive = Directive {
    name: "mode",
    places: &[Place::Listener],
    arguments: &[Argument::one("bits", Kind::Text("permission bits, as in `\"0660\"`"), "In octal, as `chmod` takes them.")],
    summary: "Who may connect to a socket of this machine: the permissions of its file.",
    details: "Connecting needs the right to write. For a socket with a path only: whoever shares the network namespace may connect to an abstract one (`unix:@name`).",
    default: "`\"0660\"`: the user and the group of the proxy",
    example: "mode \"0666\"",
    ..Directive::PLAIN
};

pub static OWNER: Directive = Directive {
    name: "owner",
    places: &[Place::Listener],
    arguments: &[Argument::one("user", Kind::Text("a user, as in `\"www-data\"`"), "A name or a number.")],
    properties: &[Property::once(
        "group",
        Kind::Text("a group, as in `\"www-data\"`"),
        "A name or a number; without it the group stays.",
    )],
    summary: "Whose the file of a socket of this machine is.",
    details: "Another user needs root or `CAP_CHOWN`; a group that the proxy's user is in does not: `owner \"tidegate\" group=\"www-data\"` lets a web server in front connect, with `mode \"0660\"`.",
    default: "the user and the group of the proxy",
    example: "owner \"tidegate\" group=\"www-data\"",
    ..Directive::PLAIN
};

const NETWORK: Kind = Kind::Text("a network, as in `\"10.0.0.0/8\"`");

/// RFC 1918, RFC 4193, loopback and link-local.
const PRIVATE: [&str; 8] =
    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "169.254.0.0/16", "fc00::/7", "::1/128", "fe80::/10"];

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let text = line.read_argument(lowering, 0).map(Read::text);
    let (mut trusted_proxies, mut proxy_protocol_from) = (Vec::new(), Vec::new());
    let mut websocket_over_http2 = true;
    let (mut client_ip_header, mut client_ip_header_at) = (None, None);
    let (mut access, mut access_at) = (SocketAccess::default(), None);
    for child in line.lines(lowering) {
        if child.directive.name == TRUSTED_PROXIES.name {
            for text in child.read_arguments(lowering) {
                read_networks(lowering, &text.text(), &mut trusted_proxies);
            }
        } else if child.directive.name == CLIENT_IP_HEADER.name {
            client_ip_header_at = Some(child.location());
            client_ip_header = read_client_ip_header(lowering, &child);
        } else if child.directive.name == WEBSOCKET_OVER_HTTP2.name {
            if let Some(read) = child.read_argument(lowering, 0) {
                websocket_over_http2 = read.switch();
            }
        } else if child.directive.name == MODE.name || child.directive.name == OWNER.name {
            access_at.get_or_insert((child.directive.name, child.location()));
            read_access(lowering, &child, &mut access);
        } else {
            read_proxy_protocol(lowering, &child, &mut proxy_protocol_from);
        }
    }
    let Some(text) = text else { return };
    let place = match parse_listener_place(&text.value) {
        Ok(place) => place,
        Err(reason) => {
            lowering.report(text.error("bad-address", reason).help("for example `listener \":443\"`"));
            return;
        }
    };
    if let Some(first) = first_of_same_place(lowering, place) {
        let message = format!("there are two `listener` blocks for `{}`", text.shown());
        let diagnostic = Diagnostic::error("duplicate-listener", text.location, message)
            .label(first, "the first one")
            .help("put both into one");
        lowering.report(diagnostic);
        return;
    }
    let has_file = matches!(place, ListenerPlace::Unix(name) if !name.is_abstract());
    if let Some((name, at)) = access_at.filter(|_| !has_file) {
        let message = format!("`{name}` is for sockets with a file, as `unix:/run/tidegate.sock` is one");
        lowering
            .report(Diagnostic::error("no-socket-file", at, message).label(text.location.clone(), "not one").help("remove it"));
    }
    if let Some(at) = client_ip_header_at.filter(|_| client_ip_header.is_some() && trusted_proxies.is_empty()) {
        let message = "nobody is trusted to name a client in this field";
        let diagnostic = Diagnostic::error("nobody-trusted", at, message)
            .help("name the networks of your load balancers beside it, as in `trusted-proxies \"10.0.0.0/8\"`");
        lowering.report(diagnostic);
    }
    lowering.spans.listeners.push(text.location);
    let options = ListenerOptions { place, access, trusted_proxies, client_ip_header, proxy_protocol_from, websocket_over_http2 };
    lowering.configuration.listeners.push(options);
}

fn first_of_same_place(lowering: &Lowering<'_>, place: ListenerPlace) -> Option<Location> {
    let position = lowering.configuration.listeners.iter().position(|known| known.place == place)?;
    lowering.spans.listeners.get(position).cloned()
}

fn read_client_ip_header(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<String> {
    let name = line.read_argument(lowering, 0).map(Read::text)?;
    // RFC 7239 has pairs in it, and nobody's CDN sends it.
    if name.value.eq_ignore_ascii_case("forwarded") || !is_token(&name.value) {
        let message = format!("`{}` is no field that has an address alone", name.shown());
        lowering.report(name.error("bad-name", message).help("for example `client-ip-header \"CF-Connecting-IP\"`"));
        return None;
    }
    (!name.value.eq_ignore_ascii_case("x-forwarded-for")).then_some(name.value)
}

fn read_access(lowering: &mut Lowering<'_>, line: &Line<'_>, access: &mut SocketAccess) {
    let Some(text) = line.read_argument(lowering, 0).map(Read::text) else { return };
    if line.directive.name == OWNER.name {
        access.group = line.text(lowering, "group").map(|group| group.value);
        access.owner = Some(text.value);
        return;
    }
    let digits = text.value.strip_prefix("0o").unwrap_or(&text.value);
    match u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777 && !digits.starts_with('+')) {
        Some(mode) if mode & 0o222 == 0 => {
            let diagnostic = text.error("bad-mode", "nobody may connect to this socket: connecting needs the right to write");
            lowering.report(diagnostic.help("for example `mode \"0660\"`"));
        }
        Some(mode) => access.mode = mode,
        None => {
            let diagnostic = text.error("bad-mode", format!("`{}` are no permission bits", text.shown()));
            lowering.report(diagnostic.help("three octal digits, as in `mode \"0660\"`"));
        }
    }
}

fn read_proxy_protocol(lowering: &mut Lowering<'_>, line: &Line<'_>, networks: &mut Vec<IpNet>) {
    let mut texts = line.texts(lowering, "from");
    texts.extend(line.read_arguments(lowering).into_iter().map(Read::text));
    if line.node.entries.is_empty() {
        let message = "`accept-proxy-protocol` does not say from whom";
        let diagnostic = Diagnostic::error("missing-argument", line.location(), message)
            .help("name the networks of your load balancers, as in `accept-proxy-protocol from=\"10.0.0.0/8\"`");
        lowering.report(diagnostic);
    }
    for text in texts {
        read_networks(lowering, &text, networks);
    }
}

/// What one text names.
fn read_networks(lowering: &mut Lowering<'_>, text: &Text, networks: &mut Vec<IpNet>) {
    if let Some(named) = named_networks(lowering, text) {
        networks.extend(named);
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
        Err(reason) => lowering.report(text.error("bad-network", reason).help(help_of_network(&text.value))),
    }
}

fn help_of_network(text: &str) -> &'static str {
    if ["country:", "continent:", "asn:", "map:"].iter().any(|place| text.starts_with(place)) {
        "whom to believe is no question of places or maps: name the networks of your proxies, `preset:cloudflare` and its like, or `file:networks.txt`"
    } else {
        "for example `10.0.0.0/8`, `preset:cloudflare` or `file:networks.txt`"
    }
}

pub fn write_options(
    lines: &mut Lines,
    ListenerOptions { place, access, trusted_proxies, client_ip_header, proxy_protocol_from, websocket_over_http2 }: &ListenerOptions,
) {
    let (is_all, is_file) = (lines.has_defaults(), matches!(place, ListenerPlace::Unix(name) if !name.is_abstract()));
    if access.mode != SocketAccess::MODE || is_all && is_file {
        lines.line().name(MODE.name).argument(format_args!("{:04o}", access.mode));
    }
    if let Some(owner) = &access.owner {
        let line = lines.line();
        line.name(OWNER.name).argument(owner);
        if let Some(group) = &access.group {
            line.property("group", group);
        }
    }
    for (name, networks) in [("trusted-proxies", trusted_proxies), ("accept-proxy-protocol", proxy_protocol_from)] {
        if !networks.is_empty() {
            lines.line().name(name).arguments(networks.iter().map(show_network));
        } else if is_all {
            lines.line().name(name).argument("none");
        }
    }
    if client_ip_header.is_some() || is_all && !trusted_proxies.is_empty() {
        lines.line().name(CLIENT_IP_HEADER.name).argument(client_ip_header.as_deref().unwrap_or("X-Forwarded-For"));
    }
    if !websocket_over_http2 || is_all {
        lines.line().name(WEBSOCKET_OVER_HTTP2.name).name(format_args!("#{websocket_over_http2}"));
    }
}
