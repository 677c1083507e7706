//! Annotations about names: other names of a host, names that lead to it, names that are handed on as they are, and the
//! name that servers are asked for.

use super::annotated::{annotated, begin, put_certificate, put_service, put_service_of};
use super::controller::{Asked, Controller, ingress};
use super::until;
use serde_json::json;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};

const HOST: &str = "shop.example.com";

fn location(controller: &Controller, asked: &Asked<'_>, status: u16) -> String {
    let answer = controller.wait_for_answer(asked, status, "");
    String::from_utf8_lossy(&answer.head.value("location").unwrap_or_default()).into_owned()
}

#[test]
fn a_host_is_the_same_under_its_other_names_and_as_protected() {
    let (cluster, mut controller) = begin();
    put_certificate(&cluster, &mut controller, HOST);
    put_service(&cluster, &mut controller, "web", &["one"]);
    let alias = ("server-alias", "store.example.org, *.example.net");
    cluster.put(annotated("web", HOST, "web", &[alias]));
    for name in ["store.example.org", "a.example.net", "b.a.example.net"] {
        controller.wait_for(name, "/", 200, "one");
        controller.wait_for_over_tls(name, "/", 200, "one");
    }
    controller.expect("example.net", "/", 404, "");
    // What another Ingress of the host is protected by protects it under each name.
    let mut admin = annotated("admin", HOST, "web", &[("whitelist-source-range", "10.0.0.0/8")]);
    admin["spec"]["rules"][0]["http"]["paths"][0]["path"] = json!("/admin");
    cluster.put(admin);
    for name in [HOST, "store.example.org", "a.example.net"] {
        controller.wait_for(name, "/admin/x", 403, "");
        controller.wait_for_over_tls(name, "//admin", 403, "");
        controller.expect(name, "/", 200, "one");
    }
    // A rule for the name goes first, and when it is gone the alias is there again.
    put_service(&cluster, &mut controller, "two", &["two"]);
    cluster.put(ingress("store", "store.example.org", "two"));
    controller.wait_for("store.example.org", "/", 200, "two");
    controller.wait_for_status("HostTaken");
    cluster.remove(&ingress("store", "store.example.org", "two"));
    controller.wait_for("store.example.org", "/", 200, "one");
    cluster.put(annotated("web", HOST, "web", &[]));
    controller.wait_for("store.example.org", "/", 404, "");
    controller.wait_for(HOST, "/", 200, "one");
}

#[test]
fn the_name_with_www_leads_to_the_one_without() {
    let (cluster, mut controller) = begin();
    put_certificate(&cluster, &mut controller, "www.example.com");
    put_service(&cluster, &mut controller, "web", &["one"]);
    let mut web = annotated("web", "example.com", "web", &[("from-to-www-redirect", "true")]);
    web["spec"]["tls"] = json!([{"hosts": ["example.com", "www.example.com"], "secretName": "tls"}]);
    cluster.put(web);
    let www = Asked::of("www.example.com", "/a/?b=c");
    assert_eq!(location(&controller, &www, 308), "http://example.com/a/?b=c");
    assert_eq!(location(&controller, &Asked { over_tls: true, ..www }, 308), "https://example.com/a/?b=c");
    controller.expect("example.com", "/", 200, "one");
}

#[test]
fn connections_are_handed_on_beside_hosts_that_are_not() {
    let (cluster, mut controller) = begin();
    put_certificate(&cluster, &mut controller, "plain.example.com");
    put_service(&cluster, &mut controller, "secure", &["secure"]);
    put_service(&cluster, &mut controller, "web", &["one"]);
    cluster.put(annotated("plain", "plain.example.com", "web", &[]));
    let mut passed = annotated("passed", HOST, "secure", &[("ssl-passthrough", "true")]);
    passed["metadata"]["annotations"]["nginx.ingress.kubernetes.io/ssl-redirect"] = json!("true");
    cluster.put(passed.clone());
    controller.wait_for_over_tls(HOST, "/", 200, "secure");
    controller.wait_for_over_tls("plain.example.com", "/", 200, "one");
    assert_eq!(location(&controller, &Asked::of(HOST, "/a"), 308), "https://shop.example.com/a");
    // A connection that was made for another host brings nobody there.
    let on_another_one = controller.ask_on_connection_for("plain.example.com", HOST, "/");
    assert!(matches!(on_another_one, Ok((421, _))), "{on_another_one:?}");
    // Where something of the host is protected nothing is handed on past it.
    let mut admin = annotated("admin", HOST, "web", &[("whitelist-source-range", "10.0.0.0/8")]);
    admin["spec"]["rules"][0]["http"]["paths"][0]["path"] = json!("/admin");
    cluster.put(admin.clone());
    controller.wait_for_status("ProtectionUnavailable");
    until(&controller, "nothing handed on", || {
        let over_tls = controller.answer(&Asked { over_tls: true, ..Asked::of(HOST, "/") });
        over_tls.is_err() || over_tls.is_ok_and(|answer| answer.status == 503)
    });
    controller.wait_for_over_tls("plain.example.com", "/", 200, "one");
    cluster.remove(&admin);
    controller.wait_for_over_tls(HOST, "/", 200, "secure");
    cluster.remove(&passed);
    until(&controller, "nobody", || controller.ask_over_tls(HOST, "/").is_err());
}

#[test]
fn servers_are_asked_for_the_name_that_is_said() {
    let (cluster, mut controller) = begin();
    put_certificate(&cluster, &mut controller, HOST);
    let echo = Upstream::start(Behaviour::new(Answer::EchoHead)).expect("a port is free");
    put_service_of(&cluster, "web", &echo);
    let host = ("upstream-vhost", "$service_name.$namespace.svc.cluster.local");
    let rewrite = [("rewrite-target", "/$2"), ("x-forwarded-prefix", "/app"), ("use-regex", "true"), host];
    let mut web = annotated("web", HOST, "web", &rewrite);
    web["spec"]["rules"][0]["http"]["paths"][0]["path"] = json!("/app(/|$)(.*)");
    web["spec"]["rules"][0]["http"]["paths"][0]["pathType"] = json!("ImplementationSpecific");
    cluster.put(web);
    for over_tls in [false, true] {
        let asked = Asked { over_tls, ..Asked::of(HOST, "/app/a?b=c") };
        let seen = controller.wait_for_answer(&asked, 200, "GET /a?b=c HTTP/1.1");
        let told = String::from_utf8_lossy(&seen.body).to_ascii_lowercase();
        for line in ["host: web.shop.svc.cluster.local\n", "x-forwarded-host: shop.example.com", "x-forwarded-prefix: /app\n"] {
            assert!(told.contains(line), "{line} in {told}");
        }
    }
    // A path that is to be what it is stays.
    cluster.put(annotated("web", HOST, "web", &[("rewrite-target", "/")]));
    controller.wait_for_answer(&Asked::of(HOST, "/app/a?b=c"), 200, "GET /app/a?b=c HTTP/1.1");
    // What is asked for stays what it was in a redirect.
    let to = ("permanent-redirect", "https://www.example.org$request_uri&u=$arg_b");
    cluster.put(annotated("web", HOST, "web", &[to]));
    assert_eq!(location(&controller, &Asked::of(HOST, "/a%20b?b=c%26d"), 301), "https://www.example.org/a%20b?b=c%26d&u=c%26d");
}
