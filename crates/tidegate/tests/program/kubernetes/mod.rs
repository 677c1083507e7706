//! The controller of a cluster as its users see it, with an emulated API server. What objects mean is tested in the
//! crate `kubernetes`, how they are followed in `cluster`; a real API server is asked in the target `kubernetes`.

mod annotated;
mod answers;
mod canaries;
mod check;
mod client_certificates;
mod configured;
mod controller;
mod guarded;
mod metrics;
mod names;
mod obtained;
mod pools;
mod protections;
mod replicas;
mod snippets;
mod start;

use controller::{BOUND, Controller, class, ingress, service, slice};
use serde_json::{Value, json};
use std::time::Duration;
use tidegate_testkit::kubernetes::ApiServer;
use tidegate_testkit::server::{Server, Settings};
use tidegate_testkit::{Authority, KeyKind, get};

fn server(name: &str) -> Server {
    Server::start(Settings::new(name)).expect("it starts")
}

fn cluster() -> ApiServer {
    let cluster = ApiServer::start().expect("a port is free");
    cluster.put(class());
    cluster
}

/// A cluster with one Ingress, and the server behind it.
fn shop() -> (ApiServer, Server) {
    let (cluster, one) = (cluster(), server("one"));
    cluster.put(service("one"));
    cluster.put(slice("one", &[&one]));
    cluster.put(ingress("web", "shop.example.com", "one"));
    (cluster, one)
}

#[test]
fn ingresses_come_change_and_go_while_it_runs() {
    let cluster = cluster();
    let (first, second) = (server("first"), server("second"));
    for (name, server) in [("one", &first), ("two", &second)] {
        cluster.put(service(name));
        cluster.put(slice(name, &[server]));
    }
    cluster.put(ingress("web", "shop.example.com", "one"));
    let controller = Controller::start(&cluster, &[]);
    controller.expect("shop.example.com", "/", 200, "first");
    controller.expect("other.example.com", "/", 404, "");
    let explained = controller.call(&["kubernetes", "explain", "GET", "http://shop.example.com/a"]);
    assert!(explained.contains("Ingress shop/web rules.0.paths.0"), "{explained}");
    // Another host, then another Service behind the first, then none.
    cluster.put(ingress("api", "api.example.com", "two"));
    controller.wait_for("api.example.com", "/", 200, "second");
    controller.expect("shop.example.com", "/", 200, "first");
    cluster.put(ingress("web", "shop.example.com", "two"));
    controller.wait_for("shop.example.com", "/", 200, "second");
    cluster.remove(&ingress("web", "shop.example.com", "two"));
    controller.wait_for("shop.example.com", "/", 404, "");
    controller.expect("api.example.com", "/", 200, "second");
    let history = controller.call(&["history"]);
    assert!(history.contains("objects of the cluster"), "{history}");
}

#[test]
fn it_is_ready_when_everything_is_known_and_not_before() {
    let (cluster, _one) = shop();
    cluster.refuse("/apis/networking.k8s.io/v1/ingresses", 503, None, None);
    let mut controller = Controller::begin(&cluster, "", &[]);
    controller.wait_for_status("FAULT: Ingress");
    assert_eq!(controller.readiness(), 503);
    assert!(controller.ask("shop.example.com", "/").is_err(), "nothing listens");
    cluster.relent();
    controller.wait_until_ready();
    controller.expect("shop.example.com", "/", 200, "one");
}

#[test]
fn a_cluster_that_is_away_changes_nothing_of_what_is_served() {
    let (cluster, _one) = shop();
    let controller = Controller::start(&cluster, &[]);
    cluster.refuse("/", 503, None, None);
    cluster.end_watches();
    controller.wait_for_status("FAULT: ");
    controller.expect("shop.example.com", "/", 200, "one");
    assert_eq!(controller.readiness(), 200);
    cluster.put(ingress("api", "api.example.com", "one"));
    cluster.relent();
    controller.wait_for("api.example.com", "/", 200, "one");
}

#[test]
fn hosts_with_a_secret_are_served_over_https_and_plain_http_leads_there() {
    let cluster = cluster();
    let one = server("one");
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "test").expect("an authority");
    let pair = authority.issue("shop.example.com", KeyKind::Ecdsa).expect("a certificate");
    let secret = |cert: &str, key: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "shop-tls"},
            "type": "kubernetes.io/tls", "data": {"tls.crt": base64(cert), "tls.key": base64(key)},
        })
    };
    let read = |path: &std::path::Path| std::fs::read_to_string(path).expect("a file");
    cluster.put(service("one"));
    cluster.put(slice("one", &[&one]));
    cluster.put(secret(&read(&pair.cert), &read(&pair.key)));
    let mut with_tls = ingress("web", "shop.example.com", "one");
    with_tls["spec"]["tls"] = json!([{"hosts": ["shop.example.com"], "secretName": "shop-tls"}]);
    cluster.put(with_tls);
    let controller = Controller::start(&cluster, &[]);
    controller.wait_for_over_tls("shop.example.com", "/", 200, "one");
    controller.expect("shop.example.com", "/a", 308, "");
    // A pair that does not fit takes nothing away, and is told.
    cluster.put(secret(&read(&pair.cert), "no key"));
    controller.wait_for_status("Ingress shop/web: spec.tls[0]");
    controller.wait_for_over_tls("shop.example.com", "/", 200, "one");
    assert_eq!(controller.readiness(), 200);
}

#[test]
fn changes_through_the_api_are_refused_and_the_file_is_applied() {
    let (cluster, _one) = shop();
    let controller = Controller::start(&cluster, &[]);
    let mut places = controller.places.folder().to_path_buf();
    places.push("other.kdl");
    std::fs::write(&places, "site \"http://:1\" { respond 200; }").expect("a file");
    let said = controller.call(&["apply", &places.display().to_string()]);
    assert!(said.contains("objects of a cluster say what is served here"), "{said}");
    let base = controller.places.folder().join("base.kdl");
    let text = std::fs::read_to_string(&base).expect("a file");
    let own =
        format!("{text}site \"http://own.example.com\" {{ listen \"http://{}\"; respond 200 body=\"own\"; }}\n", controller.http);
    std::fs::write(&base, own).expect("a file");
    controller.wait_for("own.example.com", "/", 200, "own");
    controller.expect("shop.example.com", "/", 200, "one");
}

#[test]
fn it_leaves_when_the_cluster_knows_and_finishes_what_is_on_its_way() {
    let (cluster, _one) = shop();
    let own = |conditions: Value| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"namespace": "tidegate", "name": "own", "labels": {"kubernetes.io/service-name": "tidegate"}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
            "endpoints": [{"addresses": ["10.0.0.7"], "conditions": conditions}],
        })
    };
    cluster.put(own(json!({"ready": true})));
    let mut controller = Controller::start(&cluster, &["--leave-after", "1s", "--pod-addresses", "10.0.0.7"]);
    controller.program.signal("TERM").expect("a signal");
    let admin = controller.admin.clone();
    controller.program.wait_until("a process that leaves", || matches!(get(&admin, "/readyz"), Ok((503, _)))).expect("it leaves");
    // Nobody has been told so far: connections are taken for longer than it would leave after.
    std::thread::sleep(Duration::from_millis(1500));
    controller.expect("shop.example.com", "/", 200, "one");
    // What changes meanwhile holds for those who have kept their connections.
    cluster.put(ingress("api", "api.example.com", "one"));
    controller.wait_for("api.example.com", "/", 200, "one");
    cluster.put(own(json!({"ready": false, "serving": true, "terminating": true})));
    assert_eq!(controller.program.wait_exit(BOUND), Ok(0), "{}", controller.program.output());
}

#[test]
fn statuses_say_where_clients_come_in_and_events_what_is_wrong() {
    let cluster = cluster();
    cluster.put(ingress("web", "shop.example.com", "missing"));
    let controller = Controller::start(&cluster, &["--publish-address", "203.0.113.7,lb.example.com"]);
    let expected = json!([{"ip": "203.0.113.7"}, {"hostname": "lb.example.com"}]);
    let status = || cluster.get(&ingress("web", "", "")).map(|found| found["status"]["loadBalancer"]["ingress"].clone());
    until(&controller, "a status", || status() == Some(expected.clone()));
    let is_told = |reason: &str| cluster.writes().iter().any(|change| change.body["reason"] == reason);
    until(&controller, "an Event", || is_told("ServiceMissing"));
    controller.wait_for_status("this process writes statuses and Events");
}

#[test]
fn a_process_that_starts_while_the_cluster_is_away_serves_what_was_known() {
    let (cluster, _one) = shop();
    let folder = tempfile::tempdir().expect("a folder");
    let mut controller = Controller::start(&cluster, &["--snapshot-dir", &folder.path().display().to_string()]);
    controller.expect("shop.example.com", "/", 200, "one");
    until(&controller, "a file", || folder.path().join("objects.jsonl").exists());
    cluster.refuse("/", 503, None, None);
    cluster.end_watches();
    controller.kill_and_begin();
    controller.wait_until_ready();
    controller.expect("shop.example.com", "/", 200, "one");
    controller.wait_for_status("began with its");
    cluster.relent();
    cluster.put(ingress("api", "api.example.com", "one"));
    controller.wait_for("api.example.com", "/", 200, "one");
    controller.expect("shop.example.com", "/", 200, "one");
}

fn until(controller: &Controller, what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < BOUND, "{what}\n{}\n{}", controller.status(), controller.program.output());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
