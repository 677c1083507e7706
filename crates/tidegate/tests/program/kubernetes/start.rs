//! How the controller starts: from a snapshot while the API server is away, without rights, and what it says of that.

use super::controller::{Asked, Controller, ingress};
use super::{base64, shop, until};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tidegate_testkit::kubernetes::ApiServer;
use tidegate_testkit::{Authority, KeyKind};

/// An Ingress with a certificate.
fn put_with_tls(cluster: &ApiServer, folder: &Path, name: &str, host: &str, secret: &str) {
    let mut with_tls = ingress(name, host, "one");
    with_tls["spec"]["tls"] = json!([{"hosts": [host], "secretName": secret}]);
    cluster.put(with_tls);
    let authority = Authority::new(folder, "test").expect("an authority");
    let pair = authority.issue(host, KeyKind::Ecdsa).expect("a certificate");
    let read = |path: &Path| base64(&std::fs::read_to_string(path).expect("a file"));
    cluster.put(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": secret},
        "type": "kubernetes.io/tls", "data": {"tls.crt": read(&pair.cert), "tls.key": read(&pair.key)},
    }));
}

fn put_with_users(cluster: &ApiServer, host: &str, secret: &str) {
    let mut with_users = ingress(secret, host, "one");
    with_users["metadata"]["annotations"] = json!({
        "nginx.ingress.kubernetes.io/auth-type": "basic", "nginx.ingress.kubernetes.io/auth-secret": secret,
    });
    cluster.put(with_users);
}

fn users(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": name},
        "type": "Opaque", "data": {"auth": base64("anna:$2y$05$abcdefghijklmnopqrstuuWz0bJ9pPq2mVv3m0xkz8k1lR4h6b3yK\n")},
    })
}

#[test]
fn who_starts_from_a_snapshot_serves_https_too_and_says_how_old_it_is() {
    let (cluster, _one) = shop();
    let folder = tempfile::tempdir().expect("a folder");
    let snapshots = folder.path().join("snapshots");
    std::fs::create_dir(&snapshots).expect("a folder");
    put_with_tls(&cluster, folder.path(), "safe", "safe.example.com", "safe-tls");
    // One Secret is missing, and another protects.
    let mut lacks = ingress("lacks", "lacks.example.com", "one");
    lacks["spec"]["tls"] = json!([{"hosts": ["lacks.example.com"], "secretName": "none"}]);
    cluster.put(lacks);
    put_with_users(&cluster, "users.example.com", "users");
    put_with_users(&cluster, "shut.example.com", "missing");
    cluster.put(users("users"));
    let mut controller = Controller::start(&cluster, &["--snapshot-dir", &snapshots.display().to_string()]);
    let is_as_before = |controller: &Controller| {
        controller.expect("shop.example.com", "/", 200, "one");
        controller.wait_for_answer(&Asked { over_tls: true, ..Asked::of("safe.example.com", "/") }, 200, "one");
        controller.expect("safe.example.com", "/", 308, "");
        controller.expect("users.example.com", "/", 401, "");
        controller.expect("shut.example.com", "/", 503, "");
    };
    is_as_before(&controller);
    let file = snapshots.join("objects.jsonl");
    until(&controller, "a file", || file.exists());
    cluster.go_away();
    controller.kill_and_begin();
    controller.wait_until_ready();
    is_as_before(&controller);
    controller.wait_for_status("as they were at");
    until(&controller, "a word of it", || controller.program.output().contains("begins with the snapshot of the cluster"));
    cluster.relent();
    cluster.put(ingress("api", "api.example.com", "one"));
    controller.wait_for("api.example.com", "/", 200, "one");
    is_as_before(&controller);
    // What cannot be read is said.
    std::fs::write(&file, "{\"half\":").expect("a file");
    cluster.go_away();
    controller.kill_and_begin();
    let said = "nothing of the snapshot of the cluster is used: it is damaged: it ends in the middle";
    until(&controller, "a word of it", || controller.program.output().contains(said));
    controller.wait_for_status("nothing of it was used");
    assert_eq!(controller.readiness(), 503);
    let output = controller.program.output();
    assert!(output.contains("not ready before it is known") && !output.contains("listening on"), "{output}");
    cluster.relent();
    controller.wait_until_ready();
    is_as_before(&controller);
    until(&controller, "where it listens", || controller.program.output().contains("listening on http"));
}

#[test]
fn without_rights_on_secrets_the_rest_is_served_at_once_and_that_is_said_once() {
    let (cluster, _one) = shop();
    let folder = tempfile::tempdir().expect("a folder");
    put_with_tls(&cluster, folder.path(), "safe", "safe.example.com", "safe-tls");
    put_with_users(&cluster, "users.example.com", "users");
    cluster.put(users("users"));
    cluster.forbid("list", "secrets", None);
    cluster.forbid("get", "secrets", None);
    let began = Instant::now();
    let controller = Controller::start(&cluster, &[]);
    // Two refusals of the list and of each Secret are half a second each.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    controller.expect("shop.example.com", "/", 200, "one");
    controller.expect("users.example.com", "/", 503, "");
    controller.wait_for_status("FAULT: Secret");
    let times = |said: &str| controller.program.output().matches(said).count();
    let kinds = "objects of the cluster may not be seen";
    let single = "Secrets that objects refer to may not be fetched";
    until(&controller, "words of it", || times(kinds) == 1 && times(single) == 1);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!((times(kinds), times(single)), (1, 1), "{}", controller.program.output());
    cluster.relent();
    controller.wait_for("users.example.com", "/", 401, "");
    controller.wait_for_over_tls("safe.example.com", "/", 200, "one");
    until(&controller, "the end of it", || times("heard of again") == 1 && times("may be fetched again") == 1);
}
