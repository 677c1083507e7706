//! `drain "30s"`: how long a stop waits for requests in flight.

use crate::lowering::{Line, Lowering, Read};
use crate::table::{Argument, Block, Count, Directive, Kind, Lower, Place, Repeat};
use std::time::Duration;

pub static DRAIN: Directive = Directive {
    name: "drain",
    places: &[Place::Top],
    repeat: Repeat::Once,
    arguments: &[Argument {
        name: "time",
        kind: Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(86_400) },
        count: Count::One,
        summary: "How long; `0s` stops at once.",
    }],
    properties: &[],
    block: Block::None,
    summary: "How long requests in flight may go on after a stop was asked for.",
    details: "",
    default: "`30s`",
    example: "drain \"30s\"",
    lower: Lower::Top(lower),
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    if let Some(time) = line.read_argument(lowering, 0).map(Read::duration) {
        lowering.configuration.drain = time;
    }
}
