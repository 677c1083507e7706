//! `map "redirects" key="{host}{path}" file="redirects.csv"`: what a key stands for. Files of rows are read where a
//! configuration is put to work.

use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::{self, Text};
use crate::reading::{Read, expect_text};
use crate::table::{Argument, Block, Kind, Place, Property, Repeat, Stage};
use crate::written_line::Writer;
use tidegate_model::{MapSettings, MapSource, Placeholder, Template};
use tidegate_tables::{LineFault, RowFault, TableDraft};

pub static MAP: Directive = Directive {
    name: "map",
    places: &[Place::Top],
    repeat: Repeat::Many,
    arguments: &[Argument::one("name", Kind::Text("a name"), "Small letters, digits, `-` and `_`; what it has is `{map.NAME}`.")],
    properties: &[
        Property::once("key", Kind::Template(Stage::Request), "What is looked up, as in `{host}{path}`."),
        Property::once(
            "file",
            Kind::Path,
            "Rows in a file instead of the block: `key,value` a line, as spreadsheets write it. Watched: a changed file counts at once, and one that is gone or cannot be used not at all.",
        ),
        Property::once("default", Kind::Text("a text"), "What all keys without a row have; nothing when left out."),
        Property::once(
            "ignore-case",
            Kind::Switch,
            "Whether letters from A to Z are the same large and small; `#false` when left out.",
        ),
    ],
    block: Block::Optional(Place::Map),
    summary: "What a key stands for: a table of keys and values, with a million rows where that is wanted.",
    details: "`{map.NAME}` brings the value wherever a text has placeholders: in `redirect`, `rewrite`, `header` and its kind, `respond`, `rate-limit by=`, `split by=`, the `field` of a `log`. \
              `match map=\"NAME\"` holds where there is a row of the key, `match map=\"NAME=pattern\"` where its value fits; `allow map=` and `deny map=` say the same.\n\n\
              Keys of rows: `beta` exactly, `beta*` from the start, `*beta` at the end, `10.0.0.0/8` a network that has the address, `~b.ta` a regular expression anywhere; `\\` in front has the \
              rest mean itself. Where several fit, an exact one is taken, else the smallest network, else the longest start, else the longest end, else the first expression in the order written. \
              In the value of an expression `$1` is what its first group has found, and `$$` a dollar.\n\n\
              In a file, a text with a comma or a quotation mark in it stands in quotation marks, and the mark twice; empty lines and those that begin with `#` mean nothing, and neither \
              does a first line `key,value`. A file counts as a whole or not at all: a key that stands twice is an error that names both lines, and so is each broken line. At a start such a file \
              is an error; while it runs, the rows before stay in use, and the log and `tidegate status` say why.\n\n\
              Single rows are changed while it runs by `tidegate map set`, or `PUT /v1/maps/NAME/rows/KEY`, without a new generation. They stand above those of the file, are kept in the `storage` over \
              reloads, upgrades and restarts, and count on all hosts that share it within seconds, until they are dropped.\n\n\
              A map has at most 2,000,000 rows, a file 256 MiB, a key and a value 8 KiB each; 256 regular expressions, 256 different lengths of starts and as many of ends; 10,000 changed rows.",
    example: "map \"tier\" key=\"{request.header.X-Api-Key}\" default=\"free\" {\n    row \"k-4711\" \"gold\"\n    row \"trial-*\" \"silver\"\n}",
    lower: Lower::Top(lower),
    meant: "its rows stand in the block, as in `map \"tier\" key=\"{host}\" { row \"a.example\" \"gold\"; }`",
    said_otherwise: &[(&["source", "input", "on", "variable"], "what is looked up is `key=`, as in `key=\"{host}\"`")],
    ..Directive::PLAIN
};

pub static ROW: Directive = Directive {
    name: "row",
    places: &[Place::Map],
    repeat: Repeat::Many,
    arguments: &[
        Argument::one("key", Kind::Text("a key"), "Exactly, or with `*` at the end or the start, `~` in front, or a network."),
        Argument::one("value", Kind::Text("a value"), "What the key stands for."),
    ],
    summary: "A key and what it stands for.",
    example: "row \"/old/*\" \"/new\"",
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    if line.written_arguments().first().is_some_and(|word| word.starts_with('$')) {
        let message = "variables of nginx are none here: a map has a name and a key";
        let help = "write `map \"tier\" key=\"{host}\"` with `row` lines in its block, and `{map.tier}` where it is used";
        let _: Option<()> = line.refuse_whole(lowering, message, help.to_owned());
        return;
    }
    let errors_before = lowering.diagnostics.len();
    let name = name(lowering, line);
    let key = key(lowering, line);
    let file = line.text(lowering, "file");
    let default = line.text(lowering, "default").map(|text| text.value);
    let ignores_case = line.switch(lowering, "ignore-case").unwrap_or(false);
    let rows = rows(lowering, line, ignores_case);
    let source = match (file, line.node.children.is_some()) {
        (Some(file), true) => {
            let diagnostic =
                Diagnostic::error("conflicting-rows", file.location, "rows stand in a file or in the block, not in both");
            lowering.refuse(diagnostic.help("move them into the file, or remove `file=`"))
        }
        (Some(file), false) => {
            let path = lowering.path(&file.value, &file.location);
            lowering.spans.files.push((path.clone(), file.location));
            Some(MapSource::File(path))
        }
        (None, true) => Some(MapSource::Listed(rows)),
        (None, false) => {
            let diagnostic = Diagnostic::error("missing-argument", line.location(), "`map` needs rows");
            lowering.refuse(diagnostic.help("for example `file=\"redirects.csv\"`, or a block with `row` lines"))
        }
    };
    let is_faulty = lowering.has_errors_since(errors_before);
    let (Some(name), Some(key), Some(source), false) = (name, key, source, is_faulty) else { return };
    lowering.configuration.maps.push(MapSettings { name, key, default, ignores_case, source });
}

fn name(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<String> {
    let text = line.read_argument(lowering, 0).map(Read::text)?;
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    if text.value.is_empty() || text.value.len() > MapSettings::NAME_BYTES_MAX || !text.value.bytes().all(is_good) {
        let message = format!("a map's name is 1 to {} small letters, digits, `-` and `_`", MapSettings::NAME_BYTES_MAX);
        return lowering.refuse(text.error("bad-name", message).help("for example `map \"redirects\"`"));
    }
    if let Some((_, first)) = lowering.spans.maps.iter().find(|(name, _)| *name == text.value) {
        let first = first.clone();
        let message = format!("there are two maps `{}`", text.shown());
        return lowering.refuse(text.error("duplicate-map", message).label(first, "the first one").help("rename one of them"));
    }
    lowering.spans.maps.push((text.value.clone(), text.location));
    Some(text.value)
}

fn key(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Template> {
    let Some(value) = line.property("key") else {
        let diagnostic = Diagnostic::error("missing-argument", line.location(), "`map` needs `key=`: what is looked up");
        return lowering.refuse(diagnostic.help("for example `key=\"{host}{path}\"`, `key=\"{client.ip}\"`"));
    };
    let at = value.location.clone();
    let key = line.template(lowering, "key")?;
    if key.placeholders().any(|placeholder| matches!(placeholder, Placeholder::Map(_))) {
        let diagnostic = Diagnostic::error("map-of-map", at, "the key of a map cannot be what another map has");
        return lowering.refuse(diagnostic.help("put rows of both into one map"));
    }
    if key.as_literal().is_some() {
        let diagnostic = Diagnostic::error("bad-value", at, "`key=` is the same for every request");
        return lowering.refuse(diagnostic.help("for example `key=\"{host}{path}\"`"));
    }
    Some(key)
}

/// The rows of the block. Faults are reported, each where it stands.
fn rows(lowering: &mut Lowering<'_>, line: &Line<'_>, ignores_case: bool) -> Vec<(String, String)> {
    let mut draft = TableDraft::new(ignores_case);
    let mut rows: Vec<(Text, Text)> = Vec::new();
    for child in line.lines(lowering) {
        let key = child.argument(0).and_then(|value| expect_text(lowering, value, "the key", "a text"));
        let key = key.and_then(|value| placeholders::resolve_pattern(lowering, value));
        let value = child.argument(1).and_then(|value| expect_text(lowering, value, "the value", "a text"));
        let value = value.and_then(|value| placeholders::resolve_text(lowering, value));
        let (Some(key), Some(value)) = (key, value) else { continue };
        match draft.add(rows.len() + 1, &key.value, Some(&value.value)) {
            Ok(()) => {
                lowering.diagnostics.extend(unfilled_group(&key, &value));
                rows.push((key, value));
            }
            Err(fault) => lowering.report(fault_of_row(&fault, &key, &value)),
        }
    }
    for LineFault { line: number, fault } in draft.finish().err().unwrap_or_default() {
        let diagnostic = match (&fault, number.checked_sub(1).and_then(|position| rows.get(position))) {
            (RowFault::Twice { first, .. }, Some((key, _))) => {
                let diagnostic = key.error("duplicate-row", format!("the key `{}` is written twice", shortened(key.shown())));
                match rows.get(first - 1) {
                    Some((first, _)) => diagnostic.label(first.location.clone(), "the first one"),
                    None => diagnostic,
                }
            }
            (_, Some((key, _))) => key.error("bad-row", fault.to_string()),
            (_, None) => Diagnostic::error("bad-row", line.location(), fault.to_string()),
        };
        lowering.report(diagnostic.help(fault.help()));
    }
    rows.into_iter().map(|(key, value)| (key.value, value.value)).collect()
}

/// `$1` stands for itself where no expression has found anything, which nobody means who writes it.
fn unfilled_group(key: &Text, value: &Text) -> Option<Diagnostic> {
    let is_group = |pair: &[u8]| pair[0] == b'$' && pair[1].is_ascii_digit();
    let is_meant = !key.value.starts_with('~') && value.value.as_bytes().windows(2).any(is_group);
    let message = "`$` and a number are no group here: the key is no regular expression";
    let help = "begin the key with `~`, as in `row \"~^/old/(.*)\" \"/new/$1\"`; or leave the `$` out";
    is_meant.then(|| Diagnostic::warning("bad-row", value.location.clone(), message).help(help))
}

fn fault_of_row(fault: &RowFault, key: &Text, value: &Text) -> Diagnostic {
    let of_value = matches!(fault, RowFault::ValueTooLong | RowFault::NoGroup { .. } | RowFault::Dollar);
    let at = if of_value { value } else { key };
    at.error("bad-row", fault.to_string()).help(fault.help())
}

/// How a text names a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapUse {
    pub name: String,
    /// Before a step has run: then its key may only have what is known by then.
    pub is_condition: bool,
}

/// Names that lead nowhere, keys that are not known where they are asked for, and maps that nothing uses.
pub fn check_uses(lowering: &mut Lowering<'_>) {
    let mut found = Vec::new();
    for (used, at) in &lowering.spans.maps_used {
        if !lowering.spans.maps.iter().any(|(name, _)| *name == used.name) {
            found.push(unknown_map(&used.name, at.clone(), &lowering.spans.maps));
            continue;
        }
        let map = lowering.configuration.maps.iter().find(|map| map.name == used.name);
        if let Some(unknown) = map.filter(|_| used.is_condition).and_then(MapSettings::unknown_to_conditions) {
            let message = format!("the key of `{}` has `{unknown}`, which is not known when conditions are looked at", used.name);
            let help = "use another key, or `{map.NAME}` in a step";
            found.push(Diagnostic::error("too-early", at.clone(), message).help(help));
        }
    }
    for (name, at) in &lowering.spans.maps {
        if !lowering.spans.maps_used.iter().any(|(used, _)| used.name == *name) {
            let diagnostic = Diagnostic::warning("unused-map", at.clone(), "nothing uses this map");
            found.push(diagnostic.help(format!("use `{{map.{name}}}` or `match map=\"{name}\"`, or remove it")));
        }
    }
    lowering.diagnostics.extend(found);
}

fn unknown_map(name: &str, at: Location, maps: &[(String, Location)]) -> Diagnostic {
    let diagnostic = Diagnostic::error("unknown-map", at, format!("there is no map `{}`", shortened(name)));
    match crate::diagnostics::nearest(name, maps.iter().map(|(known, _)| known.as_str())) {
        Some(known) => diagnostic.help(format!("did you mean `{known}`?")),
        None => diagnostic
            .help(format!("write one at the top level, as in `map \"{}\" key=\"{{path}}\" file=\"rows.csv\"`", shortened(name))),
    }
}

pub fn write(line: &mut Writer, map: &MapSettings) {
    let MapSettings { name, key, default, ignores_case, source } = map;
    line.repeated("map").argument(name).property("key", key);
    let listed: &[_] = match source {
        MapSource::File(path) => {
            line.property("file", path.display());
            &[]
        }
        MapSource::Listed(rows) => rows,
    };
    line.optional("default", default.as_deref().map(doubled)).switch_unless(false, "ignore-case", *ignores_case);
    line.block(listed, |line, (key, value)| {
        let key = if key.contains('~') { key.clone() } else { doubled(key) };
        line.name("row").argument(key).argument(doubled(value));
    });
}

/// Braces as a text has them that may have `{env.X}` in it.
fn doubled(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}
