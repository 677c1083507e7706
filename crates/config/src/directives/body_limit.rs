//! `body-limit "10MB"`: how much a request may send.

use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Repeat};
use crate::units::show_size;
use crate::written_line::Writer;
use tidegate_model::Step;

pub static BODY_LIMIT: Directive = Directive {
    name: "body-limit",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: &[Argument::one("size", Kind::Size { min: 0, max: 1 << 50 }, "The largest request body; `0` refuses every body.")],
    summary: "Refuses request bodies larger than this with status 413.",
    details: "A declared length that is too large is refused at once; a body of unknown length when it grows beyond the limit. Of several \
              the last one counts, so that a route may allow more than its site.",
    default: "no limit: bodies stream, so their size costs no memory",
    example: "body-limit \"10MB\"",
    lower: Lower::Step(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    line.read_argument(lowering, 0).map(Read::number).map(|bytes_max| Step::BodyLimit { bytes_max })
}

pub fn write(line: &mut Writer, bytes_max: u64) {
    line.name("body-limit").argument(show_size(bytes_max));
}
