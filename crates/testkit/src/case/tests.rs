//! The kit against itself: cases whose clients speak to their upstreams directly.

use super::run::{Over, Verdict, run_text_over};
use super::script::ClientProtocol;
use super::{check_syntax, coverage};
use std::path::Path;

/// Runs a case without a proxy. `expected` is empty when it must pass, else a part of the report.
fn check(case: &str, expected: &str) {
    check_over(ClientProtocol::Http1, case, expected);
}

fn check_over(protocol: ClientProtocol, case: &str, expected: &str) {
    match (run_text_over("kit/self", case, Over { protocol, driver: None }, None), expected) {
        (Verdict::Passed, "") => {}
        (Verdict::Failed(report), part) if !part.is_empty() && report.contains(part) => {}
        (verdict, expected) => panic!("expected {expected:?}, seen {verdict:?}\nof {case}"),
    }
}

#[test]
fn all_case_files_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    if let Err(faults) = check_syntax(&folder) {
        panic!("{faults}");
    }
}

/// A rule that holds over one version and not over another is what most faults of security were. So what is said of
/// HTTP is said of every version: whoever lowers this number says why a case cannot be.
const OVER_EVERY_PROTOCOL: usize = 347;

#[test]
fn most_cases_are_run_over_every_protocol() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    match coverage(&folder) {
        Ok((all, over_all, others)) => {
            let others = others.join("\n");
            println!("{over_all} of {all} cases are run over every protocol; the others are:\n{others}");
            assert!(
                over_all >= OVER_EVERY_PROTOCOL,
                "{over_all} of {all} cases are run over every protocol; these are not:\n{others}"
            );
        }
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn faults_of_writing_name_their_line() {
    for (case, expected) in [
        ("client\n    send \"x\"\n", "begins with a comment"),
        ("# Text.\n", "needs a client"),
        ("# Text.\nclint\n", "line 2: `clint` is no section"),
        ("# Text.\nclient\n    sned \"x\"\n", "line 3: `sned` is no command"),
        ("# Text.\nclient\n    send \"x\n", "line 3: a quote is not closed"),
        ("# Text.\nclient\n    send \"\\q\"\n", "line 3: unknown escape \\q"),
        ("# Text.\nclient\n    expect-status ok\n", "line 3: `ok` is no number"),
        ("# Text.\nclient\n    expect-status 200 201\n", "`201` is one word too many"),
        ("# Text.\nclient\n    expect-header \"A\" ~\"(\"\n", "line 3: bad pattern"),
        ("# Text.\nclient\n    pause 5\n", "line 3: `5` is no time"),
        ("# Text.\nclient\n    expect-stream-reset NO\n", "`NO` is no HTTP/2 error code"),
    ] {
        check(case, expected);
    }
}

const ANSWER: &str = r#"
upstream
    recv-head
        GET /a HTTP/1.1
        Host: example.com
        …
    send "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\nX-A: 2\r\n\r\n"
    send "ok"
    recv-head
        GET /b HTTP/1.1
    send "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    send-chunk "abc"
    send-chunk "def"
    send-last-chunk
        X-T: end
    close
"#;

#[test]
fn http1_messages_are_read_and_checked() {
    let case = |client: &str| format!("# Text.\n{ANSWER}\nclient to=127.0.0.1:{{upstream}}\n    {client}\n");
    let first = "send \"GET /a HTTP/1.1\\r\\nHost: example.com\\r\\nX: y\\r\\n\\r\\n\"\n    expect-status 200";
    let second = "send \"GET /b HTTP/1.1\\r\\n\\r\\n\"\n    expect-status 200";
    for (client, expected) in [
        (
            format!(
                "{first}\n    expect-header \"x-a\" \"1, 2\"\n    expect-no-header \"X-B\"\n    expect-body \"ok\"\n    {second}\n    expect-body \"abcdef\"\n    expect-trailer \"X-T\" ~\"^e\"\n    expect-closed"
            ),
            "",
        ),
        (format!("{first}\n    {second}\n    expect-data \"abc\"\n    expect-data \"def\"\n    expect-end"), ""),
        (first.replace("200", "404"), "expected status 404"),
        (format!("{first}\n    expect-data \"ok\"\n    {second}").replace("expect-status 200", "expect-status 404|200"), ""),
        (first.replace("expect-status 200", "expect-status 404|503"), "expected status 404 or 503"),
        (format!("{first}\n    expect-header \"X-A\" \"1\""), "X-A is \"1, 2\", expected \"1\""),
        (format!("{first}\n    expect-no-header \"X-A\""), "X-A: \"1, 2\" is there"),
        (format!("{first}\n    expect-body \"no\""), "the body is \"ok\""),
        (format!("{first}\n    expect-body-length 3"), "the body has 2 bytes"),
        (format!("{first}\n    {second}\n    expect-trailer \"X-T\" \"other\""), "X-T is \"end\""),
        (format!("{first}\n    {second}\n    expect-data \"abd\""), "the body goes on with \"abc\""),
        ("send \"GET /x HTTP/1.1\\r\\n\\r\\n\"\n    expect-status 200".to_owned(), "expected \"GET /a HTTP/1.1\""),
        ("send \"GET /a HTTP/1.1\\r\\n\\r\\n\"\n    expect-status 200".to_owned(), "no Host"),
        (format!("{first}\n    send \"GET /b HTTP/1.1\\r\\nY: z\\r\\n\\r\\n\"\n    expect-status 200"), "Y was not expected"),
        (format!("{first}\n    expect-no-body\n    expect-closed"), "unexpected bytes: \"ok\""),
    ] {
        check(&case(&client), expected);
    }
}

#[test]
fn ends_are_told_apart() {
    let case = |upstream: &str, client: &str| {
        format!(
            "# Text.\nwait 1s\nupstream\n    recv-head\n    {upstream}\nclient to=127.0.0.1:{{upstream}}\n    send \"GET / HTTP/1.1\\r\\n\\r\\n\"\n    {client}\n"
        )
    };
    for (upstream, client, expected) in [
        ("close", "expect-end", ""),
        ("close", "expect-reset", "the end was Some(Closed)"),
        ("reset", "expect-reset", ""),
        ("reset", "expect-closed", ""),
        ("reset", "expect-end", "the end was Some(Reset)"),
        ("await later", "expect-open\n    mark later", ""),
        ("close", "expect-open", "the connection is ended"),
        ("pause 10ms", "expect-closed", "nothing within 1s"),
        ("expect-closed", "close", ""),
        ("expect-end\n    send \"x\"", "close-write\n    expect-bytes \"x\"", ""),
        (
            "send \"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nab\"\n    close",
            "expect-status 200\n    expect-body \"ab\"",
            "closed while waiting for 3 more bytes",
        ),
        ("send \"HTTP/1.1 200 OK\\r\\nA: b\\n\\r\\n\\r\\n\"", "expect-status 200", "bare CR or LF"),
        ("await never", "pause 1ms", "nobody marked `never`"),
    ] {
        check(&case(upstream, client), expected);
    }
}

#[test]
fn automatic_upstreams_change_with_paths_and_marks() {
    let case = |upstream: &str, client: &str| {
        format!("# Text.\nwait 1s\nupstream\n    {upstream}\nclient to=127.0.0.1:{{upstream}}\n    {client}\n")
    };
    let switched = "always-text \"a\"\n    always-status 503 path=/healthz\n    always-status 404 after=later\n    always-text \"well\" after=later path=/healthz";
    let refusing = "always-text \"a\"\n    always-refuse after=down\n    always-text \"b\" after=up";
    for (upstream, client, expected) in [
        (
            switched,
            "get /\n    expect-status 200\n    get /healthz?x\n    expect-status 503\n    get /healthz/x\n    expect-status 200",
            "",
        ),
        (
            switched,
            "mark later\n    get /\n    expect-status 404\n    get /healthz\n    expect-status 200\n    expect-body \"well\"",
            "",
        ),
        (switched, "get /healthz\n    expect-status 200", "expected status 200"),
        (refusing, "get /\n    expect-status 200\n    expect-body \"a\"\n    mark down\n    expect-closed", ""),
        (
            refusing,
            "get /\n    expect-status 200\n    expect-body \"a\"\n    mark down\n    expect-refused 127.0.0.1:{upstream}\n    mark up\n    connect\n    get /\n    expect-status 200\n    expect-body \"b\"",
            "",
        ),
        (refusing, "expect-refused 127.0.0.1:{upstream}", "takes connections"),
        ("always-refuse\n    expect-connections 0", "expect-refused 127.0.0.1:{upstream}", ""),
        ("always-refuse path=/a", "expect-refused 127.0.0.1:{upstream}", "`path=` is not known here"),
        ("always-reset", "get /\n    expect-reset", ""),
        ("always-silence\n    expect-requests 1", "get /\n    expect-open", ""),
    ] {
        check(&case(upstream, client), expected);
    }
}

#[test]
fn clients_that_share_cookies_send_what_any_of_them_was_given() {
    let upstream = "upstream\n    recv-head\n        GET /1 HTTP/1.1\n        Host: example.com\n    send \"HTTP/1.1 204 No Content\\r\\nSet-Cookie: b=2; Path=/\\r\\nSet-Cookie: a=1\\r\\n\\r\\n\"\n    accept\n    recv-head\n        GET /2 HTTP/1.1\n        Host: example.com\n        Cookie: a=1; b=2\n    send \"HTTP/1.1 204 No Content\\r\\n\\r\\n\"\n";
    let client = |jar: &str, path: &str| {
        format!("client to=127.0.0.1:{{upstream}} cookies={jar}\n    get {path}\n    expect-status 204\n")
    };
    check(&format!("# Text.\n{upstream}{}{}", client("one", "/1"), client("one", "/2")), "");
    check(&format!("# Text.\n{upstream}{}{}", client("one", "/1"), client("two", "/2")), "no Cookie");
    check("# Text.\nclient h2 cookies=one\n    request GET /\n", "without `h2`");
}

#[test]
fn bodies_are_compared_by_name() {
    let case = |client: &str| {
        let get = |path: &str, expect: &str| format!("    get {path}\n    expect-status 200\n    {expect}\n");
        let client: String =
            client.split(", ").filter_map(|part| part.split_once(' ')).map(|(path, expect)| get(path, expect)).collect();
        format!("# Text.\nupstream\n    echo-head\nclient to=127.0.0.1:{{upstream}}\n{client}")
    };
    check(&case("/a expect-body-as one, /a expect-body-as one, /b expect-body-unlike one, /b expect-body-as two"), "");
    check(&case("/a expect-body-as one, /b expect-body-as one"), "that of `one` was");
    check(&case("/a expect-body-as one, /a expect-body-unlike one"), "that of `one` was");
    check(&case("/a expect-body-unlike one"), "there was no body");
}

#[test]
fn automatic_upstreams_answer_and_count() {
    let case = |upstream: &str, client: &str| {
        format!("# Text.\nupstream\n    {upstream}\nclient to=127.0.0.1:{{upstream}}\n    {client}\n")
    };
    let get = "send \"GET /x HTTP/1.1\\r\\nA: b\\r\\n\\r\\n\"\n    expect-status 200";
    let twice = format!("repeat 2\n        {}\n        expect-body \"hi\"", get.replace("\n    ", "\n        "));
    for (upstream, client, expected) in [
        ("always-text \"hi\"\n    expect-requests 2\n    expect-connections 1", twice.as_str(), ""),
        ("always-text \"hi\"\n    expect-requests 3..4", &twice, "2 requests, expected 3..4"),
        ("always-text \"hi\"", &format!("{twice}\n    expect-upstream-requests 2"), ""),
        (
            "always-text \"hi\"",
            &format!("{twice}\n    expect-upstream-requests 3"),
            "2 requests reached the upstreams, expected 3",
        ),
        (
            "always \"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nhi\" close",
            &format!("{get}\n    expect-body \"hi\"\n    expect-end"),
            "",
        ),
        ("echo-head", &format!("{get}\n    expect-body \"GET /x HTTP/1.1\\nA: b\\n\""), ""),
        ("always-pattern 300000", &format!("{get}\n    expect-body-pattern 300000 portion=100000 pause=1ms"), ""),
        ("always-pattern 300000", &format!("{get}\n    expect-body-pattern 300001"), "the body has 300000 bytes"),
        (
            "echo-body",
            "send \"POST / HTTP/1.1\\r\\nContent-Length: 200000\\r\\n\\r\\n\"\n    send-pattern 200000\n    expect-status 200\n    expect-body-pattern 200000",
            "",
        ),
        ("always-text \"hi\" idle-close=20ms", &format!("{get}\n    expect-body \"hi\"\n    expect-end"), ""),
    ] {
        check(&case(upstream, client), expected);
    }
}

#[test]
fn tls_is_spoken_from_both_sides() {
    let case = |client: &str| {
        format!(
            "# Text.\nupstream tls=example.com alpn=http/1.1\n    always-text \"hi\"\nclient to=127.0.0.1:{{upstream}} tls {client}\n"
        )
    };
    let get = "send \"GET / HTTP/1.1\\r\\n\\r\\n\"\n    expect-status 200\n    expect-body \"hi\"";
    for (client, expected) in [
        (
            format!(
                "sni=example.com alpn=http/1.1\n    {get}\n    expect-tls version=1.3 alpn=http/1.1 resumed=no\n    expect-certificate example.com\n    connect\n    {get}\n    expect-tls resumed=yes"
            ),
            "",
        ),
        (format!("sni=example.com max=1.2\n    {get}\n    expect-tls version=1.2"), ""),
        (format!("sni=example.com\n    {get}\n    expect-certificate other.example.com"), "another certificate"),
        (format!("sni=other.example.com\n    {get}"), "TLS handshake"),
        (format!("sni=example.com ca=other\n    {get}"), "TLS handshake"),
        (format!("sni=example.com ca=internal\n    {get}"), ""),
        ("sni=example.com alpn=h2\n    expect-tls-refused no_application_protocol".to_owned(), ""),
        ("sni=example.com only=rsa\n    expect-tls-refused handshake_failure".to_owned(), ""),
        ("sni=example.com alpn=h2\n    expect-tls-refused unrecognized_name".to_owned(), "failed otherwise"),
    ] {
        check(&case(&client), expected);
    }
}

#[test]
fn http2_is_spoken_from_both_sides() {
    let case = |upstream: &str, client: &str| {
        format!("# Text.\nupstream h2\n    {upstream}\nclient h2 to=127.0.0.1:{{upstream}}\n    {client}\n")
    };
    let scripted = "recv-head
        :method: POST
        :path: /p
        x-a: b
        …
    expect-data \"one\"
    send-head
        :status: 103
        link: x
    send-head
        :status: 200
        x-b: c
    send-data \"two\"
    expect-body \"end\"
    send-trailers
        grpc-status: 0";
    let request = "request POST /p open\n        x-a: b\n    send-data \"one\"";
    for (upstream, client, expected) in [
        (scripted, format!("{request}\n    expect-status 103\n    expect-status 200\n    expect-header \"x-b\" \"c\"\n    expect-data \"two\"\n    send-data \"end\"\n    end-stream\n    expect-trailer \"grpc-status\" \"0\""), ""),
        (scripted, request.replace("x-a: b", "x-a: c"), "x-a is \"c\", expected \"b\""),
        ("recv-head\n    reset-stream CANCEL", "request GET /\n    expect-stream-reset CANCEL".to_owned(), ""),
        ("recv-head\n    reset-stream CANCEL", "request GET /\n    expect-stream-reset REFUSED_STREAM".to_owned(), "the code is CANCEL"),
        ("recv-head\n    expect-stream-reset CANCEL", "request GET / open\n    pause 50ms\n    reset-stream CANCEL".to_owned(), ""),
        ("echo-body", "request POST /p open\n    send-pattern 600000\n    end-stream\n    expect-status 200\n    expect-body-pattern 600000".to_owned(), ""),
        ("echo-head\n    expect-requests 2", "request GET /a stream=a\n    request GET /b stream=b\n    use-stream a\n    expect-status 200\n    expect-body ~\":path: /a\"\n    use-stream b\n    expect-status 200\n    expect-body ~\":path: /b\"".to_owned(), ""),
    ] {
        check(&case(upstream, &client), expected);
    }
}

/// Each client over HTTP/2 in plain text, against an upstream that the `h2` crate speaks for.
#[test]
fn neutral_commands_are_spoken_over_http2() {
    let case = |upstream: &str, client: &str| {
        format!("# Text.\nwait 2s\nupstream h2\n    {upstream}\nclient to=127.0.0.1:{{upstream}}\n    {client}\n")
    };
    let get = "get /\n    expect-status 200";
    let cut = "recv-head\n    send-head\n        :status: 200\n    send-data \"half\"\n    await seen\n    reset-stream CANCEL";
    let whole = "recv-head\n    send-head\n        :status: 200\n    send-data \"half\"\n    end-stream";
    for (upstream, client, expected) in [
        ("echo-head", "get /a host=a.test\n        X-A: 1\n    expect-status 200\n    expect-body ~\"x-a: 1\"".to_owned(), ""),
        ("echo-head", "get /a\n    get /b\n    expect-status 200\n    expect-body ~\":path: /a\"\n    expect-status 200\n    expect-body ~\":path: /b\"".to_owned(), ""),
        ("echo-head", "get / long-field=40000\n    expect-status 200\n    expect-body ~\"x: x{1000}\"".to_owned(), ""),
        ("echo-head", "get / many-fields=3\n    expect-status 200\n    expect-body ~\"(?s)x: y.*x: y.*x: y\"".to_owned(), ""),
        ("echo-body", "get / method=POST body=\"abc\"\n    expect-status 200\n    expect-body \"abc\"".to_owned(), ""),
        ("echo-body", "get / method=POST open\n    send-pattern 600000\n    end-stream\n    expect-status 200\n    expect-body-pattern 600000".to_owned(), ""),
        ("echo-body", "get / method=POST\n        Content-Length: 4\n    send-data \"ab\" 2\n    expect-status 200\n    expect-data \"ab\"\n    expect-body \"ab\"".to_owned(), ""),
        ("echo-body", "get / method=POST open\n    send-data \"a\"\n    send-trailers\n        X-T: end\n    expect-status 200\n    expect-trailer \"x-t\" \"end\"".to_owned(), ""),
        (cut, format!("{get}\n    expect-data \"half\"\n    mark seen\n    expect-cut-off"), ""),
        (cut, format!("{get}\n    mark seen\n    expect-body \"half\""), "the stream was reset with CANCEL"),
        (whole, format!("{get}\n    expect-cut-off"), "the body is whole"),
        (whole, format!("{get}\n    expect-closed"), ""),
        ("always-silence", "get /\n    expect-open".to_owned(), ""),
        ("echo-head", "get /\n        X(Y): a\n    expect-status 200".to_owned(), "GOAWAY PROTOCOL_ERROR"),
        ("echo-head", format!("{get}\n    expect-bytes \"x\""), "one of HTTP/1.1 alone"),
    ] {
        check_over(ClientProtocol::H2c, &case(upstream, &client), expected);
    }
}

#[test]
fn frames_can_be_written_by_hand() {
    let case = |client: &str| {
        format!("# Text.\nupstream h2\n    echo-head\nclient to=127.0.0.1:{{upstream}}\n    h2-preface\n    {client}\n")
    };
    for (client, expected) in [
        (
            "h2-headers stream=1 end-stream\n        :method: GET\n        :scheme: http\n        :authority: example.com\n        :path: /\n    expect-h2-frame HEADERS stream=1\n    expect-h2-frame DATA stream=1",
            "",
        ),
        ("h2-frame PING \"12345678\"\n    expect-h2-frame PING flags=1", ""),
        ("h2-frame DATA stream=1 \"x\"\n    expect-h2-goaway PROTOCOL_ERROR", ""),
        ("h2-flood rapid-reset 5000\n    expect-h2-goaway ENHANCE_YOUR_CALM", ""),
        ("h2-frame PING \"123\"\n    expect-h2-goaway ENHANCE_YOUR_CALM", "GOAWAY PROTOCOL_ERROR"),
    ] {
        check(&case(client), expected);
    }
}
