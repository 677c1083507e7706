//! Requests read from every known form, answers compared in every way, and input of all kinds.

use crate::{
    Answer, Asked, Body, Difference, Failure, LeftOut, Origins, Outcome, Read, Reader, Report, Request, Rules, Wanted, compare,
};
use std::collections::BTreeSet;

fn wanted() -> Wanted {
    Wanted { all_methods: true, repeats: true, requests_max: 1000 }
}

fn read_as(text: &[u8], wanted: Wanted) -> Result<Read, String> {
    let mut reader = Reader::new(wanted);
    for line in text.split(|byte| *byte == b'\n') {
        if !reader.line(line).map_err(|fault| fault.to_string())? {
            break;
        }
    }
    Ok(reader.end())
}

/// A request on one line: `METHOD HOST TARGET`, its fields, and its body.
fn shown(request: &Request) -> String {
    let host = request.host.as_deref().map_or("-".into(), String::from_utf8_lossy);
    let mut text = format!("{} {host} {}", request.method, request.target.escape_ascii());
    for (name, value) in &request.fields {
        text += &format!(" [{name}: {}]", value.escape_ascii());
    }
    if !request.body.is_empty() {
        text += &format!(" {:?}", String::from_utf8_lossy(&request.body));
    }
    text
}

fn check_read(text: &str, expected: &[&str]) {
    let read = read_as(text.as_bytes(), wanted()).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    assert_eq!(read.requests.iter().map(shown).collect::<Vec<_>>(), expected, "{text}\n{:?}", read.left_out);
}

#[test]
fn requests_are_written_one_a_line() {
    check_read("GET /a?b=c\nHEAD /\n", &["GET - /a?b=c", "HEAD - /"]);
    check_read("\u{feff}# all\r\n\r\n/a\r\nhttps://shop.example.com:8443?q\n", &["GET - /a", "GET shop.example.com:8443 /?q"]);
    check_read("GET http://a.example HTTP/1.1\nOPTIONS *\nPURGE /x\n", &["GET a.example /", "OPTIONS - *", "PURGE - /x"]);
    check_read("GET /%2e%2e//a/./b;c#d\nGET /\u{e4}\n", &["GET - /%2e%2e//a/./b;c#d", "GET - /\\xc3\\xa4"]);
}

#[test]
fn fields_and_bodies_are_indented_below() {
    check_read(
        "POST /cart\n    Host: shop.example.com\n    # why\n    X-A: b: c\n    Empty:\n\n    {\n      \"a\": 1\n\n    }\n\n\nGET /b\n",
        &["POST shop.example.com /cart [X-A: b: c] [Empty: ] \"{\\n  \\\"a\\\": 1\\n\\n}\"", "GET - /b"],
    );
    check_read("PUT /a\n\n\n\tfirst\n\t# second\n", &["PUT - /a \"first\\n# second\""]);
    check_read("GET http://a.example/\n Host: b.example\n", &["GET b.example /"]);
}

#[test]
fn a_bad_line_of_a_file_of_requests_stops_everything() {
    let check = |text: &str, expected: &str| {
        let fault = read_as(text.as_bytes(), wanted()).map(|read| read.requests).expect_err(text);
        assert!(fault.starts_with(expected), "{text}: {fault}");
    };
    check("GET /\nGET /a b\n", "line 2: behind the target stands more; a blank within it is written as %20");
    check("GET /\nGET a\n", "line 2: its target is none");
    check("GET /\n(GET) /\n", "line 2: it begins with no method");
    check("GET /\nCONNECT a:443\n", "line 2: CONNECT opens a tunnel");
    check("GET /\n  Host shop\n", "line 2: a field is `Name: value`");
    check("GET /\n  Host: a/b\n", "line 2: its value is no host");
    check("GET /\n  Content-Length: 5\n", "line 2: `Content-Length` belongs to the connection");
    check("GET /\n  Transfer-Encoding: chunked\n", "line 2: `Transfer-Encoding` belongs");
    check("GET /\n\n    a\n  b\n", "line 4: it belongs to a body, and is indented less");
    check("what is this\n", "line 1: it is neither a request");
    check("# a\n  GET /\n", "line 2: it is indented, and there is no request above it");
    check(&format!("GET /\nGET /{}\n", "a".repeat(70_000)), "line 2: it is longer than 64 KiB");
    check(&format!("GET /\n{}", "  A: b\n".repeat(101)), "line 102: the request has more than 100 fields");
    let fault = read_as(b"\xff\xfeG\0E\0T\0", wanted()).map(|read| read.requests).expect_err("UTF-16");
    assert_eq!(fault, "line 1: the text is UTF-16; it has to be UTF-8");
}

#[test]
fn access_logs_of_many_are_read() {
    let combined = r#"192.0.2.1 - alice [10/Oct/2025:13:55:36 +0200] "GET /a?b HTTP/1.1" 200 2326 "https://a.example/" "Curl \"x\" \x22y\x22""#;
    check_read(combined, &[r#"GET - /a?b [Referer: https://a.example/] [User-Agent: Curl \"x\" \"y\"]"#]);
    check_read(r#"::1 - - [10/Oct/2025:13:55:36 +0200] "HEAD / HTTP/2.0" 304 0"#, &["HEAD - /"]);
    check_read(r#"::1 - - [10/Oct/2025:13:55:36 +0200] "HEAD / HTTP/2.0" 304 0 "-" "-""#, &["HEAD - /"]);
    let virtual_host = r#"shop.example.com:443 192.0.2.1 - - [10/Oct/2025:13:55:36 +0200] "GET / HTTP/1.1" 200 5 "-" "A""#;
    check_read(virtual_host, &["GET shop.example.com:443 / [User-Agent: A]"]);
    let traefik = r#"192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET /api HTTP/1.1" 200 12 "-" "A/1" 7 "web@docker" "http://10.0.0.1:80" 3ms"#;
    check_read(traefik, &["GET - /api [User-Agent: A/1]"]);
    let haproxy = "Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} \"GET /index.html?a=#22b#22 HTTP/1.1\"";
    check_read(haproxy, &[r#"GET - /index.html?a=\"b\""#]);
    let haproxy_h2 = "10.0.1.2:33317 [06/Feb/2009:12:14:14.655] in~ b/s 0/0/1/-1/+2 200 +27 - - ---- 1/1/1/1/0 0/0 \"GET https://a.example/x HTTP/2.0\"";
    check_read(haproxy_h2, &["GET a.example /x"]);
    let envoy = r#"[2016-04-15T20:17:00.310Z] "POST /api HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "cc21d9b0-cf5c" "locations" "tcp://10.0.2.1:80""#;
    check_read(envoy, &["POST locations /api [User-Agent: nsq2http]"]);
}

#[test]
fn logs_in_json_are_read() {
    let caddy = r#"{"level":"info","request":{"proto":"HTTP/2.0","method":"GET","host":"a.example","uri":"/x?y","headers":{"User-Agent":["A"],"Cookie":["REDACTED"],"Upgrade":["h2c"]}},"status":200}"#;
    check_read(caddy, &["GET a.example /x?y [User-Agent: A]"]);
    let traefik = r#"{"RequestMethod":"GET","RequestPath":"/x?y","RequestHost":"a.example","RequestAddr":"a.example:8080","request_User-Agent":"A","DownstreamStatus":200}"#;
    check_read(traefik, &["GET a.example:8080 /x?y [User-Agent: A]"]);
    let ours = r#"{"time":"2026-01-01T00:00:00Z","method":"GET","scheme":"https","host":"a.example","path":"/x","query":"y","status":200,"user_agent":"A","referer":"https://b.example/"}"#;
    check_read(ours, &["GET a.example /x?y [Referer: https://b.example/] [User-Agent: A]"]);
    let envoy = r#"{"method":"GET","path":"/x?y","authority":"a.example","response_code":200,"user_agent":null}"#;
    check_read(envoy, &["GET a.example /x?y"]);
    let nginx =
        r#"{"request":"GET /x?y HTTP/1.1","status":"200","http_host":"a.example","http_user_agent":"A","http_referer":""}"#;
    check_read(nginx, &["GET a.example /x?y [User-Agent: A]"]);
    check_read(r#"{"request_method":"GET","request_uri":"/x","status":"200","host":"a.example"}"#, &["GET a.example /x"]);
}

#[test]
fn lines_of_logs_that_make_no_request_are_counted() {
    let log = |request: &str, status: u16| format!("::1 - - [10/Oct/2025:13:55:36 +0200] \"{request}\" {status} 0 \"-\" \"-\"\n");
    let text = [
        log("GET / HTTP/1.1", 200),
        log("POST /buy HTTP/1.1", 200),
        log("DELETE /a HTTP/1.1", 200),
        log(r"\x16\x03\x01", 400),
        log("-", 408),
        log("GET /a b HTTP/1.1", 400),
        log("CONNECT a:443 HTTP/1.1", 405),
        log("GET /socket HTTP/1.1", 101),
        "garbage\n".to_owned(),
        "::1 - - [10/Oct/2025:13:55:36 +0200] \"GET /very/long\n".to_owned(),
        "{\"msg\": \"started\"}\n{not json\n".to_owned(),
        format!("{}\n", log(&format!("GET /{} HTTP/1.1", "a".repeat(70_000)), 200)),
    ];
    let read = read_as(text.concat().as_bytes(), Wanted { all_methods: false, ..wanted() }).expect("a log");
    assert_eq!(read.requests.iter().map(shown).collect::<Vec<_>>(), ["GET - /"]);
    let left_out: Vec<_> = read.left_out.iter().map(|(why, (count, first))| (*why, *count, *first)).collect();
    let expected = [
        (LeftOut::Unsafe, 2, 2),
        (LeftOut::Tunnel, 2, 7),
        (LeftOut::CutShort, 1, 10),
        (LeftOut::NoRequest, 3, 4),
        (LeftOut::Unknown, 3, 9),
        (LeftOut::TooLong, 1, 13),
    ];
    assert_eq!(left_out, expected);
    assert_eq!(read.methods, ["POST", "DELETE"]);
    assert_eq!(read.found, 13);
}

#[test]
fn what_asks_the_same_is_asked_once_and_no_more_than_is_wanted() {
    let text = b"GET /a\nGET /a\nGET /b\nPOST /c\nPOST /c\nGET http://h/a\n";
    let once = Wanted { repeats: false, ..wanted() };
    let read = read_as(text, once.clone()).expect("requests");
    assert_eq!(
        read.requests.iter().map(shown).collect::<Vec<_>>(),
        ["GET - /a", "GET - /b", "POST - /c", "POST - /c", "GET h /a"]
    );
    assert_eq!((read.repeated, read.found, read.is_cut), (1, 6, false));
    let read = read_as(text, Wanted { requests_max: 2, ..once }).expect("requests");
    assert_eq!((read.requests.len(), read.repeated, read.is_cut), (2, 1, true));
}

fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    // Any digest does that differs with the body.
    let body = Body { kept: body.into(), bytes: body.len() as u64, digest: body.into() };
    Answer { status, headers, trailers: Vec::new(), body }
}

const ASKED: Asked<'static> = Asked { host: b"a.example", target: b"/folder/page?a=/b/" };

fn origins() -> Origins {
    Origins { old: "http://127.0.0.1:8080".to_owned(), new: "https://127.0.0.1:8443".to_owned() }
}

/// The names of headers that differ, `body` and `200→404`.
fn differing(old: &Answer, new: &Answer, rules: &Rules) -> Vec<String> {
    let (old, new) = (Outcome::Answered(old.clone()), Outcome::Answered(new.clone()));
    let told = |difference: Difference| match difference {
        Difference::Status { old, new } => format!("{old}→{new}"),
        Difference::Header { name, old, new } => {
            let sign = if old.is_none() {
                "+"
            } else if new.is_none() {
                "-"
            } else {
                ""
            };
            format!("{sign}{name}")
        }
        Difference::Trailer { name, .. } => format!("trailer {name}"),
        Difference::Body { at, .. } => format!("body {at}"),
        Difference::Unanswered { old, new } => format!("{old} | {new}"),
    };
    compare(ASKED, &old, &new, rules, &origins()).0.into_iter().map(told).collect()
}

#[test]
fn headers_are_compared_by_what_they_mean() {
    let check = |old: &[(&str, &str)], new: &[(&str, &str)], expected: &[&str]| {
        assert_eq!(differing(&answer(200, old, ""), &answer(200, new, ""), &Rules::default()), expected, "{old:?} {new:?}");
    };
    check(&[("Content-Type", "text/html")], &[("content-type", "text/html")], &[]);
    check(&[("Content-Type", "text/html")], &[("Content-Type", "text/plain")], &["content-type"]);
    check(&[("X-A", "1")], &[("X-B", "1")], &["-x-a", "+x-b"]);
    check(&[("X-A", "1"), ("X-A", "2")], &[("x-a", "1, 2")], &[]);
    check(&[("X-A", "1"), ("X-A", "2")], &[("X-A", "2"), ("X-A", "1")], &["x-a"]);
    check(&[("Server", "nginx"), ("Date", "now"), ("Via", "x"), ("Content-Length", "0")], &[], &[]);
    check(&[("Vary", "Accept-Encoding, Origin")], &[("Vary", "origin"), ("Vary", "accept-encoding")], &[]);
    check(&[("Vary", "Accept-Encoding")], &[("Vary", "*")], &["vary"]);
    check(&[("Set-Cookie", "a=1; Path=/; HttpOnly")], &[("Set-Cookie", "a=2; httponly; path=/")], &[]);
    check(&[("Set-Cookie", "a=1; Path=/; HttpOnly")], &[("Set-Cookie", "a=1; Path=/")], &["set-cookie"]);
    check(&[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")], &[("Set-Cookie", "b=3"), ("Set-Cookie", "a=4")], &[]);
    check(&[("Set-Cookie", "a=1; Path=/A")], &[("Set-Cookie", "a=1; Path=/a")], &["set-cookie"]);
    check(&[("ETag", "\"5f-1\"")], &[("ETag", "\"1-5f\"")], &[]);
    check(&[("ETag", "\"5f-1\"")], &[("ETag", "W/\"5f-1\"")], &["etag"]);
    check(&[("ETag", "\"5f-1\"")], &[], &["-etag"]);
    let (noon, later) = ("Sun, 06 Nov 1994 12:00:00 GMT", "Sun, 06 Nov 1994 13:00:00 GMT");
    check(
        &[("Date", noon), ("Expires", later)],
        &[("Date", "Sun, 06 Nov 1994 12:00:05 GMT"), ("Expires", "Sun, 06 Nov 1994 13:00:06 GMT")],
        &[],
    );
    check(&[("Date", noon), ("Expires", later)], &[("Date", noon), ("Expires", noon)], &["expires"]);
    check(&[("Expires", "0")], &[("Expires", "-1")], &["expires"]);
    check(&[("Location", "http://127.0.0.1:8080/a")], &[("Location", "https://127.0.0.1:8443/a")], &[]);
    check(&[("Location", "http://127.0.0.1:80800/a")], &[("Location", "https://127.0.0.1:84430/a")], &["location"]);
    check(&[("Location", "/a")], &[("Location", "/a/")], &["location"]);
    check(&[("Location", "/a")], &[("Location", "https://A.example:8443/a")], &[]);
    check(&[("Location", "http://a.example/a?b")], &[("Location", "/a?b")], &[]);
    check(&[("Location", "http://a.example./a")], &[("Location", "/a")], &[]);
    check(&[("Location", "./page/")], &[("Location", "/folder/page/")], &[]);
    check(&[("Location", "../../../page:1")], &[("Location", "/page:1")], &[]);
    check(&[("Location", "page")], &[("Location", "/page")], &["location"]);
    check(&[("Location", "mailto:a")], &[("Location", "/folder/mailto:a")], &["location"]);
    check(&[("Location", "http://a.example")], &[("Location", "https://a.example:443/")], &[]);
    check(&[("Location", "http://a.example:8443/a")], &[("Location", "https://a.example:8443/a")], &["location"]);
    check(&[("Location", "https://a.example/a")], &[("Location", "http://a.example/a")], &["location"]);
    check(&[("Location", "http://b.example/a")], &[("Location", "/a")], &["location"]);
    check(&[("Location", "//a.example/a")], &[("Location", "/a")], &["location"]);
}

#[test]
fn rules_say_which_headers_count() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let old = answer(200, &[("Server", "a"), ("X-A", "1"), ("ETag", "\"1\"")], "");
    let new = answer(200, &[("Server", "b"), ("X-A", "2"), ("ETag", "\"2\"")], "");
    let check = |rules: Rules, expected: &[&str]| assert_eq!(differing(&old, &new, &rules), expected, "{rules:?}");
    check(Rules::default(), &["x-a"]);
    check(Rules { ignored: names(&["x-a"]), ..Rules::default() }, &[]);
    check(Rules { exact: names(&["etag", "server"]), ..Rules::default() }, &["etag", "server", "x-a"]);
    check(Rules { only: names(&["server"]), ..Rules::default() }, &["server"]);
    check(Rules { only: names(&["content-type"]), ..Rules::default() }, &[]);
}

#[test]
fn bodies_are_compared_to_their_first_difference() {
    let check = |old: &str, new: &str, ignored: &[&str], expected: &[&str]| {
        let ignored_in_bodies = ignored.iter().map(|text| regex::bytes::Regex::new(text).expect("a pattern")).collect();
        let rules = Rules { ignored_in_bodies, ..Rules::default() };
        assert_eq!(differing(&answer(200, &[], old), &answer(200, &[], new), &rules), expected, "{old} {new}");
    };
    check("same", "same", &[], &[]);
    check("same", "some", &[], &["body 1"]);
    check("same", "same and more", &[], &["body 4"]);
    check("<input value=\"17\"> a", "<input value=\"4\"> a", &["value=\"\\d+\""], &[]);
    check("<input value=\"17\"> a", "<input value=\"4\"> b", &["value=\"\\d+\""], &["body 9"]);
    check("a1b2", "a3b4", &["[0-9]", "b"], &[]);
    check("$0", "$1", &["[0-9]"], &[]);
    let without = Rules { without_bodies: true, ..Rules::default() };
    assert_eq!(differing(&answer(200, &[], "same"), &answer(200, &[], "some"), &without), [""; 0]);
}

#[test]
fn bodies_longer_than_what_is_kept_are_compared_by_their_digests() {
    let long = |kept: &str, bytes: u64, digest: &str| {
        let mut answer = answer(200, &[], kept);
        answer.body = Body { kept: kept.into(), bytes, digest: digest.into() };
        answer
    };
    let plain = Rules::default();
    assert_eq!(differing(&long("aa", 9, "x"), &long("aa", 9, "x"), &plain), [""; 0]);
    assert_eq!(differing(&long("aa", 9, "x"), &long("aa", 9, "y"), &plain), ["body 2"]);
    assert_eq!(differing(&long("aa", 9, "x"), &long("ab", 9, "y"), &plain), ["body 1"]);
    let ignoring = Rules { ignored_in_bodies: vec![regex::bytes::Regex::new("[0-9]+").expect("a pattern")], ..Rules::default() };
    let (old, new) = (Outcome::Answered(long("a1", 9, "x")), Outcome::Answered(long("a2", 9, "y")));
    assert_eq!(compare(ASKED, &old, &new, &ignoring, &origins()), (Vec::new(), true));
}

#[test]
fn coded_bodies_are_compared_decoded() {
    // `printf hello | gzip -1` and `gzip -9`, whose heads say so.
    let fast = b"\x1f\x8b\x08\0\0\0\0\0\x04\x03\xcb\x48\xcd\xc9\xc9\x07\0\x86\xa6\x10\x36\x05\0\0\0";
    let best = b"\x1f\x8b\x08\0\0\0\0\0\x02\x03\xcb\x48\xcd\xc9\xc9\x07\0\x86\xa6\x10\x36\x05\0\0\0";
    let coded = |bytes: &[u8]| {
        let mut answer = answer(200, &[("Content-Encoding", "gzip")], "");
        answer.body = Body { kept: bytes.to_vec(), bytes: bytes.len() as u64, digest: bytes.to_vec() };
        answer
    };
    assert_eq!(differing(&coded(fast), &coded(best), &Rules::default()), [""; 0]);
    assert_eq!(differing(&coded(fast), &answer(200, &[], "hello"), &Rules::default()), ["-content-encoding"]);
    assert_eq!(differing(&coded(fast), &coded(&best[..20]), &Rules::default()).len(), 1);
}

#[test]
fn another_status_or_no_answer_is_all_that_is_said() {
    let rules = Rules::default();
    assert_eq!(differing(&answer(200, &[("X", "1")], "a"), &answer(404, &[], "b"), &rules), ["200→404"]);
    let told = |old: Outcome, new: Outcome| compare(ASKED, &old, &new, &rules, &origins()).0;
    let failed = |failure: Failure| Outcome::Failed(failure);
    assert_eq!(told(failed(Failure::Closed), failed(Failure::Closed)), []);
    assert_eq!(told(failed(Failure::TimedOut), failed(Failure::TimedOut)).len(), 1);
    let difference = Difference::Unanswered { old: "answers 200".to_owned(), new: "closes the connection".to_owned() };
    assert_eq!(told(Outcome::Answered(answer(200, &[], "")), failed(Failure::Closed)), [difference]);
}

#[test]
fn a_report_has_each_kind_once_with_its_first_requests() {
    let mut report = Report::new(2);
    let status = Difference::Status { old: 200, new: 404 };
    let header = Difference::Header { name: "x-a".to_owned(), old: Some(b"\x1b[1m".to_vec()), new: None };
    for line in [5, 3, 9, 1] {
        let request = Request {
            line,
            method: "GET".to_owned(),
            target: format!("/{line}").into_bytes(),
            host: Some(b"a.example".to_vec()),
            fields: Vec::new(),
            body: Vec::new(),
        };
        let differences = if line == 9 { vec![header.clone()] } else { vec![status.clone()] };
        report.add(&request, Some(200).filter(|_| line == 9), &differences, false);
    }
    assert_eq!((report.asked, report.different), (4, 4));
    let groups = report.groups();
    let told: Vec<_> = groups.iter().map(|group| (group.kind, group.what.as_str(), group.count)).collect();
    assert_eq!(told, [("status", "200 → 404", 3), ("header", "missing", 1)]);
    assert_eq!(groups[0].examples.iter().map(|example| example.line).collect::<Vec<_>>(), [1, 3]);
    let text = "\nstatus 200 → 404: 3 requests\n  line 1: GET /1 at a.example\n  line 3: GET /3 at a.example\n\nheader x-a missing: 1 request\n  line 9: GET /9 at a.example, 200\n    old: \\u{1b}[1m\n";
    assert_eq!(report.text(), text);
}

#[test]
fn whatever_is_read_can_be_sent() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let Ok(read) = read_as(bytes, Wanted { repeats: false, ..wanted() }) else { return };
        let left_out: usize = read.left_out.values().map(|(count, _)| count).sum();
        assert!(read.is_cut || read.found == read.requests.len() + read.repeated + left_out);
        for request in &read.requests {
            let is_clean = |text: &[u8]| text.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
            assert!(is_clean(request.method.as_bytes()) && is_clean(&request.target) && !request.target.is_empty());
            assert!(request.host.as_deref().is_none_or(is_clean));
            for (name, value) in &request.fields {
                assert!(is_clean(name.as_bytes()) && !name.contains(':'));
                assert!(!value.iter().any(|byte| b"\r\n\0".contains(byte)));
            }
        }
    });
}

#[test]
fn any_two_answers_are_compared() {
    bolero::check!().with_type::<(Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>)>().for_each(
        |(old_value, new_value, old_body, new_body)| {
            let names = ["Set-Cookie", "Expires", "Location", "ETag", "Vary", "X-A", "Content-Encoding", "Date"];
            let side = |value: &[u8], body: &[u8]| Answer {
                status: 200,
                headers: names.iter().map(|name| ((*name).to_owned(), value.to_vec())).collect(),
                trailers: Vec::new(),
                body: Body { kept: body.to_vec(), bytes: body.len() as u64, digest: body.to_vec() },
            };
            let (old, new) = (side(old_value, old_body), side(new_value, new_body));
            assert_eq!(differing(&old, &old, &Rules::default()), [""; 0]);
            let is_same = differing(&old, &new, &Rules::default()).is_empty();
            assert_eq!(is_same, differing(&new, &old, &Rules::default()).is_empty(), "it is the same from both sides");
        },
    );
}
