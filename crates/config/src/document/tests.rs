//! Secrets: never shown, kept when they are given back as they were shown. And what an edit of one among many reads.

use super::*;
use crate::diagnostics::{FileId, SourceFile, Sources};
use crate::language::{Directive, Lower};
use crate::load::{Texts, load_instead};
use crate::patch::LoadMemory;
use crate::pieces::TopNode;
use crate::syntax::{self, Node};
use crate::table::{Argument, Kind, Property};
use std::collections::BTreeMap;
use std::path::Path;

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

#[test]
fn an_edit_of_one_pool_parses_and_lowers_that_pool_alone() {
    const MANY: usize = 300;
    let one = |number: usize| {
        format!(
            "site \"http://s{number}.example\" {{\n    proxy \"p{number}\"\n}}\npool \"p{number}\" {{\n    server \"10.0.0.1:80\"\n}}\n"
        )
    };
    let text = (0..MANY).map(one).collect::<Vec<_>>().concat();
    let (mut memory, texts) = (LoadMemory::default(), Texts { by_path: BTreeMap::default(), is_complete: true });
    let mut load = |text: &Arc<str>| {
        let loaded = load_instead("t", text.clone(), Path::new("/"), &texts, &mut memory);
        (loaded, Arc::clone(&memory.last.as_ref().expect("it had no error").pools_written))
    };
    let (before, pools_before) = load(&text.into());
    let target = Target::Server { pool: "p7".into(), address: "10.0.0.1:80".into() };
    let changed = apply_edits(&before, &[Edit::Patch(target, serde_json::json!({ "weight": 2 }))]).expect("an edit");
    let (now, pools_now) = load(&changed[0].text);
    assert!(Arc::ptr_eq(&pools_before, &pools_now), "the whole was not gone through again");
    let is_other = |(now, before): &(&TopNode, &TopNode)| !Arc::ptr_eq(&now.remembered, &before.remembered);
    let nodes = now.written.nodes.iter().zip(before.written.nodes.iter());
    assert_eq!((now.written.nodes.len(), nodes.filter(is_other).count()), (2 * MANY, 1));
    assert!(Arc::ptr_eq(&now.files.file(FileId(0)).text, &changed[0].text), "nobody copied the text");
    assert_eq!(now.spans.servers.count_beside(&before.spans.servers), (MANY, 1));
    let pools = |loaded: &Loaded| loaded.configuration.clone().expect("no error").pools;
    let others = pools(&now).iter().zip(&pools(&before)).filter(|(now, before)| !Arc::ptr_eq(now, before)).count();
    assert_eq!(others, 1);
}
