//! Secrets: never shown, kept when they are given back as they were shown.

use super::*;
use crate::diagnostics::{SourceFile, Sources};
use crate::language::{Directive, Lower};
use crate::syntax::{self, Node};
use crate::table::{Argument, Kind, Property};

static DOOR: Directive = Directive {
    name: "door",
    places: &[Place::Top],
    arguments: &[Argument::one("address", Kind::Text("an address"), "")],
    properties: &[Property::once("token", Kind::Secret("a token"), "")],
    lower: Lower::Reading,
    ..Directive::PLAIN
};

fn parse(text: &str) -> (Sources, Node) {
    let mut sources = Sources::default();
    let file = sources.add(SourceFile { name: "t".into(), text: text.into(), directory: PathBuf::new() });
    let node = syntax::parse(&sources, file).expect("KDL").remove(0);
    (sources, node)
}

#[test]
fn secrets_are_not_shown() {
    let check = |text: &str, expected: Value| assert_eq!(json::values(&DOOR, &parse(text).1), [expected], "for {text}");
    check("door \"a\" token=\"hunter2\"", serde_json::json!({ "address": "a", "token": "***" }));
    check("door \"a\" token=\"x{env.TOKEN}\"", serde_json::json!({ "address": "a", "token": "***" }));
    check("door \"a\" token=\"{env.TOKEN}\"", serde_json::json!({ "address": "a", "token": "{env.TOKEN}" }));
    check("door \"a\"", serde_json::json!({ "address": "a" }));
}

#[test]
fn a_secret_that_is_given_back_as_it_was_shown_stays() {
    let check = |text: &str, value: Value, expected: Option<&str>| {
        let (sources, old) = parse(text);
        let mut new = nodes::node(&DOOR, &value).expect("a door");
        sync::adopt_secrets(&DOOR, &old, &mut new);
        if sync::lacks_secret(&DOOR, &new) {
            assert_eq!(None, expected, "for {value}");
            return;
        }
        let changes = sync::node(&sources, &DOOR, &old, &new);
        let mut changed = text.to_string();
        for one in changes.replacements.iter().rev() {
            changed.replace_range(one.span.clone(), &one.text);
        }
        assert_eq!(Some(changed.as_str()), expected, "for {value}");
    };
    let text = "door \"a\" token=\"hunter2\"";
    check(text, serde_json::json!({ "address": "b", "token": "***" }), Some("door \"b\" token=\"hunter2\""));
    check(text, serde_json::json!({ "address": "a", "token": "hunter3" }), Some("door \"a\" token=\"hunter3\""));
    check(text, serde_json::json!({ "address": "a" }), Some("door \"a\""));
    check("door \"a\"", serde_json::json!({ "address": "a", "token": "***" }), None);
}
