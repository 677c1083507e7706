//! Questions and the lines of their answers that matter.

use super::{Question, explain};
use crate::Known;
use std::path::Path;
use tidegate_api::Explanation;
use tidegate_config::load_text;
use tidegate_model::Configuration;

fn configuration(text: &str) -> Configuration {
    let loaded = load_text("test.kdl", text, Path::new("."));
    loaded.configuration.unwrap_or_else(|| panic!("{text}: {:?}", loaded.diagnostics))
}

fn explained(text: &str, question: &str) -> Explanation {
    let mut words = question.split(' ');
    let (method, url) = (words.next().unwrap(), words.next().unwrap());
    let (mut headers, mut from) = (Vec::new(), None);
    while let Some(word) = words.next() {
        match word {
            "from" => from = words.next(),
            // The field of that name of HTTP/2.
            word if word.starts_with(":protocol:") => headers.push(word.to_owned()),
            header => headers.push(header.replace(':', ": ")),
        }
    }
    let request = Question::parse(method, url, &headers, from).unwrap_or_else(|error| panic!("{question}: {error}"));
    explain(&configuration(text), &request, Known::nothing()).unwrap_or_else(|error| panic!("{question}: {error}"))
}

/// A question is `METHOD URL [Name:value]… [:protocol:name] [from IP]`. Each expected line stands in the answer, in
/// this order.
fn check(text: &str, question: &str, expected: &[&str]) {
    let rendered = explained(text, question).text;
    let mut lines = rendered.lines();
    for line in expected {
        assert!(lines.any(|seen| seen == *line), "no line {line:?} for {question} in\n{rendered}");
    }
    assert!(rendered.lines().all(|line| line.chars().count() <= 100), "{rendered}");
}

fn check_without(text: &str, question: &str, absent: &str) {
    let rendered = explained(text, question).text;
    assert!(!rendered.contains(absent), "{absent:?} for {question} in\n{rendered}");
}

const SHOP: &str = r#"
pool "api" {
    server "10.0.0.4:8080" weight=2
    server "10.0.0.5:8080"
    server "10.0.0.6:8080" backup=#true
    balance "least-conn"
    timeout connect="2s"
}
site "https://shop.test" {
    tls "internal"
    header remove="Server"
    route "/admin/*" {
        match client="10.0.0.0/8" method="GET"
        match header="X-Key: sesame"
        respond 200 body="admin"
    }
    route "/api/*" {
        match not method="DELETE"
        strip-prefix "/api"
        body-limit "1MB"
        proxy "api"
    }
    route "/api/v1" { respond 204 }
    route "/old" { redirect "https://shop.test/new" status=301 }
}
site "https://*.test" { tls "internal" { min "1.3" }; respond 200 }
site "https://other.example" { tls "internal"; respond 200 }
"#;

#[test]
fn the_whole_of_an_answer() {
    let rendered = explained(SHOP, "GET https://shop.test/api/./v1?x=1 from 192.0.2.9").text;
    let expected = r#"request      GET https://shop.test/api/./v1?x=1 from 192.0.2.9
outcome      handed to the pool api
listener     :443, https
certificate  by the internal CA, of the site https://shop.test; TLS 1.2 and newer, alpn h2,http/1.1
host         shop.test
path         /api/v1?x=1
site         https://shop.test
route        2: route "/api/*" match not method="DELETE" → pool api
steps        response-header remove="Server"   (of the site)
             strip-prefix "/api"
             body-limit "1MB"
answer       proxy "api"
pool         api, balance least-conn
servers      10.0.0.4:8080, weight 2
             10.0.0.5:8080, weight 1
             10.0.0.6:8080, weight 1, backup
             outlier failures 5, outlier eject 10s, outlier eject-max 5m, outlier max-ejected 50%,
             outlier success-rate #true, timeout connect 2s, timeout first-byte 1m, timeout idle 1h,
             retry attempts 2, retry on connect,reset, retry budget 20%, keep-alive idle 55s,
             keep-alive ping 30s, protocol auto
limits       header-bytes 64KiB, request-line 16KiB, header-count 128, connections-per-ip 10000,
             header-timeout 10s, keep-alive 75s, body-rate 100B/s, h2-streams 256, body-limit 1MB

Other routes of the site:
  1: route "/admin/*" match client="10.0.0.0/8" method="GET" or match header="x-key: …" → respond
    200
     the path does not fit
  3: route "/api/v1" → respond 204
     it fits, but route 2 is before it
  4: route "/old" → redirect https://shop.test/new
     the path does not fit

Other sites on :443:
  https://*.test (*.test): its host fits, but a more specific one goes first
  https://other.example (other.example): it has another host
"#;
    assert_eq!(rendered, expected);
}

#[test]
fn each_match_line_says_where_it_fails() {
    check(
        SHOP,
        "GET https://shop.test/admin/x from 192.0.2.9",
        &[
            "outcome      refused with 404 no_route: no route of this site matches the request",
            "     match client=\"10.0.0.0/8\" method=\"GET\" fails at client=\"10.0.0.0/8\"",
            "     match header=\"x-key: …\" fails at header=\"x-key: …\"",
        ],
    );
    check(
        SHOP,
        "POST https://shop.test/admin/x from 10.1.2.3",
        &["     match client=\"10.0.0.0/8\" method=\"GET\" fails at method=\"GET\""],
    );
    check(
        SHOP,
        "DELETE https://shop.test/api/v1",
        &["outcome      answered here with 204", "     match not method=\"DELETE\" fails at not method=\"DELETE\""],
    );
    check(SHOP, "GET https://shop.test/admin X-Key:sesame", &["outcome      answered here with 200"]);
    check(SHOP, "GET https://shop.test/admin from ::ffff:10.1.2.3", &["outcome      answered here with 200"]);
    check(SHOP, "GET https://shop.test/old", &["outcome      redirected with 301 to https://shop.test/new"]);
}

#[test]
fn hosts_that_no_site_has() {
    check(
        SHOP,
        "GET https://nobody.example/",
        &[
            "outcome      the TLS handshake is refused: no site with TLS has this host name",
            "Hosts that are known on :443:",
            "  shop.test (site https://shop.test)",
            "  other.example (site https://other.example)",
        ],
    );
    check(
        "site \"http://a.test:8080\" { respond 200 }",
        "GET http://b.test:8080/",
        &[
            "outcome      refused with 421 unknown_host: no site has this host name",
            "Hosts that are known on :8080:",
            "  a.test (site http://a.test:8080)",
        ],
    );
    check(SHOP, "GET https://shop.test:8443/", &["outcome      the connection is refused: nothing listens there"]);
    check(
        SHOP,
        "GET http://shop.test:443/",
        &["outcome      refused with 400 plain_http_to_tls: plain HTTP was sent to a port that speaks TLS; use"],
    );
}

#[test]
fn the_name_of_the_handshake_and_that_of_the_request() {
    check(
        SHOP,
        "GET https://shop.test/ Host:www.test",
        &[
            "outcome      refused with 421 misdirected: this connection was made for another site",
            "certificate  by the internal CA, of the site https://shop.test; TLS 1.2 and newer, alpn h2,http/1.1",
            "site         https://*.test",
            "note         the name of the handshake belongs to a site with other TLS settings",
        ],
    );
    check(
        SHOP,
        "GET https://shop.test/ Host:other.example",
        &["outcome      answered here with 200", "site         https://other.example"],
    );
    check(
        SHOP,
        "GET https://127.0.0.1/ Host:other.example",
        &["certificate  by the internal CA, of the site https://shop.test; TLS 1.2 and newer, alpn h2,http/1.1"],
    );
}

#[test]
fn refusals_come_in_the_order_of_the_proxy() {
    let text = r#"
site "https://a.test" { tls "internal"; respond 200 }
site "https://b.test" { tls "internal" { min "1.3" }; path-policy slashes="refuse"; respond 200 }
site "http://c.test:8080" { route "/a/*" { path-policy slashes="refuse"; respond 200 } }
"#;
    let refused = |question: &str, expected: &str| check(text, question, &[&format!("outcome      refused with {expected}")]);
    refused("GET https://a.test//x Host:b.test", "421 misdirected: this connection was made for another site");
    refused("GET https://b.test//x", "400 path_slashes: the path has several slashes in a row");
    refused("CONNECT https://a.test/ Host:a.test", "405 connect_method: this server does not open tunnels");
    // A route's own policy is for the path as it was sent, not for what the site's has made of it.
    refused("GET http://c.test:8080/a//b", "400 path_slashes: the path has several slashes in a row");
}

#[test]
fn where_certificates_come_from() {
    let text = r#"
site "https://shop.example.com" "https://shop.test" { respond 200 }
site "https://own.example.net" { tls "internal"; respond 200 }
"#;
    let from = |question: &str, expected: &str| {
        let text = explained(text, question).text;
        assert!(text.contains(&format!("certificate  {expected}, of the site")), "{question}: {text}");
    };
    from("GET https://shop.example.com/", "obtained by ACME");
    from("GET https://shop.test/", "by the internal CA");
    from("GET https://own.example.net/", "by the internal CA");
}

#[test]
fn bare_addresses_redirect_on_port_80() {
    check(
        "site \"a.test\" { respond 200 }",
        "GET http://a.test/x",
        &[
            "outcome      redirected with 308 to https://{host}{uri}",
            "listener     :80, http, there for redirects to HTTPS",
            "site         redirect-to-https",
        ],
    );
}

#[test]
fn addresses_of_this_machine() {
    let text = "site \"http://127.0.0.1:8080\" { respond 201 }\nsite \"http://:8080\" { respond 202 }\nsite \"http://127.0.0.2:8081\" { respond 203 }";
    let outcome = |question: &str, expected: &str| check(text, question, &[&format!("outcome      {expected}")]);
    outcome("GET http://127.0.0.1:8080/", "answered here with 201");
    outcome("GET http://127.0.0.3:8080/", "answered here with 202");
    outcome("GET http://a.test:8080/", "answered here with 202");
    outcome("GET http://127.0.0.1:8081/", "the connection is refused: nothing listens there");
    check(
        text,
        "GET http://a.test:8081/",
        &[
            "outcome      answered here with 203",
            "note         the host is taken to lead to 127.0.0.2, since nothing listens on every address",
        ],
    );
}

#[test]
fn heads_that_the_proxy_refuses() {
    let text = "site \"http://:8080\" { respond 200 }\nlimits { header-count 8; request-line 256; }";
    check(
        text,
        "GET http://a.test:8080/../x",
        &["outcome      refused with 400 path_escapes_root: the path leads above the root"],
    );
    let outcome = |question: &str, expected: &str| {
        let seen = explained(text, question).text;
        assert!(seen.contains(&format!("outcome      refused with {expected}")), "{question}: {seen}");
    };
    outcome(&format!("GET http://a.test:8080/{}", "a".repeat(300)), "414 request_line_too_long");
    outcome("GET http://a.test:8080/ A:1 B:2 C:3 D:4 E:5 F:6 G:7 H:8", "431 too_many_fields");
    outcome("GET http://a.test:8080/%zz", "400 bad_percent_encoding");
    outcome("CONNECT http://a.test:8080/", "405 connect_method");
}

#[test]
fn what_clients_say_of_themselves() {
    let text = "listener \":8080\" { trusted-proxies \"10.0.0.0/8\"; }\n\
                site \"http://:8080\" { route { match header=\"X-Forwarded-Proto: https\"; respond 201 }; respond 200 }";
    check(
        text,
        "GET http://a.test:8080/ X-Forwarded-Proto:https from 192.0.2.1",
        &[
            "outcome      answered here with 200",
            "note         X-Forwarded-Proto is not believed and removed: 192.0.2.1 is none of the trusted-proxies",
            "             of :8080",
        ],
    );
    check(
        text,
        "GET http://a.test:8080/ X-Forwarded-Proto:https X-Forwarded-For:192.0.2.1 from 10.0.0.1",
        &[
            "outcome      answered here with 201",
            "listener     :8080, http, trusted-proxies 10.0.0.0/8",
            "note         10.0.0.1 is a trusted proxy here, but X-Forwarded-For is not evaluated: the address",
            "             given is taken as it is",
        ],
    );
    check_without(text, "GET http://a.test:8080/", "note");
}

fn numbered(count: usize, line: &str) -> String {
    (0..count).map(|number| line.replace("{number}", &number.to_string())).collect()
}

#[test]
fn long_lists_are_cut() {
    let sites: String = numbered(50, "site \"http://s{number}.test:8080\" { respond 200 }\n");
    check(&sites, "GET http://s7.test:8080/", &["  http://s30.test:8080 (s30.test): it has another host", "  and 19 more sites"]);
    let routes: String = numbered(150, "route \"/r{number}\" { respond 200 }\n");
    let shadowed = "route \"/first\" { respond 200 }\nroute \"/first\" { match method=\"GET\"; respond 201 }\n";
    let text = format!("site \"http://:8080\" {{\n{shadowed}{routes}}}");
    check(
        &text,
        "GET http://a.test:8080/first",
        &["  2: route \"/first\" match method=\"GET\" → respond 201", "  and 51 more routes"],
    );
}

#[test]
fn connections_that_are_passed_on() {
    const SHARED: &str = r#"
pool "db" { server "10.0.0.9:443"; }
pool "other" { server "10.0.0.10:443"; }
listener ":443" { accept-proxy-protocol from="10.0.0.0/8"; }
site "https://example.com" "https://*.example.com" { tls "internal"; respond 200; }
tcp ":443" {
    sni "db.example.com" "*.b.example.com" { proxy "db"; }
}
tcp ":5432" { proxy "other"; }
tcp ":8443" { sni "db.test" { proxy "db"; }; }
"#;
    let passed = |question: &str, outcome: &str, listener: &str| {
        let outcome = format!("outcome      {outcome}");
        let listener = format!("listener     {listener}");
        check(SHARED, question, &[&outcome, &listener]);
    };
    let here = ":443, https, accept-proxy-protocol 10.0.0.0/8";
    let by = |name: &str| format!("the connection is passed on as it is to the pool db, by sni \"{name}\"");
    passed("GET https://db.example.com/", &by("db.example.com"), here);
    passed("GET https://x.b.example.com/", &by("*.b.example.com"), here);
    passed("GET https://www.example.com/", "answered here with 200", here);
    passed("GET https://www.example.com/ Host:db.example.com", "refused with 421 unknown_host: no site has this host name", here);
    let refused = "the TLS handshake is refused: no site with TLS has this host name";
    passed("GET https://example.org/", refused, here);
    passed("GET https://example.org:8443/", refused, ":8443, tcp");
    passed("GET http://any.test:5432/", "the connection is passed on as it is to the pool other, by tcp", ":5432, tcp");
    passed("GET https://any.test:5432/", "the connection is passed on as it is to the pool other, by tcp", ":5432, tcp");
    check(SHARED, "GET https://db.example.com/", &["pool         db, balance p2c"]);
}

#[test]
fn steps_that_refuse_or_answer_are_what_comes_of_the_request() {
    let check = |lines: &str, question: &str, expected: (Option<u16>, Option<&str>)| {
        let text = format!("site \"http://a.test\" {{\n{lines}\nrespond 200\n}}");
        let outcome = explained(&text, question).outcome;
        assert_eq!((outcome.status, outcome.reason.as_deref()), expected, "{lines}: {question}");
    };
    let from = |lines: &str, client: &str, expected| check(lines, &format!("GET http://a.test/ from {client}"), expected);
    from("deny \"127.0.0.0/8\"", "127.0.0.1", (Some(403), Some("client_denied")));
    from("deny \"127.0.0.0/8\"", "192.0.2.1", (Some(200), None));
    from("allow \"127.0.0.0/8\"", "192.0.2.1", (Some(403), Some("client_denied")));
    let staff = "basic-auth realm=\"Staff\" { user \"a\" \"$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\"; }";
    from(&format!("{staff}\ndeny \"127.0.0.1\""), "127.0.0.1", (Some(403), Some("client_denied")));
    check("body-limit \"3B\"", "POST http://a.test/ Content-Length:5", (Some(413), Some("body_too_large")));
    check("body-limit \"5B\"", "POST http://a.test/ Content-Length:5", (Some(200), None));
    check("rewrite \"~^/(.*)\" \"$1\"", "GET http://a.test/y", (Some(400), Some("rewrite_not_a_path")));
    check("rewrite \"/t/{request.header.x}\"", "GET http://a.test/y X:..", (Some(400), Some("rewrite_escapes_root")));
    let cors = "cors origins=\"https://b.test\" methods=\"PUT\"";
    let preflight = "Origin:https://b.test Access-Control-Request-Method:PUT";
    check(cors, &format!("OPTIONS http://a.test/ {preflight}"), (Some(204), None));
    // Limits have counted nobody.
    check("rate-limit \"1/h\" by=\"client-ip\"", "GET http://a.test/", (Some(200), None));
    // Without a route, the site's steps run all the same.
    let text = "site \"http://a.test\" {\ndeny \"127.0.0.1\"\nroute \"/x\" { respond 200; }\n}";
    assert_eq!(explained(text, "GET http://a.test/ from 127.0.0.1").outcome.reason.as_deref(), Some("client_denied"));
}

#[test]
fn websockets_over_http2_go_where_those_of_http1_go() {
    let text = r#"
listener ":8081" { websocket-over-http2 #false; }
site "http://a.test" "http://a.test:8081" {
    route "/chat" { match method="GET"; proxy "10.0.0.4:8080"; }
    route "/here" { respond 200; }
    route "/gone" { respond 410; }
}
"#;
    let outcome = |question: &str, expected: &str| {
        let outcome = explained(text, question).outcome;
        let reason = outcome.reason.or(outcome.pool).or(outcome.status.map(|status| status.to_string()));
        assert_eq!(reason.as_deref(), Some(expected), "{question}");
    };
    outcome("CONNECT http://a.test/chat :protocol:websocket", "10.0.0.4:8080");
    outcome("CONNECT http://a.test/chat :protocol:WebSocket", "10.0.0.4:8080");
    outcome("GET http://a.test/chat Connection:upgrade Upgrade:websocket", "10.0.0.4:8080");
    outcome("CONNECT http://a.test:8081/chat :protocol:websocket", "protocol_not_offered");
    outcome("GET http://a.test:8081/chat Connection:upgrade Upgrade:websocket", "10.0.0.4:8080");
    outcome("CONNECT http://a.test/chat :protocol:connect-udp", "connect_protocol");
    outcome("CONNECT http://a.test/chat :protocol:websocket Content-Length:0", "body_not_allowed");
    outcome("CONNECT http://a.test/here :protocol:websocket", "not_websocket");
    outcome("CONNECT http://a.test/gone :protocol:websocket", "410");
    let twice = "Sec-WebSocket-Version:13 Sec-WebSocket-Version:8";
    outcome(&format!("CONNECT http://a.test/chat :protocol:websocket {twice}"), "websocket_field_repeated");
    outcome(&format!("GET http://a.test/chat Connection:upgrade Upgrade:websocket {twice}"), "websocket_field_repeated");
    outcome(&format!("GET http://a.test/chat {twice}"), "10.0.0.4:8080");
}
