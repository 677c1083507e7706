//! `decompress`: bodies of requests are decoded before they go on.

use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::table::{Argument, Kind, Place, Property, Repeat};
use crate::written_line::Writer;
use tidegate_model::{Decompress, RouteOptions, Switched};

pub static DECOMPRESS: Directive = Directive {
    name: "decompress",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: &[Argument::optional(
        "off",
        Kind::Text("`off`, or nothing"),
        "`off`: bodies go on as they are; for a route of a site that decodes.",
    )],
    properties: &[Property::once(
        "ratio",
        Kind::Integer { min: 1, max: 100_000 },
        "How many times as long as what was sent a body may become, from its first megabyte on; 100 when left out.",
    )],
    summary: "Decodes the bodies of requests that clients have compressed.",
    details: "For upstreams that do not, and for limits: `body-limit` counts what comes out. `Content-Encoding` of `gzip`, `br`, `zstd` and `deflate` is undone and the field removed; with another \
              coding, or several, the body goes on as it is.\n\n\
              A body that is not what it says, or is cut, is 400; one that becomes more than `ratio=` times as long is 413, since a few kilobytes can be made that become gigabytes. Each thread gives its decoders \
              256 MiB at most, and requests beyond are 503.",
    default: "bodies go on as they are",
    example: "decompress",
    lower: Lower::Option(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    let ratio = line.number(lowering, "ratio");
    let decompress = Decompress { ratio_max: ratio.map_or(Decompress::RATIO_MAX, |ratio| ratio as u32) };
    options.decompress = if line.is_off(lowering) { Switched::Off } else { Switched::On(Box::new(decompress)) };
}

pub fn write(line: &mut Writer, Decompress { ratio_max, .. }: &Decompress) {
    line.name("decompress").number("ratio", ratio_max);
}
