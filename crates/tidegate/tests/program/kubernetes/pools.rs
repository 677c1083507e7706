//! Annotations about servers: how one is chosen, how clients stay with it, and how it is verified. Servers are sites of
//! the controller's own file.

use super::controller::{Asked, Controller, class, ingress, service};
use super::{base64, until};
use serde_json::{Value, json};
use std::fs;
use tidegate_testkit::kubernetes::ApiServer;

const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// A site of plain HTTP that says its name, and one over TLS with a certificate for `web.shop.svc`.
const SERVERS: &str = r#"
site "http://127.0.0.1:{port:one}" { respond 200 body="one {request.header.x-a}"; }
site "http://127.0.0.1:{port:two}" { respond 200 body="two"; }
site "https://:{port:secure}" {
    tls cert="{cert:web.shop.svc}" key="{key:web.shop.svc}"
    respond 200 body="secure"
}
"#;

/// With a cluster that has nothing but a class so far.
fn begin() -> (ApiServer, Controller) {
    let cluster = ApiServer::start().expect("a port is free");
    cluster.put(class());
    let mut controller = Controller::begin(&cluster, SERVERS, &[]);
    controller.wait_until_ready();
    (cluster, controller)
}

/// The Service with its servers, by the names of their ports.
fn put_service(cluster: &ApiServer, controller: &mut Controller, name: &str, ports: &[&str]) {
    let mut of_cluster = service(name);
    of_cluster["metadata"]["uid"] = json!("5f1c0a9e-0000-4000-8000-000000000001");
    cluster.put(of_cluster);
    for (index, port) in ports.iter().enumerate() {
        let port: u16 = controller.places.fill(&format!("{{port:{port}}}")).expect("a port").parse().expect("a number");
        cluster.put(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"namespace": "shop", "name": format!("{name}-{index}"), "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": port}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
        }));
    }
}

/// The Ingress with a certificate for its host, and with plain HTTP beside HTTPS.
fn annotated(name: &str, host: &str, service: &str, annotations: &[(&str, &str)]) -> Value {
    let mut ingress = ingress(name, host, service);
    ingress["metadata"]["annotations"][format!("{PREFIX}ssl-redirect")] = json!("false");
    for (annotation, value) in annotations {
        ingress["metadata"]["annotations"][format!("{PREFIX}{annotation}")] = json!(value);
    }
    ingress["spec"]["tls"] = json!([{"hosts": [host], "secretName": "tls"}]);
    ingress
}

/// `data` by the names of values, each a file.
fn secret(controller: &mut Controller, name: &str, data: &[(&str, &str)]) -> Value {
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": name}, "type": "Opaque", "data": {},
    });
    for (value, file) in data {
        let file = controller.places.fill(file).expect("a file");
        secret["data"][*value] = json!(base64(&fs::read_to_string(file).expect("PEM")));
    }
    secret
}

fn put_certificate(cluster: &ApiServer, controller: &mut Controller, host: &str) {
    let files = [("tls.crt", format!("{{cert:{host}}}")), ("tls.key", format!("{{key:{host}}}"))];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, file)| (*name, file.as_str())).collect();
    cluster.put(secret(controller, "tls", &files));
}

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
    // It goes, and everything is shut.
    expect(&controller, &on, 200, "secure");
    let gone = secret(&mut controller, "backend", &[]);
    cluster.remove(&gone);
    controller.wait_for(host, "/", 503, "");
    controller.wait_for_over_tls(host, "/", 503, "");
}
