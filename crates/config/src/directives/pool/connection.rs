//! `timeout`, `keep-alive`, `protocol`, `tls`, `send-proxy-protocol`: how connections to the servers are made and kept.

use super::PoolDraft;
use crate::diagnostics::{Diagnostic, nearest, shortened};
use crate::directives::pem::{self, Given, check_certificate, check_key};
use crate::language::{Directive, Line, Lower, Said};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::{Read, read_choice_or};
use crate::table::{Argument, Kind, Place, Property};
use crate::written_line::{Writer, duration};
use std::time::Duration;
use tidegate_kdl::listed;
use tidegate_model::{KeepAlive, Protocol, ProxyFact, ProxyFacts, ProxyProtocol, Timeouts, UpstreamTls};

pub static TIMEOUT: Directive = Directive {
    name: "timeout",
    places: &[Place::Pool],
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
    summary: "How long to wait for a server.",
    details: "There is no limit on the whole of a request: long downloads and streams go on as long as bytes come.",
    default: "`connect=\"5s\" first-byte=\"60s\" idle=\"1h\"`",
    example: "timeout connect=\"2s\" first-byte=\"30s\"",
    lower: Lower::Pool(lower_timeout),
    meant: "each time has its name, as in `timeout connect=\"5s\" first-byte=\"30s\" idle=\"60s\"`",
    said_otherwise: TIMES_OF_OTHERS,
    ..Directive::PLAIN
};

/// What other proxies call times.
pub const TIMES_OF_OTHERS: &[Said] = &[
    (
        &["server", "read", "response_header", "responseHeaderTimeout", "proxy_read", "write", "send", "first_byte"],
        "the wait for an answer is `first-byte=`, silence within one `idle=`: `timeout first-byte=\"30s\" idle=\"1h\"`",
    ),
    (
        &["tunnel", "stream_idle", "client-fin", "server-fin"],
        "silence in a stream or a tunnel is `idle=`, as in `timeout idle=\"1h\"`",
    ),
    (&["dial", "connect_timeout"], "it is `connect=`, as in `timeout connect=\"2s\"`"),
    (&["route", "request", "overall"], "the whole of a request is bounded in a site or a route, with `timeout total=\"60s\"`"),
    (
        &["client", "client_body", "body"],
        "clients are bounded at the top level, by a least rate and not by a silence: `limits { body-rate \"100B/s\" }`",
    ),
    (&["http-request", "header", "client_header"], "it is `limits { header-timeout \"10s\" }` at the top level"),
    (&["http-keep-alive", "keepalive"], "it is `limits { keep-alive \"75s\" }` at the top level"),
    (&["queue"], "it is `max-requests 100 queue=1000 queue-timeout=\"5s\"` in the pool"),
    (&["check"], "it is `health \"/healthz\" timeout=\"1s\"` in the pool"),
];

pub const fn timeout(name: &'static str, max: Duration, summary: &'static str) -> Property {
    Property::once(name, Kind::Duration { min: Duration::from_millis(1), max }, summary)
}

pub static KEEP_ALIVE: Directive = Directive {
    name: "keep-alive",
    places: &[Place::Pool],
    properties: &[
        Property::once(
            "connections",
            Kind::Integer { min: 0, max: KeepAlive::CONNECTIONS_MAX as u64 },
            "Idle connections that each thread keeps to each server; `512` when left out, and none with `protocol \"fastcgi\"`.",
        ),
        Property::once(
            "idle",
            Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(86_400) },
            "How long a connection is kept without a request; `55s` when left out, `10s` with `protocol \"fastcgi\"`. What a server announces, or is seen \
             to do, may make it less.",
        ),
        Property::once(
            "requests",
            Kind::Integer { min: 1, max: 1_000_000_000 },
            "Requests on one connection, less up to a tenth by chance; no limit when left out.",
        ),
        Property::once(
            "age",
            Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(30 * 86_400) },
            "After how long a connection gets no new request, less up to a tenth by chance; no limit when left out.",
        ),
        Property::once(
            "warm",
            Kind::Integer { min: 0, max: 1024 },
            "Connections that each thread holds open to each server before they are needed; `0` when left out.",
        ),
        Property::once(
            "ping",
            Kind::ChoiceOr(&["off"], "a duration from 1s to 1h"),
            "After how long a silent HTTP/2 connection with requests on it is asked for a sign of life, and given up after as long again; `30s` when \
             left out.",
        ),
    ],
    summary: "How long connections to servers are used.",
    details: "With `age=` or `requests=`, load spreads over servers that came later, and what a name stands for now is what is connected to.\n\n\
              Of FastCGI none are kept unless `connections=` says so: each has a process of PHP-FPM to itself, also while it is idle, and with as many kept as there are \
              processes, nobody else gets one. Keep fewer than `pm.max_children` over all threads, or none: a connection over a unix socket costs microseconds.",
    default: "`connections=512 idle=\"55s\" warm=0 ping=\"30s\"`, with FastCGI `connections=0 idle=\"10s\"`",
    example: "keep-alive idle=\"30s\" age=\"10m\" warm=2",
    lower: Lower::Pool(lower_keep_alive),
    ..Directive::PLAIN
};

pub static PROTOCOL: Directive = Directive {
    name: "protocol",
    places: &[Place::Pool],
    arguments: &[Argument::one(
        "name",
        Kind::ChoiceOr(&["auto", "http1", "h2", "h2c", "fastcgi"], ""),
        "`auto`, `http1`, `h2`, `h2c` or `fastcgi`.",
    )],
    summary: "What is spoken with the servers: a version of HTTP, or FastCGI.",
    details: "`auto` lets the TLS handshake settle it; without TLS it is HTTP/1.1, and HTTP/2 for gRPC, which nothing else can carry. `h2` is \
              HTTP/2 over TLS, `h2c` HTTP/2 without TLS. Servers with `fastcgi` run scripts, and routes name their pool with `fastcgi`.",
    default: "`auto`",
    example: "protocol \"h2c\"",
    lower: Lower::Pool(lower_protocol),
    ..Directive::PLAIN
};

pub static UPSTREAM_TLS: Directive = Directive {
    name: "tls",
    places: &[Place::Pool],
    properties: &[
        Property::once("ca", Kind::Path, "PEM file with the authorities to trust, instead of the system's."),
        Property::once("sni", Kind::Text("a host name"), "The name to ask for and to verify, instead of the address's host."),
        Property::once("cert", Kind::Path, "Certificate chain to show to the server, in PEM."),
        Property::once("key", Kind::Path, "Its private key, in PEM."),
        Property::once("ca-pem", Kind::Secret("a text of PEM"), "The authorities themselves, instead of `ca`."),
        Property::once("pem", Kind::Secret("a text of PEM"), "The chain itself, instead of `cert`. It may hold the key as well."),
        Property::once("key-pem", Kind::Secret("a text of PEM"), "The key itself, instead of `key`."),
        Property::once(
            "verify",
            Kind::Switch,
            "`#false` takes any certificate, and with it anyone in between; a warning says so.",
        ),
    ],
    summary: "How servers with an `https://` address are spoken to.",
    default: "verified against the system's authorities and the server's own name",
    example: "tls sni=\"api.internal\"",
    lower: Lower::Pool(lower_tls),
    ..Directive::PLAIN
};

pub static SEND_PROXY_PROTOCOL: Directive = Directive {
    name: "send-proxy-protocol",
    places: &[Place::Pool],
    arguments: &[Argument::one("version", Kind::Choice(&["v1", "v2"]), "`v1` is text, `v2` binary.")],
    properties: &[Property::once(
        "tlv",
        Kind::Text("words, separated by commas"),
        "For `v2`, what it says besides the addresses: `authority`, `alpn`, `unique-id`, `ssl`, `crc32c`; nothing when left out.",
    )],
    summary: "Begins each connection with the address of the client.",
    details: "It is the PROXY protocol, which the servers have to expect: one that does not takes it for a broken request. A connection then belongs to one \
              client, so fewer of them are shared; where a header field does, `X-Forwarded-For` is sent anyway.\n\n\
              `tlv=` adds extensions of version 2, each where it is known: `authority` (0x02) is the name of the TLS handshake, or what a header has said that came in; `alpn` (0x01) \
              what is spoken over TLS; `unique-id` (0x05) the identifier that came in by such a header, else `request_id` of the log, of HTTP that of the request which has the connection opened; \
              `ssl` (0x20) version and cipher suite and the common name of the client's certificate; `crc32c` (0x03) a checksum over the header.",
    default: "not sent",
    example: "send-proxy-protocol \"v2\"",
    lower: Lower::Pool(lower_send_proxy_protocol),
    ..Directive::PLAIN
};

fn lower_timeout(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    draft.pool.timeouts = read_timeouts(lowering, line);
}

fn read_timeouts(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Timeouts {
    if line.node.entries.is_empty() {
        let diagnostic = Diagnostic::error("missing-argument", line.location(), "`timeout` sets nothing")
            .help("for example `timeout connect=\"5s\" first-byte=\"60s\" idle=\"1h\"`");
        lowering.report(diagnostic);
    }
    let defaults = Timeouts::default();
    Timeouts {
        connect: line.duration(lowering, "connect").unwrap_or(defaults.connect),
        first_byte: line.duration(lowering, "first-byte").unwrap_or(defaults.first_byte),
        idle: line.duration(lowering, "idle").unwrap_or(defaults.idle),
    }
}

fn lower_protocol(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    match line.read_argument(lowering, 0) {
        Some(Read::Choice(name, at)) => {
            if let Some((_, protocol)) = Protocol::NAMES.iter().find(|(known, _)| *known == name) {
                draft.pool.protocol = *protocol;
                draft.at.insert(PROTOCOL.name, at);
            }
        }
        Some(Read::Text(text)) if matches!(text.value.to_ascii_lowercase().as_str(), "http2" | "http/2" | "http/2.0") => {
            let error = text.error("bad-value", format!("protocol cannot be `{}`", text.value));
            lowering.report(error.help("HTTP/2 is `\"h2\"` over TLS and `\"h2c\"` without"));
        }
        Some(Read::Text(text)) => {
            let names: Vec<&str> = Protocol::NAMES.iter().map(|(name, _)| *name).collect();
            lowering.report(super::other_word(&text, "protocol", &names, "h3"));
        }
        _ => {}
    }
}

fn lower_tls(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    if let Some(ca) = Given::once(lowering, line, "ca", "ca-pem") {
        draft.pool.tls.ca = check_certificate(lowering, &ca, false);
    }
    if let Some(sni) = line.text(lowering, "sni") {
        match tidegate_model::address::parse_host_pattern(&sni.value) {
            Ok(tidegate_model::HostPattern::Exact(name)) => draft.pool.tls.sni = Some(name),
            Ok(_) => lowering.report(sni.error("bad-value", "`sni=` is a host name").help("for example `sni=\"api.internal\"`")),
            Err(reason) => lowering.report(sni.error("bad-value", reason)),
        }
    }
    let cert = Given::once(lowering, line, "cert", "pem");
    let key = Given::once(lowering, line, "key", "key-pem");
    let says = |names: [&str; 2]| names.iter().any(|name| line.property(name).is_some());
    if let (Some(key), false) = (&key, says(["cert", "pem"])) {
        let diagnostic = key.text().error("missing-cert", "`key=` without `cert=`");
        lowering.report(diagnostic.help("add `cert=\"…\"` with the certificate chain"));
    }
    if let Some(cert) = cert {
        let key_is_elsewhere = says(["key", "key-pem"]);
        let cert = check_certificate(lowering, &cert, !key_is_elsewhere);
        let key = key.and_then(|key| check_key(lowering, &key)).or_else(|| cert.clone().filter(|_| !key_is_elsewhere));
        draft.pool.tls.client_certificate = cert.zip(key);
    }
    if let Some(verify) = line.switch(lowering, "verify") {
        draft.pool.tls.verify = verify;
        if let (false, Some(value)) = (verify, line.property("verify")) {
            let diagnostic =
                Diagnostic::warning("unverified-upstream", value.location.clone(), "the servers' certificates are not verified")
                    .note("anyone between here and a server can read and change what is sent")
                    .help("trust the authority that signed them, with `ca=\"…\"`");
            lowering.report(diagnostic);
        }
    }
}

const PING: Kind = Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(3600) };

fn lower_keep_alive(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    super::expect_settings(lowering, line);
    let defaults = KeepAlive::default();
    let ping = match line.property("ping") {
        None => defaults.ping,
        Some(value) => match read_choice_or(lowering, value, &["off"], PING, "`ping=`") {
            Some(Read::Duration(ping)) => Some(ping),
            Some(Read::Choice(..)) => None,
            _ => defaults.ping,
        },
    };
    super::explain_zero(lowering, line.property("ping"), "to send none, write `ping=\"off\"`");
    draft.kept = (line.number(lowering, "connections").map(|count| count as u32), line.duration(lowering, "idle"));
    draft.pool.keep_alive = KeepAlive {
        requests: line.number(lowering, "requests").map(|requests| requests as u32),
        age: line.duration(lowering, "age"),
        warm: line.number(lowering, "warm").map_or(defaults.warm, |warm| warm as u32),
        ping,
        ..defaults
    };
}

fn lower_send_proxy_protocol(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    let version = line.read_argument(lowering, 0).map(Read::choice);
    let facts = line.text(lowering, "tlv").map(|text| (lower_facts(lowering, &text), text));
    let Some(version) = version.and_then(|wanted| ProxyProtocol::NAMES.iter().find(|(name, _)| *name == wanted)) else { return };
    draft.pool.send_proxy_protocol = Some(match (version.1, facts) {
        (ProxyProtocol::V2(_), Some((facts, _))) => ProxyProtocol::V2(facts),
        (ProxyProtocol::V1, Some((_, text))) => {
            let diagnostic = text.error("unused-property", "a header of version 1 has addresses and nothing else");
            lowering.report(diagnostic.help("write `send-proxy-protocol \"v2\"`, or remove `tlv=`"));
            ProxyProtocol::V1
        }
        (version, None) => version,
    });
}

fn lower_facts(lowering: &mut Lowering<'_>, text: &Text) -> ProxyFacts {
    let mut facts = ProxyFacts::NONE;
    for word in text.value.split(',').map(str::trim) {
        match ProxyFact::NAMES.iter().find(|(name, _)| *name == word) {
            Some((_, fact)) => facts = facts.with(*fact),
            None => {
                let names: Vec<&str> = ProxyFact::NAMES.iter().map(|(name, _)| *name).collect();
                let diagnostic = text.error("bad-value", format!("`tlv=` cannot have `{}`", shortened(word)));
                let help = match nearest(word, names.iter().copied()) {
                    Some(candidate) => format!("did you mean `{candidate}`?"),
                    None => format!("known are {}", listed(&names, "and")),
                };
                lowering.report(diagnostic.help(help));
            }
        }
    }
    facts
}

pub fn write_timeouts(line: &mut Writer, Timeouts { connect, first_byte, idle }: &Timeouts) {
    line.name("timeout").property("connect", duration(connect)).property("first-byte", duration(first_byte));
    line.property("idle", duration(idle));
}

pub fn write_keep_alive(line: &mut Writer, keep_alive: &KeepAlive, protocol: Protocol) {
    let KeepAlive { connections, idle, requests, age, warm, ping } = keep_alive;
    line.name("keep-alive").property("idle", duration(idle));
    let usual = KeepAlive::of(protocol).connections;
    line.number_unless(usual.into(), "connections", (*connections).into()).optional_number("requests", *requests);
    line.optional("age", age.as_ref().map(duration)).number_unless(0, "warm", (*warm).into());
    line.property("ping", ping.as_ref().map_or_else(|| "off".to_owned(), duration));
}

pub fn write_protocol(line: &mut Writer, protocol: Protocol) {
    line.name("protocol").argument(protocol.name());
}

pub fn write_tls(line: &mut Writer, UpstreamTls { ca, sni, client_certificate, verify }: &UpstreamTls) {
    line.name("tls");
    if let Some(ca) = ca {
        pem::write(line, "ca", "ca-pem", ca);
    }
    line.optional("sni", sni.as_ref());
    if let Some((cert, key)) = client_certificate {
        pem::write(line, "cert", "pem", cert);
        pem::write(line, "key", "key-pem", key);
    }
    line.switch("verify", *verify);
}

pub fn write_proxy_protocol(line: &mut Writer, version: &ProxyProtocol) {
    let name = match version {
        ProxyProtocol::V1 => "v1",
        ProxyProtocol::V2(_) => "v2",
    };
    line.name("send-proxy-protocol").argument(name);
    let facts: Vec<&str> = version.facts().names().collect();
    line.list("tlv", &facts, |name| *name);
}
