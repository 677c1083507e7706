//! `include "conf.d/*.kdl"`: other files, read in place. The reading itself is done in `load`, before anything is
//! lowered.

use crate::language::{Directive, Lower};
use crate::syntax::Node;
use crate::table::{Argument, Kind, Place, Repeat};

pub static INCLUDE: Directive = Directive {
    name: "include",
    places: &[Place::Top, Place::Site, Place::Route, Place::Pool],
    repeat: Repeat::Many,
    arguments: &[Argument::one_or_more(
        "files",
        Kind::Path,
        "A path, or a pattern with `*`, `?` and `[…]`; relative to the file it is written in.",
    )],
    summary: "Reads other files as if their text stood here.",
    details: "The files of a pattern are read in the order of their names. A path without a wildcard has to exist; a pattern may match \
              nothing. Includes may be nested 16 deep.\n\n\
              `name=value` behind the files hands them something: `{arg.name}` stands for it in their values, a number for a number, and `{arg.name:-value}` has what holds without it. So one file is \
              a template for many: `include \"app.kdl\" host=\"shop.example.com\" port=3000`. Files that those include get what their own `include` says.",
    example: "include \"conf.d/*.kdl\"",
    lower: Lower::Reading,
    ..Directive::PLAIN
};

/// An `include` inside these is replaced by what it includes. Elsewhere it stays, and is reported as a word that cannot
/// stand there.
pub fn takes_includes(node: &Node) -> bool {
    matches!(node.name.text.as_str(), "site" | "route" | "pool" | "proxy" | "fastcgi")
}

/// Whether an `include` stands anywhere in the node.
pub fn includes(node: &Node) -> bool {
    let children = node.children.as_deref().unwrap_or_default();
    takes_includes(node) && children.iter().any(|child| child.name.text == INCLUDE.name || includes(child))
}
