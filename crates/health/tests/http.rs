//! Checks over HTTP/1.1 and HTTP/2 in clear text, against servers that answer in every way. TLS is in `tls`.

mod world;

use std::time::Duration;
use tidegate_model::{HttpProbe, Probe, Protocol, ProxyProtocol, StatusRange, TextPattern};
use tidegate_testkit::{bytes::Bytes, h2};
use world::{LONG, SHORT, Then, ask, closed_port, http, listen, scripted, soon, target};

async fn check(question: HttpProbe, answer: &'static [u8], then: Then, timeout: Duration, expect: &str) {
    let server = scripted(answer, then).await;
    let found = ask(&target(server.address), &Probe::Http(question), timeout).await;
    let answer = answer.escape_ascii().to_string();
    assert_eq!(found, expect, "for {answer} and then {then:?}");
}

async fn check_head(answer: &'static [u8], expect: &str) {
    check(http(), answer, Then::Close, LONG, expect).await;
}

#[tokio::test]
async fn a_status_between_200_and_399_is_good_and_no_redirect_is_followed() {
    check_head(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "well").await;
    check_head(b"HTTP/1.0 204 No Content\r\n\r\n", "well").await;
    check_head(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "well").await;
    check_head(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "well").await;
    check_head(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "answered 404, expected 200-399").await;
    check_head(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "answered 503, expected 200-399").await;
    check_head(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "answered 101, expected 200-399").await;
}

#[tokio::test]
async fn only_the_statuses_expected_are_good() {
    let expect = vec![StatusRange { first: 200, last: 299 }, StatusRange { first: 401, last: 401 }];
    let question = || HttpProbe { expect: expect.clone(), ..http() };
    for (answer, found) in [
        (&b"HTTP/1.1 401 Who\r\nContent-Length: 0\r\n\r\n"[..], "well"),
        (b"HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "answered 301, expected 200-299,401"),
    ] {
        check(question(), answer, Then::Close, LONG, found).await;
    }
}

#[tokio::test]
async fn a_body_is_read_only_where_something_is_expected_of_it() {
    let ok = || HttpProbe { body: Some(TextPattern::Exact("ok".into())), ..http() };
    let prefix = || HttpProbe { body: Some(TextPattern::Prefix("xx".into())), ..http() };
    let endless = b"HTTP/1.1 200 OK\r\n\r\n";
    check(http(), endless, Then::Repeat(b"xxxx"), LONG, "well").await;
    check(prefix(), endless, Then::Repeat(b"xxxx"), LONG, "well").await;
    check(ok(), endless, Then::Repeat(b"xxxx"), LONG, "the body is not `ok`").await;
    check(ok(), b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n", Then::Hang, LONG, "well").await;
    check(ok(), b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", Then::Hang, LONG, "well")
        .await;
    check(ok(), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", Then::Hang, LONG, "the body is not `ok`").await;
    check(ok(), b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", Then::Hang, SHORT, "no answer within 400ms").await;
    let broken = "no valid HTTP answer: error reading a body from connection: end of file before message length reached";
    check(ok(), b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", Then::Close, LONG, broken).await;
    let regex = HttpProbe { body: Some(TextPattern::Regex("up|well".into())), ..http() };
    let missing = "the body does not contain anything that matches `up|well`";
    check(regex, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndown", Then::Hang, LONG, missing).await;
}

#[tokio::test]
async fn what_is_no_answer_is_a_fault() {
    check(http(), b"", Then::Hang, SHORT, "no answer within 400ms").await;
    check(http(), b"HTTP/1.1 200 OK\r\n", Then::Hang, SHORT, "no answer within 400ms").await;
    let fault = |why: &str| format!("no valid HTTP answer: {why}");
    check_head(b"", &fault("connection closed before message completed")).await;
    check_head(b"HTTP/1.1 200 OK\r\nA: b\r\n", &fault("connection closed before message completed")).await;
    check_head(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", &fault("invalid HTTP version parsed")).await;
    check(http(), b"HTTP/1.1 200 OK\r\nA: ", Then::Repeat(b"aaaa"), LONG, &fault("message head is too large")).await;
    check(http(), b"HTTP/1.1 200 OK\r\n", Then::Repeat(b"a: b\r\n"), LONG, &fault("message head is too large")).await;
    check(
        http(),
        b"HTTP/1.1 100 Continue\r\n\r\n",
        Then::Repeat(b"HTTP/1.1 100 Continue\r\n\r\n"),
        SHORT,
        "no answer within 400ms",
    )
    .await;
    let found = ask(&target(closed_port()), &Probe::Http(http()), LONG).await;
    assert_eq!(found, "connection refused");
}

/// `expect` is the request, without the line ends.
async fn check_request(question: HttpProbe, proxy_protocol: Option<ProxyProtocol>, expect: &[&str]) {
    let mut server = scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Then::Close).await;
    let mut target = target(server.address);
    target.proxy_protocol = proxy_protocol;
    assert_eq!(ask(&target, &Probe::Http(question), LONG).await, "well");
    let request = soon(server.requests.recv()).await.expect("a request");
    assert_eq!(request, format!("{}\r\n\r\n", expect.join("\r\n")));
}

#[tokio::test]
async fn the_request_is_what_the_settings_say() {
    let usual = ["GET /healthz HTTP/1.1", "host: shop.test:8080", "user-agent: tidegate-health", "connection: close"];
    check_request(http(), None, &usual).await;
    let question = HttpProbe {
        path: "/up?deep=1".into(),
        method: "HEAD".into(),
        host: Some("other.test".into()),
        headers: vec![("X-Token".into(), "a b".into()), ("User-Agent".into(), "me".into()), ("X-Token".into(), "c".into())],
        ..http()
    };
    let own =
        ["HEAD /up?deep=1 HTTP/1.1", "x-token: a b", "x-token: c", "user-agent: me", "host: other.test", "connection: close"];
    check_request(question, None, &own).await;
    let question = HttpProbe {
        host: Some("other.test".into()),
        headers: vec![("Host".into(), "third.test".into()), ("connection".into(), "keep-alive".into())],
        ..http()
    };
    let replaced = ["GET /healthz HTTP/1.1", "host: third.test", "connection: keep-alive", "user-agent: tidegate-health"];
    check_request(question, None, &replaced).await;
    let mut with_header = vec!["PROXY UNKNOWN"];
    with_header.extend(usual);
    check_request(http(), Some(ProxyProtocol::V1), &with_header).await;
}

#[tokio::test]
async fn settings_that_make_no_request_are_said() {
    let address = scripted(b"HTTP/1.1 200 OK\r\n\r\n", Then::Close).await.address;
    for (question, why) in [
        (HttpProbe { method: "GE T".into(), ..http() }, "`GE T` is no method"),
        (HttpProbe { headers: vec![("a b".into(), "c".into())], ..http() }, "`a b` is no name of a header"),
        (HttpProbe { headers: vec![("a".into(), "b\r\nc: d".into())], ..http() }, "the value of `a`"),
        (HttpProbe { host: Some("a\r\nb".into()), ..http() }, "the host `a\\r\\nb`"),
    ] {
        let found = ask(&target(address), &Probe::Http(question), LONG).await;
        assert_eq!(found, format!("the check's own request is not valid: {why}"));
    }
}

/// Answers every request of every connection over HTTP/2 with this status and, if there is one, a body without an end.
async fn http2_server(status: u16, body: Option<&'static [u8]>) -> std::net::SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut connection) = h2::server::handshake(stream).await else { continue };
            tokio::spawn(async move {
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    assert_eq!(request.uri().to_string(), "http://shop.test:8080/healthz");
                    assert_eq!(request.headers()["user-agent"], "tidegate-health");
                    assert!(!request.headers().contains_key("connection"));
                    let mut head = tidegate_testkit::http::Response::new(());
                    *head.status_mut() = status.try_into().expect("a status");
                    let mut stream = respond.send_response(head, body.is_none()).expect("a head");
                    if let Some(body) = body {
                        // Far more than the window; h2 keeps what does not fit.
                        for _ in 0..200 {
                            stream.send_data(Bytes::from_static(body), false).expect("data");
                        }
                        std::mem::forget(stream);
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_check_goes_over_http2_where_requests_do() {
    let pattern = |text: &str| HttpProbe { body: Some(TextPattern::Prefix(text.into())), ..http() };
    let headed = HttpProbe { headers: vec![("Connection".into(), "close".into())], ..http() };
    let page: &[u8] = &[b'x'; 1000];
    for (status, body, question, expect) in [
        (200, None, headed, "well"),
        (503, None, http(), "answered 503, expected 200-399"),
        (200, Some(page), http(), "well"),
        (200, Some(page), pattern("xxxx"), "well"),
        (200, Some(page), pattern("y"), "the body does not begin with `y`"),
    ] {
        let mut target = target(http2_server(status, body).await);
        target.protocol = Protocol::H2c;
        assert_eq!(ask(&target, &Probe::Http(question), LONG).await, expect);
    }
}

#[tokio::test]
async fn a_server_that_speaks_no_http2_is_not_well_over_it() {
    let mut target = target(scripted(b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n", Then::Close).await.address);
    target.protocol = Protocol::H2c;
    let found = ask(&target, &Probe::Http(http()), LONG).await;
    assert!(found.starts_with("no valid HTTP answer: "), "{found}");
}
