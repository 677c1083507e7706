//! Questions, what is copied of answers, and where browsers are sent.

use super::{CompiledForwardAuth, QuestionOf, forward_auth_of};
use crate::fixtures::{lines, push_lines, request};
use tidegate_model::{AuthMethod, ForwardAuth, NamePattern, PoolName, SignIn, Step};
use tidegate_wire::Fields;
use tidegate_wire::head::{Method, RequestHead, ResponseHead};

fn auth() -> ForwardAuth {
    ForwardAuth { target: "/verify?a=b".into(), ..ForwardAuth::new(PoolName("auth".into())) }
}

fn patterns(names: &[&str]) -> Vec<NamePattern> {
    names.iter().map(|name| NamePattern::new(name)).collect()
}

const OF: QuestionOf<'static> =
    QuestionOf { scheme: b"https", authority: b"example.com:8443", path: b"/a/b", query: Some(b"c=d&e") };

#[test]
fn a_question_says_what_the_request_is_for_and_nothing_of_its_body() {
    let check = |auth: ForwardAuth, sent: &[&str], body_bytes: Option<u64>, line: &str, expected: &[&str]| {
        let mut head = request("/x", "example.com:8443", sent);
        (head.method, head.method_name) = (Method::Post, head.fields.append(&[b"POST"]));
        let mut question = RequestHead::default();
        CompiledForwardAuth::new(&auth).write_question(&OF, &head, body_bytes, &mut question);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let written = [question.method_name(), b" ", question.path(), b"?", question.query().unwrap_or_default()].concat();
        assert_eq!(text(&written), line);
        let said: Vec<String> =
            lines(&question.fields).into_iter().filter(|line| !line.starts_with("x-") && !line.starts_with("host")).collect();
        assert_eq!(said, expected, "{sent:?}");
        let own: Vec<String> = lines(&question.fields).into_iter().filter(|line| line.starts_with("x-")).collect();
        assert_eq!(
            own,
            [
                "x-forwarded-method: POST",
                "x-original-method: POST",
                "x-forwarded-host: example.com:8443",
                "x-forwarded-uri: /a/b?c=d&e",
                "x-original-url: https://example.com:8443/a/b?c=d&e",
            ],
            "{sent:?}"
        );
    };
    let line = "GET /verify?a=b";
    check(
        auth(),
        &["Cookie: a=b", "Authorization: c", "Accept: d"],
        None,
        line,
        &["Cookie: a=b", "Authorization: c", "Accept: d"],
    );
    let of_body =
        ["Content-Length: 5", "Content-Type: a/b", "Content-Encoding: gzip", "Expect: 100-continue", "Range: bytes=0-1"];
    check(auth(), &of_body, None, line, &[]);
    check(auth(), &["If-None-Match: \"a\"", "if-modified-since: b", "If-Range: c", "Iffy: d"], None, line, &["Iffy: d"]);
    let forged = ["X_Forwarded_Uri: /public", "X-Original-Url: /public", "X.Original.Method: GET", "X-Forwarded-Host: other"];
    check(auth(), &forged, None, line, &[]);
    let with_body = ForwardAuth { method: AuthMethod::OfRequest, ..auth() };
    check(
        with_body,
        &of_body,
        Some(7),
        "POST /verify?a=b",
        &["Content-Type: a/b", "Content-Encoding: gzip", "content-length: 7"],
    );
    let some = ForwardAuth {
        request_fields: Some(patterns(&["cookie", "Accept*"])),
        method: AuthMethod::Other("HEAD".into()),
        ..auth()
    };
    let sent = ["Cookie: a=b", "Authorization: c", "Accept: d", "Accept-Language: e", "Content-Type: a/b"];
    check(some, &sent, None, "HEAD /verify?a=b", &["Cookie: a=b", "Accept: d", "Accept-Language: e"]);
}

#[test]
fn a_question_to_a_host_of_its_own_says_so() {
    let head = request("/x", "example.com", &["Host: example.com"]);
    let mut question = RequestHead::default();
    let auth = ForwardAuth { host: Some("auth.test:81".into()), ..auth() };
    CompiledForwardAuth::new(&auth).write_question(&OF, &head, None, &mut question);
    assert_eq!((question.authority(), question.host()), (&b"auth.test:81"[..], &b"auth.test"[..]));
    assert_eq!(question.fields.all_named(b"host").collect::<Vec<_>>(), [b"auth.test:81"]);
}

#[test]
fn what_is_copied_is_what_is_named_and_in_no_other_spelling_of_the_client() {
    let compiled = CompiledForwardAuth::new(&ForwardAuth { copied: patterns(&["Remote-User", "X-Auth-*", "C*"]), ..auth() });
    let mut answer = ResponseHead::default();
    let said =
        ["remote-user: alice", "X-Auth-Groups: a", "X-Auth-Groups: b", "Content-Length: 3", "Connection: close", "X-Other: c"];
    push_lines(&mut answer.fields, &said);
    let mut copied = Vec::new();
    compiled.each_copied(&answer, |name, value| copied.push([name, b": ", value].concat()));
    assert_eq!(copied, [b"remote-user: alice".to_vec(), b"X-Auth-Groups: a".to_vec(), b"X-Auth-Groups: b".to_vec()]);
    let mut fields = Fields::default();
    push_lines(&mut fields, &["Remote_User: b", "x.auth.any: c", "X-AUTH-: d", "X-Auth: e", "Host: f", "Content-Length: 1"]);
    compiled.remove_copied(&mut fields);
    assert_eq!(lines(&fields), ["X-Auth: e", "Host: f", "Content-Length: 1"]);
}

#[test]
fn cookies_go_to_the_client_by_name() {
    let check = |cookies: Option<&[&str]>, expected: &[&str]| {
        let compiled = CompiledForwardAuth::new(&ForwardAuth { cookies: cookies.map(patterns), ..auth() });
        let mut answer = ResponseHead::default();
        push_lines(&mut answer.fields, &["Set-Cookie: a=1; Path=/", "Set-Cookie: ab=2", "Set-Cookie: A=3"]);
        let mut found = Vec::new();
        compiled.each_cookie(&answer, |cookie| found.push(String::from_utf8_lossy(cookie).into_owned()));
        assert_eq!(found, expected, "{cookies:?}");
    };
    check(None, &[]);
    check(Some(&[]), &["a=1; Path=/", "ab=2", "A=3"]);
    check(Some(&["a"]), &["a=1; Path=/"]);
    check(Some(&["a*"]), &["a=1; Path=/", "ab=2"]);
}

#[test]
fn who_cannot_log_in_is_not_sent_to_a_log_in() {
    let sign_in = SignIn { url: "https://auth.test/login".into(), redirect_param: "rd".into() };
    let compiled = CompiledForwardAuth::new(&ForwardAuth { sign_in: Some(sign_in), ..auth() });
    let check = |sent: &[&str], expected: bool| {
        let head = request("/", "example.com", sent);
        assert_eq!(compiled.sign_in_location(&OF, &head).is_some(), expected, "{sent:?}");
    };
    check(&[], true);
    check(&["Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"], true);
    check(&["Accept: */*"], true);
    check(&["Accept: application/json"], false);
    check(&["Accept: application/json, */*;q=0.1"], true);
    check(&["Sec-Fetch-Mode: navigate"], true);
    check(&["Sec-Fetch-Mode: cors", "Accept: text/html"], false);
    check(&["X-Requested-With: XMLHttpRequest"], false);
    check(&["Sec-WebSocket-Version: 13"], false);
    check(&["Content-Type: application/grpc"], false);
}

#[test]
fn a_browser_returns_to_the_site_that_it_asked_and_to_no_other() {
    let check = |url: &str, path: &str, query: Option<&str>, expected: &str| {
        let sign_in = SignIn { url: url.into(), redirect_param: "rd".into() };
        let of = QuestionOf { path: path.as_bytes(), query: query.map(str::as_bytes), ..OF };
        let location = super::return_address::location(&sign_in, &of);
        assert_eq!(String::from_utf8_lossy(&location), expected, "{url} {path}");
    };
    let host = "https%3A%2F%2Fexample.com%3A8443";
    check("https://auth.test/login", "/a b", Some("c=d&e"), &format!("https://auth.test/login?rd={host}%2Fa%20b%3Fc%3Dd%26e"));
    check("https://auth.test/?x=y", "/%2f", None, &format!("https://auth.test/?x=y&rd={host}%2F%252f"));
    check("https://auth.test/#/x", "/", None, &format!("https://auth.test/?rd={host}%2F#/x"));
    check("/oauth2/start", "/a", Some("x"), "/oauth2/start?rd=%2Fa%3Fx");
    for evil in ["//evil.test/", "///evil.test/", "/\\evil.test/", "\\\\evil.test/", "/\\/evil.test/"] {
        check("/oauth2/start", evil, None, "/oauth2/start?rd=%2Fevil.test%2F");
        check("https://auth.test/login", evil, None, &format!("https://auth.test/login?rd={host}%2Fevil.test%2F"));
    }
}

#[test]
fn the_last_one_counts() {
    let on = |target: &str| Step::ForwardAuth(Some(Box::new(ForwardAuth { target: target.into(), ..auth() })));
    let check = |site: &[Step], route: &[Step], expected: Option<&str>| {
        assert_eq!(forward_auth_of(site, route).map(|auth| auth.target.as_str()), expected);
    };
    check(&[], &[], None);
    check(&[on("/a")], &[], Some("/a"));
    check(&[on("/a")], &[on("/b")], Some("/b"));
    check(&[on("/a")], &[Step::ForwardAuth(None)], None);
    check(&[Step::ForwardAuth(None)], &[on("/b")], Some("/b"));
}
