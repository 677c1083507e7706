//! What holds for every configuration as JSON: it is valid by the schema, and becomes text that means the same. And for
//! every edit: the text afterwards is what the edit asks for, everything around the node is untouched, and comments
//! stay where their lines do.

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tidegate_config::{
    Edit, EditFault, Environment, List, Loaded, Target, apply_edits, format_text, load_with, render, schema, to_json, to_kdl,
};

fn load(text: &str) -> Loaded {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics");
    let variables = [("PORT", "9000"), ("HOST", "shop.localhost"), ("PASSWORD", "s3cret")];
    let variables = variables.map(|(name, value)| (name.to_string(), value.to_string()));
    load_with("test.kdl", text, &directory, &Environment::Given(variables.into()))
}

/// Every case and example that is free of errors.
fn corpus() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    for directory in [root.join("tests/diagnostics"), root.join("../../examples")] {
        let mut paths: Vec<_> = fs::read_dir(directory).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "kdl"));
        texts.extend(paths.iter().map(|path| fs::read_to_string(path).expect("a text")));
    }
    texts.retain(|text| load(text).configuration.is_some());
    assert!(texts.len() > 10, "there are only {} configurations", texts.len());
    texts
}

#[test]
fn a_configuration_as_json_is_valid_by_the_schema_and_becomes_the_same_text_again() {
    let schema = schema();
    for text in corpus() {
        let document = to_json(&load(&text));
        if let Err(fault) = validate(&schema, &schema, &document) {
            panic!("{fault} in {document:#} of\n{text}");
        }
        let written = to_kdl(&with_secrets(&document, PASSWORD_HASH)).unwrap_or_else(|errors| panic!("{errors:?} for\n{text}"));
        let loaded = load(&written);
        assert!(loaded.configuration.is_some(), "{}", render(&loaded.diagnostics, &loaded.files, false));
        assert_eq!(to_json(&loaded), document, "for\n{text}");
        assert_eq!(format_text("test.kdl", &written).expect("KDL"), written, "the text is in canonical layout");
    }
}

/// Something that every kind of secret may be, but for the hashes of keys.
const PASSWORD_HASH: &str = "$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
/// The hash of the first key of an `api-key`; those behind it have others.
const KEY_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Secrets are not shown, so whoever makes a configuration of JSON has to say them.
fn with_secrets(document: &Value, secret: &str) -> Value {
    match document {
        Value::String(text) if text == "***" => secret.into(),
        Value::Array(list) => {
            let of_part = |(position, part): (usize, &Value)| {
                let other = format!("{position:064x}");
                with_secrets(part, if secret.len() == KEY_HASH.len() { &other } else { secret })
            };
            list.iter().enumerate().map(of_part).collect()
        }
        Value::Object(members) => {
            let of_member = |(name, member): (&String, &Value)| {
                let secret = if name == "api-key" { KEY_HASH } else { secret };
                (name.clone(), with_secrets(member, secret))
            };
            members.iter().map(of_member).collect()
        }
        other => other.clone(),
    }
}

/// The part of JSON Schema that ours uses.
fn validate(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let fault = |what: &str| Err(format!("{what}: {value} is not {schema}"));
    for (keyword, rule) in schema.as_object().expect("a schema") {
        match keyword.as_str() {
            "$ref" => {
                let target = root.pointer(&rule.as_str().expect("a pointer")[1..]).expect("a definition");
                validate(root, target, value)?;
            }
            "type" => {
                let is = |name: &Value| match name.as_str().expect("a type") {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "integer" => value.is_u64() || value.is_i64(),
                    "boolean" => value.is_boolean(),
                    other => panic!("the type {other} is not known"),
                };
                if !rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is)) {
                    return fault("type");
                }
            }
            "properties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    match rule.get(name) {
                        Some(rule) => validate(root, rule, member)?,
                        None if schema["additionalProperties"] == json!(false) => return fault(&format!("the member {name}")),
                        None => {}
                    }
                }
            }
            "required" => {
                for name in rule.as_array().expect("a list") {
                    if value.is_object() && value.get(name.as_str().expect("a name")).is_none() {
                        return fault(&format!("without {name}"));
                    }
                }
            }
            "items" => value.as_array().into_iter().flatten().try_for_each(|item| validate(root, rule, item))?,
            "minItems" if value.as_array().is_some_and(|list| (list.len() as u64) < rule.as_u64().expect("a count")) => {
                return fault("too short");
            }
            "minLength" if value.as_str().is_some_and(str::is_empty) => return fault("empty"),
            "minimum" if value.as_u64().is_some_and(|number| number < rule.as_u64().expect("a number")) => return fault("small"),
            "maximum" if value.as_u64().is_some_and(|number| number > rule.as_u64().expect("a number")) => return fault("large"),
            "enum" if !rule.as_array().expect("a list").contains(value) => return fault("another word"),
            "const" if rule != value => return fault("another value"),
            "pattern" => {
                let regex = regex::Regex::new(rule.as_str().expect("a pattern")).expect("a regular expression");
                if value.as_str().is_some_and(|text| !regex.is_match(text)) {
                    return fault("pattern");
                }
            }
            "anyOf" | "oneOf" => {
                let rules = rule.as_array().expect("a list");
                let fits = rules.iter().filter(|rule| validate(root, rule, value).is_ok()).count();
                if fits == 0 || (keyword == "oneOf" && fits > 1) {
                    return fault(&format!("{fits} of {keyword}"));
                }
            }
            "minItems"
            | "minLength"
            | "minimum"
            | "maximum"
            | "enum"
            | "const"
            | "additionalProperties"
            | "description"
            | "$comment"
            | "$schema"
            | "$defs"
            | "title" => {}
            other => panic!("the keyword {other} is not known"),
        }
    }
    Ok(())
}

/// A line of a site or a pool, and the comments inside of it.
#[derive(Debug, Clone)]
struct Chunk {
    text: String,
    comments: Vec<String>,
}

/// Random decisions, which come to an end.
struct Dice<'d> {
    bytes: std::slice::Iter<'d, u8>,
    comments: usize,
}

impl Dice<'_> {
    fn roll(&mut self, sides: usize) -> usize {
        self.bytes.next().map_or(0, |byte| *byte as usize % sides)
    }

    fn comment(&mut self) -> String {
        self.comments += 1;
        format!("// comment-{}-", self.comments)
    }

    fn step(&mut self, number: usize) -> Chunk {
        let (inside, behind) = (self.comment(), self.comment());
        let chunk =
            |text: String, comments: &[&String]| Chunk { text, comments: comments.iter().map(|one| (*one).clone()).collect() };
        match self.roll(9) {
            0 => chunk(format!("header \"X-{number}\" \"a\" {behind}"), &[]),
            1 => chunk(format!("request-header /* x */ set=\"A: {number}\" add=#\"B: \"q\"\"#"), &[]),
            2 => chunk(format!("body-limit \"{}MB\"", number + 1), &[]),
            3 => chunk(format!("header remove=\"A\" set=\"B: {number}\" {behind}"), &[]),
            4 => chunk(format!("route \"/{number}\" {{ respond 410; }} {behind}"), &[]),
            5 => chunk(
                format!(
                    "route \"/{number}/*\" \\\n        \"/other/{number}\" {{ {behind}\n        {inside}\n        match method=\"GET\" not path=\"/x\"; header \"A\" \"1\"\n\n        proxy \"127.0.0.1:{{env.PORT}}\" {{\n            balance \"random\"\n        }}\n    }}"
                ),
                &[&inside, &behind],
            ),
            6 => chunk(
                format!(
                    "route {{\n        {inside}\n        match path=\"/m{number}\"; respond 204 body=\"\"\"\n            x {number}\n            \"\"\"\n    }} {behind}"
                ),
                &[&inside],
            ),
            7 => chunk(format!("add-prefix \"/{number}\"; strip-prefix \"/p\""), &[]),
            _ => chunk(format!("/- header \"off\" \"off\"\n    rewrite \"/{number}{{path}}\""), &[]),
        }
    }

    fn block(&mut self, head: &str, is_site: bool) -> Block {
        let count = 1 + self.roll(5);
        let one = |dice: &mut Self, number| if is_site { dice.step(number) } else { dice.member(number) };
        let chunks = (0..count).map(|number| (self.comment(), one(self, number))).collect();
        Block { head: head.to_string(), chunks, is_on_one_line: self.roll(4) == 0 }
    }

    fn member(&mut self, number: usize) -> Chunk {
        let behind = self.comment();
        let text = match self.roll(3) {
            0 => format!("server \"10.0.0.{number}:80\" weight={} {behind}", number + 1),
            1 => format!("server \"10.0.0.{number}:80\""),
            _ => format!("server \"10.0.0.{number}:80\" backup=#false; server \"10.0.1.{number}:80\""),
        };
        Chunk { text, comments: Vec::new() }
    }
}

/// A node of the top level, its chunks apart.
struct Block {
    head: String,
    /// The comment line in front of each chunk, which belongs to none.
    chunks: Vec<(String, Chunk)>,
    is_on_one_line: bool,
}

impl Block {
    fn text(&self) -> String {
        let mut out = format!("{} {{\n", self.head);
        for (comment, chunk) in &self.chunks {
            write!(out, "    {comment}\n    {}\n", chunk.text).expect("a text");
        }
        let is_simple = |chunk: &Chunk| !chunk.text.contains("//") && !chunk.text.contains('\n');
        if self.is_on_one_line && self.chunks.iter().all(|(_, chunk)| is_simple(chunk)) {
            let chunks: Vec<&str> = self.chunks.iter().map(|(_, chunk)| chunk.text.as_str()).collect();
            return format!("{} {{ {} }}", self.head, chunks.join("; "));
        }
        out.push('}');
        out
    }
}

/// A list with one element gone, changed or put in, and which those are.
fn changed(list: &[Value], new: Value, dice: &mut Dice<'_>) -> Vec<Value> {
    let mut list = list.to_vec();
    let at = dice.roll(list.len() + 1);
    match dice.roll(4) {
        0 if at < list.len() => drop(list.remove(at)),
        1 if at < list.len() => list[at] = new,
        2 if at + 1 < list.len() => list.swap(at, at + 1),
        _ => list.insert(at, new),
    }
    list
}

/// A configuration of two sites and a pool, and an edit of the one in the middle.
fn check_edit(bytes: &[u8]) {
    let mut dice = Dice { bytes: bytes.iter(), comments: 0 };
    let first = dice.block("site \"http://first.localhost\"", true);
    let is_site = dice.roll(2) == 0;
    let middle =
        if is_site { dice.block("site \"http://middle.localhost\" /* x */", true) } else { dice.block("pool \"middle\"", false) };
    let before = format!("// first\n{}\n// before\n", first.text());
    let after = "\n// behind\ndrain \"5s\"\n";
    let text = format!("{before}{}{after}", middle.text());
    let document = to_json(&load(&text));
    let (member, list, target) = if is_site {
        ("site", "steps", Target::Site { address: "middle.localhost:80".into() })
    } else {
        ("pool", "server", Target::Pool { name: "middle".into() })
    };
    let position = usize::from(is_site);
    let old = document[member][position][list].as_array().expect("a list").clone();
    let new_steps = [
        json!({ "header": { "name": "New", "value": "n" } }),
        json!({ "route": { "patterns": ["/new"], "steps": [{ "respond": {} }] } }),
    ];
    let new_server = json!({ "address": "10.9.9.9:80", "weight": 9 });
    let new = if is_site { new_steps[dice.roll(2)].clone() } else { new_server };
    let wanted = changed(&old, new, &mut dice);
    let edits = [Edit::Patch(target, json!({ list: wanted }))];
    let mut expected = document.clone();
    expected[member][position][list] = wanted.clone().into();
    let files = apply_edits(&load(&text), &edits).unwrap_or_else(|errors| panic!("{errors:?} for {edits:?} of\n{text}"));
    let seen = files.first().map_or(text.as_str(), |file| &*file.text);
    let mut now = to_json(&load(seen));
    if wanted.is_empty() && !is_site {
        expected[member][position].as_object_mut().expect("a pool").remove("server");
        now[member][position].as_object_mut().expect("a pool").remove("server");
    }
    assert_eq!(now, expected, "{edits:?} made\n{text}\ninto\n{seen}");
    assert!(seen.starts_with(&before) && seen.ends_with(after), "{edits:?} made\n{text}\ninto\n{seen}");
    let is_folded = !middle.text().contains('\n');
    for (comment, chunk) in &middle.chunks {
        assert!(is_folded || seen.contains(comment), "{comment} is lost: {edits:?} made\n{text}\ninto\n{seen}");
        let value = to_json(&load(&format!("site \"http://a.localhost\" {{\n{}\n}}", chunk.text)));
        let stays = value["site"][0]["steps"]
            .as_array()
            .is_some_and(|steps| steps.iter().all(|step| count(step, &wanted) >= count(step, &old)));
        let is_swap = wanted.len() == old.len() && wanted.iter().all(|one| old.contains(one));
        for inside in chunk.comments.iter().filter(|_| stays && !is_swap) {
            assert!(seen.contains(inside), "{inside} is lost: {edits:?} made\n{text}\ninto\n{seen}");
        }
    }
}

fn count(one: &Value, list: &[Value]) -> usize {
    list.iter().filter(|other| *other == one).count()
}

#[test]
fn a_changed_list_is_what_was_asked_for_and_comments_stay() {
    bolero::check!().with_type::<Vec<u8>>().for_each(|bytes: &Vec<u8>| check_edit(bytes));
}

/// Any configuration, and any of its objects changed somewhere.
fn check_corpus_edit(corpus: &[String], bytes: &[u8]) {
    let mut dice = Dice { bytes: bytes.iter(), comments: 0 };
    let text = &corpus[dice.roll(corpus.len())];
    let loaded = load(text);
    let document = to_json(&loaded);
    let targets = targets(&document);
    if targets.is_empty() {
        return;
    }
    let (target, pointer) = &targets[dice.roll(targets.len())];
    let mut value = document.pointer(pointer).expect("the target").clone();
    let mut expected = document.clone();
    let edit = if dice.roll(4) == 0 {
        remove(&mut expected, pointer);
        Edit::Remove(target.clone())
    } else {
        mutate(&mut value, &mut dice);
        // What the value leaves out, the target says.
        let identity = match target {
            Target::Pool { name } | Target::Map { name } => Some(("name", name)),
            Target::Server { address, .. }
            | Target::Listener { address }
            | Target::Tcp { address }
            | Target::Admin { address } => Some(("address", address)),
            Target::AccessLog { target } => Some(("target", target)),
            Target::Site { .. } | Target::Route { .. } | Target::Top { .. } => None,
        };
        if let (Some((member, name)), Value::Object(members)) = (identity, &mut value) {
            members.entry(member).or_insert_with(|| name.clone().into());
        }
        *expected.pointer_mut(pointer).expect("the target") = value.clone();
        Edit::Put(target.clone(), value)
    };
    match apply_edits(&loaded, std::slice::from_ref(&edit)) {
        Ok(files) => {
            assert!(files.len() <= 1);
            let seen = files.first().map_or(text.as_str(), |file| &*file.text);
            let in_other_file = files.first().is_some_and(|file| file.path != Path::new("test.kdl"));
            if !in_other_file {
                assert_eq!(
                    without_empty_lists(to_json(&load(seen))),
                    without_empty_lists(expected),
                    "{edit:?} made\n{text}\ninto\n{seen}"
                );
            }
        }
        Err(errors) => {
            let is_fault_of_value = errors.iter().all(|error| matches!(error.fault, EditFault::Invalid | EditFault::Taken));
            assert!(is_fault_of_value || text.contains("include"), "{errors:?} for {edit:?} of\n{text}");
        }
    }
}

/// Every object that can be named, and where it is.
fn targets(document: &Value) -> Vec<(Target, String)> {
    let mut targets = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    for (name, member) in document.as_object().expect("an object") {
        for (index, one) in member.as_array().into_iter().flatten().enumerate() {
            let at = format!("/{name}/{index}");
            match name.as_str() {
                "site" => {
                    let address = text(&one["addresses"][0]);
                    targets.push((Target::Site { address: address.clone() }, at.clone()));
                    let steps = one["steps"].as_array().into_iter().flatten().enumerate();
                    for (route, (step, _)) in steps.filter(|(_, step)| step.get("route").is_some()).enumerate() {
                        targets.push((Target::Route { site: address.clone(), index: route }, format!("{at}/steps/{step}/route")));
                    }
                }
                "pool" => {
                    targets.push((Target::Pool { name: text(&one["name"]) }, at.clone()));
                    for (server, value) in one["server"].as_array().into_iter().flatten().enumerate() {
                        let target = Target::Server { pool: text(&one["name"]), address: text(&value["address"]) };
                        targets.push((target, format!("{at}/server/{server}")));
                    }
                }
                "tcp" => targets.push((Target::Tcp { address: text(&one["address"]) }, at)),
                "admin" => targets.push((Target::Admin { address: text(&one["address"]) }, at)),
                "access-log" => targets.push((Target::AccessLog { target: text(&one["target"]) }, at)),
                "listener" => targets.push((Target::Listener { address: text(&one["address"]) }, at)),
                "map" => targets.push((Target::Map { name: text(&one["name"]) }, at)),
                other => panic!("a list that nothing targets: {other}"),
            }
        }
        if !member.is_array() {
            targets.push((Target::Top { directive: name.clone() }, format!("/{name}")));
        }
    }
    targets
}

fn remove(document: &mut Value, pointer: &str) {
    let (parent, token) = pointer.rsplit_once('/').expect("a pointer");
    // A route is a step with one member: the step goes.
    if token == "route" {
        return remove(document, parent);
    }
    match document.pointer_mut(parent).expect("the parent") {
        Value::Array(list) => drop(list.remove(token.parse().expect("an index"))),
        Value::Object(members) => drop(members.remove(token)),
        other => panic!("{other} holds nothing"),
    }
}

/// Takes something out of it, doubles it or changes it, somewhere inside.
fn mutate(value: &mut Value, dice: &mut Dice<'_>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let name = members.keys().nth(dice.roll(members.len())).expect("a member").clone();
            if dice.roll(4) == 0 {
                members.remove(&name);
            } else {
                mutate(&mut members[&name], dice);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            let index = dice.roll(list.len());
            match dice.roll(4) {
                0 => drop(list.remove(index)),
                1 => list.insert(dice.roll(index + 1), list[index].clone()),
                _ => mutate(&mut list[index], dice),
            }
        }
        Value::Number(_) => *value = json!(1 + dice.roll(9)),
        Value::String(text) if text.starts_with('/') => text.push('x'),
        Value::Bool(switch) => *switch = !*switch,
        _ => {}
    }
}

/// No servers and an empty list of servers are the same text.
fn without_empty_lists(mut value: Value) -> Value {
    fn clean(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.values_mut().for_each(clean);
                members.retain(|name, member| name == "steps" || member.as_array().is_none_or(|list| !list.is_empty()));
                members
                    .retain(|name, member| name != "not" || member.as_object().is_none_or(|conditions| !conditions.is_empty()));
            }
            Value::Array(list) => list.iter_mut().for_each(clean),
            _ => {}
        }
    }
    clean(&mut value);
    value
}

#[test]
fn any_object_of_any_configuration_can_be_changed() {
    let corpus = corpus();
    bolero::check!().with_type::<Vec<u8>>().for_each(|bytes: &Vec<u8>| check_corpus_edit(&corpus, bytes));
}

#[test]
fn a_configuration_can_be_made_from_nothing() {
    for text in corpus() {
        let document = to_json(&load(&text));
        let mut edits = Vec::new();
        for (name, member) in with_secrets(&document, PASSWORD_HASH).as_object().expect("an object") {
            let list = match name.as_str() {
                "site" => List::Sites,
                "pool" => List::Pools,
                "listener" => List::Listeners,
                "tcp" => List::Tcp,
                "map" => List::Maps,
                "admin" => List::Admin,
                "access-log" => List::AccessLogs,
                _ => {
                    edits.push(Edit::Put(Target::Top { directive: name.clone() }, member.clone()));
                    continue;
                }
            };
            edits.extend(member.as_array().expect("a list").iter().map(|one| Edit::Append(list.clone(), one.clone())));
        }
        let files = apply_edits(&load(""), &edits).unwrap_or_else(|errors| panic!("{errors:?} for\n{text}"));
        let seen = files.first().map_or("", |file| &file.text);
        assert_eq!(to_json(&load(seen)), document, "for\n{text}\nmade\n{seen}");
        assert_eq!(format_text("test.kdl", seen).expect("KDL"), seen, "the text is in canonical layout");
    }
}
