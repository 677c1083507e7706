//! Annotations about servers: how one is chosen, how clients stay with it, and how it is verified.

use super::annotated::{annotated, begin, put_certificate, put_service, secret};
use super::controller::{Asked, Controller, service};
use super::{base64, until};
use serde_json::json;

#[test]
fn clients_stay_with_their_server_by_a_cookie() {
    let host = "shop.example.com";
    let (cluster, mut controller) = begin();
    put_certificate(&cluster, &mut controller, host);
    put_service(&cluster, &mut controller, "web", &["one", "two"]);
    cluster.put(annotated("web", host, "web", &[("affinity", "cookie"), ("session-cookie-name", "route")]));
    for over_tls in [false, true] {
        let asked = Asked { over_tls, ..Asked::of(host, "/a") };
        let first = controller.wait_for_answer(&asked, 200, "");
        let cookie = String::from_utf8(first.head.value("set-cookie").expect("a cookie")).expect("a text");
        assert!(cookie.starts_with("route=") && cookie.contains("Path=/") && cookie.contains("HttpOnly"), "{cookie}");
        assert_eq!(cookie.contains("Secure"), over_tls, "{cookie}");
        let pair = cookie.split(';').next().expect("a pair");
        let name = |body: &[u8]| String::from_utf8_lossy(body).split(' ').next().map(str::to_owned);
        let first = controller.answer(&Asked { fields: &[("Cookie", pair)], ..asked }).expect("an answer");
        for _ in 0..20 {
            let again = controller.answer(&Asked { fields: &[("Cookie", pair)], ..asked }).expect("an answer");
            assert_eq!((again.status, name(&again.body)), (200, name(&first.body)));
            assert_eq!(again.head.value("set-cookie"), None);
        }
    }
    // A change of something else leaves clients where they are.
    let asked = Asked::of(host, "/a");
    let answer = controller.answer(&asked).expect("an answer");
    let cookie = String::from_utf8(answer.head.value("set-cookie").expect("a cookie")).expect("a text");
    let pair = cookie.split(';').next().expect("a pair");
    let more = [("affinity", "cookie"), ("session-cookie-name", "route"), ("proxy-body-size", "1k"), ("custom-nothing", "x")];
    cluster.put(annotated("web", host, "web", &more));
    controller.wait_for_status("custom-nothing");
    let again = controller.answer(&Asked { fields: &[("Cookie", pair)], ..asked }).expect("an answer");
    assert_eq!((again.status, again.head.value("set-cookie"), again.body), (200, None, answer.body));
}

#[test]
fn servers_are_chosen_as_an_ingress_says() {
    let host = "shop.example.com";
    let (cluster, mut controller) = begin();
    put_certificate(&cluster, &mut controller, host);
    put_service(&cluster, &mut controller, "web", &["one", "two"]);
    cluster.put(annotated("web", host, "web", &[("upstream-hash-by", "$http_x_tenant")]));
    controller.wait_for_over_tls(host, "/", 200, "");
    for over_tls in [false, true] {
        let of_tenant = |tenant: &str| {
            let fields = [("X-Tenant", tenant)];
            let answer = controller.answer(&Asked { over_tls, fields: &fields, ..Asked::of(host, "/") }).expect("an answer");
            String::from_utf8_lossy(&answer.body).trim().to_owned()
        };
        let tenants: Vec<String> = (0..16).map(|number| format!("tenant-{number}")).collect();
        let first: Vec<String> = tenants.iter().map(|tenant| of_tenant(tenant)).collect();
        assert_eq!(first, tenants.iter().map(|tenant| of_tenant(tenant)).collect::<Vec<_>>());
        assert!(first.contains(&"one".to_owned()) && first.contains(&"two".to_owned()), "{first:?}");
    }
    cluster.put(annotated("web", host, "web", &[("load-balance", "round_robin")]));
    until(&controller, "one after the other", || {
        let ask = || controller.ask(host, "/").expect("an answer").1;
        let (a, b, c, d) = (ask(), ask(), ask(), ask());
        a != b && a == c && b == d
    });
    // The address of a Service leads to whoever is behind it.
    let mut of_address = service("address");
    of_address["spec"]["clusterIP"] = json!("127.0.0.1");
    let port: u16 = controller.places.fill("{port:two}").expect("a port").parse().expect("a number");
    of_address["spec"]["ports"][0]["port"] = json!(port);
    cluster.put(of_address);
    let mut by_service = annotated("web", host, "address", &[("service-upstream", "true")]);
    by_service["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["port"]["number"] = json!(port);
    cluster.put(by_service);
    until(&controller, "the Service", || (0..8).all(|_| controller.ask(host, "/").is_ok_and(|(_, body)| body == "two")));
    controller.wait_for_over_tls(host, "/", 200, "two");
}

#[test]
fn servers_over_tls_are_verified_or_nothing_is_answered() {
    let host = "shop.example.com";
    let (cluster, mut controller) = begin();
    put_certificate(&cluster, &mut controller, host);
    put_service(&cluster, &mut controller, "web", &["secure"]);
    let expect = |controller: &Controller, annotations: &[(&str, &str)], status: u16, body: &str| {
        let annotations = [&[("backend-protocol", "HTTPS")], annotations].concat();
        cluster.put(annotated("web", host, "web", &annotations));
        controller.wait_for_over_tls(host, "/", status, body);
        controller.wait_for(host, "/", status, body);
    };
    expect(&controller, &[], 200, "secure");
    controller.wait_for_status("ServersNotVerified");
    // Nobody has said by whom, the Secret is missing, and then it has what is no authority.
    expect(&controller, &[("proxy-ssl-verify", "on")], 503, "");
    expect(&controller, &[("proxy-ssl-verify", "off")], 200, "secure");
    let on = [("proxy-ssl-verify", "on"), ("proxy-ssl-secret", "shop/backend")];
    expect(&controller, &on, 503, "");
    cluster.put(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "backend"}, "type": "Opaque",
        "data": {"ca.crt": base64("no PEM")},
    }));
    controller.wait_for_status("pem:sha256");
    controller.expect(host, "/", 503, "");
    // That of others: nothing is sent.
    let others = secret(&mut controller, "backend", &[("ca.crt", "{ca:others}")]);
    cluster.put(others);
    controller.wait_for(host, "/", 502, "");
    controller.wait_for_over_tls(host, "/", 502, "");
    let good = secret(&mut controller, "backend", &[("ca.crt", "{ca}")]);
    cluster.put(good);
    controller.wait_for(host, "/", 200, "secure");
    controller.wait_for_over_tls(host, "/", 200, "secure");
    expect(&controller, &[on[0], on[1], ("proxy-ssl-name", "api.shop.svc")], 502, "");
    // The Secret goes, and everything is shut.
    expect(&controller, &on, 200, "secure");
    let gone = secret(&mut controller, "backend", &[]);
    cluster.remove(&gone);
    controller.wait_for(host, "/", 503, "");
    controller.wait_for_over_tls(host, "/", 503, "");
}
