//! `limits { … }`: bounds on what a client may send and hold.

use crate::directives::rate_limit::read_rate;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Block, Kind, Place};
use crate::written_line::{Lines, Writer, duration, size};
use std::time::Duration;
use tidegate_model::Limits;

pub static LIMITS: Directive = Directive {
    name: "limits",
    places: &[Place::Top],
    block: Block::Required(Place::Limits),
    summary: "Bounds on what a client may send and hold.",
    details: "A request that is refused for one of these names it in the log.",
    example: "limits {\n    header-bytes \"64KiB\"\n    connections-per-ip 10000\n}",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

/// One bound: an entry of the table with one argument.
macro_rules! limit {
    ($constant:ident, $name:literal, $kind:expr, $default:literal, $example:literal, $summary:literal, $set:expr) => {
        pub static $constant: Directive = Directive {
            name: $name,
            places: &[Place::Limits],
            arguments: &[Argument::one("bound", $kind, $summary)],
            summary: $summary,
            default: $default,
            example: $example,
            lower: Lower::Limits(|lowering, limits, line| {
                if let Some(read) = line.read_argument(lowering, 0) {
                    let set: fn(&mut Limits, Read) = $set;
                    set(limits, read);
                }
            }),
            ..Directive::PLAIN
        };
    };
}

limit!(
    HEADER_BYTES,
    "header-bytes",
    Kind::Size { min: 1 << 10, max: 64 << 10 },
    "`64KiB`",
    "header-bytes \"64KiB\"",
    "The largest head of a request or a response: request line and header fields together. Trailers may have as much.",
    |limits, read| limits.header_bytes = read.number() as usize
);
limit!(
    REQUEST_LINE,
    "request-line",
    Kind::Size { min: 256, max: 64 << 10 },
    "`16KiB`",
    "request-line \"16KiB\"",
    "The longest request line: method, target and version.",
    |limits, read| limits.request_line_bytes = read.number() as usize
);
limit!(
    HEADER_COUNT,
    "header-count",
    Kind::Integer { min: 8, max: 4096 },
    "`128`",
    "header-count 128",
    "How many header fields a head may have, and how many trailers a body.",
    |limits, read| limits.header_count = read.number() as usize
);
limit!(
    CONNECTIONS_PER_IP,
    "connections-per-ip",
    Kind::Integer { min: 1, max: 1_000_000 },
    "`10000`",
    "connections-per-ip 10000",
    "How many connections one client address may have open; of IPv6, one network (`/64`).",
    |limits, read| limits.connections_per_ip = read.number() as u32
);
limit!(
    HEADER_TIMEOUT,
    "header-timeout",
    Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(3600) },
    "`10s`",
    "header-timeout \"10s\"",
    "From the first byte of a head, or the start of a handshake, to its end.",
    |limits, read| limits.header_timeout = read.duration()
);
limit!(
    KEEP_ALIVE,
    "keep-alive",
    Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(86_400) },
    "`75s`",
    "keep-alive \"75s\"",
    "How long a connection may wait for its next request.",
    |limits, read| limits.keep_alive = read.duration()
);
limit!(
    BODY_RATE,
    "body-rate",
    Kind::ByteRate { min: 0, max: 1 << 30 },
    "`100/s`",
    "body-rate \"100/s\"",
    "A request body that comes slower than this ends with 408; `0` turns the check off. Time spent waiting for the client counts, and a minute of it at most can be saved up. Calls of gRPC, and bodies whose answer has begun, may pause.",
    |limits, read| limits.body_rate_bytes = read.number()
);

pub static H2_STREAMS: Directive = Directive {
    name: "h2-streams",
    places: &[Place::Limits],
    arguments: &[Argument::one("bound", Kind::Integer { min: 1, max: 65_535 }, STREAMS)],
    summary: STREAMS,
    default: "`256`",
    example: "h2-streams 256",
    lower: Lower::Limits(lower_streams),
    ..Directive::PLAIN
};

const STREAMS: &str = "How many requests one HTTP/2 connection may have in flight.";

/// `0` is what somebody writes who wants no HTTP/2.
fn lower_streams(lowering: &mut Lowering<'_>, limits: &mut Limits, line: &Line<'_>) {
    let errors_before = lowering.diagnostics.len();
    match line.read_argument(lowering, 0) {
        Some(read) => limits.h2_streams = read.number() as u32,
        None => {
            for diagnostic in lowering.diagnostics[errors_before..].iter_mut().filter(|fault| fault.code == "out-of-range") {
                diagnostic.help = Some("to offer no HTTP/2, write `alpn \"http/1.1\"` in the `tls` of the site".into());
            }
        }
    }
}

pub static HANDSHAKES_PER_NETWORK: Directive = Directive {
    name: "handshakes-per-network",
    places: &[Place::Limits],
    arguments: &[Argument::one(
        "rate",
        Kind::Text("a rate, as in `\"100/s\"`"),
        "How many in which time, as in `100/s` or `3000/m`; the whole count may come at once.",
    )],
    summary: "How many TLS handshakes one client network may begin: an IPv4 address, or the /64 of an IPv6 address.",
    details: "A handshake costs its client little and this process a signature, so it is a way to keep a processor busy. Beyond the rate \
              connections are closed before anything is computed, `rate_limited` in the metric of failed handshakes. Resumed handshakes \
              count as well: which it will be is not known before.\n\n\
              Think of the largest office behind one address: every browser in it opens a connection or two to begin with, and `6000/m` \
              lets six thousand begin at once. Behind a CDN or a load balancer without PROXY protocol all clients come from a few \
              addresses; leave the limit out there. It is kept for about 65,000 networks at a time.",
    default: "no limit: what is a flood at one place is a CDN at another",
    example: "handshakes-per-network \"6000/m\"",
    lower: Lower::Limits(|lowering, limits, line| {
        if let Some(text) = line.read_argument(lowering, 0).map(Read::text) {
            limits.handshakes_per_network = read_rate(lowering, &text);
        }
    }),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let mut limits = lowering.configuration.limits;
    let reports_before = lowering.diagnostics.len();
    for child in line.lines(lowering) {
        let Lower::Limits(lower) = child.directive.lower else { unreachable!("the table has only limits here") };
        lower(lowering, &mut limits, &child);
    }
    if limits.request_line_bytes > limits.header_bytes && lowering.diagnostics.len() == reports_before {
        let diagnostic = crate::diagnostics::Diagnostic::error(
            "conflicting-limits",
            line.location(),
            "`request-line` is larger than `header-bytes`, of which it is a part",
        )
        .help("raise `header-bytes` or lower `request-line`");
        lowering.report(diagnostic);
    }
    lowering.configuration.limits = limits;
}

pub fn write(line: &mut Writer, limits: &Limits) {
    line.name("limits").lines(|lines| write_bounds(lines, limits));
}

pub fn write_bounds(lines: &mut Lines, limits: &Limits) {
    let Limits {
        header_bytes,
        request_line_bytes,
        header_count,
        connections_per_ip,
        header_timeout,
        keep_alive,
        body_rate_bytes,
        h2_streams,
        handshakes_per_network,
    } = limits;
    lines.line().name("header-bytes").argument(size(&(*header_bytes as u64)));
    lines.line().name("request-line").argument(size(&(*request_line_bytes as u64)));
    lines.line().name("header-count").name(header_count);
    lines.line().name("connections-per-ip").name(connections_per_ip);
    lines.line().name("header-timeout").argument(duration(header_timeout));
    lines.line().name("keep-alive").argument(duration(keep_alive));
    lines.line().name("body-rate").argument(format_args!("{}/s", size(body_rate_bytes)));
    lines.line().name("h2-streams").name(h2_streams);
    lines.extend(handshakes_per_network, |line, rate| {
        line.name("handshakes-per-network").argument(rate);
    });
}
