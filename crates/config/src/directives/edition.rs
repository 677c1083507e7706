//! `edition "2026"`: which defaults a configuration was written for.

use crate::diagnostics::{Diagnostic, nearest, quoted_list};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::pieces::TopNode;
use crate::table::{Argument, Kind, Place};
use crate::written_line::Writer;
use tidegate_model::Edition;

pub static EDITION: Directive = Directive {
    name: "edition",
    places: &[Place::Top],
    arguments: &[Argument::one("year", Kind::Text("an edition, as in `\"2026\"`"), "The edition.")],
    summary: "Pins the behaviour of defaults: one that matters for security changes with an edition, never inside one.",
    details: "It stands before everything else. Known editions: `2026`.",
    default: "the newest edition that the program knows",
    example: "edition \"2026\"",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let Some(year) = line.read_argument(lowering, 0) else { return };
    let year = year.text();
    let known: Vec<&str> = Edition::ALL.iter().map(|(name, _)| *name).collect();
    match Edition::ALL.iter().find(|(name, _)| *name == year.value) {
        Some((_, edition)) => lowering.configuration.edition = *edition,
        None => {
            let diagnostic = year.error("unknown-edition", format!("there is no edition `{}`", year.value));
            lowering.report(match nearest(&year.value, known.iter().copied()) {
                Some(name) => diagnostic.help(format!("did you mean `\"{name}\"`?")),
                None => diagnostic.help_of_language(format!("this version knows {}", quoted_list(&known))),
            });
        }
    }
}

/// An edition decides how all the rest is read, so nothing may stand before it.
pub fn check_first(lowering: &mut Lowering<'_>, nodes: &[TopNode]) {
    if let Some(position) = nodes.iter().position(|node| node.name() == EDITION.name)
        && position > 0
    {
        let diagnostic = Diagnostic::error("edition-not-first", nodes[position].placed().location, "`edition` has to come first")
            .label(nodes[0].name_location(), "this stands before it")
            .help("move it to the top of the file");
        lowering.report(diagnostic);
    }
}

pub fn write(line: &mut Writer, edition: Edition) {
    line.name("edition").argument(edition.as_str());
}
