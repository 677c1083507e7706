//! `concurrency-limit`: how many requests of a client, or of everybody together, may be on their way at once. What it
//! has in common with `rate-limit` is in `count_by`.

use super::count_by::{self, BY, DRY_RUN, IPV6_PREFIX, NAME, SAID_OTHERWISE, STATUS};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property, Repeat};
use crate::written_line::Writer;
use tidegate_model::{ConcurrencyLimit, Step};

pub static CONCURRENCY_LIMIT: Directive = Directive {
    name: "concurrency-limit",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: &[Argument::one(
        "requests",
        Kind::Integer { min: 1, max: 1_000_000 },
        "How many requests may be on their way at once.",
    )],
    properties: &[
        BY,
        IPV6_PREFIX,
        NAME,
        Property::once("status", STATUS, "Of refusals; 429 when left out, and 503 with `by=\"all\"`."),
        DRY_RUN,
    ],
    summary: "How many requests of a client, or of everybody together, may be on their way at once.",
    details: "A request has its place from this step to the end of its answer, however it ends; a WebSocket or another tunnel, until it is closed. All threads count together. \
              **Refused** at once with 429 and `Retry-After: 1`, `concurrency_limited` in the log. With `by=\"all\"` it is 503: the client has done nothing wrong.\n\n\
              `by=`, `ipv6-prefix=` and `name=` are those of `rate-limit`. What may be on its way to a server or a pool, with a queue in front, is said in the pool: \
              `max-requests`.",
    default: "no limit",
    example: "concurrency-limit 10 by=\"client-ip\"",
    lower: Lower::Step(lower),
    said_otherwise: SAID_OTHERWISE,
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    let errors_before = lowering.diagnostics.len();
    let requests_max = line.read_argument(lowering, 0).map(Read::number);
    let (name, by, ipv6_prefix) = count_by::read(lowering, line);
    let status = line.number(lowering, "status");
    let dry_run = line.switch(lowering, "dry-run").unwrap_or(false);
    let by = by?;
    let status = status.map_or_else(|| ConcurrencyLimit::default_status(&by), |status| status as u16);
    let limit = ConcurrencyLimit { name, requests_max: requests_max? as u32, by, ipv6_prefix, status, dry_run };
    (!lowering.has_errors_since(errors_before)).then(|| Step::ConcurrencyLimit(Box::new(limit)))
}

pub fn write(line: &mut Writer, limit: &ConcurrencyLimit) {
    let ConcurrencyLimit { name, requests_max, by, ipv6_prefix, status, dry_run } = limit;
    line.name("concurrency-limit").name(requests_max);
    line.number_unless(ConcurrencyLimit::default_status(by).into(), "status", (*status).into());
    count_by::write(line, by, *ipv6_prefix, name.as_deref());
    line.switch_unless(false, "dry-run", *dry_run);
}
