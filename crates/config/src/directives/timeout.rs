//! `timeout` of a site or a route: how long its requests may take, whatever their pool says. The pool's own is in
//! `pool::connection`.

use crate::diagnostics::Diagnostic;
use crate::directives::pool::connection::{TIMES_OF_OTHERS, timeout};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::table::Place;
use crate::written_line::{Writer, duration};
use std::time::Duration;
use tidegate_model::{RouteOptions, RouteTimeouts};

pub static ROUTE_TIMEOUT: Directive = Directive {
    name: "timeout",
    places: &[Place::Site, Place::Route],
    properties: &[
        timeout("connect", Duration::from_secs(300), "Until a connection to a server stands, the TLS handshake included."),
        timeout("first-byte", Duration::from_secs(86_400), "From the end of the request to the first byte of the answer."),
        timeout("idle", Duration::from_secs(7 * 86_400), "Between two bytes of a body, a stream or a tunnel."),
        timeout(
            "try",
            Duration::from_secs(86_400),
            "For one attempt: from the choice of its server, connecting included, to the first byte of its answer. As the others say when left out.",
        ),
        timeout(
            "total",
            Duration::from_secs(7 * 86_400),
            "For the whole of a request: its body, its attempts at servers and its answer, also where that is a file or a script's. No limit when left out.",
        ),
    ],
    summary: "How long requests may take, and what of them.",
    details: "`connect=`, `first-byte=` and `idle=` stand for what the pool's `timeout` says; what is left out stays as it is there, and in a route as its site \
              says. When `total=` is over before the answer has begun, the client gets 504 with `total_timeout`; an answer that has begun is cut. It begins with \
              the head of the request, no matter how many servers were tried, and ends where a tunnel such as WebSocket begins. It is held against no server: \
              which of them fails is told by `connect=` and `first-byte=`.\n\n\
              `try=` ends an attempt whatever `retry` says: where that has an attempt and a server left and the request may be sent again, another server is tried; else the \
              client gets 504 with `first_byte_timeout` or `connect_timeout`. `retry try-timeout=` of a pool leaves the last attempt its time.",
    default: "as the pool says",
    example: "timeout first-byte=\"5s\" idle=\"30s\" total=\"60s\"",
    lower: Lower::Option(lower),
    meant: "each time has its name, as in `timeout connect=\"5s\" first-byte=\"30s\" idle=\"60s\"`",
    said_otherwise: TIMES_OF_OTHERS,
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    if line.node.entries.is_empty() {
        let diagnostic = Diagnostic::error("missing-argument", line.location(), "`timeout` sets nothing");
        lowering.report(diagnostic.help(format!("for example `{}`", line.directive.example)));
        return;
    }
    let mut read = |name: &str| line.duration(lowering, name);
    let timeouts = RouteTimeouts {
        connect: read("connect"),
        first_byte: read("first-byte"),
        idle: read("idle"),
        per_try: read("try"),
        total: read("total"),
    };
    for (name, other) in [("connect", timeouts.connect), ("first-byte", timeouts.first_byte), ("try", timeouts.per_try)] {
        if let (Some(other), Some(total), Some(value)) = (other, timeouts.total, line.property(name))
            && other >= total
        {
            let message = format!("`{name}=` is never reached: `total=` is over before");
            let diagnostic = Diagnostic::warning("without-effect", value.location.clone(), message);
            lowering.report(diagnostic.help("make it shorter, or remove one of them"));
        }
    }
    options.timeouts = timeouts;
}

pub fn write(line: &mut Writer, timeouts: &RouteTimeouts) {
    let RouteTimeouts { connect, first_byte, idle, per_try, total } = timeouts;
    if *timeouts != RouteTimeouts::default() {
        line.name("timeout");
    }
    let times = [("connect", connect), ("first-byte", first_byte), ("idle", idle), ("try", per_try), ("total", total)];
    for (name, time) in times {
        line.optional(name, time.as_ref().map(duration));
    }
}
