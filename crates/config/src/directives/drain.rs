//! `drain "30s"`: how long a stop waits for requests in flight.

use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place};
use crate::written_line::{Writer, duration};
use std::time::Duration;

pub static DRAIN: Directive = Directive {
    name: "drain",
    places: &[Place::Top],
    arguments: &[Argument::one(
        "time",
        Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(86_400) },
        "How long; `0s` stops at once.",
    )],
    summary: "How long requests in flight may go on after a stop was asked for.",
    default: "`30s`",
    example: "drain \"30s\"",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    if let Some(time) = line.read_argument(lowering, 0).map(Read::duration) {
        lowering.configuration.drain = time;
    }
}

pub fn write(line: &mut Writer, drain: Duration) {
    line.name("drain").argument(duration(&drain));
}
