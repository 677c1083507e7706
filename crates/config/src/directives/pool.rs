//! `pool "api" { … }`: servers, how one is chosen, and how connections to them are made.

use crate::diagnostics::{Diagnostic, Location};
use crate::directives::tls::{check_certificate_file, check_key_file};
use crate::lowering::{self, Line, Lowering, Read};
use crate::pieces::TopNode;
use crate::syntax::{Node, Value};
use crate::table::{Argument, Block, Count, Directive, Kind, Lower, Place, Property, Repeat, Stage};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tidegate_model::{Balance, Pool, PoolName, Protocol, Scheme, Server, Timeouts, UpstreamAddress, UpstreamTls};

pub static POOL: Directive = Directive {
    name: "pool",
    places: &[Place::Top],
    repeat: Repeat::Many,
    arguments: &[Argument {
        name: "name",
        kind: Kind::Text("a name, as in `\"api\"`"),
        count: Count::One,
        summary: "Letters, digits, `-`, `_` and `.`.",
    }],
    properties: &[],
    block: Block::Required(Place::Pool),
    summary: "Servers that do the same work, to be named by `proxy`.",
    details: "",
    default: "",
    example: "pool \"api\" {\n    server \"10.0.0.4:8080\" weight=2\n    server \"10.0.0.5:8080\"\n    server \"https://10.0.0.6:8443\" backup=#true\n}",
    lower: Lower::Top(lower),
};

pub static SERVER: Directive = Directive {
    name: "server",
    places: &[Place::Pool],
    repeat: Repeat::Many,
    arguments: &[Argument {
        name: "address",
        kind: Kind::Text("an upstream address, as in `\"10.0.0.4:8080\"`"),
        count: Count::One,
        summary: "`[scheme://]host:port`; without a scheme it is plain HTTP.",
    }],
    properties: &[
        Property {
            name: "weight",
            kind: Kind::Integer { min: 1, max: 256 },
            repeat: Repeat::Once,
            summary: "Share of the traffic, compared with the other servers.",
        },
        Property { name: "backup", kind: Kind::Switch, repeat: Repeat::Once, summary: "Used only when no other server can be." },
    ],
    block: Block::None,
    summary: "One server of the pool.",
    details: "",
    default: "`weight=1`, `backup=#false`",
    example: "server \"10.0.0.4:8080\" weight=2",
    lower: Lower::Pool(lower_server),
};

pub static BALANCE: Directive = Directive {
    name: "balance",
    places: &[Place::Pool],
    repeat: Repeat::Once,
    arguments: &[Argument {
        name: "method",
        kind: Kind::ChoiceOr(Balance::NAMES, ""),
        count: Count::One,
        summary: "`p2c`, `round-robin`, `least-conn`, `random` or `hash`.",
    }],
    properties: &[Property {
        name: "key",
        kind: Kind::Template(Stage::Request),
        repeat: Repeat::Once,
        summary: "For `hash`: requests with the same key go to the same server.",
    }],
    block: Block::None,
    summary: "How a server is chosen.",
    details: "`p2c` draws two servers and takes the one with fewer requests in flight for its weight. `round-robin` takes them in turn. \
              `least-conn` takes the one with the fewest requests in flight. `random` draws by weight. `hash` keeps a key with its server: \
              when a server leaves, only its own keys move.",
    default: "`p2c`",
    example: "balance \"hash\" key=\"{client.ip}\"",
    lower: Lower::Pool(lower_balance),
};

pub static TIMEOUT: Directive = Directive {
    name: "timeout",
    places: &[Place::Pool],
    repeat: Repeat::Once,
    arguments: &[],
    properties: &[
        timeout(
            "connect",
            Duration::from_secs(300),
            "Until a connection stands, the TLS handshake included; `5s` when left out.",
        ),
        timeout(
            "first-byte",
            Duration::from_secs(86_400),
            "From the end of the request to the first byte of the answer; `60s` when left out.",
        ),
        timeout(
            "idle",
            Duration::from_secs(7 * 86_400),
            "Between two bytes of a body, a stream or a tunnel; `1h` when left out.",
        ),
    ],
    block: Block::None,
    summary: "How long to wait for a server.",
    details: "There is no limit on the whole of a request: long downloads and streams go on as long as bytes come.",
    default: "`connect=\"5s\" first-byte=\"60s\" idle=\"1h\"`",
    example: "timeout connect=\"2s\" first-byte=\"30s\"",
    lower: Lower::Pool(lower_timeout),
};

const fn timeout(name: &'static str, max: Duration, summary: &'static str) -> Property {
    Property { name, kind: Kind::Duration { min: Duration::from_millis(1), max }, repeat: Repeat::Once, summary }
}

pub static MAX_CONNECTIONS: Directive = Directive {
    name: "max-connections",
    places: &[Place::Pool],
    repeat: Repeat::Once,
    arguments: &[Argument {
        name: "count",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        count: Count::One,
        summary: "Connections to each server, over all threads.",
    }],
    properties: &[],
    block: Block::None,
    summary: "How many connections each server gets at most.",
    details: "",
    default: "no limit",
    example: "max-connections 1000",
    lower: Lower::Pool(lower_max_connections),
};

pub static PROTOCOL: Directive = Directive {
    name: "protocol",
    places: &[Place::Pool],
    repeat: Repeat::Once,
    arguments: &[Argument {
        name: "name",
        kind: Kind::ChoiceOr(&["auto", "http1", "h2", "h2c"], ""),
        count: Count::One,
        summary: "`auto`, `http1`, `h2` or `h2c`.",
    }],
    properties: &[],
    block: Block::None,
    summary: "The version of HTTP that is spoken with the servers.",
    details: "`auto` lets the TLS handshake settle it; without TLS it is HTTP/1.1, and HTTP/2 for gRPC, which nothing else can carry. `h2` is \
              HTTP/2 over TLS, `h2c` HTTP/2 without TLS.",
    default: "`auto`",
    example: "protocol \"h2c\"",
    lower: Lower::Pool(lower_protocol),
};

pub static UPSTREAM_TLS: Directive = Directive {
    name: "tls",
    places: &[Place::Pool],
    repeat: Repeat::Once,
    arguments: &[],
    properties: &[
        Property {
            name: "ca",
            kind: Kind::Path,
            repeat: Repeat::Once,
            summary: "PEM file with the authorities to trust, instead of the system's.",
        },
        Property {
            name: "sni",
            kind: Kind::Text("a host name"),
            repeat: Repeat::Once,
            summary: "The name to ask for and to verify, instead of the address's host.",
        },
        Property {
            name: "cert",
            kind: Kind::Path,
            repeat: Repeat::Once,
            summary: "Certificate chain to show to the server, in PEM.",
        },
        Property { name: "key", kind: Kind::Path, repeat: Repeat::Once, summary: "Its private key, in PEM." },
        Property {
            name: "verify",
            kind: Kind::Switch,
            repeat: Repeat::Once,
            summary: "`#false` takes any certificate, and with it anyone in between; a warning says so.",
        },
    ],
    block: Block::None,
    summary: "How servers with an `https://` address are spoken to.",
    details: "",
    default: "verified against the system's authorities and the server's own name",
    example: "tls sni=\"api.internal\"",
    lower: Lower::Pool(lower_tls),
};

/// A pool while its lines are read.
#[derive(Debug, Default)]
pub struct PoolDraft {
    pub servers: Vec<(Server, Location)>,
    balance: Balance,
    timeouts: Timeouts,
    max_connections: Option<u32>,
    protocol: Protocol,
    protocol_at: Option<Location>,
    tls: UpstreamTls,
    tls_at: Option<Location>,
    /// A server could not be read, so what the pool lacks is not known.
    pub faulty: bool,
    /// Which of `servers` has the address.
    by_address: HashMap<UpstreamAddress, usize>,
}

/// The names of all pools that are written, before anything uses them. Reports names that are taken.
pub fn collect_names(lowering: &mut Lowering<'_>, nodes: &[TopNode]) -> BTreeMap<String, Location> {
    let mut names: BTreeMap<String, Location> = BTreeMap::new();
    // Faults of the text itself are reported where the pool is lowered.
    let mut scratch = Lowering::new(lowering.sources, lowering.environment);
    for top in nodes.iter().filter(|node| node.name() == POOL.name) {
        let line = Line { node: &top.remembered.node, directive: &POOL };
        let Some(value) = line.argument(0) else { continue };
        let value = Value { location: top.location(&value.location), ..value.clone() };
        let Some(name) = crate::placeholders::resolve_text(&mut scratch, &value) else { continue };
        if let Some(first) = names.get(&name.value) {
            let diagnostic =
                Diagnostic::error("duplicate-pool", name.location.clone(), format!("there are two pools `{}`", name.shown()))
                    .label(first.clone(), "the first one");
            lowering.report(diagnostic);
            continue;
        }
        names.insert(name.value, name.location);
    }
    names
}

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let name = line.read_argument(lowering, 0).map(Read::text);
    let mut draft = PoolDraft::default();
    lower_children(lowering, &mut draft, line.children());
    if let Some(name) = &name {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.value.is_empty() || !name.value.chars().all(is_name) {
            let message = format!("`{}` cannot be the name of a pool", name.value);
            lowering.report(name.error("bad-name", message).help("a name has letters, digits, `-`, `_` and `.`"));
            return;
        }
    }
    let pool_name = PoolName(name.map_or_else(String::new, |name| name.value).into());
    if line.node.children.is_none() {
        return;
    }
    // Two of one name were reported when the names were collected.
    let pool = finish(lowering, draft, pool_name, line.location());
    lowering.configuration.pools.extend(pool);
}

/// The lines of a pool's block, and of the block of a `proxy`.
pub fn lower_children(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, children: &[Node]) {
    for line in lowering::lines(lowering, children, Place::Pool) {
        match line.directive.lower {
            Lower::Pool(lower) => lower(lowering, draft, &line),
            Lower::Reading => {}
            Lower::Top(_) | Lower::Site(_) | Lower::Route(_) | Lower::Step(_) | Lower::Terminal(_) => {
                unreachable!("the table has no such directive in a pool")
            }
            Lower::Tls(_) | Lower::Listener(_) | Lower::Limits(_) => unreachable!("the table has no such directive in a pool"),
        }
    }
}

pub fn add_server(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, server: Server, at: Location) {
    if let Some(known) = draft.by_address.get(&server.address) {
        let first = &draft.servers[*known].1;
        let message = format!("the server `{}` is listed twice", lowering.shown(&server.address.to_string(), &at));
        let diagnostic = Diagnostic::error("duplicate-server", at, message)
            .label(first.clone(), "the first one")
            .help("for a larger share of the traffic, use `weight=`");
        lowering.report(diagnostic);
        return;
    }
    draft.by_address.insert(server.address.clone(), draft.servers.len());
    lowering.spans.servers.push((server.address.clone(), at.clone()));
    draft.servers.push((server, at));
}

fn lower_server(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    let text = line.read_argument(lowering, 0).map(Read::text);
    let weight = line.number(lowering, "weight").map_or(1, |weight| weight as u32);
    let backup = line.switch(lowering, "backup").unwrap_or(false);
    let Some(text) = text else {
        draft.faulty = true;
        return;
    };
    match parse_upstream(&text.value) {
        Ok(address) => add_server(
            lowering,
            draft,
            Server { weight, priority: if backup { Server::BACKUP } else { 0 }, ..Server::new(address) },
            text.location,
        ),
        Err(reason) => {
            draft.faulty = true;
            lowering.report(text.error("bad-address", reason));
        }
    }
}

/// An address, with a word of its own for what other proxies take here.
pub fn parse_upstream(text: &str) -> Result<UpstreamAddress, String> {
    if text.starts_with("unix:") || text.starts_with('/') {
        return Err("an upstream is reached by TCP, not by a Unix socket".into());
    }
    UpstreamAddress::parse(text)
}

fn lower_balance(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    let method = line.read_argument(lowering, 0);
    let key = line.template(lowering, "key");
    let method = match method {
        Some(Read::Choice(method, _)) => method,
        Some(Read::Text(text)) => {
            lowering.report(other_word(&text, "balance", Balance::NAMES, ""));
            return;
        }
        _ => return,
    };
    if method != "hash"
        && let Some(value) = line.property("key")
    {
        let message = format!("`key=` has no meaning for `balance \"{method}\"`");
        lowering.report(Diagnostic::error("key-without-hash", value.location.clone(), message).help("use `balance \"hash\"`"));
        return;
    }
    draft.balance = match method {
        "round-robin" => Balance::RoundRobin,
        "least-conn" => Balance::LeastConn,
        "random" => Balance::Random,
        "ewma" => Balance::Ewma,
        "hash" => match key {
            Some(key) => {
                if key.as_literal().is_some()
                    && let Some(value) = line.property("key")
                {
                    let message = "this key is the same for every request, so one server gets them all";
                    lowering.report(
                        Diagnostic::warning("constant-key", value.location.clone(), message)
                            .help("use a placeholder, as in `{client.ip}`"),
                    );
                }
                Balance::Hash { key, load_percent_max: None }
            }
            None => {
                if line.property("key").is_none() {
                    let diagnostic = Diagnostic::error("missing-key", line.location(), "`balance \"hash\"` needs a key")
                        .help("for example `balance \"hash\" key=\"{client.ip}\"`");
                    lowering.report(diagnostic);
                }
                return;
            }
        },
        _ => Balance::P2c,
    };
}

/// An error for a word that is none of the choices, or is one that a later version brings.
fn other_word(text: &crate::placeholders::Text, owner: &str, names: &[&str], reserved: &str) -> Diagnostic {
    if text.value == reserved {
        return lowering::not_available(text.location.clone(), &format!("{owner} \"{reserved}\""));
    }
    let diagnostic = text.error("bad-value", format!("`{owner}` cannot be `{}`", text.value));
    match crate::diagnostics::nearest(&text.value, names.iter().copied()) {
        Some(candidate) => diagnostic.help(format!("did you mean `\"{candidate}\"`?")),
        None => diagnostic.help(format!("it can be {}", lowering::quoted_list(names))),
    }
}

fn lower_timeout(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    if line.node.entries.is_empty() {
        let diagnostic = Diagnostic::error("missing-argument", line.location(), "`timeout` sets nothing")
            .help("for example `timeout connect=\"5s\" first-byte=\"60s\" idle=\"1h\"`");
        lowering.report(diagnostic);
    }
    let defaults = Timeouts::default();
    draft.timeouts = Timeouts {
        connect: line.duration(lowering, "connect").unwrap_or(defaults.connect),
        first_byte: line.duration(lowering, "first-byte").unwrap_or(defaults.first_byte),
        idle: line.duration(lowering, "idle").unwrap_or(defaults.idle),
    };
}

fn lower_max_connections(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    draft.max_connections = line.read_argument(lowering, 0).map(|count| count.number() as u32);
}

fn lower_protocol(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    match line.read_argument(lowering, 0) {
        Some(Read::Choice(name, at)) => {
            if let Some((_, protocol)) = Protocol::NAMES.iter().find(|(known, _)| *known == name) {
                draft.protocol = *protocol;
                draft.protocol_at = Some(at);
            }
        }
        Some(Read::Text(text)) => {
            let names: Vec<&str> = Protocol::NAMES.iter().map(|(name, _)| *name).collect();
            lowering.report(other_word(&text, "protocol", &names, "h3"));
        }
        _ => {}
    }
}

fn lower_tls(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    draft.tls_at = Some(line.location());
    if let Some(ca) = line.text(lowering, "ca") {
        draft.tls.ca = check_certificate_file(lowering, &ca, false);
    }
    if let Some(sni) = line.text(lowering, "sni") {
        match tidegate_model::address::parse_host_pattern(&sni.value) {
            Ok(tidegate_model::HostPattern::Exact(name)) => draft.tls.sni = Some(name),
            Ok(_) => lowering.report(sni.error("bad-value", "`sni=` is a host name").help("for example `sni=\"api.internal\"`")),
            Err(reason) => lowering.report(sni.error("bad-value", reason)),
        }
    }
    let cert = line.text(lowering, "cert");
    let key = line.text(lowering, "key");
    if let (Some(key), None) = (&key, line.property("cert")) {
        lowering.report(key.error("missing-cert", "`key=` without `cert=`").help("add `cert=\"…\"` with the certificate chain"));
    }
    if let Some(cert) = cert {
        let key_is_elsewhere = line.property("key").is_some();
        let cert_path = check_certificate_file(lowering, &cert, !key_is_elsewhere);
        let key_path =
            key.and_then(|key| check_key_file(lowering, &key)).or_else(|| cert_path.clone().filter(|_| !key_is_elsewhere));
        draft.tls.client_certificate = cert_path.zip(key_path);
    }
    if let Some(verify) = line.switch(lowering, "verify") {
        draft.tls.verify = verify;
        if let (false, Some(value)) = (verify, line.property("verify")) {
            let diagnostic =
                Diagnostic::warning("unverified-upstream", value.location.clone(), "the servers' certificates are not verified")
                    .note("anyone between here and a server can read and change what is sent")
                    .help("trust the authority that signed them, with `ca=\"…\"`");
            lowering.report(diagnostic);
        }
    }
}

/// The pool, unless something keeps it from being complete.
pub fn finish(lowering: &mut Lowering<'_>, draft: PoolDraft, name: PoolName, at: Location) -> Option<Pool> {
    if draft.servers.is_empty() && !draft.faulty {
        let diagnostic =
            Diagnostic::error("no-server", at.clone(), "this pool has no server").help("for example `server \"10.0.0.4:8080\"`");
        lowering.report(diagnostic);
    }
    if draft.servers.is_empty() {
        return None;
    }
    if !draft.faulty && draft.servers.iter().all(|(server, _)| server.priority > 0) {
        let diagnostic = Diagnostic::error("only-backups", at.clone(), "every server of this pool is a backup")
            .label(draft.servers[0].1.clone(), "a backup")
            .help("remove `backup=#true` from one of them");
        lowering.report(diagnostic);
    }
    check_protocol(lowering, &draft);
    if let Some(tls_at) = &draft.tls_at
        && draft.servers.iter().all(|(server, _)| server.address.scheme == Scheme::Http)
    {
        let diagnostic = Diagnostic::warning("unused-tls", tls_at.clone(), "this has no effect: no server is spoken to with TLS")
            .label(draft.servers[0].1.clone(), "plain HTTP")
            .help("write `https://` in front of the server's address");
        lowering.report(diagnostic);
    }
    let servers = draft.servers.into_iter().map(|(server, _)| server).collect();
    let mut pool = Pool::new(name, servers);
    pool.balance = draft.balance;
    pool.timeouts = draft.timeouts;
    pool.bounds.connections_per_server = draft.max_connections;
    pool.protocol = draft.protocol;
    pool.tls = draft.tls;
    Some(pool)
}

fn check_protocol(lowering: &mut Lowering<'_>, draft: &PoolDraft) {
    let Some(protocol_at) = &draft.protocol_at else { return };
    let (conflicting_scheme, message, help) = match draft.protocol {
        Protocol::H2c => (Scheme::Https, "`h2c` is HTTP/2 without TLS, and this server has TLS", "use `protocol \"h2\"`"),
        Protocol::H2 => (
            Scheme::Http,
            "`h2` is HTTP/2 over TLS, and this server has no TLS",
            "use `protocol \"h2c\"`, or write `https://` in front of the address",
        ),
        Protocol::Auto | Protocol::Http1 => return,
    };
    if let Some((_, at)) = draft.servers.iter().find(|(server, _)| server.address.scheme == conflicting_scheme) {
        let diagnostic = Diagnostic::error("conflicting-protocol", at.clone(), message)
            .label(protocol_at.clone(), "asked for here")
            .help(help);
        lowering.report(diagnostic);
    }
}
