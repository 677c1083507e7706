//! What is JSON and what is not, beside serde_json.

use super::{DEPTH_MAX, JsonFault, MEMBERS_MAX, Value};

fn fault_of(text: &str) -> Option<JsonFault> {
    Value::parse(text.as_bytes()).err()
}

#[test]
fn what_is_taken_and_what_is_not() {
    let good = [
        "null",
        " true ",
        "false",
        "0",
        "-0",
        "1.5e-3",
        "1E9",
        "\"\"",
        "\"a\\u00e4\\ud83d\\ude00\\n\\/\"",
        "[]",
        "{}",
        "[1, [2], {\"a\": 3}]",
        "{\"a\":1,\"b\":{\"a\":2}}",
        "\r\n\t {\"a\" : [ ] } ",
    ];
    for text in good {
        assert_eq!(fault_of(text), None, "{text}");
    }
    let malformed = [
        "",
        " ",
        "nul",
        "nulll",
        "tru",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "-",
        "--1",
        "0x10",
        "1a",
        "NaN",
        "\"",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"a\nb\"",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "1 2",
        "{} {}",
        "[]]",
        "'a'",
        "[1}",
        "\u{feff}{}",
        "/* */1",
        "{}\0",
    ];
    for text in malformed {
        assert_eq!(fault_of(text), Some(JsonFault::Malformed), "{text:?}");
        assert!(serde_json::from_str::<serde_json::Value>(text).is_err(), "{text:?}");
    }
    assert_eq!(Value::parse(b"\"\xff\"").err(), Some(JsonFault::NotText));
    assert_eq!(Value::parse_object(b"[]").err(), Some(JsonFault::NotAnObject));
}

#[test]
fn a_name_stands_once_however_it_is_spelled() {
    let check = |text: &str, expected: Option<JsonFault>| assert_eq!(fault_of(text), expected, "{text}");
    let twice = Some(JsonFault::DuplicateMember);
    check(r#"{"a":1,"a":1}"#, twice);
    check(r#"{"a":1,"\u0061":2}"#, twice);
    check(r#"{"\u0061":1,"a":2}"#, twice);
    check(r#"{"b":1,"x":{"a":1,"a":2}}"#, twice);
    check(r#"[{"a":1},{"a":1}]"#, None);
    check(r#"{"a":{"a":{"a":1}},"b":{"a":1}}"#, None);
    check(r#"{"a":{"b":1},"b":1,"A":2}"#, None);
    let unvouched = Value::parse_unvouched(br#"{"a":1,"a":2}"#).expect("JSON");
    assert_eq!(unvouched.member("a").and_then(Value::number), Some(1.0));
}

#[test]
fn depth_and_members_have_bounds() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(fault_of(&nested(DEPTH_MAX)), None);
    assert_eq!(fault_of(&nested(DEPTH_MAX + 1)), Some(JsonFault::TooDeep));
    assert_eq!(fault_of(&"[".repeat(1_000_000)), Some(JsonFault::TooDeep));
    assert_eq!(fault_of(&"{\"a\":".repeat(10_000)), Some(JsonFault::TooDeep));
    let wide = |members: usize| {
        let members: Vec<String> = (0..members).map(|number| format!("\"{number}\":0")).collect();
        format!("{{{}}}", members.join(","))
    };
    assert_eq!(fault_of(&wide(MEMBERS_MAX)), None);
    assert_eq!(fault_of(&wide(MEMBERS_MAX + 1)), Some(JsonFault::TooManyMembers));
}

#[test]
fn values_are_found_where_they_stand() {
    let text =
        r#" { "a" : "x\"},{" , "b":[1,{"c":"]"},"z",null], "\u0063" : { "d" : -1.5 } , "e":true,"t":"\ud83d\ude00\t\u00e4\\" } "#;
    let value = Value::parse(text.as_bytes()).expect("JSON");
    let raw = |name: &str| value.member(name).map(Value::raw);
    assert_eq!(raw("a"), Some(r#""x\"},{""#));
    assert_eq!(value.member("a").and_then(Value::text).as_deref(), Some("x\"},{"));
    let elements: Vec<&str> = value.member("b").expect("a member").elements().map(Value::raw).collect();
    assert_eq!(elements, ["1", r#"{"c":"]"}"#, "\"z\"", "null"]);
    assert_eq!(value.member("c").and_then(|inner| inner.member("d")).and_then(Value::number), Some(-1.5));
    assert_eq!(raw("e"), Some("true"));
    assert_eq!(value.member("t").and_then(Value::text).as_deref(), Some("\u{1f600}\t\u{e4}\\"));
    assert_eq!(raw("d"), None);
    assert_eq!(value.members().count(), 5);
    assert_eq!(Value::parse(b"[1,2]").expect("JSON").members().count(), 0);
    assert_eq!(Value::parse(b"{\"a\":1}").expect("JSON").elements().count(), 0);
    assert_eq!(Value::parse(b"1e999").expect("JSON").number(), None);
}

/// Whether two readers see the same in a value.
fn is_same(ours: Value<'_>, theirs: &serde_json::Value) -> bool {
    match theirs {
        serde_json::Value::Null => ours.raw() == "null",
        serde_json::Value::Bool(is_true) => ours.raw() == is_true.to_string(),
        serde_json::Value::Number(number) => {
            let (ours, theirs) = (ours.number().expect("a number"), number.as_f64().expect("a number"));
            // Their quick way of reading a fraction may be off in the last digit.
            (ours - theirs).abs() <= ours.abs() * 1e-15
        }
        serde_json::Value::String(text) => ours.text().as_deref() == Some(text),
        serde_json::Value::Array(list) => {
            ours.is_list() && ours.elements().count() == list.len() && ours.elements().zip(list).all(|(a, b)| is_same(a, b))
        }
        serde_json::Value::Object(map) => {
            ours.is_object()
                && ours.members().count() == map.len()
                && ours.members().all(|(name, value)| map.get(&*name).is_some_and(|theirs| is_same(value, theirs)))
        }
    }
}

#[test]
fn no_bytes_make_it_panic_and_what_is_taken_is_what_others_read() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let theirs = serde_json::from_slice::<serde_json::Value>(bytes);
        match Value::parse(bytes) {
            // Numbers beyond what a float holds are JSON, and nothing that anybody can use.
            Ok(ours) => assert!(theirs.is_err() || is_same(ours, &theirs.expect("they read it")), "{bytes:?}"),
            Err(JsonFault::TooDeep | JsonFault::TooManyMembers | JsonFault::DuplicateMember) => {}
            Err(JsonFault::NotText | JsonFault::Malformed | JsonFault::NotAnObject) => assert!(theirs.is_err(), "{bytes:?}"),
        }
        if let Ok(unvouched) = Value::parse_unvouched(bytes) {
            unvouched.members().for_each(|(_, value)| drop(value.text()));
        }
    });
}
