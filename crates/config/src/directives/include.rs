//! `include "conf.d/*.kdl"`: other files, read in place. The reading itself is done in `load`, before anything is
//! lowered.

use crate::table::{Argument, Block, Count, Directive, Kind, Lower, Place, Repeat};

pub static INCLUDE: Directive = Directive {
    name: "include",
    places: &[Place::Top, Place::Site, Place::Route, Place::Pool],
    repeat: Repeat::Many,
    arguments: &[Argument {
        name: "files",
        kind: Kind::Path,
        count: Count::OneOrMore,
        summary: "A path, or a pattern with `*`, `?` and `[…]`; relative to the file it is written in.",
    }],
    properties: &[],
    block: Block::None,
    summary: "Reads other files as if their text stood here.",
    details: "The files of a pattern are read in the order of their names. A path without a wildcard has to exist; a pattern may match \
              nothing. Includes may be nested 16 deep.",
    default: "",
    example: "include \"conf.d/*.kdl\"",
    lower: Lower::Reading,
};
