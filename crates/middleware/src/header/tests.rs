//! Header changes as an administrator writes them, against the fields of a head before and after.
//! What a value may hold is tested with the templates, in `template`.

use super::{CompiledHeaderChanges, HostMadeWrong};
use crate::compile_error::CompileError;
use crate::context::{Context, Scratch};
use crate::fixtures::{context, lines, push_lines, request, template};
use proptest::prelude::{any, proptest};
use tidegate_model::{
    Condition, ConditionKind, HeaderChange, HeaderConditions, HeaderOperation, HeaderStep, MatchLine, PathPattern, PathPolicy,
    StatusRange,
};
use tidegate_wire::head::ResponseHead;

/// `set Name: value`, `add …`, `default …`, `remove Name`.
fn changes(texts: &[&str]) -> HeaderStep {
    let change = |text: &&str| {
        let (operation, rest) = text.split_once(' ').expect("an operation and a name");
        let (name, value) = rest.split_once(": ").unwrap_or((rest, ""));
        let operation = match operation {
            "set" => HeaderOperation::Set,
            "add" => HeaderOperation::Add,
            "default" => HeaderOperation::Default,
            "remove" => HeaderOperation::Remove,
            other => panic!("{other} is no operation"),
        };
        HeaderChange { operation, name: name.into(), value: template(value) }
    };
    texts.iter().map(change).collect::<Vec<_>>().into()
}

/// The request is `GET /a?b`, for `example.com`, with these fields.
fn check_request(given: &[&str], texts: &[&str], expected: &[&str]) {
    let compiled = CompiledHeaderChanges::for_request(&changes(texts), PathPolicy::DEFAULT).expect("changes of the test");
    let mut head = request("/a?b", "example.com", given);
    assert_eq!(compiled.apply_to_request(&mut head, &context(), &mut Scratch::default()), Ok(()));
    assert_eq!(lines(&head.fields), expected, "{texts:?} on {given:?}");
    assert_eq!(head.authority(), b"example.com");
}

fn check_response(given: &[&str], texts: &[&str], expected: &[&str]) {
    let compiled = CompiledHeaderChanges::for_response(&changes(texts), PathPolicy::DEFAULT).expect("changes of the test");
    let mut response = ResponseHead::default();
    push_lines(&mut response.fields, given);
    compiled.apply_to_response(
        &mut response,
        &request("/a?b", "example.com", &["X-R: r"]),
        &context(),
        &mut Scratch::default(),
        false,
    );
    assert_eq!(lines(&response.fields), expected, "{texts:?} on {given:?}");
}

#[test]
fn each_operation() {
    check_request(&["A: 1", "B: 2", "a: 3"], &["set A: x"], &["B: 2", "A: x"]);
    check_request(&["A: 1"], &["add a: 2"], &["A: 1", "a: 2"]);
    check_request(&["A: 1"], &["default a: 2"], &["A: 1"]);
    check_request(&["A: "], &["default a: 2"], &["A: "]);
    check_request(&["A: 1"], &["default B: 2"], &["A: 1", "B: 2"]);
    check_request(&["A: 1", "B: 2", "a: 3"], &["remove A"], &["B: 2"]);
    check_request(&["A: 1"], &["remove B"], &["A: 1"]);
    check_request(&["A: 1"], &["set A: "], &["A: "]);
    check_request(&["Cookie: a", "Accept: x"], &["remove cookie", "set accept: y"], &["accept: y"]);
    check_response(&["Server: x", "ETag: 1"], &["remove server", "add Via: 1.1 t"], &["ETag: 1", "Via: 1.1 t"]);
}

#[test]
fn changes_run_in_order_and_see_each_other() {
    check_request(&["A: 1"], &["set B: <{request.header.a}>", "remove A", "set C: [{request.header.a}]"], &["B: <1>", "C: []"]);
    check_request(&["A: 1"], &["set A: {request.header.a}{request.header.a}", "add A: {request.header.a}"], &["A: 11", "A: 11"]);
    check_response(
        &["A: 1"],
        &["set A: {response.header.a}2 {request.header.x-r} {path} {upstream.address}"],
        &["A: 12 r /a 10.0.0.4:8080"],
    );
}

#[test]
fn a_value_that_comes_to_nothing_is_no_field() {
    check_request(&["A: 1", "B: 2"], &["set A: {request.header.x}"], &["B: 2"]);
    check_request(&["A: 1"], &["set A: {request.header.x}."], &["A: ."]);
    check_request(&["A: 1", "X: "], &["add A: {request.header.x}", "default B: {request.header.x}"], &["A: 1", "X: "]);
    check_request(&["A_B: 1"], &["set A-B: {request.header.x}"], &[]);
    check_response(&["A: 1"], &["set A: {response.header.b}", "add C: {request.header.x}"], &[]);
}

#[test]
fn the_host_can_be_replaced_but_stays_one_authority() {
    check_request(&["Host: example.com"], &["set host: up.internal"], &["host: up.internal"]);
    check_request(&["Host: example.com"], &["set Host: {upstream.address}"], &["Host: 10.0.0.4:8080"]);
    check_request(&["Host: example.com", "X: [::1]:80"], &["set Host: {request.header.x}"], &["X: [::1]:80", "Host: [::1]:80"]);
    // A default that is not needed is not looked at.
    check_request(&["Host: example.com", "X: a b"], &["default Host: {request.header.x}"], &["Host: example.com", "X: a b"]);
    for bad in
        ["a b", "a/b", "u@h", "a, b", "", "a:b:80", "a:b", "a:70000", "a..b", "[::1", "::1", "a\0b", "a\tb", "a\r\nb", "%61"]
    {
        let compiled = CompiledHeaderChanges::for_request(&changes(&["set Host: {request.header.x}"]), PathPolicy::DEFAULT)
            .expect("of the test");
        let mut head = request("/a?b", "example.com", &["Host: example.com"]);
        head.fields.push(b"x", bad.as_bytes());
        let outcome = compiled.apply_to_request(&mut head, &context(), &mut Scratch::default());
        assert_eq!(outcome, Err(HostMadeWrong), "{bad:?}");
    }
}

#[test]
fn values_have_no_control_bytes_and_no_space_around_them() {
    check_request(&[], &["set A: a\r\nB: c"], &["A: a  B: c"]);
    check_request(&[], &["set A:  x\t"], &["A: x"]);
    check_request(&["X:  y "], &["set A: {request.header.x}"], &["X:  y ", "A: y"]);
}

#[test]
fn names_that_cannot_be_changed_are_refused() {
    let check = |text: &str, expected: CompileError| {
        let refused = CompiledHeaderChanges::for_request(&changes(&[text]), PathPolicy::DEFAULT).err();
        assert_eq!(refused, Some(expected), "{text}");
    };
    check("set A B: x", CompileError::HeaderName("A B".into()));
    check("set :path: /", CompileError::HeaderName(":path".into()));
    check("remove ", CompileError::HeaderName(String::new()));
    check("set X\r\nY: z", CompileError::HeaderName("X\r\nY".into()));
    for name in ["Content-Length", "transfer-encoding", "Connection", "Upgrade", "TE", "Trailer", "Keep-Alive"] {
        check(&format!("set {name}: x"), CompileError::ReservedHeader(name.into()));
        check(&format!("remove {name}"), CompileError::ReservedHeader(name.into()));
    }
    check("add Host: x", CompileError::HostMustStay);
    check("remove HOST", CompileError::HostMustStay);
    check("set Host: a b", CompileError::NotAHost("a b".into()));
    check("default Host: ", CompileError::NotAHost(String::new()));
    check("set Host: a:b:80", CompileError::NotAHost("a:b:80".into()));
}

proptest! {
    #[test]
    fn no_request_can_add_a_line_to_a_head(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let texts = ["set A: {request.header.x}", "add B: {uri}", "default C: {query}{host}", "set Host: {request.header.x}"];
        let compiled = CompiledHeaderChanges::for_request(&changes(&texts), PathPolicy::DEFAULT).expect("changes of the test");
        let mut head = request("/", "", &["Host: h"]);
        head.fields.push(b"x", &bytes);
        head.set_path(&bytes);
        head.set_query(Some(&bytes));
        head.authority = head.fields.append(&[&bytes]);
        // Host comes last: where it is refused nothing is sent, and the others are as they would be.
        let _ = compiled.apply_to_request(&mut head, &context(), &mut Scratch::default());
        let own: Vec<_> = head.fields.iter().filter(|(name, _)| *name != b"x").collect();
        // What comes to nothing is no field.
        assert!(own.len() <= 4);
        for (name, value) in own {
            assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | b'\0')), "{}", name.escape_ascii());
        }
    }
}

#[test]
fn a_line_does_something_where_its_conditions_hold() {
    let check = |when: HeaderConditions, status: u16, content_type: Option<&str>, expected: bool| {
        let step = HeaderStep { when: when.clone(), ..changes(&["set A: 1"]) };
        let compiled = CompiledHeaderChanges::for_response(&step, PathPolicy::DEFAULT).expect("changes of the test");
        let mut response = ResponseHead { status, ..ResponseHead::default() };
        if let Some(kind) = content_type {
            response.fields.push(b"content-type", kind.as_bytes());
        }
        // What the client asked for is one thing, what steps have made of it another.
        let mut head = request("/asked?b", "example.com", &[]);
        let context = Context { asked_path: head.path, asked_query: head.query, ..context() };
        head.set_path(b"/rewritten");
        compiled.apply_to_response(&mut response, &head, &context, &mut Scratch::default(), false);
        assert_eq!(response.fields.all_named(b"a").next().is_some(), expected, "{when:?} {status} {content_type:?}");
    };
    let statuses =
        |first: u16, last: u16| HeaderConditions { statuses: vec![StatusRange { first, last }], ..HeaderConditions::default() };
    check(HeaderConditions::default(), 500, None, true);
    check(statuses(200, 299), 204, None, true);
    check(statuses(200, 299), 304, None, false);
    let types = |types: &[&str]| HeaderConditions {
        types: types.iter().map(ToString::to_string).collect(),
        ..HeaderConditions::default()
    };
    check(types(&["text/html", "image/*"]), 200, Some("Text/HTML; charset=utf-8"), true);
    check(types(&["text/html", "image/*"]), 200, Some("image/png"), true);
    check(types(&["text/html"]), 200, Some("text/plain"), false);
    check(types(&["text/html"]), 200, None, false);
    check(HeaderConditions { types: vec!["text/html".into()], ..statuses(200, 200) }, 404, Some("text/html"), false);
    let path = |path: &str, negated: bool| {
        let kind = ConditionKind::Path(vec![PathPattern::Exact(path.into())]);
        let matches = vec![MatchLine { conditions: vec![Condition { negated, kind }] }];
        HeaderConditions { matches, ..HeaderConditions::default() }
    };
    check(path("/asked", false), 200, None, true);
    check(path("/asked", true), 200, None, false);
    check(path("/rewritten", false), 200, None, false);
}

#[test]
fn a_client_cannot_say_in_another_spelling_what_a_step_says() {
    check_request(&["x_user: admin", "X-User: admin", "X_Other: 1"], &["set X-User: alice"], &["X_Other: 1", "X-User: alice"]);
    check_request(&["x_user: admin", "X-User: admin"], &["remove X-User"], &[]);
    check_request(&["X_User: a"], &["add X-User: b"], &["X_User: a", "X-User: b"]);
}
