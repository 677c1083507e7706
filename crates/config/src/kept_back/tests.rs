//! Every value of every line of the language, filled in with something that its reader may refuse: nothing of that
//! is in what is said about it. The lines are made from the examples of the directive table, so a new directive and a
//! new property are among them as soon as they are there.

use crate::diagnostics::render;
use crate::directives::LANGUAGE;
use crate::directives::tests::surrounded;
use crate::language::Directive;
use crate::load::load_with;
use crate::lowering::Environment;
use crate::syntax::{Literal, Node};
use crate::table::{Place, Repeat};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use tidegate_kdl::FileId;
use tidegate_parallel::in_parallel;

/// No word of any message has four of these letters in a row.
const MARKERS: [&str; 2] = ["QzvKwxJrmy", "xWqpZkvTjb"];
/// The least part of a value, in characters, that helps who looks for it.
const FRAGMENT_CHARS: usize = 6;
/// Forms that one reader or another stumbles over; `1` and `2` stand for the markers.
const FORMS: &[&str] = &[
    "1",
    "1,2 2",
    "/1/2#1",
    "/1/../2?1",
    "1.2.test/",
    "*1*2",
    "~(1[2",
    "1: 2",
    "1:2\u{1}",
    "1=*2*1",
    "=1",
    ":1",
    "1:99999",
    "[1]:80",
    "10.0.0.1:80/1",
    "10.0.0.1/1",
    "https://1:443/2",
    "https://1.test/",
    "http://1:2@a.test/",
    "unix:1",
    "%511",
    "é1.2",
    "1\n2",
    "200-1",
    "5s1",
    "CN=1",
    "$2y$1",
    "{1}",
];

/// The surroundings of a line with a value in the place of another, or with one more.
struct Change {
    at: Range<usize>,
    written: String,
}

fn changes(text: &str, directive: &Directive, nodes: &[Node], changes: &mut Vec<Change>) {
    const FILLED: &str = "\"{env.VALUE}\"";
    for node in nodes {
        for entry in &node.entries {
            if matches!(entry.value.literal, Literal::Text(_) | Literal::Integer(_) | Literal::Switch(_)) {
                changes.push(Change { at: entry.value.location.span.clone(), written: FILLED.to_owned() });
                // A part of a text that fits but for this.
                if let Literal::Text(text) = &entry.value.literal
                    && !text.contains(['"', '\\', '{'])
                {
                    changes.push(Change { at: entry.value.location.span.clone(), written: format!("\"{{env.VALUE}}{text}\"") });
                }
            }
        }
        if node.name.text == directive.name {
            let end = node.location.span.end;
            let given: BTreeSet<&str> =
                node.entries.iter().filter_map(|entry| Some(entry.name.as_ref()?.text.as_str())).collect();
            for property in directive.properties {
                if property.repeat == Repeat::Many || !given.contains(property.name) {
                    changes.push(Change { at: end..end, written: format!(" {}={FILLED}", property.name) });
                }
            }
            changes.push(Change { at: end..end, written: format!(" {FILLED}") });
            changes.push(Change { at: end..end, written: format!(" {FILLED} unknown={FILLED}") });
            // The name with one argument, which may be fewer than it takes.
            let name_end = node.name.location.span.end;
            changes.push(Change { at: name_end..end, written: format!(" {FILLED}") });
            if text[end..].starts_with('{') || text[end..].starts_with(" {") {
                changes.push(Change { at: end..end, written: " \"off\"".to_owned() });
            }
        }
        self::changes(text, directive, node.children.as_deref().unwrap_or_default(), changes);
    }
}

/// What of the markers stands in a text, however it is spelt.
fn given_away(shown: &str) -> Option<String> {
    let lower = shown.to_lowercase();
    let decoded = percent_decoded(&lower);
    let fragments = MARKERS.iter().flat_map(|marker| {
        let marker = marker.to_lowercase();
        (0..=marker.len() - FRAGMENT_CHARS).map(move |start| marker[start..start + FRAGMENT_CHARS].to_owned())
    });
    fragments
        .chain(MARKERS.iter().map(|marker| base64(marker).to_lowercase()))
        .find(|one| lower.contains(one) || decoded.contains(one))
}

fn percent_decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let byte = behind.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => (out.push(byte), rest = &behind[2..]).1,
            None => (out.push(*first), rest = behind).1,
        }
    }
    String::from_utf8_lossy(&out).to_lowercase()
}

/// Of whole groups of three bytes.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |bytes: &[u8]| {
        let bits = bytes.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[bits >> shift & 63]))
    };
    text.as_bytes().chunks_exact(3).flat_map(group).collect()
}

#[test]
fn nothing_of_a_value_that_was_filled_in_is_said_when_it_is_refused() {
    let lines: Vec<(&Directive, Place)> =
        LANGUAGE.directives.iter().flat_map(|directive| directive.places.iter().map(move |place| (*directive, *place))).collect();
    let outcomes = in_parallel(&lines, |(directive, place)| outcome(directive, *place));
    let refused: usize = outcomes.iter().map(|outcome| outcome.refused).sum();
    let said: BTreeSet<String> = outcomes.into_iter().flat_map(|outcome| outcome.said).collect();
    assert!(refused > 10_000, "{refused}");
    assert!(said.is_empty(), "{} of {refused}:\n{}", said.len(), said.into_iter().collect::<Vec<_>>().join("\n"));
}

/// What came of all values in a line of that directive.
struct Outcome {
    refused: usize,
    said: Vec<String>,
}

fn outcome(directive: &Directive, place: Place) -> Outcome {
    let text = surrounded(directive, place);
    let nodes = tidegate_kdl::parse(&text, FileId(0)).expect("an example is KDL");
    let mut all = Vec::new();
    changes(&text, directive, &nodes, &mut all);
    let mut outcome = Outcome { refused: 0, said: Vec::new() };
    for (Change { at, written }, form) in all.iter().flat_map(|change| FORMS.iter().map(move |form| (change, form))) {
        let mut changed = text.clone();
        changed.replace_range(at.clone(), written);
        let value = form.replace('1', MARKERS[0]).replace('2', MARKERS[1]);
        let environment = Environment::Given([("VALUE".to_owned(), value)].into());
        let loaded = load_with("example", &changed, Path::new("/nonexistent"), &environment);
        outcome.refused += usize::from(loaded.has_errors());
        for diagnostic in &loaded.diagnostics {
            let shown = render(std::slice::from_ref(diagnostic), &loaded.files, false);
            if let Some(fragment) = given_away(&shown) {
                let line = shown.lines().find(|line| given_away(line).is_some()).unwrap_or(&shown);
                outcome.said.push(format!("{} {}: {fragment} of {form:?} in {line}", directive.name, diagnostic.code));
            }
        }
    }
    outcome
}
