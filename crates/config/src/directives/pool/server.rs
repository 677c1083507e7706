//! `server "10.0.0.4:8080" weight=2`, and `zone "eu-1"`, where this proxy stands.

use super::PoolDraft;
use super::bounds::{COUNT, NO_BOUND};
use crate::diagnostics::{Diagnostic, Location};
use crate::language::{Directive, Line, Lower, Said};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property, Repeat};
use crate::written_line::Writer;
use std::sync::Arc;
use tidegate_model::{Server, ServerBounds, UpstreamAddress};

pub static SERVER: Directive = Directive {
    name: "server",
    places: &[Place::Pool],
    repeat: Repeat::Many,
    arguments: &[Argument::one(
        "address",
        Kind::Text("an upstream address, as in `\"10.0.0.4:8080\"`"),
        "`[scheme://]host:port`, without a scheme plain HTTP; or `unix:` and the path of a socket. `none`: the pool has no server.",
    )],
    properties: &[
        Property::once(
            "weight",
            Kind::Integer { min: 1, max: Server::WEIGHT_MAX as u64 },
            "Share of the traffic, compared with the other servers.",
        ),
        Property::once("backup", Kind::Switch, "Used only when no other server can be; the same as `priority=1`."),
        Property::once(
            "priority",
            Kind::Integer { min: 0, max: Server::PRIORITY_MAX as u64 },
            "Servers of a higher number are used only when none of a lower one can be.",
        ),
        Property::once("zone", Kind::Text("a name, as in `\"eu-1\"`"), "Where it stands; see `zone`."),
        Property::once(
            MAX_CONNECTIONS,
            COUNT,
            "Connections to this server, over all threads; as the pool's `max-connections` says when left out.",
        ),
        Property::once(
            MAX_REQUESTS,
            COUNT,
            "Requests in flight at this server, over all threads; as the pool's `max-requests` says when left out.",
        ),
    ],
    summary: "One server of the pool.",
    details: "A name is looked up when the configuration is applied, and again as its TTL says; of its addresses, the one that answers is used. Where \
              each address is a server of its own, use `discover dns=`.\n\n\
              With `max-connections=` or `max-requests=` a server bears more or less than the others of its pool. What is beyond waits as the pool says, with its `queue=` and `queue-timeout=`; a server without a place is not chosen while another has one.\n\n\
              A pool with `server \"none\"` alone has no server: its requests are answered with 503, `empty_pool`, until the line is another one. `check` remarks it.",
    default: "`weight=1`, `priority=0`",
    example: "server \"10.0.0.4:8080\" weight=2",
    lower: Lower::Pool(lower_server),
    said_otherwise: SAID_OTHERWISE,
    meant: "the address is all that stands behind `server`; the rest are properties, as in `server \"10.0.0.4:8080\" weight=2 backup=#true`",
    ..Directive::PLAIN
};

/// What stands for the servers of a pool that has none.
const NONE: &str = "none";
const MAX_CONNECTIONS: &str = "max-connections";
const MAX_REQUESTS: &str = "max-requests";

/// Properties and the like of servers elsewhere.
const SAID_OTHERWISE: &[Said] = &[
    (
        &["max_fails", "fail_timeout", "observe", "error-limit"],
        "servers that fail are left alone without a word; how soon and for how long is said for the pool, with `outlier failures=5 eject=\"10s\"`",
    ),
    (
        &["max_conns", "maxconn"],
        "it is `max-connections=` or `max-requests=`, as in `server \"10.0.0.4:8080\" max-requests=100`; for all servers alike, `max-requests 100` is a line of the pool",
    ),
    (&["slow_start", "slowstart"], "`slow-start \"30s\"` is a line of the pool"),
    (&["url", "address"], "the address stands behind `server` without a name, as in `server \"10.0.0.4:8080\"`"),
    (
        &["check", "inter", "rise", "fall"],
        "servers are asked with a line of the pool, `health \"/healthz\" interval=\"2s\" rise=2 fall=3`",
    ),
    (&["down", "disabled"], "leave the line out, or write `/-` in front of it; a running process is told with `tidegate drain`"),
    (&["send-proxy", "send-proxy-v2", "send_proxy"], "`send-proxy-protocol \"v2\"` is a line of the pool"),
    (
        &["ssl", "verify"],
        "write `https://` in front of the address, as in `server \"https://10.0.0.4:8443\"`; how it is verified is said in the pool, with `tls ca=\"ca.pem\" sni=\"api.internal\"` or `tls verify=#false`",
    ),
];

pub static ZONE: Directive = Directive {
    name: "zone",
    places: &[Place::Pool],
    arguments: &[Argument::one("name", Kind::Text("a name, as in `\"eu-1\"`"), "Letters, digits, `-`, `_` and `.`; at most 64.")],
    summary: "Where this proxy stands.",
    details: "Servers with the same `zone=` are preferred as long as one of them can be used and, where `max-requests` bounds them, has a place; else the others serve. \
              Several proxies can share a file with `zone \"{env.ZONE}\"`.",
    default: "no zone: all servers are as near",
    example: "zone \"eu-1\"\nserver \"10.0.0.5:8080\" zone=\"eu-1\"\nserver \"10.1.0.5:8080\" zone=\"eu-2\"",
    lower: Lower::Pool(lower_zone),
    ..Directive::PLAIN
};

const ZONE_CHARS_MAX: usize = 64;

pub fn add_server(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, server: Server, at: Location) {
    if let Some(known) = draft.by_authority.get(&server.address.authority()) {
        let (first, first_at) = &draft.servers[*known];
        let help = if first.address == server.address {
            "for a larger share of the traffic, use `weight=`"
        } else {
            "a port speaks plain HTTP or TLS: keep the one that is right"
        };
        let message = format!("the server `{}` is listed twice", lowering.shown(&server.address.to_string(), &at));
        let diagnostic = Diagnostic::error("duplicate-server", at, message).label(first_at.clone(), "the first one").help(help);
        lowering.report(diagnostic);
        return;
    }
    draft.by_authority.insert(server.address.authority(), draft.servers.len());
    lowering.servers.push((server.address.clone(), at.clone()));
    draft.servers.push((server, at));
}

fn lower_server(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    if let [name, address, ..] = &line.written_arguments()[..]
        && !name.contains([':', '/', '{'])
        && UpstreamAddress::parse(address).is_ok()
    {
        draft.faulty = true;
        let _: Option<()> = line.refuse_whole(
            lowering,
            "a `server` has no name in front of its address",
            format!("write `server \"{address}\"`"),
        );
        return;
    }
    if let [word] = &line.written_arguments()[..]
        && word == NONE
    {
        draft.none_at = Some(line.location());
        if let Some(entry) = line.node.entries.iter().find(|entry| entry.name.is_some()) {
            let message = "there is no server that this could be said of";
            let diagnostic = Diagnostic::error("settings-of-none", entry.value.location.clone(), message);
            lowering.report(diagnostic.help(format!("write `server \"{NONE}\"` alone")));
        }
        return;
    }
    let text = line.read_argument(lowering, 0).map(Read::text);
    let weight = line.number(lowering, "weight").map_or(1, |weight| weight as u32);
    let help = "one that is to get no requests is left out, with `/-` in front of its line; a running process is told with `tidegate drain`";
    super::explain_zero(lowering, line.property("weight"), help);
    let priority = priority(lowering, line);
    let zone = line.text(lowering, "zone").and_then(|zone| zone_name(lowering, &zone));
    let mut bound = |name: &'static str| {
        let count = line.number(lowering, name).map(|count| count as u32);
        super::explain_zero(lowering, line.property(name), NO_BOUND);
        count
    };
    let bounds = ServerBounds { connections: bound(MAX_CONNECTIONS), requests: bound(MAX_REQUESTS) };
    let Some(text) = text else {
        draft.faulty = true;
        return;
    };
    match UpstreamAddress::parse(&text.value) {
        Ok(address) => add_server(lowering, draft, Server { address, weight, priority, zone, bounds }, text.location),
        Err(reason) => {
            draft.faulty = true;
            lowering.report(text.error("bad-address", reason));
        }
    }
}

fn priority(lowering: &mut Lowering<'_>, line: &Line<'_>) -> u8 {
    let backup = line.switch(lowering, "backup");
    let priority = line.number(lowering, "priority");
    if let (Some(backup_at), Some(priority_at)) = (line.property("backup"), line.property("priority")) {
        let message = "`backup=` and `priority=` say the same thing, and only one of them can be given";
        let diagnostic = Diagnostic::error("backup-and-priority", priority_at.location.clone(), message)
            .label(backup_at.location.clone(), "said here already")
            .help("a backup has `priority=1`: remove `backup=`");
        lowering.report(diagnostic);
    }
    match (priority, backup) {
        (Some(priority), _) => priority as u8,
        (None, Some(true)) => Server::BACKUP,
        (None, Some(false) | None) => 0,
    }
}

fn lower_zone(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    if let Some(zone) = line.read_argument(lowering, 0).map(Read::text) {
        draft.pool.zone = zone_name(lowering, &zone);
    }
}

fn zone_name(lowering: &mut Lowering<'_>, text: &Text) -> Option<Arc<str>> {
    if super::is_name(&text.value) && text.value.len() <= ZONE_CHARS_MAX {
        return Some(text.value.as_str().into());
    }
    let message = format!("`{}` cannot be the name of a zone", crate::diagnostics::shortened(&text.value));
    let help = format!("a name has letters, digits, `-`, `_` and `.`, at most {ZONE_CHARS_MAX} of them");
    lowering.refuse(text.error("bad-name", message).help(help))
}

pub fn write(line: &mut Writer, Server { address, weight, priority, zone, bounds }: &Server) {
    line.name("server").argument(address).number("weight", weight).number("priority", priority);
    line.optional("zone", zone.as_ref());
    line.optional_number(MAX_CONNECTIONS, bounds.connections).optional_number(MAX_REQUESTS, bounds.requests);
}

pub fn write_zone(line: &mut Writer, zone: &str) {
    line.name("zone").argument(zone);
}
