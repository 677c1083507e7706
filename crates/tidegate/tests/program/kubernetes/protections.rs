//! Annotations of ingress-nginx that keep others out, by HTTP and by HTTPS.

use super::controller::{BOUND, Controller, ingress, service, slice};
use super::{base64, cluster, server};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Instant;
use tidegate_testkit::kubernetes::ApiServer;
use tidegate_testkit::tokio::{self, task::LocalSet};
use tidegate_testkit::{Authority, Client, KeyKind};

fn annotated(mut object: Value, annotations: &[(&str, &str)]) -> Value {
    for (name, value) in annotations {
        object["metadata"]["annotations"][format!("nginx.ingress.kubernetes.io/{name}")] = json!(value);
    }
    object
}

/// Has the host served over both, with plain HTTP answered as HTTPS is.
fn with_tls(cluster: &ApiServer, object: &Value, host: &str) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "test").expect("an authority");
    let pair = authority.issue(host, KeyKind::Ecdsa).expect("a certificate");
    let read = |path: &std::path::Path| base64(&std::fs::read_to_string(path).expect("a file"));
    let name = format!("{}-tls", host.replace('.', "-"));
    cluster.put(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": name},
        "type": "kubernetes.io/tls", "data": {"tls.crt": read(&pair.cert), "tls.key": read(&pair.key)},
    }));
    let mut object = annotated(object.clone(), &[("ssl-redirect", "false")]);
    object["spec"]["tls"] = json!([{"hosts": [host], "secretName": name}]);
    object
}

/// An answer to a request with these fields, over plain HTTP.
fn asked(address: SocketAddr, host: &str, path: &str, fields: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut socket = std::net::TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(BOUND)).expect("a bound");
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    let _ = socket.read_to_string(&mut answer);
    answer
}

fn statuses(address: SocketAddr, host: &str, count: usize) -> Vec<u16> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let mut client = Client::connect(address).await.expect("a connection");
        let mut seen = Vec::new();
        for _ in 0..count {
            seen.push(client.get(host, "/").await.expect("an answer").status);
        }
        seen
    })
}

#[test]
fn who_asks_too_often_is_refused_and_others_are_not() {
    let (cluster, one) = (cluster(), server("one"));
    cluster.put(service("one"));
    cluster.put(slice("one", &[&one]));
    let limits = [("limit-rpm", "3"), ("limit-burst-multiplier", "1")];
    let limited = |host: &str, more: &[(&str, &str)]| {
        let name = host.split('.').next().unwrap_or_default();
        let object = annotated(annotated(ingress(name, host, "one"), &limits), more);
        cluster.put(with_tls(&cluster, &object, host));
    };
    limited("a.example.com", &[]);
    limited("b.example.com", &[("limit-allowlist", "127.0.0.0/8")]);
    limited("c.example.com", &[("limit-rps", "often")]);
    let controller = Controller::start(&cluster, &[]);
    controller.expect("c.example.com", "/", 503, "");
    controller.wait_for_over_tls("c.example.com", "/", 503, "");
    assert_eq!(statuses(controller.http, "b.example.com", 8), [200; 8]);
    controller.wait_for_over_tls("a.example.com", "/", 200, "one");
    // Both schemes are one site here, and count together: four at once, and one more after twenty seconds.
    let begin = Instant::now();
    let seen = statuses(controller.http, "a.example.com", 8);
    let at_most = 4 + begin.elapsed().as_secs() as usize / 20;
    assert!(seen.iter().filter(|status| **status == 200).count() <= at_most, "{seen:?}");
    assert_eq!(seen.last(), Some(&503), "{seen:?}");
    assert_eq!(controller.ask_over_tls("a.example.com", "/").map(|(status, _)| status), Ok(503));
}

/// A Service of one server, whose address is said.
fn served_at(cluster: &ApiServer, name: &str, address: SocketAddr) {
    cluster.put(service(name));
    cluster.put(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": "shop", "name": format!("{name}-1"), "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": address.port()}],
        "endpoints": [{"addresses": [address.ip().to_string()], "conditions": {"ready": true}}],
    }));
}

#[test]
fn another_server_says_who_may_ask() {
    let cluster = cluster();
    let mut controller = Controller::begin(&cluster, "", &[]);
    let port = |controller: &mut Controller, name: &str| -> SocketAddr {
        controller.places.fill(&format!("127.0.0.1:{{port:{name}}}")).expect("a port").parse().expect("an address")
    };
    let (auth, echo) = (port(&mut controller, "auth"), port(&mut controller, "echo"));
    controller.places.release_proxy_ports();
    controller.wait_until_ready();
    // The server of questions says what it was asked, and the one behind what it is told.
    let base = controller.places.folder().join("base.kdl");
    let text = std::fs::read_to_string(&base).expect("a file");
    let told =
        "{request.header.x-sent-from} {request.header.x-original-url} {request.header.x-auth-request-redirect} {method} {path}";
    let own = format!(
        r#"{text}
        site "http://{auth}" {{
            route "/down" {{ respond 500 }}
            route {{
                match cookie="session=good"
                response-header "X-User" "alice"
                response-header "X-Told" "{told}"
                response-header "Set-Cookie" "renewed=1"
                respond 200
            }}
            respond 401
        }}
        site "http://{echo}" {{ respond 200 body="user={{request.header.x-user}} told={{request.header.x-told}}" }}
        "#
    );
    std::fs::write(&base, own).expect("a file");
    served_at(&cluster, "auth", auth);
    served_at(&cluster, "echo", echo);
    let guarded = |name: &str, more: &[(&str, &str)]| {
        let host = format!("{name}.example.com");
        let object = annotated(ingress(name, &host, "echo"), &[("auth-response-headers", "X-User,X-Told")]);
        cluster.put(with_tls(&cluster, &annotated(object, more), &host));
    };
    guarded(
        "a",
        &[
            ("auth-url", "http://auth.shop.svc.cluster.local/check"),
            ("auth-signin", "https://$host/start?to=$escaped_request_uri"),
        ],
    );
    guarded("b", &[("auth-url", &format!("http://{auth}/check"))]);
    guarded("c", &[("auth-url", "http://auth.shop.svc/down")]);
    guarded("d", &[("auth-url", "http://gone.shop.svc/")]);
    guarded("e", &[("auth-url", "https://$host/start/auth")]);
    let mut start = ingress("e-start", "e.example.com", "auth");
    start["spec"]["rules"][0]["http"]["paths"][0]["path"] = json!("/start");
    cluster.put(annotated(start, &[("ssl-redirect", "false")]));
    let good = "Cookie: session=good\r\nX-User: mallory\r\n";
    for host in ["a.example.com", "b.example.com", "e.example.com"] {
        controller.wait_for_over_tls(host, "/x?y=z", if host.starts_with('a') { 302 } else { 401 }, "");
        let seen = asked(controller.http, host, "/x?y=z", good);
        assert!(seen.starts_with("HTTP/1.1 200") && seen.contains("user=alice told=nginx-ingress-controller"), "{seen}");
        assert!(seen.contains(&format!("http://{host}/x?y=z /x?y=z GET /")) && seen.contains("renewed=1"), "{seen}");
    }
    let seen = asked(controller.http, "a.example.com", "/x?y=z", "X-User: mallory\r\n");
    assert!(seen.starts_with("HTTP/1.1 302") && seen.contains("ocation: /start?to=%2Fx%3Fy%3Dz\r\n"), "{seen}");
    for host in ["c.example.com", "d.example.com"] {
        controller.wait_for_over_tls(host, "/", 503, "");
        let seen = asked(controller.http, host, "/", good);
        assert!(seen.starts_with("HTTP/1.1 503"), "{seen}");
    }
    controller.wait_for_status("(ServiceMissing)");
}
