//! Annotations about answers: who gives them in the place of errors, what they say of where something is, and who gets
//! a copy of requests. And those about handshakes.

use super::annotated::{annotated, begin, put_certificate, put_service, put_service_of};
use super::controller::{Asked, Controller, service};
use super::until;
use tidegate_testkit::kubernetes::ApiServer;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};

const HOST: &str = "shop.example.com";

fn upstream(answer: Answer) -> Upstream {
    Upstream::start(Behaviour::new(answer)).expect("a port is free")
}

/// A host over HTTP and HTTPS whose server answers so.
fn served(answer: &str) -> (ApiServer, Controller, Upstream) {
    let (cluster, mut controller) = begin();
    put_certificate(&cluster, &mut controller, HOST);
    let server = upstream(Answer::Fixed(answer.replace('\n', "\r\n").into_bytes()));
    put_service_of(&cluster, "web", &server);
    (cluster, controller, server)
}

#[test]
fn errors_are_answered_by_whoever_is_named() {
    let (cluster, controller, _server) = served("HTTP/1.1 404 Not Found\nContent-Length: 4\n\ngone");
    let pages = upstream(Answer::EchoHead);
    put_service_of(&cluster, "errors", &pages);
    cluster.put(annotated("web", HOST, "web", &[("custom-http-errors", "404"), ("default-backend", "errors")]));
    for over_tls in [false, true] {
        let asked = Asked { over_tls, fields: &[("Accept", "text/html")], ..Asked::of(HOST, "/a?b=c") };
        // The query goes along, as from nginx.
        let page = controller.wait_for_answer(&asked, 200, "GET /?b=c HTTP/1.1");
        let told = String::from_utf8_lossy(&page.body).to_ascii_lowercase();
        for line in [
            "x-code: 404",
            "x-format: text/html",
            "x-original-uri: /a?b=c",
            "x-namespace: shop",
            "x-ingress-name: web",
            "x-service-name: web",
            "x-service-port: 80",
            "x-request-id: ",
        ] {
            assert!(told.contains(line), "{line} in {told}");
        }
    }
    cluster.put(annotated(
        "web",
        HOST,
        "web",
        &[("custom-http-errors", "404"), ("default-backend", "errors"), ("disable-proxy-intercept-errors", "true")],
    ));
    controller.wait_for(HOST, "/", 404, "gone");
    controller.wait_for_over_tls(HOST, "/", 404, "gone");
    // A Service without endpoints.
    cluster.put(service("empty"));
    cluster.put(annotated("web", HOST, "empty", &[("default-backend", "errors")]));
    for over_tls in [false, true] {
        let page = controller.wait_for_answer(&Asked { over_tls, ..Asked::of(HOST, "/") }, 200, "GET / HTTP/1.1");
        assert!(String::from_utf8_lossy(&page.body).to_ascii_lowercase().contains("x-code: 503"), "{page:?}");
    }
}

#[test]
fn what_answers_say_of_where_something_is_is_said_otherwise() {
    let answer = "HTTP/1.1 302 Found\nLocation: http://web.internal/login\nSet-Cookie: a=b; Path=/app/; Domain=web.internal\nContent-Length: 0\n\n";
    let (cluster, controller, _server) = served(answer);
    cluster.put(annotated(
        "web",
        HOST,
        "web",
        &[
            ("proxy-redirect-from", "http://web.internal/"),
            ("proxy-redirect-to", "$scheme://$host/"),
            ("proxy-cookie-path", "/app/ /"),
            ("proxy-cookie-domain", "web.internal shop.example.com"),
        ],
    ));
    for over_tls in [false, true] {
        let answer = controller.wait_for_answer(&Asked { over_tls, ..Asked::of(HOST, "/") }, 302, "");
        let field = |name: &str| answer.head.value(name).map(|value| String::from_utf8_lossy(&value).into_owned());
        let scheme = if over_tls { "https" } else { "http" };
        assert_eq!(field("location"), Some(format!("{scheme}://shop.example.com/login")));
        assert_eq!(field("set-cookie").as_deref(), Some("a=b; Path=/; Domain=shop.example.com"));
    }
}

#[test]
fn copies_of_requests_go_to_a_service() {
    let (cluster, controller, server) = served("HTTP/1.1 200 OK\nContent-Length: 3\n\nown");
    let copies = upstream(Answer::Text(b"copy".to_vec()));
    put_service_of(&cluster, "copies", &copies);
    cluster.put(annotated("web", HOST, "web", &[("mirror-target", "http://copies.shop.svc.cluster.local$request_uri")]));
    for over_tls in [false, true] {
        let (before, copied) = (server.requests(), copies.requests());
        for _ in 0..5 {
            controller.wait_for_answer(&Asked { over_tls, ..Asked::of(HOST, "/a") }, 200, "own");
        }
        until(&controller, "copies", || copies.requests() - copied >= server.requests() - before - 1);
        assert!(server.requests() - before >= 5);
    }
}

#[test]
fn handshakes_come_to_the_ciphers_that_are_named() {
    let (cluster, mut controller) = begin();
    put_certificate(&cluster, &mut controller, HOST);
    put_service(&cluster, &mut controller, "web", &["one"]);
    let with = |version: &'static str| Asked { over_tls: true, tls_version: Some(version), ..Asked::of(HOST, "/") };
    cluster.put(annotated("web", HOST, "web", &[("ssl-ciphers", "AES128-SHA:ECDHE-ECDSA-AES256-GCM-SHA384")]));
    controller.wait_for_answer(&with("1.2"), 200, "one");
    controller.wait_for_answer(&with("1.3"), 200, "one");
    // The key of the certificate is none for these, so that only TLS 1.3 is left.
    cluster.put(annotated("web", HOST, "web", &[("ssl-ciphers", "ECDHE-RSA-AES256-GCM-SHA384")]));
    until(&controller, "no TLS 1.2", || controller.answer(&with("1.2")).is_err());
    controller.wait_for_answer(&with("1.3"), 200, "one");
    controller.wait_for(HOST, "/", 200, "one");
}
