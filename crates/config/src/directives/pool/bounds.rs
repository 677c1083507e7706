//! `max-connections`, `max-requests`, `adaptive-concurrency`: how much a server is asked to do at a time, and who
//! waits.

use super::PoolDraft;
use crate::diagnostics::Diagnostic;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::table::{Argument, Kind, Place, Property};
use crate::written_line::{Lines, Writer, duration};
use std::time::Duration;
use tidegate_model::{Adaptive, Bounds};

pub(super) const COUNT: Kind = Kind::Integer { min: 1, max: Bounds::COUNT_MAX as u64 };

pub(super) const NO_BOUND: &str = "to bound nothing, leave it out";
const BOUND_BY_SYSTEM: &str = "to bound them by what the system has, leave it out";

const QUEUE: Property = Property::once(
    "queue",
    Kind::Integer { min: 0, max: 1_000_000 },
    "Requests that wait in the pool when a bound is reached; `1024` when left out. Those beyond are refused at once.",
);

const QUEUE_TIMEOUT: Property = Property::once(
    "queue-timeout",
    Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(3600) },
    "How long one waits before it is refused; `5s` when left out.",
);

pub static MAX_CONNECTIONS: Directive = Directive {
    name: "max-connections",
    places: &[Place::Pool],
    arguments: &[Argument::one("count", COUNT, "Connections to each server, over all threads.")],
    properties: &[QUEUE, QUEUE_TIMEOUT],
    summary: "How many connections each server gets at most.",
    details: "A request whose server is at its bound waits for a connection of that server, in the order in which they came, and is refused with 503 \
              when as many wait as `queue=` says or its time is over. `queue=` and `queue-timeout=` stand here or in `max-requests`, and hold for both. Left out, it is half of the \
              ports that the system has for connections, where beyond that each connection costs a search, or a third of the open files that the process may have, but for 64 of its own, \
              where that is less: clients need the others. A `server` may have a bound of its own.",
    default: "half of the system's local ports (14,116 as Linux has them), or a third of the open files",
    example: "max-connections 1000 queue=1000 queue-timeout=\"5s\"",
    lower: Lower::Pool(lower_max_connections),
    ..Directive::PLAIN
};

pub static MAX_REQUESTS: Directive = Directive {
    name: "max-requests",
    places: &[Place::Pool],
    arguments: &[Argument::optional("count", COUNT, "Requests in flight at each server, over all threads.")],
    properties: &[
        Property::once("total", COUNT, "Requests in flight in the whole pool, over all threads."),
        QUEUE,
        QUEUE_TIMEOUT,
    ],
    summary: "How many requests are in flight at most.",
    details: "It bounds what one connection of HTTP/2 can carry, which `max-connections` does not. Requests beyond wait as they do there. A `server` may have a bound of its own.",
    default: "no limit",
    example: "max-requests 100 total=1000 queue=500 queue-timeout=\"2s\"",
    lower: Lower::Pool(lower_max_requests),
    ..Directive::PLAIN
};

pub static ADAPTIVE_CONCURRENCY: Directive = Directive {
    name: "adaptive-concurrency",
    places: &[Place::Pool],
    properties: &[
        Property::once("min", COUNT, "What a server may always have in flight; `4` when left out."),
        Property::once("max", COUNT, "What it may have at most; `1000` when left out."),
    ],
    summary: "Learns from latency how many requests each server can have in flight.",
    details: "When answers take longer than they do at rest, the bound of that server goes down; when they do not, it goes up. It is for \
              servers whose capacity nobody knows; where it is known, `max-requests` says it. Requests beyond wait in the pool's queue. Each \
              thread learns for itself, so both bounds hold for a thread.",
    default: "nothing is learnt",
    example: "adaptive-concurrency min=4 max=1000",
    lower: Lower::Pool(lower_adaptive),
    ..Directive::PLAIN
};

fn lower_max_connections(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    draft.pool.bounds.connections_per_server = line.read_argument(lowering, 0).map(|count| count.number() as u32);
    super::explain_zero(lowering, line.argument(0), BOUND_BY_SYSTEM);
    lower_queue(lowering, draft, line);
}

fn lower_max_requests(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    if line.argument(0).is_none() && line.property("total").is_none() {
        let diagnostic = Diagnostic::error("missing-argument", line.location(), "`max-requests` bounds nothing")
            .help(format!("for example `{}`", MAX_REQUESTS.example));
        lowering.report(diagnostic);
    }
    draft.pool.bounds.requests_per_server = line.read_argument(lowering, 0).map(|count| count.number() as u32);
    super::explain_zero(lowering, line.argument(0), NO_BOUND);
    draft.pool.bounds.requests_per_pool = line.number(lowering, "total").map(|count| count as u32);
    super::explain_zero(lowering, line.property("total"), NO_BOUND);
    lower_queue(lowering, draft, line);
}

fn lower_queue(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    let Some(value) = line.property(QUEUE.name).or_else(|| line.property(QUEUE_TIMEOUT.name)) else { return };
    if let Some(first) = &draft.queue_at {
        let diagnostic =
            Diagnostic::error("second-queue", value.location.clone(), "a pool has one queue, and it is written already")
                .label(first.clone(), "the first one")
                .help("write `queue=` and `queue-timeout=` on one line, `max-connections` or `max-requests`");
        lowering.report(diagnostic);
        return;
    }
    draft.queue_at = Some(value.location.clone());
    let queue = line.number(lowering, QUEUE.name);
    let queue_timeout = line.duration(lowering, QUEUE_TIMEOUT.name);
    let bounds = &mut draft.pool.bounds;
    bounds.queue = queue.map_or(bounds.queue, |queue| queue as u32);
    bounds.queue_timeout = queue_timeout.unwrap_or(bounds.queue_timeout);
}

fn lower_adaptive(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    let least = line.number(lowering, "min").map(|count| count as u32);
    let most = line.number(lowering, "max").map(|count| count as u32);
    let defaults = Adaptive::default();
    // One that is left out gives way to the other.
    let adaptive = match (least, most) {
        (Some(least), Some(most)) => Adaptive { least, most },
        (Some(least), None) => Adaptive { least, most: defaults.most.max(least) },
        (None, Some(most)) => Adaptive { least: defaults.least.min(most), most },
        (None, None) => defaults,
    };
    if adaptive.least > adaptive.most {
        let diagnostic = Diagnostic::error("conflicting-bounds", line.location(), "`min=` is larger than `max=`");
        lowering.report(diagnostic.help("raise `max=` or lower `min=`"));
        return;
    }
    draft.pool.bounds.adaptive = Some(adaptive);
}

pub fn write(lines: &mut Lines, bounds: &Bounds) {
    let Bounds { connections_per_server, requests_per_server, requests_per_pool, queue, queue_timeout, adaptive } = bounds;
    let write_queue = |line: &mut Writer| {
        line.number(QUEUE.name, queue).property(QUEUE_TIMEOUT.name, duration(queue_timeout));
    };
    if let Some(count) = connections_per_server {
        write_queue(lines.line().name("max-connections").name(count));
    }
    if requests_per_server.is_some() || requests_per_pool.is_some() {
        let line = lines.line().name("max-requests");
        if let Some(count) = requests_per_server {
            line.name(count);
        }
        line.optional_number("total", *requests_per_pool);
        // A pool has one queue, which is said once.
        if connections_per_server.is_none() {
            write_queue(line);
        }
    }
    lines.extend(adaptive, |line, Adaptive { least, most }| {
        line.name("adaptive-concurrency").number("min", least).number("max", most);
    });
}
