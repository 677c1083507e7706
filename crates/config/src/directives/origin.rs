//! `origin "Ingress" "shop/web"`: where a site, a route or a pool comes from, for logs and reports.

use crate::diagnostics::shortened;
use crate::directives::pool::PoolDraft;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property};
use crate::written_line::Writer;
use std::sync::Arc;
use tidegate_model::Origin;

pub static ORIGIN: Directive = Directive {
    name: "origin",
    places: &[Place::Site, Place::Route],
    arguments: ARGUMENTS,
    properties: PROPERTIES,
    summary: "Where the site or the route comes from, for logs and reports.",
    details: "For who writes the configuration by a program: from objects of a cluster, rows of a table, services of a project. Nothing is decided by it. It stands as `origin` in the access log, and the event log, \
              `tidegate explain` and the API name it beside the site or the route. A route without one is of its site's, and one within a route of the outer one's.\n\n\
              What containers serve by their labels has one by itself: `container`, and the project and service.",
    example: "origin \"Ingress\" \"shop/web\" rule=\"2\"",
    ..Directive::PLAIN
};

pub static POOL_ORIGIN: Directive = Directive {
    name: ORIGIN.name,
    places: &[Place::Pool],
    arguments: ARGUMENTS,
    properties: PROPERTIES,
    summary: "Where the pool comes from, for logs and reports.",
    details: "As [`origin`](#origin) of a site says: nothing is decided by it. The event log names it where a server of the pool fails, and `tidegate explain`, `tidegate status` and the API show it.",
    example: "origin \"Service\" \"shop/web\" rule=\"8080\"",
    lower: Lower::Pool(lower_pool),
    ..Directive::PLAIN
};

const ARGUMENTS: &[Argument] = &[
    Argument::one("kind", Kind::Text("a word, as in `\"Ingress\"`"), "What kind of thing it is; a word of your own."),
    Argument::one("name", Kind::Text("a name, as in `\"shop/web\"`"), "`namespace/name`, or a name alone."),
];

const PROPERTIES: &[Property] =
    &[Property::once("rule", Kind::Text("a name or a number, as in `\"2\"`"), "Which part of it, where it has several.")];

/// What a part of an origin may be.
const FORM: &str = "it has letters, digits, `-`, `_`, `.` and `:`, and at most 253 of them";

/// `None` where it cannot be read, which was reported.
pub fn read(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Arc<Origin>> {
    let kind = line.read_argument(lowering, 0).map(Read::text);
    let object = line.read_argument(lowering, 1).map(Read::text);
    let rule = match line.text(lowering, "rule") {
        Some(rule) => Some(part(lowering, &rule, &rule.value, "rule of an origin")?),
        None => None,
    };
    let kind = kind.and_then(|kind| part(lowering, &kind, &kind.value, "kind of an origin"));
    let (namespace, name) = object.and_then(|object| {
        let what = "name of an origin";
        match object.value.split_once('/') {
            Some((namespace, name)) => Some((part(lowering, &object, namespace, what)?, part(lowering, &object, name, what)?)),
            None => Some((String::new(), part(lowering, &object, &object.value, what)?)),
        }
    })?;
    Some(Arc::new(Origin { kind: kind?, namespace, name, rule }))
}

/// A part of the text, or all of it, if it can stand in a line of a log without quotes.
fn part(lowering: &mut Lowering<'_>, text: &Text, part: &str, what: &str) -> Option<String> {
    if !is_part(part) {
        let message = format!("`{}` cannot be the {what}", shortened(text.shown()));
        return lowering.refuse(text.error("bad-name", message).help(FORM));
    }
    Some(part.to_owned())
}

fn is_part(text: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    !text.is_empty() && text.len() <= Origin::PART_BYTES_MAX && text.chars().all(is_fit)
}

/// Whether it can be written.
pub fn is_fit(Origin { kind, namespace, name, rule }: &Origin) -> bool {
    is_part(kind) && (namespace.is_empty() || is_part(namespace)) && is_part(name) && rule.as_deref().is_none_or(is_part)
}

fn lower_pool(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    draft.pool.origin = read(lowering, line);
}

pub fn write(line: &mut Writer, origin: &Origin) {
    line.name(ORIGIN.name).argument(&origin.kind).argument(origin.object()).optional("rule", origin.rule.as_ref());
}
